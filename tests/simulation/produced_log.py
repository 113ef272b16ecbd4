"""What was produced to a partition of simulated brokers, by which the simulation judges.

The log of a partition is the list of all that its leaders have appended: records and markers, without gaps. An unclean election
replaces it by a shorter one. It imports nothing that parses, filters or locates records.

References: KIP-98 (transactions), KIP-101 (leader epochs).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import attrs

from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.model import AbortedTransaction, IsolationLevel
from tests.simulation.judge import LogRecord, ReadJudge, ViolationError

__all__ = ["Entry", "ProducedJudge", "ProducedLog"]


@attrs.frozen
class Entry:
    """An appended record; a marker has no ``value``. ``number``: no other entry of the world has it.

    ``time_ms``: its timestamp. ``first``: whether it is the first of its batch. ``aborts``: of markers.
    """

    number: int
    epoch: int
    value: bytes | None
    producer: int | None
    time_ms: int = 0
    first: bool = True
    aborts: bool = False


class ProducedLog:
    """One version of a partition's log. The offset of an entry is its place.

    ``replaced_at``: when it ended to be the log, ``start``: its first offset then. ``shared``: how many entries it has in
    common with the version before. ``continued_at``: where the model of librdkafka continued by itself.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: list[Entry] = []
        self._records: list[LogRecord | None] = []
        """Of each entry its record; a marker has none."""
        self._aborted: set[int] = set()
        self._aborted_until: dict[tuple[int, int], int] = {}
        self.open: dict[int, int] = {}
        """First offsets of the transactions that have no outcome, by producer."""
        self.replaced_at = math.inf
        self.start = 0
        self.shared = 0
        self.continued_at: set[int] = set()
        for entry in entries:
            self.add(entry)

    @property
    def end(self) -> int:
        """The offset of the next entry."""
        return len(self._entries)

    def add(self, entry: Entry) -> None:
        """Appends an entry."""
        if entry.producer is not None and entry.value is None:
            first = self.open.pop(entry.producer, self.end)
            if entry.aborts:
                self._aborted_until[entry.producer, first] = self.end
                self._aborted.update(at for at in range(first, self.end) if self._entries[at].producer == entry.producer)
        elif entry.producer is not None:
            self.open.setdefault(entry.producer, self.end)
        self._records.append(None if entry.value is None else LogRecord(self.end, entry.epoch, entry.value))
        self._entries.append(entry)

    def until(self, end: int) -> ProducedLog:
        """Returns the log of a replica that has no entry from ``end`` on."""
        return self.copied() if end >= self.end else ProducedLog(self._entries[:end])

    def copied(self) -> ProducedLog:
        """Returns the log of a replica that has all entries."""
        copy = ProducedLog()
        copy._entries, copy._records, copy._aborted = self._entries.copy(), self._records.copy(), self._aborted.copy()
        copy._aborted_until, copy.open = self._aborted_until.copy(), self.open.copy()
        return copy

    def numbers(self, start: int, end: int) -> list[int]:
        """Returns the numbers of the entries of ``[start, end)``."""
        return [entry.number for entry in self._entries[start:end]]

    def stable_end(self, level: IsolationLevel) -> int:
        """The first offset that a consumer of that level does not get yet."""
        return min(self.open.values(), default=self.end) if level is IsolationLevel.READ_COMMITTED else self.end

    def readable(self, level: IsolationLevel, start: int, end: int) -> list[tuple[int, Entry]]:
        """Returns what a plain consumer gets of ``[start, end)``, with offsets: the visible records, and the markers."""
        entries = enumerate(self._entries[start:end], start)
        return [(at, entry) for at, entry in entries if not self.is_hidden(level, at)]

    def entries(self, start: int, end: int) -> list[Entry]:
        """Returns the entries of ``[start, end)``."""
        return self._entries[start:end]

    def is_hidden(self, level: IsolationLevel, offset: int) -> bool:
        """Whether consumers of that level do not get a record, because its transaction was aborted."""
        return level is IsolationLevel.READ_COMMITTED and offset in self._aborted

    def is_visible(self, level: IsolationLevel, offset: int) -> bool:
        """Whether consumers of that level get a record: its transaction has an outcome, and was not aborted."""
        return offset < self.stable_end(level) and not self.is_hidden(level, offset)

    def aborted_until(self, producer: int, first_offset: int) -> int:
        """The offset of the marker of an aborted transaction, -1 if the log has no such transaction."""
        return self._aborted_until.get((producer, first_offset), -1)

    def aborted_between(self, start: int, end: int) -> tuple[AbortedTransaction, ...]:
        """Returns the aborted transactions that have records in ``[start, end)``, or could have."""
        found = sorted(
            (first, producer) for (producer, first), marker in self._aborted_until.items() if first < end and marker >= start
        )
        return tuple(AbortedTransaction(producer, first) for first, producer in found)

    def batch_starts(self, start: int) -> list[int]:
        """Returns the offsets from ``start`` on at which a batch begins."""
        return [at for at in range(start, self.end) if self._entries[at].first]

    def records(self, level: IsolationLevel, start: int, end: int) -> tuple[LogRecord, ...]:
        """Returns the records in ``[start, end)``. Raises ViolationError if one has no outcome yet that must have one."""
        committed = level is IsolationLevel.READ_COMMITTED
        undecided = self.stable_end(level)
        if committed and max(start, undecided) < end:
            raise ViolationError("J2", f"offset {undecided} has no outcome yet, and was passed to {end}")
        hidden = self._aborted if committed else ()
        return tuple([one for one in self._records[start:end] if one is not None and one.offset not in hidden])

    def epoch_before(self, offset: int) -> int:
        """Returns the leader epoch of the offset before, -1 at the log's start."""
        return self._entries[offset - 1].epoch if 0 < offset <= self.end else -1

    def is_inside_batch(self, offset: int) -> bool:
        """Whether an offset is in a batch, but not its first."""
        return offset < self.end and not self._entries[offset].first


@attrs.define
class ProducedJudge(ReadJudge):
    """Follows a read. Each step has to fit one of the logs that were a leader's since the read was opened."""

    versions: list[ProducedLog] = attrs.field(kw_only=True)
    opened_at: float = attrs.field(kw_only=True)

    def took(self, records: tuple[LogRecord, ...], next_offset: int) -> None:
        self._judged(lambda: ReadJudge.took(self, records, next_offset))

    def ended(self, end: ReadEnd) -> None:
        self._judged(lambda: ReadJudge.ended(self, end))

    def passed(self, position: int, epoch: int) -> None:
        self._judged(lambda: ReadJudge.passed(self, position, epoch))

    def _judged(self, judge: Callable[[], None]) -> None:
        """Raises the violation of the newest log if each log has one."""
        position, violations = self.position, []
        for version in reversed([one for one in self.versions if one.replaced_at > self.opened_at]):
            self.log = version
            try:
                judge()
            except ViolationError as violation:
                self.position = position
                violations.append(violation)
            else:
                return
        raise violations[0]
