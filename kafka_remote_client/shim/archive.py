"""The tier of an embedded cluster as its broker reads it: archived partitions by name or id, and their records from disk.

References: Kafka's RemoteLogManager.read, RemoteLogReader.
"""

from __future__ import annotations

import threading
from uuid import UUID

import attrs

from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.model import AbortedTransaction, IsolationLevel, NotRemote, TopicIdPartition
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.protocol.primitives import ZERO_UUID
from kafka_remote_client.records.input_stream import RemoteLogInputStream
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver
from kafka_remote_client.remote_log.time_lookup import TimestampAndOffset

__all__ = ["Archive", "ArchivedLog"]


@attrs.frozen
class ArchivedLog:
    """One archived partition, offsets ``[start, end)``."""

    start: int
    end: int
    _cache: RemoteLogMetadataCache = attrs.field(repr=False)
    _resolver: RemoteSegmentResolver = attrs.field(repr=False)
    _objects: RemoteObjectStore = attrs.field(repr=False)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds ``offset`` on: as many as fit, at least one; nothing outside the archive."""
        return self._read(offset, max_bytes, IsolationLevel.READ_UNCOMMITTED)[0]

    def read_committed(self, offset: int, max_bytes: int) -> tuple[bytes, tuple[AbortedTransaction, ...]]:
        """The same, and the transactions among them that were aborted. The embedded broker's own log has none."""
        return self._read(offset, max_bytes, IsolationLevel.READ_COMMITTED)

    def _read(self, offset: int, max_bytes: int, isolation: IsolationLevel) -> tuple[bytes, tuple[AbortedTransaction, ...]]:
        resolved = self._resolver.resolve(
            self._cache, offset, isolation_level=isolation, max_bytes=max_bytes, range_bytes=max_bytes
        )
        if isinstance(resolved, NotRemote):
            return b"", ()
        data = memoryview(self._objects.get_range(resolved.object_key, resolved.span.start, resolved.span.end))
        begin = end = checked = 0
        try:
            for batch in RemoteLogInputStream(data):
                checked = batch.end
                if batch.last_offset < offset:
                    begin = end = batch.end
                    continue
                if end > begin and batch.end - begin > max_bytes:
                    break
                end = batch.end
        except CorruptRecordError:
            # A broker does not look at what it sends. What follows the damage is sent with it, whatever it is.
            begin, end = (checked, len(data)) if end == begin else (begin, end)
        return bytes(data[begin:end]), resolved.aborted

    def offset_for_time(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """The first archived record that has reached ``timestamp_ms``."""
        return self._resolver.offset_for_time(self._cache, timestamp_ms)


class Archive:
    """All archived partitions. Thread safe."""

    def __init__(self, store: RemoteLogMetadataStore, resolver: RemoteSegmentResolver, objects: RemoteObjectStore) -> None:
        self._store = store
        self._resolver = resolver
        self._objects = objects
        self._known: dict[tuple[str | UUID, int], TopicIdPartition] = {}
        self._lock = threading.Lock()

    def log(self, topic: str, topic_id: UUID, partition: int) -> ArchivedLog | None:
        """The partition, by its topic's id unless that is all zeros; ``None`` while nothing of it is archived."""
        tip = self._find(topic if topic_id == ZERO_UUID else topic_id, partition)
        cache = None if tip is None else self._store.cache(tip)
        tiered = None if cache is None else self._resolver.log(cache)
        start, end = (None, None) if tiered is None else (tiered.start_offset(), tiered.end_offset())
        if cache is None or start is None or end is None:
            return None
        return ArchivedLog(start, end, cache, self._resolver, self._objects)

    def _find(self, topic: str | UUID, partition: int) -> TopicIdPartition | None:
        with self._lock:
            tip = self._known.get((topic, partition))
            if tip is None:
                for known in self._store.partitions():
                    self._known[known.topic, known.partition] = known
                    self._known[known.topic_id, known.partition] = known
                tip = self._known.get((topic, partition))
            return tip
