"""What a log knows of its producers: their last batches and their open transactions. Kafka's ProducerStateManager, as a value.

::

    producer snapshot: int16 version 1, uint32 CRC-32C from offset 6 to the end, int32 count, then for each producer 46 bytes

    int64  producer id         int16  producer epoch    int32  last sequence       int64  last offset, -1: none
    int32  last offset - first offset of that batch     int64  last timestamp      int32  coordinator epoch
    int64  first offset of the open transaction, -1: none

Producers are in the order in which Java iterates over a HashMap with their ids as keys: by bucket, then as they were put.

References: Kafka's ProducerStateManager, ProducerAppendInfo, ProducerStateEntry; java.util.HashMap.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import attrs
import crc32c

from kafka_remote_client.tiered_cluster.batches import (
    NO_EPOCH,
    NO_PRODUCER,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Batch,
    Marker,
    marker_of,
)
from kafka_remote_client.tiered_cluster.indexes import AbortedEntry

__all__ = ["NO_OFFSET", "ProducerEntry", "ProducerState", "RecentBatch", "loaded_snapshot"]

NO_OFFSET = -1

_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1
_BUCKETS = 16
_LOAD = 0.75
_REMEMBERED = 5
"""Batches of each producer that a broker knows again (ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""


@attrs.frozen
class ProducerEntry:
    """In the order of a snapshot. ``offset_delta``: last offset - first offset of the last batch."""

    producer_id: int
    epoch: int = NO_EPOCH
    last_sequence: int = NO_SEQUENCE
    last_offset: int = NO_OFFSET
    offset_delta: int = 0
    timestamp: int = NO_TIMESTAMP
    coordinator_epoch: int = NO_EPOCH
    open_since: int = NO_OFFSET


@attrs.frozen
class RecentBatch:
    """A batch that a broker knows again if the producer retries it. ``offset_delta``: last offset - first offset.

    ``max_timestamp``: in milliseconds.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    offset_delta: int
    base_offset: int
    max_timestamp: int

    @classmethod
    def of(cls, batch: Batch) -> RecentBatch:
        """What a broker remembers of a batch in its log."""
        delta = batch.last_offset - batch.base_offset
        sequences = batch.producer_id, batch.producer_epoch, batch.last_sequence, delta
        return cls(*sequences, batch.base_offset, batch.max_timestamp)

    def has_sequences_of(self, batch: Batch) -> bool:
        """Whether the batch comes from the same producer and has the same epoch and sequences."""
        return self.sequences == self.of(batch).sequences

    @property
    def sequences(self) -> tuple[int, int, int, int]:
        """What a retried batch has in common with this one."""
        return self.producer_id, self.epoch, self.last_sequence, self.offset_delta


@attrs.frozen
class _EndedTransaction:
    """One whose marker the high watermark has not passed. Both offsets are inclusive."""

    first_offset: int
    last_offset: int


@attrs.frozen
class ProducerState:
    """``entries``: in the order in which producers appeared. ``buckets``: how many the HashMap has grown to.

    ``recent``: the last five batches of each producer's current epoch, also if their segments have left the log. A snapshot
    has the last one.
    """

    entries: tuple[ProducerEntry, ...] = ()
    buckets: int = _BUCKETS
    recent: tuple[RecentBatch, ...] = ()
    _unreplicated: tuple[_EndedTransaction, ...] = ()

    def appended(self, batch: Batch) -> tuple[ProducerState, AbortedEntry | None]:
        """The state after a batch, and what the transaction index gets for it."""
        if batch.producer_id == NO_PRODUCER:
            return self, None
        known = self.of(batch.producer_id)
        recent = _recent_after(self.recent, batch)
        if not batch.control:
            return attrs.evolve(self.with_entry(_after_data(known, batch)), recent=recent), None
        kind, coordinator_epoch = marker_of(batch)
        state = attrs.evolve(self.with_entry(_after_marker(known, batch, coordinator_epoch)), recent=recent)
        if known.open_since == NO_OFFSET:
            return state, None
        ended = _EndedTransaction(known.open_since, batch.base_offset)
        state = attrs.evolve(state, unreplicated=(*self._unreplicated, ended))
        if kind is Marker.COMMIT:
            return state, None
        stable = min(state.open_transactions(), default=batch.base_offset + 1)
        return state, AbortedEntry(batch.producer_id, known.open_since, batch.base_offset, stable)

    def replicated(self, high_watermark: int) -> ProducerState:
        """Transactions whose marker lies below the high watermark hold the last stable offset back no longer."""
        if not self._unreplicated:
            return self
        kept = tuple(one for one in self._unreplicated if one.last_offset >= high_watermark)
        return attrs.evolve(self, unreplicated=kept)

    def without_expired(self, now_ms: int, expiration_ms: int) -> ProducerState:
        """Without the producers whose last batch or marker is ``expiration_ms`` old, unless their transaction is open.

        A broker looks from time to time (``producer.id.expiration.ms``). The HashMap does not shrink.
        """
        kept = tuple(one for one in self.entries if one.open_since != NO_OFFSET or now_ms - one.timestamp < expiration_ms)
        known = {entry.producer_id for entry in kept}
        return attrs.evolve(self, entries=kept, recent=tuple(one for one in self.recent if one.producer_id in known))

    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open, or ended but not replicated; ``None`` without any."""
        return min([*self.open_transactions(), *(one.first_offset for one in self._unreplicated)], default=None)

    def snapshot(self) -> bytes:
        """The producer snapshot of a segment that ends here."""
        body = _COUNT.pack(len(self.entries))
        body += b"".join(_ENTRY.pack(*attrs.astuple(entry)) for entry in sorted(self.entries, key=self._bucket))
        return _HEAD.pack(_VERSION, crc32c.crc32c(body)) + body

    def open_transactions(self) -> Iterator[int]:
        """The first offset of each open transaction."""
        return (entry.open_since for entry in self.entries if entry.open_since != NO_OFFSET)

    def of(self, producer_id: int) -> ProducerEntry:
        """The entry of a producer; an empty one for a producer that the log does not know."""
        return next((entry for entry in self.entries if entry.producer_id == producer_id), ProducerEntry(producer_id))

    def with_entry(self, changed: ProducerEntry) -> ProducerState:
        """The state with this entry in place of the producer's, or after all others."""
        if any(entry.producer_id == changed.producer_id for entry in self.entries):
            same = tuple(changed if entry.producer_id == changed.producer_id else entry for entry in self.entries)
            return attrs.evolve(self, entries=same)
        entries = (*self.entries, changed)
        grows = len(entries) > self.buckets * _LOAD
        return attrs.evolve(self, entries=entries, buckets=self.buckets * 2 if grows else self.buckets)

    def _bucket(self, entry: ProducerEntry) -> int:
        """Long.hashCode, spread as HashMap does."""
        folded = (entry.producer_id ^ entry.producer_id >> 32) & 0xFFFF_FFFF
        return (folded ^ folded >> 16) & self.buckets - 1


def loaded_snapshot(snapshot: bytes) -> ProducerState:
    """The state of a broker that loads a snapshot: transactions in it are open, none waits for the high watermark.

    Raises ValueError for a wrong version, checksum or length.
    """
    version, checksum = _HEAD.unpack_from(snapshot)
    (count,) = _COUNT.unpack_from(snapshot, _HEAD.size)
    begin = _HEAD.size + _COUNT.size
    if version != _VERSION or checksum != crc32c.crc32c(snapshot[_HEAD.size :]) or len(snapshot) != begin + count * _ENTRY.size:
        raise ValueError("not a producer snapshot of version 1, or damaged")
    state = ProducerState()
    for fields in _ENTRY.iter_unpack(snapshot[begin:]):
        state = state.with_entry(ProducerEntry(*fields))
    return attrs.evolve(state, recent=tuple(_last_batch(one) for one in state.entries if one.last_offset != NO_OFFSET))


def _last_batch(entry: ProducerEntry) -> RecentBatch:
    first = entry.last_offset - entry.offset_delta
    return RecentBatch(entry.producer_id, entry.epoch, entry.last_sequence, entry.offset_delta, first, entry.timestamp)


def _recent_after(recent: tuple[RecentBatch, ...], batch: Batch) -> tuple[RecentBatch, ...]:
    own = [one for one in recent if one.producer_id == batch.producer_id and one.epoch == batch.producer_epoch]
    if not batch.control:
        own = [*own, RecentBatch.of(batch)][-_REMEMBERED:]
    return (*(one for one in recent if one.producer_id != batch.producer_id), *own)


def _after_data(known: ProducerEntry, batch: Batch) -> ProducerEntry:
    begins = batch.transactional and known.open_since == NO_OFFSET
    return ProducerEntry(
        batch.producer_id,
        batch.producer_epoch,
        batch.last_sequence,
        batch.last_offset,
        batch.last_offset - batch.base_offset,
        batch.max_timestamp,
        known.coordinator_epoch,
        batch.base_offset if begins else known.open_since,
    )


def _after_marker(known: ProducerEntry, batch: Batch, coordinator_epoch: int) -> ProducerEntry:
    """A marker with another producer epoch makes the broker forget the producer's batches."""
    kept = known if known.epoch == batch.producer_epoch else ProducerEntry(known.producer_id, batch.producer_epoch)
    return attrs.evolve(kept, timestamp=batch.max_timestamp, coordinator_epoch=coordinator_epoch, open_since=NO_OFFSET)
