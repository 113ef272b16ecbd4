"""Decides when to repeat a slow GET, and how many such hedges are allowed. Pure: the caller passes the time.

Theory of operation. A store answers a few requests in a hundred late, and one in a thousand never. Records are delivered in
order, so one late range stops a partition. A hedge is a second request for the same range. The first of both that brings the
whole range is used; the bytes of a range never come from two answers.

The delay before a hedge follows from the last 200 GETs of about the same size at the same host (sizes of as many bits)::

    delay = the time in which all but ``max_percent`` of them ended, but at least 1.5 and at most 4 times the median, and 25 ms

Below 1.5 medians a hedge gains too little for its cost. Above 4 medians it comes too late if more GETs are late than hedges
are allowed. Sizes that were not measured yet take the delay of the next larger class, or else a quarter of the read
time-out. A hedge may be late as well, and then another one follows.

The number of hedges is limited to a share of requests and of their bytes. Each GET adds its share to two buckets, each hedge
and each retry takes from both. The last hedges in a bucket are for ranges that an owner waits for. While more than a quarter of
the last 20 GETs of a host exceeded the delay, the whole host is slow. A hedge would only add load there, so there are none.

References: Dean and Barroso, "The Tail at Scale" (2013); docs/decisions/0009-hedged-reads.md.
"""

from __future__ import annotations

from collections import deque

import attrs

__all__ = ["Hedging"]

_REMEMBERED = 200
_FEWEST = 10
_RECENT = 20
_SLOW_SHARE = 0.25
_WHOLE = 100
_EACH = 10
"""The number of GETs after which the delay of a class is recomputed."""
_LEAST_SECONDS = 0.025
_BURST = 10
"""The largest burst of hedges after a quiet time."""
_KEPT = 3
"""Hedges that are reserved for ranges that an owner waits for."""
_FIRST = 5
"""Hedges that are allowed before GETs have added any share."""


@attrs.define(eq=False)
class _SizeClass:
    """The times of the last GETs of one class of sizes, and the delay that follows from them."""

    seconds: deque[float] = attrs.field(factory=lambda: deque(maxlen=_REMEMBERED))
    added: int = 0
    delay: float | None = None

    def add(self, seconds: float, quantile: float) -> None:
        self.seconds.append(seconds)
        self.added += 1
        if len(self.seconds) < _FEWEST or (self.delay is not None and self.added < _EACH):
            return
        self.added = 0
        ordered = sorted(self.seconds)
        median, high = ordered[len(ordered) // 2], ordered[min(int(quantile * len(ordered)), len(ordered) - 1)]
        self.delay = max(_LEAST_SECONDS, min(max(high, 1.5 * median), 4 * median))


@attrs.define(eq=False)
class _Host:
    """The measurements of one host: size classes by the number of bits of the size, and which of the last GETs were late."""

    classes: dict[int, _SizeClass] = attrs.field(factory=dict)
    late: deque[bool] = attrs.field(factory=lambda: deque(maxlen=_RECENT))

    @property
    def is_slow(self) -> bool:
        return sum(self.late) > _SLOW_SHARE * _RECENT


class Hedging:
    """See the module. ``max_percent`` of requests and bytes are hedges; 0 = none. ``unmeasured_seconds``: the first delay.

    Not thread-safe: the engine's lock guards it.
    """

    def __init__(self, max_percent: int, unmeasured_seconds: float) -> None:
        self._percent = max_percent
        self._unmeasured = unmeasured_seconds
        self._hosts: dict[str, _Host] = {}
        # Both buckets count hundredths, so that nothing is rounded.
        self._requests = _FIRST * _WHOLE
        self._bytes = 0
        self._largest = 0

    @property
    def enabled(self) -> bool:
        """Whether hedges are on."""
        return self._percent > 0

    def requested(self, size: int) -> None:
        """A GET of ``size`` bytes is sent that is neither a hedge nor a retry."""
        self._largest = max(self._largest, size)
        self._requests = min(_BURST * _WHOLE, self._requests + self._percent)
        self._bytes = min(_BURST * _WHOLE * self._largest, self._bytes + self._percent * size)

    def retried(self, size: int) -> None:
        """A GET is sent again after a failure. It takes from the share of hedges, and may leave a debt."""
        self._requests -= _WHOLE
        self._bytes -= _WHOLE * size

    def took(self, host: str, size: int, seconds: float) -> None:
        """A GET took ``seconds``, or is at least that old and was abandoned."""
        delay = self.delay(host, size)
        of_host = self._hosts.setdefault(host, _Host())
        of_host.late.append(seconds > delay)
        of_host.classes.setdefault(size.bit_length(), _SizeClass()).add(seconds, 1 - self._percent / 100)

    def delay(self, host: str, size: int) -> float:
        """Seconds after which a GET of ``size`` bytes is late."""
        of_host = self._hosts.get(host)
        classes = {} if of_host is None else of_host.classes
        least = size.bit_length()
        measured = {bits: one.delay for bits, one in classes.items() if bits >= least and one.delay is not None}
        return measured[min(measured)] if measured else self._unmeasured

    def is_slow(self, host: str) -> bool:
        """Whether the whole host is slow, so that a second request would not help."""
        return host in self._hosts and self._hosts[host].is_slow

    def take(self, size: int, *, urgent: bool) -> bool:
        """Takes the share of one hedge of ``size`` bytes; False if it is used up, except the reserve for urgent ones."""
        needed = _WHOLE * (1 if urgent else 1 + _KEPT)
        if self._requests < needed or self._bytes + _FIRST * _WHOLE * self._largest < needed * size:
            return False
        self._requests -= _WHOLE
        self._bytes -= _WHOLE * size
        return True
