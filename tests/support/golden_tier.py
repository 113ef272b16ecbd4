"""The golden tier as a location source and a fetcher, both scripted by a test.

Locations come from the product's own metadata records, cache and resolver; bytes from the golden files. A test scripts faults
by range start or by call.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
from kafka_remote_fetchers.directory_store import DirectoryStore
from kafka_remote_fetchers.local import LocalFetcher

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import DirectFetchError, RemoteStorageUnavailableError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import (
    GrantedRange,
    NotRemote,
    PartitionOffsets,
    RemoteLogSegmentMetadata,
    SegmentLocation,
)
from kafka_remote_client.plugin import LocationMetadata, ReadableStream, WritableBuffer
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from tests.support.golden import golden_local, read_jsonl
from tests.support.one_by_one import OneByOne

STORE_ROOT = "remote"


@attrs.frozen
class Asked:
    """One location request."""

    offset: int
    leader_epoch: int
    max_bytes: int


class GoldenTierSource(OneByOne):
    """A LocationSource over the golden metadata records. ``answers`` are given first, in order, before real ones.

    An answer may be a location, a NotRemote, an error to raise, or a function of the real location.
    """

    def __init__(self, offsets: PartitionOffsets | None = None, range_bytes: int = 20_000) -> None:
        root = golden_local()
        store = RemoteLogMetadataStore()
        serde = RemoteLogMetadataSerde()
        for line in read_jsonl(root / "remote_log_metadata.jsonl.gz"):
            store.apply(serde.deserialize(bytes.fromhex(line["value"])))
        self._store = store
        self._resolver = RemoteSegmentResolver(DirectoryStore(str(root / STORE_ROOT)), LocalTieredStorageLayout())
        self._range_bytes = range_bytes
        self.bounds = offsets or PartitionOffsets(log_start=0)
        self.answers: deque[SegmentLocation | NotRemote | DirectFetchError | Callable[[SegmentLocation], SegmentLocation]] = (
            deque()
        )
        self.asked: list[Asked] = []
        self.closed = 0

    def answer(self, question: LocationQuestion, deadline: Deadline) -> SegmentLocation | NotRemote:
        assert not deadline.expired()
        self.asked.append(Asked(question.offset, question.leader_epoch, question.max_bytes))
        scripted = self.answers.popleft() if self.answers else None
        if isinstance(scripted, DirectFetchError):
            raise scripted
        if isinstance(scripted, SegmentLocation | NotRemote):
            return scripted
        found = self._resolve(question)
        return scripted(found) if scripted is not None and isinstance(found, SegmentLocation) else found

    def _resolve(self, question: LocationQuestion) -> SegmentLocation | NotRemote:
        tip = next(tip for tip in self._store.partitions(question.topic) if tip.partition == question.partition)
        cache = self._store.cache(tip)
        assert cache is not None
        found = self._resolver.resolve(cache, attrs.evolve(question, range_bytes=self._range_bytes))
        if isinstance(found, NotRemote):
            return found
        where = LocationMetadata(object_key=found.object_key).encode()
        return SegmentLocation(
            metadata=found.metadata,
            format="ApacheKafkaV1",
            fetch_offset=question.offset,
            ranges=tuple(GrantedRange(wanted, where) for wanted in found.ranges),
            next_offset=found.next_offset,
            aborted_transactions=found.aborted,
        )

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        assert not deadline.expired()
        return self.bounds

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        return {key: self.offsets(*key, deadline) for key in partitions}

    def close(self) -> None:
        self.closed += 1


class ScriptedFetcher:
    """A RemoteStorageFetcher over the golden files with scripted faults: a queue per start position.

    A fault is an error to raise at opening, or a function that replaces the true stream.
    """

    def __init__(
        self,
        faults: Mapping[int, list[DirectFetchError | Exception | Callable[[ReadableStream], ReadableStream]]] | None = None,
    ) -> None:
        self._inner = LocalFetcher()
        self._inner.configure({"remote.storage.fetcher.local.root": str(golden_local() / STORE_ROOT)})
        self._faults = {start: deque(queue) for start, queue in (faults or {}).items()}
        self._lock = threading.Lock()
        self.fetched: list[tuple[int, int]] = []
        self.streams: list[_CountedStream] = []
        self.closed = 0

    def configure(self, configs: Mapping[str, object]) -> None:
        """Is configured already."""

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        with self._lock:
            self.fetched.append((start_position, end_position))
            queue = self._faults.get(start_position)
            fault = queue.popleft() if queue else None
        if isinstance(fault, Exception):
            raise fault
        stream = self._inner.fetch_log_segment(remote_log_segment_metadata, start_position, end_position)
        counted = _CountedStream(stream if fault is None else fault(stream), stream)
        with self._lock:
            self.streams.append(counted)
        return counted

    def close(self) -> None:
        self.closed += 1

    @property
    def faults_left(self) -> int:
        return sum(map(len, self._faults.values()))


class _CountedStream:
    def __init__(self, stream: ReadableStream, below: ReadableStream) -> None:
        self._stream = stream
        self._below = below
        self.closed = 0

    def readinto(self, buffer: WritableBuffer, /) -> int:
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self.closed += 1
        self._stream.close()
        self._below.close()


class CutStream:
    """Gives ``limit`` bytes and then raises ``error`` (or ends early, when there is none)."""

    def __init__(self, stream: ReadableStream, limit: int, error: Exception | None = None) -> None:
        self._stream = stream
        self._left = limit
        self._error = error

    def readinto(self, buffer: WritableBuffer, /) -> int:
        if self._left == 0:
            if self._error is not None:
                raise self._error
            return 0
        count = self._stream.readinto(memoryview(buffer)[: self._left])
        self._left -= count
        return count

    def close(self) -> None:
        self._stream.close()


class FlippedStream:
    """Flips the lowest bit of the byte at ``position`` of the range."""

    def __init__(self, stream: ReadableStream, position: int) -> None:
        self._stream = stream
        self._position = position
        self._at = 0

    def readinto(self, buffer: WritableBuffer, /) -> int:
        count = self._stream.readinto(buffer)
        if self._at <= self._position < self._at + count:
            buffer[self._position - self._at] ^= 1
        self._at += count
        return count

    def close(self) -> None:
        self._stream.close()


class HangingStream:
    """Never returns from ``readinto`` until it is closed or released."""

    def __init__(self, released: threading.Event) -> None:
        self._released = released

    def readinto(self, buffer: WritableBuffer, /) -> int:
        self._released.wait(30)
        raise RemoteStorageUnavailableError("released")

    def close(self) -> None:
        """Holds nothing."""


def golden_path(*parts: str) -> Path:
    """A path below the golden root."""
    return golden_local().joinpath(*parts)
