"""A cache of the small objects of segments, parsed: indexes, checkpoints, snapshots, and single batch headers.

A finished segment never changes, so entries never become wrong; the least recently used ones are dropped. Use it only for
finished segments: the missing transaction index of a half-copied one would be cached as empty.

References: Kafka's RemoteIndexCache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import AbortedTransaction, RemoteLogSegmentMetadata
from kafka_remote_client.plugin import RemoteObjectStore, VersionedObjectStore
from kafka_remote_client.records.batch import BatchHeader
from kafka_remote_client.remote_log.layout import IndexesInOneObject, ObjectKind, ObjectLayout
from kafka_remote_client.remote_log.leader_epoch_checkpoint import parse_leader_epoch_checkpoint
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.loading_cache import LoadingCache
from kafka_remote_client.remote_log.offset_index import OffsetIndex
from kafka_remote_client.remote_log.producer_snapshot import open_transactions
from kafka_remote_client.remote_log.segment_log import SegmentLog
from kafka_remote_client.remote_log.time_index import TimeIndex
from kafka_remote_client.remote_log.transaction_index import TransactionIndex
from kafka_remote_client.settings import default_of

__all__ = ["DEFAULT_MAX_BYTES", "RemoteIndexCache"]

DEFAULT_MAX_BYTES: int = default_of("fetch.remote.index.cache.bytes")
_ITEM_SIZE = 64

_T = TypeVar("_T")
_Load: TypeAlias = Callable[[], tuple[_T, int]]
_Parse: TypeAlias = Callable[[bytes, RemoteLogSegmentMetadata], tuple[_T, int]]


class RemoteIndexCache:
    """Thread safe. Threads that need the same object at once share one read; its failure reaches all and is not cached."""

    def __init__(self, store: RemoteObjectStore, layout: ObjectLayout, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._store = store
        self._layout = layout
        # isinstance() of a protocol takes longer than a look-up in the cache.
        self._versions = store if isinstance(store, VersionedObjectStore) else None
        self._in_one_object = layout if isinstance(layout, IndexesInOneObject) else None
        self._logs = layout.original_logs(store)
        self.max_bytes = max_bytes
        self._entries: LoadingCache[object] = LoadingCache(max_bytes)

    @property
    def nbytes(self) -> int:
        """An estimate of the bytes held."""
        return self._entries.nbytes

    def statistics(self) -> CacheStatistics:
        """Hits and misses."""
        return self._entries.statistics()

    def offset_index(self, metadata: RemoteLogSegmentMetadata) -> OffsetIndex:
        """The methods that read raise ObjectNotFoundError, CorruptIndexError, and the errors of the store."""
        return self._object(metadata, ObjectKind.OFFSET_INDEX, _offset_index)

    def time_index(self, metadata: RemoteLogSegmentMetadata) -> TimeIndex:
        return self._object(metadata, ObjectKind.TIME_INDEX, _time_index)

    def transaction_index(self, metadata: RemoteLogSegmentMetadata) -> TransactionIndex:
        """Empty if the metadata says so or there is no object: Kafka writes none for an empty index."""
        if metadata.txn_index_empty:
            return TransactionIndex()
        return self._object(metadata, ObjectKind.TRANSACTION_INDEX, _transaction_index)

    def leader_epochs(self, metadata: RemoteLogSegmentMetadata) -> LeaderEpochLineage:
        """The lineage up to the segment's end, of the leader that uploaded it."""
        return self._object(metadata, ObjectKind.LEADER_EPOCH, _leader_epochs)

    def keep_leader_epochs(self, metadata: RemoteLogSegmentMetadata, lineage: LeaderEpochLineage) -> None:
        """Keeps the lineage of a segment that was read already."""
        self._kept(self._object_key(metadata, ObjectKind.LEADER_EPOCH), lambda: _sized_lineage(lineage))

    def open_transactions(self, metadata: RemoteLogSegmentMetadata) -> tuple[AbortedTransaction, ...]:
        """The transactions that are open at the segment's end + 1."""
        return self._object(metadata, ObjectKind.PRODUCER_SNAPSHOT, _open_transactions)

    def batch_header(self, metadata: RemoteLogSegmentMetadata, position: int) -> BatchHeader:
        """The header of the batch at ``position``. Raises CorruptIndexError if no batch can begin there."""
        return self._kept(*self._header_load(metadata, position))

    def kept_batch_header(self, metadata: RemoteLogSegmentMetadata, position: int) -> BatchHeader | None:
        """The same from the cache only; None if it is not cached."""
        return self._entries.peek(self._header_load(metadata, position)[0])  # type: ignore[return-value] # as in _kept

    def position_of(self, metadata: RemoteLogSegmentMetadata, offset: int, position: int) -> int:
        """The position of the first batch that ends at or after ``offset``; the segment's size if there is none.

        The search walks the batches from ``position`` on, where one begins.
        """
        log = self.log(metadata)

        def find() -> tuple[int, int]:
            found = (header.position for header in log.walk(position) if header.last_offset >= offset)
            return next(found, log.size), _ITEM_SIZE

        return self._kept((log.key, position, offset), find)

    def etag(self, metadata: RemoteLogSegmentMetadata) -> str | None:
        """The version of the segment's log at its first use; None if the store has no versions."""
        load = self._etag_load(metadata)
        return None if load is None else self._kept(*load)[0]

    def log(self, metadata: RemoteLogSegmentMetadata) -> SegmentLog:
        """The segment's log as Kafka wrote it; reads of it are not cached."""
        return SegmentLog.of(self._logs, self._layout.object_key(metadata, ObjectKind.LOG), metadata)

    def offer_objects(self, metadata: RemoteLogSegmentMetadata, kinds: Iterable[ObjectKind]) -> Iterator[Callable[[], None]]:
        """Reads of a segment's indexes that a thread pool may begin, see :meth:`LoadingCache.offer`.

        There is none for an index that is cached, being read, or known to be empty.
        """
        wanted = [kind for kind in kinds if not (kind is ObjectKind.TRANSACTION_INDEX and metadata.txn_index_empty)]
        if self._in_one_object is not None:
            missing = not all(self.keeps(metadata, kind) for kind in wanted)
            yield from self._in_one_object.offer_indexes(self._store, metadata, missing=missing)
            return
        for kind in wanted:
            yield from self._offered(*self._object_load(metadata, kind, _PARSERS[kind]))

    def keeps(self, metadata: RemoteLogSegmentMetadata, kind: ObjectKind) -> bool:
        """Whether that index is cached. Raises RemoteLogError if the segment's objects have no names."""
        return self._entries.peek(self._object_key(metadata, kind)) is not None

    def offer_batch_header(self, metadata: RemoteLogSegmentMetadata, position: int) -> Iterator[Callable[[], None]]:
        """As :meth:`offer_objects`, for :meth:`batch_header`."""
        yield from self._offered(*self._header_load(metadata, position))

    def offer_etag(self, metadata: RemoteLogSegmentMetadata) -> Iterator[Callable[[], None]]:
        """As :meth:`offer_objects`, for :meth:`etag`."""
        load = self._etag_load(metadata)
        if load is not None:
            yield from self._offered(*load)

    def _header_load(self, metadata: RemoteLogSegmentMetadata, position: int) -> tuple[object, _Load[BatchHeader]]:
        log = self.log(metadata)
        return (log.key, position), lambda: (log.header(position), 4 * _ITEM_SIZE)

    def _etag_load(self, metadata: RemoteLogSegmentMetadata) -> tuple[object, _Load[tuple[str | None]]] | None:
        versions = self._versions
        if versions is None:
            return None
        key = self._layout.object_key(metadata, ObjectKind.LOG)
        # In a tuple, because a cached value cannot be None.
        return (key, "etag"), lambda: ((versions.etag(key),), 2 * _ITEM_SIZE)

    def _object_key(self, metadata: RemoteLogSegmentMetadata, kind: ObjectKind) -> object:
        # Several kinds may lie in one object.
        return self._layout.object_key(metadata, kind), kind

    def _object_load(self, metadata: RemoteLogSegmentMetadata, kind: ObjectKind, parse: _Parse[_T]) -> tuple[object, _Load[_T]]:
        return self._object_key(metadata, kind), lambda: parse(self._layout.read_index(self._store, metadata, kind), metadata)

    def _object(self, metadata: RemoteLogSegmentMetadata, kind: ObjectKind, parse: _Parse[_T]) -> _T:
        return self._kept(*self._object_load(metadata, kind, parse))

    def _kept(self, key: object, load: _Load[_T]) -> _T:
        return self._entries.get(key, load)  # type: ignore[return-value] # a key names its kind, so the value has its type

    def _offered(self, key: object, load: _Load[object]) -> Iterator[Callable[[], None]]:
        begin = self._entries.offer(key, load)
        if begin is not None:
            yield begin


