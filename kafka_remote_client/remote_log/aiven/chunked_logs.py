"""A store that returns logs as Kafka wrote them, over one that has them in chunks.

It is for reads of small parts of a log: batch headers at the ends of a window, a search for a timestamp. It caches the chunks
that were restored last, because the next read is mostly in the same chunk. Whole windows are read by
:class:`~kafka_remote_client.fetch.chunked_fetcher.ChunkedFetcher`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_remote_client.errors import CorruptChunkError
from kafka_remote_client.pages import new_pages
from kafka_remote_client.plugin import ObjectInfo, RemoteObjectStore
from kafka_remote_client.remote_log.aiven.manifest_cache import ManifestCache, StoredLog
from kafka_remote_client.remote_log.byte_bound_cache import ByteBoundCache
from kafka_remote_client.remote_log.loading_cache import SingleFlight

__all__ = ["ChunkedLogs"]

_MAX_BYTES = 10 * 1024 * 1024


class ChunkedLogs:
    """A RemoteObjectStore of logs. Keys are those of ``.log`` objects, positions those of the original segments. Thread safe.

    Reads raise RemoteLogError kinds and the errors of the store.
    """

    def __init__(self, store: RemoteObjectStore, manifests: ManifestCache, *, max_bytes: int = _MAX_BYTES) -> None:
        self._store = store
        self._manifests = manifests
        self._restored: ByteBoundCache[memoryview] = ByteBoundCache(max_bytes)
        self._reads: SingleFlight[dict[int, memoryview]] = SingleFlight()

    def get(self, key: str) -> bytes:
        return self.get_range(key, 0, self.size(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        manifest = self._manifests.manifest(self._store, key)
        chunks = manifest.chunks
        end = min(end, chunks.original_end)
        if start >= end:
            return b""
        if manifest.encoding.is_plain:
            return self._store.get_range(key, start, end)
        numbers = chunks.numbers(start, end)
        restored = self._chunks(key, self._manifests.stored_log(self._store, key), numbers)
        begins = [chunks.chunk(number).original_start for number in numbers]
        return b"".join(data[max(0, start - begin) : end - begin] for begin, data in zip(begins, restored, strict=True))

    def size(self, key: str) -> int:
        return self._manifests.manifest(self._store, key).chunks.original_end

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """The listing of the store: keys and stored sizes."""
        return self._store.list(prefix)

    def close(self) -> None:
        """Does nothing: the owner closes the store."""

    def _chunks(self, key: str, log: StoredLog, numbers: range) -> Sequence[memoryview]:
        kept = ((number, self._restored.get((key, number))) for number in numbers)
        known = {number: chunk for number, chunk in kept if chunk is not None}
        missing = [number for number in numbers if number not in known]
        if missing:
            # One read from the first to the last missing chunk, although it may include a few known chunks.
            needed = range(missing[0], missing[-1] + 1)
            known |= self._reads.do((key, needed), lambda: self._read(key, log, needed))
        return [known[number] for number in numbers]

    def _read(self, key: str, log: StoredLog, numbers: range) -> dict[int, memoryview]:
        # Another read may have ended between the look-up in the cache and the beginning of this one.
        kept = {number: known for number in numbers if (known := self._restored.peek((key, number))) is not None}
        if len(kept) == len(numbers):
            return kept
        chunks = log.manifest.chunks
        start, end = chunks.chunk(numbers.start).object_start, chunks.chunk(numbers.stop - 1).object_end
        stored = memoryview(self._store.get_range(key, start, end))
        if len(stored) != end - start:
            raise CorruptChunkError(f"{key}: the log has {start + len(stored)} bytes, its chunk index {end}")
        transform = log.transform()
        fresh = {}
        for number in numbers:
            chunk = chunks.chunk(number)
            fresh[number] = new_pages(chunk.original_size)
            transform.restore(stored[chunk.object_start - start : chunk.object_end - start], fresh[number])
            self._restored.put((key, number), fresh[number], chunk.original_size)
        return fresh
