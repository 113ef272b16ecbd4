"""The format of a metadata snapshot: the metadata of a ``__remote_log_metadata`` follower at one offset of each partition.

All numbers are little-endian. Texts are UTF-8. The file is the header, the partitions and the digest, with nothing after them::

    offset | size | type   | field             | note
    0      | 8    | bytes  | magic             | "KRMDSNAP"
    8      | 2    | uint16 | version           | 1
    10     | 8    | int64  | written at        | ms since the Unix epoch
    18     | 16   | uuid   | topic id          | of the metadata topic
    34     | 4    | uint32 | partition count   | of the metadata topic
    38     | 4    | uint32 | position count    |
    42     | 4    | uint32 | user partitions   |
    46     | 2    | uint16 | cluster id size   | then the cluster id
    …      | 2    | uint16 | topic size        | then the topic's name
    …      | 16 n |        | positions         | {partition uint32, next offset int64, leader epoch int32}, -1 = unknown
    …      |      |        | user partitions   | {size uint32, bytes} each, see below
    …      | 32   | bytes  | digest            | SHA-256 of everything before it

A user partition, which is decoded when it is first needed::

    offset | size | type   | field             | note
    0      | 16   | uuid   | topic id          |
    16     | 4    | int32  | partition         |
    20     | 4    | uint32 | topic size        | then the topic's name
    …      | 4    | uint32 | segment count     |
    …      | 4    | uint32 | entry count       | epoch entries of all segments
    …      | 4    | uint32 | epoch count       | leader epochs of the partition
    …      | 4    | uint32 | listed count      | readable segments of all these epochs
    …      | 4    | uint32 | custom size       | custom metadata of all segments
    …      | 70 n |        | segments          | {id uuid, start offset, end offset, max timestamp, event timestamp int64,
                                                 broker id, size, broker leader epoch int32, state, flags uint8,
                                                 entries, custom size uint32}
    …      | 12 n |        | epoch entries     | {leader epoch int32, start offset int64}, segment by segment
    …      | 16 n |        | leader epochs     | {leader epoch int32, highest offset int64, listed uint32}
    …      | 12 n |        | listed segments   | {start offset int64, segment uint32}, epoch by epoch
    …      |      | bytes  | custom metadata   | segment by segment

Flags: 1 = TxnIndexEmpty, 2 = there is custom metadata. The leader epochs are stored, and not derived from the segments, because
they depend on the order of events and on segments that are gone.

References: KIP-405; Kafka's RemoteLogMetadataCache, RemoteLogLeaderEpochState.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from struct import Struct
from typing import Any
from uuid import UUID

import attrs

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import (
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from kafka_remote_client.remote_log.metadata_cache import CacheContents, EpochContents

__all__ = ["MetadataPosition", "MetadataSnapshot", "SnapshotOrigin", "decode", "encode", "pack", "packed_segments", "unpack"]

_MAGIC = b"KRMDSNAP"
_VERSION = 1
_START = Struct("<8sH")
_FIXED = Struct("<q16sIII")
_SIZE = Struct("<H")
_POSITION = Struct("<Iqi")
_LENGTH = Struct("<I")
_DIGEST_BYTES = 32

_TIP = Struct("<16siI")
_COUNTS = Struct("<5I")
_SEGMENT = Struct("<16sqqqqiiiBBII")
_ENTRY = Struct("<iq")
_EPOCH = Struct("<iqI")
_LISTED = Struct("<qI")
_TXN_INDEX_EMPTY = 1
_HAS_CUSTOM = 2

_STATES = {int(state): state for state in RemoteLogSegmentState}
_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


@attrs.frozen
class SnapshotOrigin:
    """The topic of a snapshot. Another cluster, topic name or topic id has other records."""

    cluster_id: str
    topic: str
    topic_id: UUID
    partition_count: int


@attrs.frozen
class MetadataPosition:
    """The next offset to read in a metadata partition. ``leader_epoch`` is that of the last record, -1 = unknown."""

    next_offset: int
    leader_epoch: int = -1


@attrs.frozen
class MetadataSnapshot:
    """A snapshot. ``positions`` lacks partitions that were not trusted. ``partitions``: packed, see :func:`unpack`."""

    origin: SnapshotOrigin
    written_at_ms: int
    positions: Mapping[int, MetadataPosition]
    partitions: Mapping[TopicIdPartition, bytes]


def encode(
    origin: SnapshotOrigin,
    written_at_ms: int,
    positions: Mapping[int, MetadataPosition],
    partitions: Iterable[bytes],
    count: int,
) -> Iterator[bytes]:
    """The parts of the file, in order. ``partitions``: ``count`` values of :func:`pack`.

    Raises ValueError if there is another number of them.
    """
    cluster_id, topic = origin.cluster_id.encode(), origin.topic.encode()
    head = [
        _START.pack(_MAGIC, _VERSION),
        _FIXED.pack(written_at_ms, origin.topic_id.bytes, origin.partition_count, len(positions), count),
        *(_SIZE.pack(len(cluster_id)), cluster_id, _SIZE.pack(len(topic)), topic),
        *(_POSITION.pack(number, one.next_offset, one.leader_epoch) for number, one in sorted(positions.items())),
    ]
    first = b"".join(head)
    digest = hashlib.sha256(first)
    yield first
    written = 0
    for packed in partitions:
        part = _LENGTH.pack(len(packed)) + packed
        digest.update(part)
        written += 1
        yield part
    if written != count:
        raise ValueError(f"a snapshot of {count} partitions got {written}")
    yield digest.digest()


def decode(data: bytes) -> MetadataSnapshot:
    """The snapshot in ``data``. Raises RemoteLogMetadataError for another version, and for any damage."""
    if len(data) < _START.size + _DIGEST_BYTES or not data.startswith(_MAGIC):
        raise RemoteLogMetadataError("the file is not a metadata snapshot")
    _, version = _START.unpack_from(data)
    if version != _VERSION:
        raise RemoteLogMetadataError(f"the snapshot has version {version}, not {_VERSION}")
    view = memoryview(data)[:-_DIGEST_BYTES]
    if hashlib.sha256(view).digest() != data[-_DIGEST_BYTES:]:
        raise RemoteLogMetadataError("the checksum of the snapshot does not match: it is damaged or truncated")
    reader = _Part(view, _START.size)
    written_at, topic_id, partition_count, position_count, count = reader.take(_FIXED)
    cluster_id, topic = reader.text(), reader.text()
    positions = {number: MetadataPosition(*rest) for number, *rest in reader.rows(_POSITION, position_count)}
    partitions = {}
    for _ in range(count):
        packed = bytes(reader.raw(reader.take(_LENGTH)[0]))
        partitions[_tip(_Part(memoryview(packed)))] = packed
    reader.expect_end()
    if len(positions) != position_count or len(partitions) != count or any(n >= partition_count for n in positions):
        raise RemoteLogMetadataError("the snapshot names a partition twice, or one that the metadata topic does not have")
    origin = SnapshotOrigin(cluster_id, topic, UUID(bytes=topic_id), partition_count)
    return MetadataSnapshot(origin, written_at, positions, partitions)


def pack(contents: CacheContents) -> bytes:
    """The user partition as bytes. The inverse of :func:`unpack`."""
    tip = contents.topic_id_partition
    topic = tip.topic.encode()
    rows, entries, custom = [], [], []
    place = {}
    for index, one in enumerate(contents.segments):
        segment_id = one.remote_log_segment_id.id
        place[segment_id.int] = index
        flags = (_TXN_INDEX_EMPTY if one.txn_index_empty else 0) | (0 if one.custom_metadata is None else _HAS_CUSTOM)
        own = one.custom_metadata or b""
        rows.append(
            _SEGMENT.pack(
                segment_id.bytes,
                one.start_offset,
                one.end_offset,
                one.max_timestamp_ms,
                one.event_timestamp_ms,
                one.broker_id,
                one.segment_size_in_bytes,
                one.broker_leader_epoch,
                one.state,
                flags,
                len(one.segment_leader_epochs),
                len(own),
            )
        )
        entries += [_ENTRY.pack(entry.epoch, entry.start_offset) for entry in one.segment_leader_epochs]
        custom.append(own)
    epochs, listed = [], []
    for epoch in contents.epochs:
        epochs.append(_EPOCH.pack(epoch.leader_epoch, epoch.highest_offset, len(epoch.starts)))
        listed += [_LISTED.pack(start, place[i.id.int]) for start, i in zip(epoch.starts, epoch.segment_ids, strict=True)]
    counts = _COUNTS.pack(len(rows), len(entries), len(epochs), len(listed), sum(map(len, custom)))
    head = _TIP.pack(tip.topic_id.bytes, tip.partition, len(topic)) + topic + counts
    return b"".join((head, *rows, *entries, *epochs, *listed, *custom))


def packed_segments(packed: bytes) -> int:
    """The number of segments that ``packed`` says it has. Raises RemoteLogMetadataError."""
    reader = _Part(memoryview(packed))
    _tip(reader)
    return int(reader.take(_COUNTS)[0])


def unpack(packed: bytes) -> CacheContents:
    """The contents of a user partition. Raises RemoteLogMetadataError for anything but what :func:`pack` gives."""
    reader = _Part(memoryview(packed))
    tip = _tip(reader)
    segment_count, entry_count, epoch_count, listed_count, custom_size = reader.take(_COUNTS)
    rows = reader.rows(_SEGMENT, segment_count)
    entries = [EpochEntry(*entry) for entry in reader.rows(_ENTRY, entry_count)]
    epoch_rows = list(reader.rows(_EPOCH, epoch_count))
    listed = list(reader.rows(_LISTED, listed_count))
    custom = bytes(reader.raw(custom_size))
    reader.expect_end()
    segments: list[RemoteLogSegmentMetadata] = []
    at = custom_at = 0
    for segment_id, start, end, max_ts, event_ts, broker_id, size, copied_in, state, flags, own_entries, own_custom in rows:
        own = tuple(entries[at : at + own_entries])
        at += own_entries
        value = custom[custom_at : custom_at + own_custom] if flags & _HAS_CUSTOM else None
        custom_at += own_custom
        if state not in _STATES or not 0 <= start <= end or size < 0 or len(own) != own_entries or not _rises(own):
            raise RemoteLogMetadataError(f"segment {len(segments)} of {tip} in the snapshot is invalid")
        segments.append(
            RemoteLogSegmentMetadata(
                remote_log_segment_id=RemoteLogSegmentId(tip, UUID(bytes=segment_id)),
                start_offset=start,
                end_offset=end,
                max_timestamp_ms=max_ts,
                broker_id=broker_id,
                event_timestamp_ms=event_ts,
                segment_leader_epochs=own,
                segment_size_in_bytes=size,
                custom_metadata=value,
                state=_STATES[state],
                txn_index_empty=bool(flags & _TXN_INDEX_EMPTY),
                broker_leader_epoch=copied_in,
            )
        )
    if at != entry_count or custom_at != custom_size:
        raise RemoteLogMetadataError(f"the sizes of {tip} in the snapshot do not add up")
    epochs = list(_epochs(tip, segments, epoch_rows, listed))
    if not {entry.epoch for entry in entries} <= {epoch.leader_epoch for epoch in epochs}:
        raise RemoteLogMetadataError(f"{tip} in the snapshot lacks a leader epoch of its segments")
    return CacheContents(tip, segments, epochs)


def _epochs(
    tip: TopicIdPartition,
    segments: list[RemoteLogSegmentMetadata],
    epoch_rows: list[tuple[Any, ...]],
    listed: list[tuple[Any, ...]],
) -> Iterator[EpochContents]:
    at = 0
    for leader_epoch, highest, count in epoch_rows:
        own = listed[at : at + count]
        at += count
        if len(own) != count or any(a[0] >= b[0] for a, b in pairwise(own)):
            raise RemoteLogMetadataError(f"leader epoch {leader_epoch} of {tip} in the snapshot is invalid")
        for start, index in own:
            if index >= len(segments) or not _lists(segments[index], leader_epoch, start):
                raise RemoteLogMetadataError(f"leader epoch {leader_epoch} of {tip} in the snapshot lists a wrong segment")
        ids = [segments[index].remote_log_segment_id for _, index in own]
        ends = [segments[index].end_offset for _, index in own]
        yield EpochContents(leader_epoch, highest, [start for start, _ in own], ids, ends)
    if at != len(listed):
        raise RemoteLogMetadataError(f"the leader epochs of {tip} in the snapshot do not add up")


def _lists(segment: RemoteLogSegmentMetadata, leader_epoch: int, start: int) -> bool:
    if segment.state is not _FINISHED:
        return False
    return any(entry.epoch == leader_epoch and entry.start_offset == start for entry in segment.segment_leader_epochs)


def _rises(entries: tuple[EpochEntry, ...]) -> bool:
    rising = all(a.epoch < b.epoch and a.start_offset <= b.start_offset for a, b in pairwise(entries))
    return bool(entries) and rising


def _tip(reader: _Part) -> TopicIdPartition:
    topic_id, partition, size = reader.take(_TIP)
    return TopicIdPartition(UUID(bytes=topic_id), reader.decoded(size), partition)


class _Part:
    """Reads a buffer from its front. Raises RemoteLogMetadataError before it reads past the end."""

    __slots__ = ("_at", "_view")

    def __init__(self, view: memoryview, at: int = 0) -> None:
        self._view = view
        self._at = at

    def raw(self, size: int) -> memoryview:
        if size > len(self._view) - self._at:
            raise RemoteLogMetadataError(f"the snapshot ends inside {size} bytes at offset {self._at}")
        start, self._at = self._at, self._at + size
        return self._view[start : self._at]

    def take(self, kind: Struct) -> tuple[Any, ...]:
        return kind.unpack(self.raw(kind.size))

    def rows(self, kind: Struct, count: int) -> Iterator[tuple[Any, ...]]:
        return kind.iter_unpack(self.raw(kind.size * count))

    def text(self) -> str:
        return self.decoded(self.take(_SIZE)[0])

    def decoded(self, size: int) -> str:
        try:
            return str(self.raw(size), "utf-8")
        except UnicodeDecodeError:
            raise RemoteLogMetadataError("a name in the snapshot is not UTF-8") from None

    def expect_end(self) -> None:
        if self._at != len(self._view):
            raise RemoteLogMetadataError(f"{len(self._view) - self._at} bytes remain in the snapshot")