def _offset_index(data: bytes, metadata: RemoteLogSegmentMetadata) -> tuple[OffsetIndex, int]:
    index = OffsetIndex(data, metadata.start_offset)
    index.check_against(metadata.end_offset, metadata.segment_size_in_bytes)
    return index, index.nbytes


def _time_index(data: bytes, metadata: RemoteLogSegmentMetadata) -> tuple[TimeIndex, int]:
    index = TimeIndex(data, metadata.start_offset)
    return index, index.nbytes


def _transaction_index(data: bytes, metadata: RemoteLogSegmentMetadata) -> tuple[TransactionIndex, int]:
    index = TransactionIndex.parse(data, metadata.start_offset, metadata.end_offset)
    return index, len(index) * 4 * _ITEM_SIZE


def _leader_epochs(data: bytes, _metadata: RemoteLogSegmentMetadata) -> tuple[LeaderEpochLineage, int]:
    return _sized_lineage(parse_leader_epoch_checkpoint(data))


def _sized_lineage(lineage: LeaderEpochLineage) -> tuple[LeaderEpochLineage, int]:
    return lineage, len(lineage.entries) * 2 * _ITEM_SIZE


def _open_transactions(data: bytes, _metadata: RemoteLogSegmentMetadata) -> tuple[tuple[AbortedTransaction, ...], int]:
    found = open_transactions(data)
    return found, len(found) * 2 * _ITEM_SIZE


_PARSERS: Mapping[ObjectKind, _Parse[object]] = {
    ObjectKind.OFFSET_INDEX: _offset_index,
    ObjectKind.TIME_INDEX: _time_index,
    ObjectKind.TRANSACTION_INDEX: _transaction_index,
    ObjectKind.LEADER_EPOCH: _leader_epochs,
    ObjectKind.PRODUCER_SNAPSHOT: _open_transactions,
}
