"""What log compaction leaves of a log: the last record of each key. Kafka's LogCleaner, as a function.

A round goes from the end of the last one to the first segment that may not be cleaned: the active one, that of the last stable
offset, or one with a record younger than ``min.compaction.lag.ms``. It finds the last offset of each key there. Then it writes
all segments up to its end again, and joins small neighbours up to ``segment.bytes``.

::

    what                                   is removed
    record of an aborted transaction       at once
    record whose key has a later one       at once; so is a record without a key
    tombstone, the last of its key         after the delete horizon of its batch
    transaction marker                     after the delete horizon, which it gets when no batch of its transaction is left
    batch without records                  at once, unless it is the last batch of its producer, or ends the round

The delete horizon is the time of the first round that keeps the tombstone or the marker, and ``delete.retention.ms``. A batch
that loses nothing and gets no horizon is not written again. An empty one keeps its producer's sequence.

Differences: Kafka ends a round when its memory is full, and does not join segments whose indexes would be too large; a log in
memory reaches neither limit. Segments that are in the tier are not cleaned: Kafka tiers no compacted topic so far (KIP-1272).

References: KIP-58, KIP-98, KIP-534; Kafka's LogCleanerManager, Cleaner, CleanedTransactionMetadata, MemoryRecords.filterTo.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from kafka_remote_client.tiered_cluster.batches import NO_PRODUCER, Batch, Marker, Record, marker_of, records_of, rewritten
from kafka_remote_client.tiered_cluster.indexes import AbortedEntry
from kafka_remote_client.tiered_cluster.log import PartitionLog, Segment
from kafka_remote_client.tiered_cluster.producers import NO_OFFSET

__all__ = ["cleaned"]


def cleaned(log: PartitionLog, now_ms: int) -> PartitionLog:
    """The log after a round of the cleaner; the same log if there is nothing new to clean."""
    known = log.cleaned_to if log.log_start <= log.cleaned_to <= log.end_offset else log.log_start
    begin = max(known, log.highest_remote_offset + 1)
    end = _end(log, begin, now_ms)
    if not any(segment.size for segment, following in log.sealed(begin) if following.base_offset <= end):
        return log
    found = [segment for segment in log.segments if log.highest_remote_offset < segment.base_offset < end]
    first = log.segments.index(found[0])
    one_round = _Round(log, _last_offsets(log, begin, end), end, now_ms)
    written = [one_round.written(group) for group in _groups(found, log.config.segment_bytes)]
    segments = (*log.segments[:first], *written, *log.segments[first + len(found) :])
    return attrs.evolve(log, segments=segments, cleaned_to=end)


def _end(log: PartitionLog, begin: int, now_ms: int) -> int:
    """The base offset of the first segment that may not be cleaned."""
    lag = log.config.min_compaction_lag_ms
    young = (segment.base_offset for segment, _ in log.sealed(begin) if lag and segment.max_timestamp > now_ms - lag)
    last = min(log.last_stable_offset, next(young, log.end_offset))
    return max((segment.base_offset for segment in log.segments if segment.base_offset <= last), default=begin)


def _groups(segments: Sequence[Segment], segment_bytes: int) -> Iterator[list[Segment]]:
    """Neighbours that become one segment."""
    group: list[Segment] = []
    for segment in segments:
        if group and sum(one.size for one in group) + segment.size > segment_bytes:
            yield group
            group = []
        group.append(segment)
    yield group


def _last_offsets(log: PartitionLog, begin: int, end: int) -> Mapping[bytes, int]:
    """The last offset of each key in ``[begin, end)``. Records of aborted transactions do not count."""
    found: dict[bytes, int] = {}
    transactions = _Transactions()
    transactions.add(_aborted(log, begin, end))
    for segment, following in log.sealed(begin):
        for batch in segment.batches if following.base_offset <= end else ():
            discarded, _ = transactions.passed(batch)
            if not discarded and not batch.control:
                records = (record for record in records_of(batch) if record.offset >= begin)
                found |= {record.key: record.offset for record in records if record.key is not None}
    return found


def _aborted(log: PartitionLog, begin: int, end: int) -> Iterator[AbortedEntry]:
    """The aborted transactions that may have records in ``[begin, end)``."""
    entries = (entry for segment in log.segments for entry in segment.aborted)
    return (entry for entry in entries if entry.last_offset >= begin and entry.first_offset < end)


class _Transactions:
    """The transactions that are open where the cleaner is, as it goes from batch to batch."""

    def __init__(self) -> None:
        self._ahead: list[AbortedEntry] = []
        self._aborted: dict[int, AbortedEntry] = {}
        self._with_batches: set[int] = set()
        self._committed: set[int] = set()

    def add(self, aborted: Iterable[AbortedEntry]) -> None:
        """Tells of aborted transactions before their batches come. One that comes again changes nothing."""
        self._ahead = sorted([*self._ahead, *aborted], key=lambda entry: entry.first_offset)

    def passed(self, batch: Batch) -> tuple[bool, AbortedEntry | None]:
        """Whether the batch may go, by its transaction alone: it was aborted, or it is the marker of one without batches.

        With the marker of an aborted transaction that has batches comes its entry, which stays in the transaction index.
        """
        while self._ahead and self._ahead[0].first_offset <= batch.last_offset:
            entry = self._ahead.pop(0)
            self._aborted.setdefault(entry.producer_id, entry)
        if batch.control:
            return self._ended(batch)
        if not batch.transactional:
            return False, None
        aborted = batch.producer_id in self._aborted
        (self._with_batches if aborted else self._committed).add(batch.producer_id)
        return aborted, None

    def _ended(self, marker: Batch) -> tuple[bool, AbortedEntry | None]:
        if not marker.count:
            return True, None
        kind, _ = marker_of(marker)
        seen = self._with_batches if kind is Marker.ABORT else self._committed
        entry = self._aborted.pop(marker.producer_id, None) if kind is Marker.ABORT else None
        had_batches = marker.producer_id in seen
        seen.discard(marker.producer_id)
        return not had_batches, entry if had_batches else None


class _Round:
    """``last_offsets``: of each key of the round. ``end``: where the round ends."""

    def __init__(self, log: PartitionLog, last_offsets: Mapping[bytes, int], end: int, now_ms: int) -> None:
        self._log = log
        self._last_offsets = last_offsets
        self._end = end
        self._now_ms = now_ms
        self._transactions = _Transactions()

    def written(self, group: Sequence[Segment]) -> Segment:
        """The segment that replaces neighbours, under the first one's base offset."""
        batches, aborted = [], []
        for number, segment in enumerate(group):
            last = segment.batches[-1].last_offset if segment.batches else segment.base_offset - 1
            upper = group[number + 1].base_offset if number + 1 < len(group) else last + 1
            self._transactions.add(_aborted(self._log, segment.base_offset, upper))
            for batch in segment.batches:
                discarded, entry = self._transactions.passed(batch)
                batches += self._left_of(batch, discarded)
                aborted += [] if entry is None else [entry]
        return Segment(group[0].base_offset, tuple(batches), tuple(aborted), group[0].began_with)

    def _left_of(self, batch: Batch, discarded: bool) -> list[Batch]:
        """The batch, its rest, or nothing. ``discarded``: its transaction lets it go; a marker also waits for its horizon."""
        horizon = batch.delete_horizon
        past = horizon is not None and horizon <= self._now_ms
        all_go = discarded and (past or not batch.control)
        kept = [] if all_go else [one for one in records_of(batch) if batch.control or self._stays(one, past)]
        if not kept:
            return [rewritten(batch, (), None)] if self._is_kept_empty(batch) else []
        if horizon is None and (discarded or any(record.value is None for record in kept)):
            return [rewritten(batch, kept, self._now_ms + self._log.config.delete_retention_ms)]
        return [batch if len(kept) == batch.count else rewritten(batch, kept, horizon)]

    def _stays(self, record: Record, past_horizon: bool) -> bool:
        is_last = record.key is not None and record.offset >= self._last_offsets.get(record.key, NO_OFFSET)
        return is_last and (record.value is not None or not past_horizon)

    def _is_kept_empty(self, batch: Batch) -> bool:
        if batch.last_offset + 1 == self._end:
            return True
        known = self._log.producers.of(batch.producer_id)
        if batch.producer_id == NO_PRODUCER:
            return False
        if known.last_offset != NO_OFFSET:
            return batch.last_offset == known.last_offset
        return batch.control and batch.producer_epoch == known.epoch
