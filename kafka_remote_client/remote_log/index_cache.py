"""The small objects of segments, parsed and kept: indexes, checkpoints, snapshots, and single batch headers.

Segments never change once they are copied, so nothing here goes stale; what was used last stays, up to a bound in bytes. Only
finished segments may be asked for: of a half-copied one a missing transaction index would be remembered as empty.

References: Kafka's RemoteIndexCache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from kafka_remote_client.errors import ObjectNotFoundError
from kafka_remote_client.model import AbortedTransaction, RemoteLogSegmentMetadata
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.layout import ObjectKind, ObjectLayout
from kafka_remote_client.remote_log.leader_epoch_checkpoint import parse_leader_epoch_checkpoint
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.offset_index import OffsetIndex
from kafka_remote_client.remote_log.producer_snapshot import open_transactions
from kafka_remote_client.remote_log.segment_log import BatchFront, SegmentLog
from kafka_remote_client.remote_log.time_index import TimeIndex
from kafka_remote_client.remote_log.transaction_index import TransactionIndex

__all__ = ["DEFAULT_MAX_BYTES", "RemoteIndexCache"]

DEFAULT_MAX_BYTES = 64 * 1024 * 1024
_ENTRY_OVERHEAD = 256
_ITEM_SIZE = 64

_T = TypeVar("_T")


class RemoteIndexCache:
    """Thread safe. Objects are loaded without holding the lock: two threads may load the same one, which does no harm."""

    def __init__(self, store: RemoteObjectStore, layout: ObjectLayout, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._store = store
        self._layout = layout
        self._max_bytes = max_bytes
        self._entries: OrderedDict[object, tuple[object, int]] = OrderedDict()
        self._nbytes = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """An estimate of the bytes held."""
        return self._nbytes

    def offset_index(self, metadata: RemoteLogSegmentMetadata) -> OffsetIndex:
        """Raises ObjectNotFoundError, CorruptIndexError, or what the store raises; so do all methods below."""

        def load(key: str) -> tuple[OffsetIndex, int]:
            index = OffsetIndex(self._store.get(key), metadata.start_offset)
            index.check_against(metadata.end_offset, metadata.segment_size_in_bytes)
            return index, index.nbytes

        return self._object(metadata, ObjectKind.OFFSET_INDEX, load)

    def time_index(self, metadata: RemoteLogSegmentMetadata) -> TimeIndex:
        def load(key: str) -> tuple[TimeIndex, int]:
            index = TimeIndex(self._store.get(key), metadata.start_offset)
            return index, index.nbytes

        return self._object(metadata, ObjectKind.TIME_INDEX, load)

    def transaction_index(self, metadata: RemoteLogSegmentMetadata) -> TransactionIndex:
        """Empty where the metadata says so, and where the object is missing: Kafka writes none for an empty index."""
        if metadata.txn_index_empty:
            return TransactionIndex()

        def load(key: str) -> tuple[TransactionIndex, int]:
            try:
                data = self._store.get(key)
            except ObjectNotFoundError:
                data = b""
            index = TransactionIndex.parse(data, metadata.start_offset, metadata.end_offset)
            return index, len(index) * 4 * _ITEM_SIZE

        return self._object(metadata, ObjectKind.TRANSACTION_INDEX, load)

    def leader_epochs(self, metadata: RemoteLogSegmentMetadata) -> LeaderEpochLineage:
        """The uploader's lineage up to the segment's end."""

        def load(key: str) -> tuple[LeaderEpochLineage, int]:
            lineage = parse_leader_epoch_checkpoint(self._store.get(key))
            return lineage, len(lineage.entries) * 2 * _ITEM_SIZE

        return self._object(metadata, ObjectKind.LEADER_EPOCH, load)

    def open_transactions(self, metadata: RemoteLogSegmentMetadata) -> tuple[AbortedTransaction, ...]:
        """The transactions that are open at the segment's end + 1."""

        def load(key: str) -> tuple[tuple[AbortedTransaction, ...], int]:
            found = open_transactions(self._store.get(key))
            return found, len(found) * 2 * _ITEM_SIZE

        return self._object(metadata, ObjectKind.PRODUCER_SNAPSHOT, load)

    def batch_front(self, metadata: RemoteLogSegmentMetadata, position: int) -> BatchFront:
        """The batch that begins at ``position``. Raises CorruptIndexError when none can."""
        log = self.log(metadata)
        return self._kept((log.key, position), lambda: (log.front(position), 4 * _ITEM_SIZE))

    def log(self, metadata: RemoteLogSegmentMetadata) -> SegmentLog:
        """The segment's log; nothing of it is kept."""
        return SegmentLog.of(self._store, self._layout.object_key(metadata, ObjectKind.LOG), metadata)

    def _object(self, metadata: RemoteLogSegmentMetadata, kind: ObjectKind, load: Callable[[str], tuple[_T, int]]) -> _T:
        key = self._layout.object_key(metadata, kind)
        return self._kept(key, lambda: load(key))

    def _kept(self, key: object, load: Callable[[], tuple[_T, int]]) -> _T:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key][0]  # type: ignore[return-value] # a key names its kind, so the value has its type
        value, size = load()
        size += _ENTRY_OVERHEAD
        with self._lock:
            if key not in self._entries:
                self._entries[key] = (value, size)
                self._nbytes += size
            # The newest stays even when it alone is above the bound: it is being used.
            while self._nbytes > self._max_bytes and len(self._entries) > 1:
                _, (_, freed) = self._entries.popitem(last=False)
                self._nbytes -= freed
        return value
