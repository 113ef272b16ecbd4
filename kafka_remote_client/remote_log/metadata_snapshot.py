"""The format of a metadata snapshot: the metadata of a ``__remote_log_metadata`` follower at one offset of each partition.

All numbers are little-endian. Texts are UTF-8. The file is the header, the partitions and the digest, with nothing after them::

    offset | size | type   | field             | note
    0      | 8    | bytes  | magic             | "KRMDSNAP"
    8      | 2    | uint16 | version           | 2
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
    …      | 4    | uint32 | epoch count       | leader epochs of the partition
    …      | 4    | uint32 | listed count      | readable segments of all these epochs
    …      | 4    | uint32 | segments size     |
    …      |      | bytes  | segments          | one after another, see ``packed_segment``
    …      | 16 n |        | leader epochs     | {leader epoch int32, highest offset int64, listed uint32}
    …      | 12 n |        | listed segments   | {start offset int64, segment uint32}, epoch by epoch

The leader epochs are stored, and not derived from the segments, because they depend on the order of events and on segments that
are gone.

Version 1 had the fields of segments in another order, and sizes of 32 bits.

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
from kafka_remote_client.model import RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.remote_log.metadata_cache import CacheContents, EpochContents
from kafka_remote_client.remote_log.packed_segment import (
    PackedSegment,
    end_offset,
    epoch_entries,
    read_packed,
    segment_id,
    state,
)

__all__ = ["MetadataPosition", "MetadataSnapshot", "SnapshotOrigin", "decode", "encode", "pack", "packed_segments", "unpack"]

_MAGIC = b"KRMDSNAP"
_VERSION = 2
_START = Struct("<8sH")
_FIXED = Struct("<q16sIII")
_SIZE = Struct("<H")
_POSITION = Struct("<Iqi")
_LENGTH = Struct("<I")
_DIGEST_BYTES = 32

_TIP = Struct("<16siI")
_COUNTS = Struct("<4I")
_EPOCH = Struct("<iqI")
_LISTED = Struct("<qI")

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
    place = {segment_id(one): index for index, one in enumerate(contents.segments)}
    epochs, listed = [], []
    for epoch in contents.epochs:
        epochs.append(_EPOCH.pack(epoch.leader_epoch, epoch.highest_offset, len(epoch.starts)))
        listed += [_LISTED.pack(start, place[own_id]) for start, own_id in zip(epoch.starts, epoch.segment_ids, strict=True)]
    counts = _COUNTS.pack(len(contents.segments), len(epochs), len(listed), sum(map(len, contents.segments)))
    head = _TIP.pack(tip.topic_id.bytes, tip.partition, len(topic)) + topic + counts
    return b"".join((head, *contents.segments, *epochs, *listed))


def packed_segments(packed: bytes) -> int:
    """The number of segments that ``packed`` says it has. Raises RemoteLogMetadataError."""
    reader = _Part(memoryview(packed))
    _tip(reader)
    return int(reader.take(_COUNTS)[0])


def unpack(packed: bytes) -> CacheContents:
    """The contents of a user partition. Raises RemoteLogMetadataError for anything but what :func:`pack` gives."""
    reader = _Part(memoryview(packed))
    tip = _tip(reader)
    segment_count, epoch_count, listed_count, segments_size = reader.take(_COUNTS)
    segments = _segments(tip, bytes(reader.raw(segments_size)), segment_count)
    epoch_rows = list(reader.rows(_EPOCH, epoch_count))
    listed = list(reader.rows(_LISTED, listed_count))
    reader.expect_end()
    epochs = list(_epochs(tip, segments, epoch_rows, listed))
    if not {epoch for one in segments for epoch, _ in epoch_entries(one)} <= {one.leader_epoch for one in epochs}:
        raise RemoteLogMetadataError(f"{tip} in the snapshot lacks a leader epoch of its segments")
    return CacheContents(tip, segments, epochs)


def _segments(tip: TopicIdPartition, data: bytes, count: int) -> list[PackedSegment]:
    segments: list[PackedSegment] = []
    at = 0
    while at < len(data):
        try:
            segments.append(read_packed(data, at))
        except RemoteLogMetadataError as error:
            raise RemoteLogMetadataError(f"segment {len(segments)} of {tip} in the snapshot is invalid: {error}") from None
        at += len(segments[-1])
    if len(segments) != count:
        raise RemoteLogMetadataError(f"{tip} in the snapshot has {len(segments)} segments, not {count}")
    return segments


def _epochs(
    tip: TopicIdPartition,
    segments: list[PackedSegment],
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
        ids = [segment_id(segments[index]) for _, index in own]
        ends = [end_offset(segments[index]) for _, index in own]
        yield EpochContents(leader_epoch, highest, [start for start, _ in own], ids, ends)
    if at != len(listed):
        raise RemoteLogMetadataError(f"the leader epochs of {tip} in the snapshot do not add up")


def _lists(segment: PackedSegment, leader_epoch: int, start: int) -> bool:
    return state(segment) is _FINISHED and (leader_epoch, start) in epoch_entries(segment)


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
