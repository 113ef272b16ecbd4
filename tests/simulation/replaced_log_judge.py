"""Judges consumers of a partition whose log is replaced: by an unclean election, or with a topic that is created again.

::

    version 0   0 1 2 3 4 5 6 7 8            the read delivers 0 to 6
    version 1   0 1 2 3 4 a b c              an unclean election cuts 5 to 8: it continues at 5, with a, or at 7, with c
    version 2   A B C D                      a new topic: it continues at 0, or at its offset once the log is long enough

A consumer may read the versions in their order only. Where it changes to a later one, it continues at its offset, goes back to
where the versions part, or begins again: this is what a plain consumer does. librdkafka also goes to the end of a new topic's
log, if that has the leader epoch of the old one, or to where the old log began. There it may also begin a read of the new log
(``rd_kafka_offset_reset`` takes the log start of the last fetch). Before and after the change the rules are those of
delivery_judge.py. A span is followed at all places where it can be; a violation fits none.

====  =============================================================================================================
I1    at the end of the world, each consumer has come to the end of the last version
I4    no record is left out, nor comes twice, where the read stays in one version
I5    each record is that of a version that was a leader's during the read
I7    nothing is delivered after a partition was given up, nor while it is paused
I8    a position does not pass a record that was not delivered, nor does a commit, to whichever member of the group
====  =============================================================================================================

References: KIP-320, ``rd_kafka_toppar_handle_OffsetForLeaderEpoch``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import OFFSET_BEGINNING

from kafka_remote_client.model import IsolationLevel
from tests.simulation.history_judge import HistoryJudge
from tests.simulation.judge import ViolationError
from tests.simulation.occurrences import Occurrences
from tests.simulation.produced_log import ProducedLog
from tests.support.history import Place, Record
from tests.support.invariants.spans import Span

if TYPE_CHECKING:
    from tests.simulation.topic_logs import LedPartition

__all__ = ["ReplacedLogJudge"]


class _At(NamedTuple):
    """A read may be in this version, before ``offset``."""

    version: int
    offset: int


class ReplacedLogJudge(HistoryJudge):
    """Judges consumers of partitions whose logs are replaced."""

    def __init__(self, partitions: Sequence[LedPartition], level: IsolationLevel, seen: Occurrences) -> None:
        super().__init__(partitions, level)
        self._seen = seen
        self._places: dict[int, set[_At]] = {}
        """Where each span may be, by its identity; not known before the first record of one that begins at the end."""
        self._beginning: set[int] = set()
        """Spans, by their identity, that begin where the log does and have no record yet."""

    def judge_ends(self) -> None:
        """All has come that comes. Raises ViolationError if an open read lacks a record."""
        for span in self._walker.open.values():
            partition, places = self._partitions[span.key[1]], self._before(span)
            if places is None:
                continue
            end = partition.log.end
            starts = self._starts(partition, places, end)[len(partition.versions) - 1]
            if not any(start <= end and self._nothing(partition, partition.log, start, end) for start in starts):
                raise ViolationError("I1", f"{self._name(span)}: nothing came after {self._text(places)}")

    def _started(self, span: Span, start: int) -> None:
        first = self._first_version(span)
        earliest = 0 if span.from_commit else first  # a committed offset may be of an earlier version
        self._places[id(span)] = {_At(version, start) for version in range(earliest, first + 1)}
        if span.begins_at(OFFSET_BEGINNING):
            self._beginning.add(id(span))

    def _before(self, span: Span) -> set[_At] | None:
        """Returns where a span may be, None if that is not known."""
        places = self._places.get(id(span))
        if places is None or id(span) not in self._beginning:
            return places
        versions = self._partitions[span.key[1]].versions
        return places | {_At(one, at) for one in range(min(places).version, len(versions)) for at in versions[one].continued_at}

    def _first_version(self, span: Span) -> int:
        """The number of the leader's log when the span began."""
        versions = self._partitions[span.key[1]].versions
        return next(number for number, one in enumerate(versions) if one.replaced_at >= span.began.at)

    def _one(self, span: Span, record: Record) -> None:
        partition = self._partitions[span.key[1]]
        fitting = [one for one, version in enumerate(partition.versions) if self._is_of(version, record)]
        if not fitting:
            raise ViolationError("I5", f"{self._name(span)}: the record at {record.offset} is of no log")
        before = self._before(span)
        if before is None:
            after = {_At(one, record.offset + 1) for one in fitting if one >= self._first_version(span)}
        else:
            starts = self._starts(partition, before, record.offset)
            after = {
                _At(version, record.offset + 1)
                for version in fitting
                if any(
                    start <= record.offset and self._nothing(partition, partition.versions[version], start, record.offset)
                    for start in starts.get(version, ())
                )
            }
        if not after:
            where = "" if before is None else f" after {self._text(before)}"
            raise ViolationError("I4", f"{self._name(span)}: the record at {record.offset}{where} fits only {fitting}")
        if before is not None and min(after).version > max(before).version:
            self._seen.saw("consumer-changed-log")
        self._places[id(span)] = after
        self._beginning.discard(id(span))

    def _is_of(self, version: ProducedLog, record: Record) -> bool:
        (entry,) = version.entries(record.offset, record.offset + 1) or (None,)
        if entry is None or (record.leader_epoch, record.value) != (entry.epoch, entry.value):
            return False
        is_visible = version.is_visible(self._level, record.offset)
        return is_visible and record.timestamp is not None and record.timestamp[1] == entry.time_ms

    def _starts(self, partition: LedPartition, places: Iterable[_At], end: int) -> dict[int, set[int]]:
        """Returns the offsets at which a read that may be at ``places`` continues, by version. It passes nothing at ``end``."""
        starts: dict[int, set[int]] = {}
        for at in places:
            starts.setdefault(at.version, set()).add(at.offset)
        before: set[int] = set()
        for number in range(min(starts), len(partition.versions)):
            version, here = partition.versions[number], starts.setdefault(number, set())
            first = partition.start_of(version)
            for offset in before:
                here.add(offset)
                here.update(one for one in (version.shared, *version.continued_at) if one < offset)
                if version.shared < offset:  # without a leader epoch it may be out of range
                    here.add(first)
            if any(offset > version.end for offset in here):
                here.add(first)
            before = here | {self._passes_to(version, offset, first, end) for offset in here if offset < end}
        return starts

    def _passes_to(self, version: ProducedLog, offset: int, first: int, end: int) -> int:
        """Returns up to where a read passes what was deleted, markers and aborted records, at most up to ``end``."""
        end = max(offset, min(end, max(first, version.stable_end(self._level))))
        return next((at for at in range(max(offset, first), end) if version.records(self._level, at, at + 1)), end)

    def _nothing(self, partition: LedPartition, version: ProducedLog, start: int, end: int) -> bool:
        """Whether a consumer gets no record in ``[start, end)``."""
        try:
            return not version.records(self._level, max(start, partition.start_of(version)), end)
        except ViolationError:  # a transaction has no outcome
            return False

    # -- positions and commits -----------------------------------------------------------------------------------------------

    def _position(self, span: Span, place: Place) -> None:
        places = self._before(span)
        if places is not None:
            self._passes("the position", span.consumer, place, places)

    def _commit(self, consumer: str, place: Place, limit: int) -> None:
        versions = self._partitions[place.partition].versions
        self._passes("the commit", consumer, place, [_At(one, limit) for one in range(len(versions))])

    def _passes(self, what: str, consumer: str, place: Place, places: Iterable[_At]) -> None:
        partition = self._partitions[place.partition]
        passes_nothing = any(
            place.offset <= start or self._nothing(partition, partition.versions[number], start, place.offset)
            for number, starts in self._starts(partition, places, place.offset).items()
            for start in starts
        )
        if not passes_nothing:
            text = f"{what} {place.offset} of orders-{place.partition} passes a record after {self._text(places)}"
            raise ViolationError("I8", f"{consumer}: {text}")

    @staticmethod
    def _text(places: Iterable[_At]) -> str:
        return " or ".join(f"{at.offset} of log {at.version}" for at in sorted(places))
