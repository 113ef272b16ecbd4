"""The fetcher that restores chunks: the shipped conformance suite, its reads of the store, and bad input."""

from __future__ import annotations

import os
import random
import sys
import threading
import tracemalloc
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from kafka_remote_fetchers.memory import MemoryFetcher

from kafka_remote_client.errors import (
    InvalidStorageResponseError,
    RangeNotSatisfiableError,
    RemoteStorageError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.fetch import chunked_fetcher
from kafka_remote_client.fetch.chunked_fetcher import CHUNKED_FORMATS, ChunkedFetcher, ChunkedFormat
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import LocationMetadata, ReadableStream
from kafka_remote_client.remote_log.aiven.chunk_index import ChunkEncoding, ChunkIndex
from kafka_remote_client.remote_log.aiven.chunk_table import ChunkTable
from kafka_remote_client.remote_log.aiven.transforms import ChunkTransform
from kafka_remote_client.testing import RemoteStorageFetcherTests
from kafka_remote_client.testing.fetcher_tests import read_all, segment_metadata
from tests.support.aiven import AAD, DATA_KEY, stored_chunks
from tests.support.waiting import wait_until

DATA = b"".join(b"%05d" % n for n in range(100))
ZSTD, AES, BOTH = ChunkEncoding(compressed=True), ChunkEncoding(encrypted=True), ChunkEncoding(compressed=True, encrypted=True)
ENCODINGS = [ZSTD, AES, BOTH]


def in_chunks(data: bytes, chunk_size: int, encoding: ChunkEncoding) -> tuple[bytes, ChunkTable]:
    chunks = stored_chunks(data, chunk_size, compressed=encoding.compressed, encrypted=encoding.encrypted)
    sizes = [len(chunk) for chunk in chunks]
    index = ChunkIndex.of_sizes(encoding, sizes, chunk_size=chunk_size, original_start=0, original_end=len(data))
    return b"".join(chunks), ChunkTable(index, encoding, AAD if encoding.encrypted else None)


def location(key: str, table: ChunkTable, data_key: bytes | None = DATA_KEY) -> bytes:
    return LocationMetadata(
        object_key=key, chunk_table=table.encode(), data_key=data_key if table.encoding.encrypted else None
    ).encode()


def test_the_format_says_which_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ChunkedFormat().missing() is None
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert ChunkedFormat().missing() == "pip install 'kafka-remote-client[aiven]'"


class RecordingFetcher:
    """A memory fetcher that records its requests and gives at most ``piece`` bytes at a time."""

    def __init__(self, objects: dict[str, bytes], piece: int = 2**31) -> None:
        self.inner = MemoryFetcher(objects)
        self.piece = piece
        self.asked: list[tuple[int, int]] = []
        self.configs: Mapping[str, object] = {}
        self.open = 0
        self.closed = False

    def configure(self, configs: Mapping[str, object]) -> None:
        self.configs = configs

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> ReadableStream:
        self.asked.append((start, end))
        self.open += 1
        return _Pieces(self, self.inner.fetch_log_segment(metadata, start, end))

    def close(self) -> None:
        self.closed = True


class _Pieces:
    def __init__(self, owner: RecordingFetcher, stream: ReadableStream) -> None:
        self.owner, self.stream = owner, stream

    def readinto(self, buffer) -> int:
        with memoryview(buffer) as view, view[: self.owner.piece] as front:
            return self.stream.readinto(front)

    def close(self) -> None:
        self.owner.open -= 1
        self.stream.close()


class Chunked(RemoteStorageFetcherTests):
    """The conformance suite on objects in small chunks."""

    encoding = BOTH

    @pytest.fixture
    def fetcher(self) -> ChunkedFetcher:
        self.objects: dict[str, bytes] = {}
        return ChunkedFetcher(MemoryFetcher(self.objects))

    def put(self, key: str, data: bytes) -> bytes:
        self.objects[key], table = in_chunks(data, 100 if len(data) < 10_000 else 100_000, self.encoding)
        return location(key, table)

    def absent(self, key: str) -> bytes:
        return location(key, in_chunks(bytes(1024), 100, self.encoding)[1])


class TestCompressedAndEncrypted(Chunked):
    pass


class TestEncrypted(Chunked):
    encoding = AES


class TestCompressed(Chunked):
    encoding = ZSTD


class TestNoChunks(RemoteStorageFetcherTests):
    """Requests without a chunk table go to the inner fetcher."""

    @pytest.fixture
    def fetcher(self) -> ChunkedFetcher:
        self.objects: dict[str, bytes] = {}
        return ChunkedFetcher(MemoryFetcher(self.objects))

    def put(self, key: str, data: bytes) -> bytes:
        self.objects[key] = data
        return LocationMetadata(object_key=key).encode()

    def absent(self, key: str) -> bytes:
        return LocationMetadata(object_key=key).encode()


def read(inner: RecordingFetcher, custom: bytes, start: int, end: int, piece: int = 10_000) -> bytes:
    return read_all(ChunkedFetcher(inner).fetch_log_segment(segment_metadata(custom, len(DATA)), start, end), piece)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
@pytest.mark.parametrize(("start", "end"), [(0, 500), (0, 1), (99, 101), (150, 420), (0, 100), (100, 200), (499, 500), (7, -1)])
def test_adjacent_chunks_are_one_read_of_the_store(encoding, start, end):
    stored, table = in_chunks(DATA, 100, encoding)
    inner = RecordingFetcher({"a.log": stored})
    stop = len(DATA) if end == -1 else end
    for piece in (1, 30, 100, 150, 10_000):
        assert read(inner, location("a.log", table), start, end, piece) == DATA[start:stop]
    wanted = table.chunks.select(start, stop).object_range
    assert set(inner.asked) == {(wanted.start, wanted.end)}
    assert inner.open == 0


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
def test_a_table_of_the_needed_chunks_is_enough(encoding):
    stored, table = in_chunks(DATA, 100, encoding)
    part = ChunkTable(table.chunks.select(150, 420), encoding, table.aad)
    inner = RecordingFetcher({"a.log": stored}, piece=7)
    assert read(inner, location("a.log", part), 150, 420) == DATA[150:420]
    for start, end in [(99, 120), (420, 501), (0, 1)]:
        with pytest.raises(RangeNotSatisfiableError):
            read(inner, location("a.log", part), start, end)


@pytest.mark.parametrize("table", [b"", b"\x04", b"\xff" * 5, bytes.fromhex("01 64 00 96 01 00 00 02 14")])
def test_an_inconsistent_chunk_table_is_an_invalid_answer(table):
    custom = LocationMetadata(object_key="a.log", chunk_table=table).encode()
    with pytest.raises(InvalidStorageResponseError, match="chunk table"):
        read(RecordingFetcher({"a.log": DATA}), custom, 0, 10)


@pytest.mark.parametrize("data_key", [None, b"", bytes(31)])
def test_an_encrypted_location_needs_its_key(data_key):
    stored, table = in_chunks(DATA, 100, AES)
    with pytest.raises(InvalidStorageResponseError):
        read(RecordingFetcher({"a.log": stored}), location("a.log", table, data_key), 0, 10)


@pytest.mark.fault("S20")
def test_a_wrong_key_is_an_invalid_answer_that_shows_no_key():
    stored, table = in_chunks(DATA, 100, BOTH)
    wrong = b"wrong key of exactly 32 bytes!!!"
    with pytest.raises(InvalidStorageResponseError, match="fails authentication") as caught:
        read(RecordingFetcher({"a.log": stored}), location("a.log", table, wrong), 0, 10)
    assert "wrong key" not in repr(caught.value)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
@pytest.mark.fault("S20")
def test_sound_chunks_before_a_damaged_one_are_delivered(encoding):
    stored, table = in_chunks(DATA, 100, encoding)
    second = table.chunks.chunk(1)
    damaged = bytearray(stored)
    damaged[second.object_start : second.object_end] = bytes(second.object_size)
    inner = RecordingFetcher({"a.log": bytes(damaged)})
    stream = ChunkedFetcher(inner).fetch_log_segment(segment_metadata(location("a.log", table), 500), 0, 500)
    buffer = bytearray(500)
    assert stream.readinto(buffer) == 100
    assert buffer[:100] == DATA[:100]
    with pytest.raises(InvalidStorageResponseError, match="cannot restore the chunk in bytes"):
        stream.readinto(memoryview(buffer)[100:])
    stream.close()


@pytest.mark.fault("S19")
def test_a_decompression_bomb_is_an_invalid_answer():
    stored, _ = in_chunks(bytes(10_000_000), 10_000_000, ZSTD)
    index = ChunkIndex.of_sizes(ZSTD, [len(stored)], chunk_size=500, original_start=0, original_end=500)
    with pytest.raises(InvalidStorageResponseError):
        read(RecordingFetcher({"a.log": stored}), location("a.log", ChunkTable(index, ZSTD)), 0, 500)


class _EndsEarly(RecordingFetcher):
    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> ReadableStream:
        return super().fetch_log_segment(metadata, start, end - 1)


class _GivesLess(RecordingFetcher):
    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> ReadableStream:
        return super().fetch_log_segment(metadata, 0, len(DATA))


def test_a_short_answer_of_the_store_is_unavailable():
    stored, table = in_chunks(DATA, 100, BOTH)
    with pytest.raises(RemoteStorageUnavailableError, match="bytes of a chunk"):
        read(_EndsEarly({"a.log": stored}), location("a.log", table), 0, 500)


def test_a_chunk_larger_than_the_first_buffer_is_read_whole():
    data = random.Random(3).randbytes(20_000_000)
    stored, table = in_chunks(data, 19_000_000, BOTH)
    fetcher = ChunkedFetcher(RecordingFetcher({"a.log": stored}, piece=3_000_000))
    with closing(fetcher.fetch_log_segment(segment_metadata(location("a.log", table), len(data)), 0, -1)) as stream:
        assert read_all(stream, 1 << 20) == data


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
@pytest.mark.fault("S20")
def test_a_kept_error_does_not_block_the_memory_of_the_next_chunk(encoding):
    """The error's traceback refers to the memory of the damaged chunk. The next stream gets that memory and needs more."""
    small, small_table = in_chunks(DATA, 100, encoding)
    large, large_table = in_chunks(random.Random(4).randbytes(5_000), 5_000, encoding)
    fetcher = ChunkedFetcher(MemoryFetcher({"small.log": bytes(len(small)), "large.log": large}))
    damaged = fetcher.fetch_log_segment(segment_metadata(location("small.log", small_table), 500), 0, -1)
    kept = None
    with closing(damaged):
        try:
            read_all(damaged)
        except InvalidStorageResponseError as error:
            kept = error
    with closing(fetcher.fetch_log_segment(segment_metadata(location("large.log", large_table), 5_000), 0, -1)) as stream:
        assert len(read_all(stream)) == 5_000
    assert kept is not None


@pytest.mark.fault("S19")
def test_an_excessive_chunk_table_allocates_no_memory(monkeypatch):
    sizes = []
    monkeypatch.setattr(chunked_fetcher, "new_pages", lambda size: sizes.append(size) or memoryview(bytearray(size)))
    index = ChunkIndex.of_sizes(ZSTD, [64 << 20], chunk_size=64 << 20, original_start=0, original_end=64 << 20)
    custom = LocationMetadata(object_key="a.log", chunk_table=ChunkTable(index, ZSTD).encode()).encode()
    stream = ChunkedFetcher(_GivesLess({"a.log": DATA})).fetch_log_segment(segment_metadata(custom, 64 << 20), 0, -1)
    tracemalloc.start()
    with pytest.raises(RemoteStorageUnavailableError, match="bytes of a chunk"):
        stream.readinto(bytearray(100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    stream.close()
    assert peak < 9 << 20
    assert sum(sizes) == 8 << 20


def test_a_missing_package_is_not_retried(monkeypatch):
    stored, table = in_chunks(DATA, 100, AES)
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(RemoteStorageError, match="pip install") as caught:
        read(RecordingFetcher({"a.log": stored}), location("a.log", table), 0, 10)
    assert type(caught.value) is RemoteStorageError


def test_settings_and_close_reach_the_inner_fetcher():
    inner = RecordingFetcher({})
    fetcher = ChunkedFetcher(inner)
    fetcher.configure({"a": "b"})
    fetcher.close()
    assert (inner.configs, inner.closed) == ({"a": "b"}, True)
    assert CHUNKED_FORMATS == ("ApacheKafkaV1", "AivenTieredStorageV1")


def test_an_interrupted_close_reaches_the_inner_fetcher(monkeypatch: pytest.MonkeyPatch):
    inner = RecordingFetcher({})
    fetcher = ChunkedFetcher(inner)

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fetcher._buffers.restorers, "shutdown", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetcher.close()
    assert inner.closed


def test_a_closed_stream_gives_no_bytes():
    stored, table = in_chunks(DATA, 100, ZSTD)
    stream = ChunkedFetcher(RecordingFetcher({"a.log": stored})).fetch_log_segment(
        segment_metadata(location("a.log", table), 500), 0, 500
    )
    assert stream.readinto(bytearray(10)) == 10
    stream.close()
    assert stream.readinto(bytearray(10)) == 0


class KeepingFetcher(RecordingFetcher):
    """A fetcher that keeps what it read and records which ranges it gets to discard."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        super().__init__(objects)
        self.discarded: list[tuple[int, int]] = []

    def discard(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> None:
        self.discarded.append((start, end))


def test_discard_is_passed_on_with_positions_in_the_object() -> None:
    stored, table = in_chunks(DATA, 100, ZSTD)
    inner = KeepingFetcher({"log": stored})
    ChunkedFetcher(inner).discard(segment_metadata(location("log", table)), 120, 130)
    chunk = table.chunks.chunk(1)
    assert inner.discarded == [(chunk.object_start, chunk.object_end)]
    ChunkedFetcher(inner).discard(segment_metadata(LocationMetadata(object_key="log").encode()), 120, 130)
    assert inner.discarded[1:] == [(120, 130)]
    ChunkedFetcher(RecordingFetcher({})).discard(segment_metadata(location("log", table)), 120, 130)


def test_a_stream_closed_twice_gives_its_buffer_back_once():
    stored, table = in_chunks(DATA, 100, ZSTD)
    fetcher = ChunkedFetcher(RecordingFetcher({"a.log": stored}))
    stream = fetcher.fetch_log_segment(segment_metadata(location("a.log", table), 500), 0, 500)
    assert stream.readinto(bytearray(10)) == 10
    stream.close()
    stream.close()
    assert len(fetcher._buffers._free) == 1


def test_few_and_small_buffers_are_kept() -> None:
    buffers, largest = ChunkedFetcher(RecordingFetcher({}))._buffers, 8 << 20
    assert len(buffers.take(largest + 1)) == largest
    buffers.give_back(memoryview(bytearray(largest + 1)))
    assert buffers._free == []
    for _ in range(5):
        buffers.give_back(memoryview(bytearray(largest)))
    assert len(buffers._free) == 4


def test_chunks_are_restored_on_as_many_threads_as_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    stored, table = in_chunks(DATA, 50, ZSTD)
    restorers: set[threading.Thread] = set()
    restore = ChunkTransform.restore

    def recorded(transform: ChunkTransform, *what: memoryview) -> None:
        restorers.add(threading.current_thread())
        restore(transform, *what)

    monkeypatch.setattr(ChunkTransform, "restore", recorded)
    fetcher = ChunkedFetcher(RecordingFetcher({"a": stored}))

    def read_once(_: int) -> bytes:
        with closing(fetcher.fetch_log_segment(segment_metadata(location("a", table), len(DATA)), 0, len(DATA))) as stream:
            return read_all(stream, 1_000)

    with ThreadPoolExecutor(8) as readers:
        assert set(readers.map(read_once, range(40))) == {DATA}
    assert len(restorers) <= (os.cpu_count() or 1)
    fetcher.close()
    assert not any(thread.is_alive() for thread in restorers)


def test_partly_read_chunks_take_the_memory_of_as_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    stored, table = in_chunks(DATA, 50, ZSTD)
    cores, readers = 2, 8
    waiting = threading.Semaphore(0)
    allocated: list[int] = []

    def counted(size: int) -> memoryview:
        if size == 50:  # a restored chunk
            allocated.append(size)
        return memoryview(bytearray(size))

    def blocked(_: ChunkTransform, __: memoryview, target: memoryview) -> None:
        waiting.acquire()
        target[:] = bytes(len(target))

    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(chunked_fetcher, "new_pages", counted)
    monkeypatch.setattr(ChunkTransform, "restore", blocked)
    requested: list[bool] = []
    fetcher = ChunkedFetcher(RecordingFetcher({"a": stored}))

    def read_part(_: int) -> int:
        with closing(fetcher.fetch_log_segment(segment_metadata(location("a", table), len(DATA)), 10, 40)) as stream:
            requested.append(True)
            return stream.readinto(bytearray(30))

    with ThreadPoolExecutor(readers) as threads:
        parts = [threads.submit(read_part, number) for number in range(readers)]
        queue = fetcher._buffers.restorers._work.calls
        try:
            wait_until(lambda: len(requested) == readers and queue.qsize() == readers - cores, "all readers", seconds=20)
            in_memory = len(allocated)
        finally:
            waiting.release(readers)
        assert [part.result() for part in parts] == [30] * readers
    assert in_memory <= cores
    fetcher.close()
