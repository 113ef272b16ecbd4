"""A broker's quota for copies to the tier, or for reads from it, as a value: a limit of the average rate.

The rate is what the samples hold, divided by the time since the oldest began, at least one window. Each sample begins with the
first bytes after its predecessor's window, and is forgotten when its last bytes are all windows old.

References: KIP-956; Kafka's RLMQuotaManager, SimpleRate, SampledStat.
"""

from __future__ import annotations

import attrs

__all__ = ["Quota"]

_WINDOW_MS = 1000
_WINDOWS = 11


@attrs.frozen
class _Sample:
    """Bytes that were recorded between two times in milliseconds."""

    began_ms: int
    ended_ms: int
    nbytes: int


@attrs.frozen
class Quota:
    """``bytes_per_second``: ``None`` for no limit. Kafka's defaults of 11 windows of one second."""

    bytes_per_second: int | None = None
    _samples: tuple[_Sample, ...] = attrs.field(default=(), repr=False)

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether the rate is above the limit, so that nothing more may begin now."""
        samples = self._live(now_ms)
        if self.bytes_per_second is None or not samples:
            return False
        elapsed_ms = max(now_ms - samples[0].began_ms, _WINDOW_MS)
        return sum(sample.nbytes for sample in samples) * 1000 > self.bytes_per_second * elapsed_ms

    def recorded(self, nbytes: int, now_ms: int) -> Quota:
        """The quota after ``nbytes`` more were copied or read."""
        samples = self._live(now_ms)
        if samples and now_ms - samples[-1].began_ms < _WINDOW_MS:
            *samples, last = samples
            sample = _Sample(last.began_ms, now_ms, last.nbytes + nbytes)
        else:
            sample = _Sample(now_ms, now_ms, nbytes)
        return Quota(self.bytes_per_second, (*samples, sample))

    def _live(self, now_ms: int) -> list[_Sample]:
        return [sample for sample in self._samples if now_ms - sample.ended_ms < _WINDOWS * _WINDOW_MS]
