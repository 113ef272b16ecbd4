"""Which tier delivered which offsets of a partition: a bounded log of ranges. Pure.

A partition's *run* is the offsets that it delivers in order from one place on: it ends where the partition is sought, revoked
or assigned again. Within a run the tiers take turns, so it is a list of the offsets at which each of them began; how far it has
come is the partition's position, which the caller knows. Nothing is written down for a record or for a batch.

::

    run       (0, REMOTE) (700, BROKER)                 position 900
    delivers  [0, 700) by REMOTE, [700, 900) by BROKER

When a run ends its ranges are kept, the newest :data:`SPANS` of a partition. A range that begins where nobody knows yet (the
end of the log, say) is *unplaced* until its first record has come.
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
    """One partition's ranges. Positions are offsets after the last record handed out, negative before the first."""

    def __init__(self) -> None:
        self._spans: deque[_Span] = deque(maxlen=SPANS)
        self._run: list[_Turn] = []

    @property
    def unplaced(self) -> bool:
        """Whether it is not known where the newest range begins."""
        return bool(self._run) and self._run[-1].start is None

    def begin(self, tier: Tier, start: int | None) -> None:
        """From ``start`` on ``tier`` delivers; nobody has delivered, or will, what others were to deliver from there on.

        ``None``, a place that is not known, is for the first range of a run only.
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
        """The first record of the unplaced range has come."""
        if self.unplaced:
            self._run[-1] = _Turn(offset, self._run[-1].tier)

    def seal(self, position: int) -> None:
        """Keeps what the run has delivered up to ``position``. The run goes on."""
        for span in self._delivered(position):
            self._keep(span)

    def leave(self) -> None:
        """The run has ended; what was not sealed of it is forgotten."""
        self._run.clear()

    def tier(self, offset: int, position: int) -> Tier | None:
        """Who delivered ``offset`` last, of what is known; ``position`` is how far the run has come."""
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
        """Adds a range as the newest; older ones that it hides are dropped, and one that it goes on from is lengthened."""
        last = self._spans[-1] if self._spans else None
        if last is not None and last.tier is span.tier and last.end == span.start:
            span = _Span(last.start, span.end, span.tier)
        shown = [old for old in self._spans if old.start < span.start or old.end > span.end]
        self._spans = deque([*shown, span], maxlen=SPANS)


class TierLogs:
    """The logs of all partitions that a consumer ever had, :data:`PARTITIONS` at most: the one taken up first goes first.

    ``unplaced`` are the partitions of which the next record tells where a range begins; what delivers looks at it.
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
