"""Keeps ranges that a fetcher read on this host's disk, for all consumers of one user.

It wraps a plain fetcher and is below ChunkedFetcher, so it sees positions of the object and bytes as the store has
them: encrypted bytes stay encrypted on disk, and no URL, header or data key is ever written. It does not see the
engine's checks of the bytes; the engine reports damage with :meth:`CachingFetcher.discard`.

::

    asked for a range │ on disk              │ another one is reading it     │ neither
    what happens      │ from disk, verified  │ wait for it, at most half the │ from the store, and on disk as it passes
                      │ block by block       │ read time-out; then the store │

The client still requests a location for each range first, so a client without READ gets nothing from the cache.
A disk error leaves a range out of the cache and never fails a fetch. So does another process that lists the cache to make room.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import RemoteStorageUnavailableError
from kafka_remote_client.fetch.cache_entry import BLOCK_BYTES, DamagedEntryError, identity_of
from kafka_remote_client.fetch.disk_cache import Claim, DiskCache, OpenEntry
from kafka_remote_client.fetch.piecewise_stream import PiecewiseStream
from kafka_remote_client.log_limit import LogLimit, more_warnings
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import ByteRange, RemoteLogSegmentMetadata
from kafka_remote_client.plugin import LocationMetadata, ReadableStream, RemoteStorageFetcher, WritableBuffer

__all__ = ["CachingFetcher", "cached"]

_log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 0.005
_TO_THE_END = -1


def cached(
    fetcher: RemoteStorageFetcher, directory: Path, config: RemoteFetchConfig, clock: Clock, metrics: FetchMetrics
) -> CachingFetcher:
    """Returns the fetcher with the cache of the settings in ``directory``.

    Raises ConfigurationError for a directory that may not be used.
    """
    cache = DiskCache(directory, config.cache_max_bytes)
    metrics.watch_cache("chunk", cache.statistics)
    return CachingFetcher(fetcher, cache, clock=clock, patience_seconds=config.read_timeout_ms / 2000)


class CachingFetcher:
    """A RemoteStorageFetcher over another one. Thread safe where that one is."""

    def __init__(self, inner: RemoteStorageFetcher, cache: DiskCache, *, clock: Clock, patience_seconds: float) -> None:
        self._inner = inner
        self._cache = cache
        self._clock = clock
        self._patience = patience_seconds
        self._closed = threading.Event()
        self._writing: set[tuple[bytes, ByteRange]] = set()
        self._log_limit: LogLimit[str] = LogLimit(clock)

    def configure(self, configs: Mapping[str, object]) -> None:
        self._inner.configure(configs)

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        def fetch() -> ReadableStream:
            return self._inner.fetch_log_segment(remote_log_segment_metadata, start_position, end_position)

        if end_position == _TO_THE_END or not self._cache.fits(end_position - start_position):
            return fetch()
        identity = identity_of(
            remote_log_segment_metadata, LocationMetadata.decode(remote_log_segment_metadata.custom_metadata)
        )
        wanted = ByteRange(start_position, end_position)
        try:
            found = self._find_or_claim(identity, wanted)
        except BlockingIOError:
            found = None  # only this range is left out of the cache
        except OSError as error:
            self._warn("used", error)
            found = None
        self._cache.count(hit=isinstance(found, list))
        if isinstance(found, list):
            return _CachedStream(self._cache, found, wanted, fetch)
        if found is None:
            return fetch()
        written = identity, wanted
        self._writing.add(written)
        try:
            return _KeptStream(fetch(), found, wanted.size, self._warn, lambda: self._writing.discard(written))
        except BaseException:
            self._writing.discard(written)
            with suppress(OSError):
                found.abandon()
            raise

    def discard(self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int) -> None:
        """Drops wrong bytes, so that the next read is from the store."""
        location = LocationMetadata.decode(remote_log_segment_metadata.custom_metadata)
        identity = identity_of(remote_log_segment_metadata, location)
        with suppress(OSError):
            self._cache.discard(identity, ByteRange(start_position, end_position))

    def close(self) -> None:
        self._closed.set()
        self._inner.close()

    def _warn(self, action: str, error: OSError) -> None:
        """Writes a line a minute: a full disk fails each range."""
        left_out = self._log_limit.admit(action)
        if left_out is not None:
            _log.warning("the chunk cache cannot be %s: %s%s", action, error.strerror, more_warnings(left_out))

    def _find_or_claim(self, identity: bytes, wanted: ByteRange) -> list[OpenEntry] | Claim | None:
        """Returns the entries, or the right to write one; ``None`` if another writer takes too long.

        Also ``None`` while this fetcher writes the entry, because then the same range is requested again for being late.
        """
        deadline = Deadline(self._clock, self._patience)
        while True:
            found = self._cache.open(identity, wanted) or self._cache.claim(identity, wanted)
            if found is not None or deadline.expired() or (identity, wanted) in self._writing:
                return found
            if self._clock.wait(self._closed, _LOOK_AGAIN_SECONDS):
                raise RemoteStorageUnavailableError("the fetcher is closed")


class _KeptStream:
    """A stream from the store that also writes its bytes to the entry.

    ``warn`` is called where the disk refuses them, ``ended`` after the last write.
    """

    def __init__(
        self, stream: ReadableStream, claim: Claim, size: int, warn: Callable[[str, OSError], None], ended: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._warn = warn
        self._ended = ended
        self._claim: Claim | None = claim
        self._left = size

    def readinto(self, buffer: WritableBuffer, /) -> int:
        count = self._stream.readinto(buffer)
        if self._claim is None or not 0 < count <= self._left:
            return count
        self._left -= count
        try:
            with memoryview(buffer) as whole, whole.cast("B") as data, data[:count] as fresh:
                self._claim.write(fresh)
            if not self._left:
                claim, self._claim = self._claim, None
                claim.finish()
        except OSError as error:
            self._warn("written to", error)
            self._abandon()
        return count

    def close(self) -> None:
        self._abandon()
        self._ended()
        self._stream.close()

    def _abandon(self) -> None:
        if self._claim is not None:
            with suppress(OSError):
                self._claim.abandon()
            self._claim = None


class _CachedStream(PiecewiseStream):
    """What is on disk, block by block. From the first damaged block on the store takes over."""

    def __init__(
        self, cache: DiskCache, entries: list[OpenEntry], wanted: ByteRange, fetch: Callable[[], ReadableStream]
    ) -> None:
        super().__init__(wanted.start, wanted.end)
        self._cache = cache
        self._entries = entries
        self._fetch = fetch
        self._start = wanted.start
        self._instead: ReadableStream | None = None

    def close(self) -> None:
        for entry in self._entries:
            entry.close()
        self._entries = []
        self._at = self._end
        if self._instead is not None:
            self._instead.close()

    def _next_piece(self, target: memoryview) -> int:
        if self._instead is None:
            try:
                return self._next_block(target)
            except (DamagedEntryError, OSError):
                self._instead = self._fallen_back()
        return self._instead.readinto(target)

    def _next_block(self, target: memoryview) -> int:
        entry = next(one for one in self._entries if one.wanted.start <= self._at < one.wanted.end)
        whole = entry.header.range
        number = (self._at - whole.start) // BLOCK_BYTES
        begin = whole.start + number * BLOCK_BYTES
        end = min(begin + BLOCK_BYTES, whole.end)
        if begin == self._at and end <= entry.wanted.end and end - begin <= len(target):
            with target[: end - begin] as place:
                entry.read_block(number, place)
            return end - begin
        block = memoryview(bytearray(end - begin))
        entry.read_block(number, block)
        self._rest = block[self._at - begin : min(end, entry.wanted.end) - begin]
        return 0

    def _fallen_back(self) -> ReadableStream:
        """Deletes what is damaged and skips, in a fetch of the whole range, what was delivered: its URL opens nothing else."""
        for entry in self._entries:
            if entry.wanted.start <= self._at < entry.wanted.end:
                self._cache.delete(entry.path)
        self._instead = stream = self._fetch()
        skipped = memoryview(bytearray(min(BLOCK_BYTES, self._at - self._start)))
        left = self._at - self._start
        while left:
            count = stream.readinto(skipped[:left])
            if not 0 < count <= left:
                raise RemoteStorageUnavailableError("the store's response ended before the range")
            left -= count
        return stream
