"""Which tier delivered which offsets of a partition: a bounded log of ranges. Pure.

A partition's *run* is the offsets that it delivers in order from one position on. A seek, a revocation or a new
assignment ends it. Within a run the tiers alternate, so it is a list of the offsets at which each of them began. Its end is
the partition's position, which the caller knows. There is no entry for a single record or batch.

::

    run       (0, REMOTE) (700, BROKER)                 position 900
    delivers  [0, 700) by REMOTE, [700, 900) by BROKER

When a run ends, its ranges are kept, the newest :data:`SPANS` of a partition. A range whose start is not known yet (the
end of the log, for example) is *unplaced* until its first record arrives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from itertools import zip_longest

import attrs

__all__ = ["PARTITIONS", "SPANS", "Tier", "TierLog", "TierLogs"]

SPANS = 64
PARTITIONS = 10_000

_Key = tuple[str, int]


class Tier(StrEnum):
    """The source of a record: the object store, read directly, or the broker."""

    REMOTE = "remote"
    BROKER = "broker"


@attrs.frozen
class _Span:
    """Offsets from ``start`` to before ``end``."""

    start: int
    end: int
    tier: Tier


@attrs.frozen
class _Turn:
    """From ``start`` on ``tier`` delivers; ``None`` = unplaced."""

    start: int | None
    tier: Tier


class TierLog:
    """One partition's ranges. Positions are offsets after the last delivered record, negative before the first."""

    def __init__(self) -> None:
        self._spans: deque[_Span] = deque(maxlen=SPANS)
        self._run: list[_Turn] = []

    @property
    def unplaced(self) -> bool:
        """Whether the start of the newest range is not known."""
        return bool(self._run) and self._run[-1].start is None

    def begin(self, tier: Tier, start: int | None) -> None:
        """``tier`` delivers from ``start`` on; no other tier has delivered from there or will.

        ``None``, an unknown position, is for the first range of a run only.
        """
        run = self._run
        if start is not None:
            while run and (run[-1].start is None or run[-1].start >= start):
                run.pop()
        if not run or (start is not None and run[-1].tier is not tier):
            run.append(_Turn(start, tier))
        if start is not None and len(run) > SPANS:
            self.seal(start)
            del run[: -SPANS // 2]

    def place(self, offset: int) -> None:
        """Sets the start of the unplaced range, when its first record has arrived."""
        if self.unplaced:
            self._run[-1] = _Turn(offset, self._run[-1].tier)

    def seal(self, position: int) -> None:
        """Keeps the ranges that the run delivered up to ``position``. The run continues."""
        for span in self._delivered(position):
            self._keep(span)

    def leave(self) -> None:
        """Ends the run; ranges that were not sealed are forgotten."""
        self._run.clear()

    def tier(self, offset: int, position: int) -> Tier | None:
        """Returns the tier that delivered ``offset`` last, if known; ``position`` is the end of the run so far."""
        for span in self._delivered(position):
            if span.start <= offset < span.end:
                return span.tier
        for span in reversed(self._spans):
            if span.start <= offset < span.end:
                return span.tier
        return None

    def _delivered(self, position: int) -> Iterator[_Span]:
        """The ranges of the run below ``position``."""
        ends = [turn.start for turn in self._run[1:]]
        for turn, end in zip_longest(self._run, ends):
            below = position if end is None else min(end, position)
            if turn.start is not None and turn.start < below:
                yield _Span(turn.start, below, turn.tier)

    def _keep(self, span: _Span) -> None:
        """Adds a range as the newest; drops older ones that it covers, and extends one that it continues."""
        last = self._spans[-1] if self._spans else None
        if last is not None and last.tier is span.tier and last.end == span.start:
            span = _Span(last.start, span.end, span.tier)
        shown = [old for old in self._spans if old.start < span.start or old.end > span.end]
        self._spans = deque([*shown, span], maxlen=SPANS)


class TierLogs:
    """The logs of a consumer's partitions, at most :data:`PARTITIONS`: the oldest one is dropped first.

    ``unplaced`` are the partitions whose next record gives the start of a range; the delivering code checks it.
    """

    def __init__(self) -> None:
        self._logs: dict[_Key, TierLog] = {}
        self.unplaced: set[_Key] = set()

    def begin(self, key: _Key, tier: Tier, start: int | None) -> None:
        """As :meth:`TierLog.begin`."""
        log = self._logs.get(key)
        if log is None:
            if len(self._logs) >= PARTITIONS:
                oldest = next(iter(self._logs))
                self.leave(oldest)
                del self._logs[oldest]
            log = self._logs[key] = TierLog()
        log.begin(tier, start)
        if log.unplaced:
            self.unplaced.add(key)
        else:
            self.unplaced.discard(key)

    def place(self, key: _Key, offset: int) -> None:
        """As :meth:`TierLog.place`."""
        self.unplaced.discard(key)
        if key in self._logs:
            self._logs[key].place(offset)

    def seal(self, key: _Key, position: int) -> None:
        """As :meth:`TierLog.seal`."""
        if key in self._logs:
            self._logs[key].seal(position)

    def leave(self, key: _Key) -> None:
        """As :meth:`TierLog.leave`."""
        self.unplaced.discard(key)
        if key in self._logs:
            self._logs[key].leave()

    def tier(self, key: _Key, offset: int, position: int) -> Tier | None:
        """As :meth:`TierLog.tier`; ``None`` of a partition that is not known."""
        log = self._logs.get(key)
        return None if log is None else log.tier(offset, position)
