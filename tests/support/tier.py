"""Tiers made by tests: a store in memory that records its requests, and segments with all their objects."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from uuid import UUID

import attrs
import crc32c

from kafka_remote_client.errors import ObjectNotFoundError
from kafka_remote_client.model import (
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from kafka_remote_client.plugin import ObjectInfo
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataUpdate
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.packed_segment import pack_segment, unpack_segment

TIP = TopicIdPartition(UUID(int=0x00112233445566778899AABBCCDDEEFF), "orders", 7)
LAYOUT = LocalTieredStorageLayout()
_CONTROL_KEY = {"abort": b"\0\0\0\0", "commit": b"\0\0\0\1"}


class MemoryStore:
    """A RemoteObjectStore over a dictionary. ``calls`` lists every read as (method, key, start, end)."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.calls: list[tuple[str, str, int, int]] = []
        self.closed = False

    def get(self, key: str) -> bytes:
        self.calls.append(("get", key, 0, -1))
        return self._object(key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self.calls.append(("get_range", key, start, end))
        return self._object(key)[start:end]

    def size(self, key: str) -> int:
        return len(self._object(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return iter([ObjectInfo(key, len(data)) for key, data in sorted(self.objects.items()) if key.startswith(prefix)])

    def close(self) -> None:
        self.closed = True

    def reads(self, suffix: str) -> int:
        """How often an object whose key ends so was read."""
        return sum(key.endswith(suffix) for _, key, _, _ in self.calls)

    def _object(self, key: str) -> bytes:
        if key not in self.objects:
            raise ObjectNotFoundError(key)
        return self.objects[key]


def varint(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def batch(
    base: int,
    count: int = 1,
    *,
    epoch: int = 0,
    timestamps: Sequence[int] = (),
    payload: int = 20,
    producer_id: int = -1,
    marker: str = "",
    log_append_time: int | None = None,
) -> bytes:
    """An uncompressed batch of ``count`` records from offset ``base`` on; ``marker``: the control batch "abort" or "commit"."""
    times = list(timestamps) or [1000 + base + n for n in range(count)]
    records = b""
    for n in range(count):
        key = _CONTROL_KEY.get(marker, b"k")
        value = b"\0\0\0\0\0\0" if marker else b"v" * payload
        body = b"\0" + varint(times[n] - times[0]) + varint(n) + varint(len(key)) + key + varint(len(value)) + value + b"\0"
        records += varint(len(body)) + body
    attributes = (0x10 if producer_id >= 0 else 0) | (0x20 if marker else 0) | (0 if log_append_time is None else 0x08)
    max_time = max(times) if log_append_time is None else log_append_time
    tail = struct.pack(">hiqqqhii", attributes, count - 1, times[0], max_time, producer_id, 0, 0, count) + records
    return struct.pack(">qiibI", base, 9 + len(tail), epoch, 2, crc32c.crc32c(tail)) + tail


def legacy_entry(offset: int, magic: int, value: bytes = b"v" * 30, timestamp: int = 1000) -> bytes:
    """An uncompressed message of magic 0 or 1, as far as its front goes."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", timestamp) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), 0) + body


def offset_entries(*entries: tuple[int, int]) -> bytes:
    """(relative offset, position)"""
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def time_entries(*entries: tuple[int, int]) -> bytes:
    """(timestamp, relative offset)"""
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def txn_entries(*entries: tuple[int, int, int, int], version: int = 0) -> bytes:
    """(producer id, first offset, last offset, last stable offset)"""
    return b"".join(struct.pack(">hqqqq", version, *entry) for entry in entries)


def checkpoint(*entries: tuple[int, int]) -> bytes:
    """(epoch, start offset)"""
    return "".join([f"0\n{len(entries)}\n", *(f"{epoch} {start}\n" for epoch, start in entries)]).encode()


def snapshot(*producers: tuple[int, int]) -> bytes:
    """(producer id, first offset of its open transaction, -1 = none)"""
    body = struct.pack(">i", len(producers))
    for producer_id, first in producers:
        body += struct.pack(">qhiqiqiq", producer_id, 0, 0, 0, 0, 0, 0, first)
    return struct.pack(">hI", 1, crc32c.crc32c(body)) + body


def metadata(start: int, end: int, *, number: int = 1, epochs: Sequence[tuple[int, int]] = (), **changes: object):
    """A copy in progress of segment ``number``, all in epoch 0 unless told otherwise."""
    values: dict[str, object] = {
        "remote_log_segment_id": RemoteLogSegmentId(TIP, UUID(int=number)),
        "start_offset": start,
        "end_offset": end,
        "max_timestamp_ms": 1000 + end,
        "broker_id": 1,
        "event_timestamp_ms": 5000,
        "segment_leader_epochs": tuple(EpochEntry(e, s) for e, s in (epochs or [(0, start)])),
        "segment_size_in_bytes": 1000,
        "state": RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        **changes,
    }
    return RemoteLogSegmentMetadata(**values)


def update(segment: RemoteLogSegmentMetadata, state: RemoteLogSegmentState, custom: bytes | None = None):
    return RemoteLogSegmentMetadataUpdate(segment.remote_log_segment_id, 2, 6000, state, custom)


def change_segment(cache: RemoteLogMetadataCache, segment_id: RemoteLogSegmentId, **changes: object) -> None:
    """Changes what the metadata say about a segment, without an event."""
    known = unpack_segment(cache.topic_id_partition, cache._segments[segment_id.id.bytes])
    cache._segments[segment_id.id.bytes] = pack_segment(attrs.evolve(known, **changes))


def finish(cache: RemoteLogMetadataCache, segment: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
    """Adds a segment and finishes its copy."""
    assert cache.add_copy_in_progress_segment(segment)
    assert cache.update_remote_log_segment_metadata(update(segment, RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
    return attrs.evolve(
        segment, broker_id=2, event_timestamp_ms=6000, custom_metadata=None, state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    )


class Tier:
    """A store with segments of one partition, and the cache that their metadata records would give."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.cache = RemoteLogMetadataCache(TIP)
        self._epochs: dict[int, int] = {}

    def add(
        self,
        batches: Sequence[bytes],
        *,
        number: int,
        indexed: Sequence[int] = (),
        epochs: Sequence[tuple[int, int]] = (),
        lineage: Sequence[tuple[int, int]] = (),
        end: int | None = None,
        aborted: Sequence[tuple[int, int, int, int]] = (),
        open_transactions: Sequence[tuple[int, int]] = (),
        **changes: object,
    ) -> RemoteLogSegmentMetadata:
        """A finished segment of these batches. ``indexed``: the numbers of the batches that have an offset index entry.

        Its checkpoint holds the epochs of all segments so far, unless ``lineage`` says otherwise.
        """
        bounds = [struct.unpack_from(">q", raw)[0] for raw in batches]
        lasts = [
            b + (struct.unpack_from(">i", raw, 23)[0] if raw[16] == 2 else 0) for b, raw in zip(bounds, batches, strict=True)
        ]
        start = bounds[0]
        positions = [sum(len(raw) for raw in batches[:n]) for n in range(len(batches))]
        segment = metadata(
            start,
            lasts[-1] if end is None else end,
            number=number,
            epochs=epochs,
            segment_size_in_bytes=sum(map(len, batches)),
            **changes,
        )
        times = [struct.unpack_from(">q", raw, 35 if raw[16] == 2 else 18)[0] for raw in batches]
        self.put(segment, ObjectKind.LOG, b"".join(batches))
        self.put(segment, ObjectKind.OFFSET_INDEX, offset_entries(*((lasts[n] - start, positions[n]) for n in indexed)))
        self.put(segment, ObjectKind.TIME_INDEX, time_entries((max(times), lasts[times.index(max(times))] - start)))
        for entry in segment.segment_leader_epochs:
            self._epochs.setdefault(entry.epoch, entry.start_offset)
        self.put(segment, ObjectKind.LEADER_EPOCH, checkpoint(*(lineage or sorted(self._epochs.items()))))
        self.put(segment, ObjectKind.PRODUCER_SNAPSHOT, snapshot(*open_transactions))
        if aborted:
            self.put(segment, ObjectKind.TRANSACTION_INDEX, txn_entries(*aborted))
        return finish(self.cache, segment)

    def publish(self, store: RemoteLogMetadataStore) -> None:
        """Applies the events of all segments to ``store``."""
        for segment in self.cache.list_all_remote_log_segments():
            store.apply(attrs.evolve(segment, state=RemoteLogSegmentState.COPY_SEGMENT_STARTED))
            store.apply(update(segment, RemoteLogSegmentState.COPY_SEGMENT_FINISHED))

    def put(self, segment: RemoteLogSegmentMetadata, kind: ObjectKind, data: bytes) -> None:
        self.store.objects[LAYOUT.object_key(segment, kind)] = data

    def remove(self, segment: RemoteLogSegmentMetadata, kind: ObjectKind) -> None:
        del self.store.objects[LAYOUT.object_key(segment, kind)]
