import fcntl
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import pytest

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.config import RemoteFetchConfig, split_config
from kafka_remote_client.errors import ConfigurationError, RemoteStorageUnavailableError
from kafka_remote_client.fetch.assemble import build_engine
from kafka_remote_client.fetch.cache_entry import BLOCK_BYTES, CacheEntryHeader
from kafka_remote_client.fetch.caching_fetcher import CachingFetcher, cached
from kafka_remote_client.fetch.disk_cache import DiskCache
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.storage_formats import RestoringFetcher
from kafka_remote_client.metrics import CacheStatistics, FetchMetrics
from kafka_remote_client.model import IsolationLevel, RemoteLogSegmentMetadata
from kafka_remote_client.plugin import LocationMetadata, ReadableStream, RemoteStorageFetcher
from kafka_remote_client.testing import read_all
from tests.support.golden_tier import CutStream, GoldenTierSource, ScriptedFetcher
from tests.support.locations import ManualClock, segment

SIZE = 3 * BLOCK_BYTES + 100
DATA = os.urandom(SIZE)
SECRET = "signature=do-not-write-this-down"
SEGMENT = segment(
    segment_size_in_bytes=SIZE,
    custom_metadata=LocationMetadata(
        url=f"https://store/?{SECRET}", object_key="key", data_key=SECRET.encode(), signed_headers=(("x-amz-a", SECRET),)
    ).encode(),
)


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._rest = memoryview(data)
        self.closed = 0

    def readinto(self, buffer: bytearray | memoryview, /) -> int:
        count = min(len(buffer), len(self._rest), 100_000)
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        self.closed += 1


class Store:
    """A plain fetcher of DATA that counts its calls and can delay or change the bytes."""

    def __init__(self, *changes: Callable[[ReadableStream], ReadableStream]) -> None:
        self.fetched: list[tuple[int, int]] = []
        self.streams: list[_Bytes] = []
        self.changes = list(changes)
        self.asked, self.go = threading.Event(), threading.Event()
        self.go.set()
        self.configured: Mapping[str, object] | None = None
        self.closed = 0

    def configure(self, configs: Mapping[str, object]) -> None:
        self.configured = configs

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> ReadableStream:
        self.fetched.append((start, end))
        self.asked.set()
        assert self.go.wait(60)
        stream = _Bytes(DATA[start : SIZE if end == -1 else end])
        self.streams.append(stream)
        return self.changes.pop(0)(stream) if self.changes else stream

    def close(self) -> None:
        self.closed += 1


class Rig:
    def __init__(self, directory: Path, *stores: Store, clock: SystemClock | ManualClock | None = None) -> None:
        self.directory = directory
        self.caches = [DiskCache(directory, 64 << 20) for _ in stores]
        self.fetchers = [
            CachingFetcher(store, cache, clock=clock or SystemClock(), patience_seconds=60.0)
            for store, cache in zip(stores, self.caches, strict=True)
        ]

    def entry(self) -> Path:
        (path,) = self.directory.glob("*/*")
        return path

    @property
    def counted(self) -> tuple[int, int, int]:
        told = sum((cache.statistics() for cache in self.caches), CacheStatistics())
        return told.hits, told.misses, told.damaged


def read(fetcher: CachingFetcher, start: int = 0, end: int = SIZE, piece: int = 1 << 20) -> bytes:
    stream = fetcher.fetch_log_segment(SEGMENT, start, end)
    out, buffer = b"", bytearray(piece)
    while count := stream.readinto(buffer):
        out += buffer[:count]
    stream.close()
    stream.close()
    return out


@pytest.mark.parametrize("piece", [1 << 20, BLOCK_BYTES, BLOCK_BYTES - 1, 1000])
def test_cached_bytes_are_read_in_pieces_of_any_size(tmp_path: Path, piece: int) -> None:
    store, another = Store(), Store()
    rig = Rig(tmp_path / "cache", store, another)
    assert read(rig.fetchers[0], piece=piece) == DATA
    assert read(rig.fetchers[0], piece=piece) == DATA
    assert read(rig.fetchers[1], 12_345, SIZE - 7, piece=piece) == DATA[12_345:-7]
    assert (store.fetched, another.fetched) == ([(0, SIZE)], [])
    assert rig.counted == (2, 1, 0)
    assert store.streams[0].closed


def test_adjacent_entries_serve_one_range(tmp_path: Path) -> None:
    store = Store()
    (fetcher,) = Rig(tmp_path / "cache", store).fetchers
    read(fetcher, 0, 300_000)
    read(fetcher, 300_000, SIZE)
    assert read(fetcher, 100, SIZE - 100) == DATA[100:-100]
    assert len(store.fetched) == 2


def test_nothing_secret_is_on_disk(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", Store())
    read(rig.fetchers[0])
    for path in [rig.entry(), rig.entry().parent]:
        assert SECRET not in str(path)
    assert SECRET.encode() not in rig.entry().read_bytes()
    assert b"https" not in rig.entry().read_bytes()[: CacheEntryHeader.size_for(SIZE)]


def test_a_second_reader_of_a_range_waits_for_the_first(tmp_path: Path) -> None:
    stores = [Store(), Store()]
    rig = Rig(tmp_path / "cache", *stores)
    stores[0].go.clear()
    results: list[bytes] = []
    threads = [threading.Thread(target=lambda: results.append(read(rig.fetchers[0])))]
    threads[0].start()
    assert stores[0].asked.wait(60)
    # A claim of another process consists of files and locks only.
    for fetcher in (rig.fetchers[1], rig.fetchers[1]):
        threads.append(threading.Thread(target=lambda fetcher=fetcher: results.append(read(fetcher))))
        threads[-1].start()
    stores[0].go.set()
    for thread in threads:
        thread.join(60)
    assert results == [DATA] * 3
    assert (len(stores[0].fetched), len(stores[1].fetched)) == (1, 0)
    assert rig.counted == (2, 1, 0)


def test_a_hedge_does_not_wait_for_the_late_request(tmp_path: Path) -> None:
    store, clock = Store(), ManualClock()
    (fetcher,) = Rig(tmp_path / "cache", store, clock=clock).fetchers
    late, began = fetcher.fetch_log_segment(SEGMENT, 0, SIZE), clock.now
    assert read(fetcher) == DATA
    assert (len(store.fetched), clock.now) == (2, began)
    late.close()
    assert read(fetcher) == DATA
    assert read(fetcher) == DATA
    assert len(store.fetched) == 3, "the late request kept nothing, the one after it did"


def test_a_reader_waits_half_a_read_time_out_then_reads_itself(tmp_path: Path) -> None:
    stores = [Store(), Store()]
    rig = Rig(tmp_path / "cache", *stores, clock=ManualClock())
    slow = rig.fetchers[0].fetch_log_segment(SEGMENT, 0, SIZE)
    assert read(rig.fetchers[1]) == DATA
    assert len(stores[1].fetched) == 1
    assert read_all(slow) == DATA
    slow.close()
    assert read(rig.fetchers[1]) == DATA
    assert len(stores[1].fetched) == 1


def test_closing_ends_the_wait(tmp_path: Path) -> None:
    writes, waits = stores = Store(), Store()
    rig = Rig(tmp_path / "cache", *stores, clock=ManualClock())
    slow = rig.fetchers[0].fetch_log_segment(SEGMENT, 0, SIZE)
    rig.fetchers[1].close()
    assert (writes.closed, waits.closed) == (0, 1)
    with pytest.raises(RemoteStorageUnavailableError, match="closed"):
        rig.fetchers[1].fetch_log_segment(SEGMENT, 0, SIZE)
    slow.close()


def test_a_partly_read_range_is_not_kept(tmp_path: Path) -> None:
    store = Store(lambda stream: CutStream(stream, 500_000))
    rig = Rig(tmp_path / "cache", store)
    assert read(rig.fetchers[0]) == DATA[:500_000]
    assert not list(rig.directory.glob("*/*"))
    assert read(rig.fetchers[0]) == DATA
    assert len(store.fetched) == 2


def test_a_failed_fetch_releases_its_claim(tmp_path: Path) -> None:
    def refuse(_: ReadableStream) -> ReadableStream:
        raise RemoteStorageUnavailableError("refused")

    rig = Rig(tmp_path / "cache", Store(refuse))
    with pytest.raises(RemoteStorageUnavailableError):
        read(rig.fetchers[0])
    assert read(rig.fetchers[0]) == DATA


def test_a_disk_error_does_not_hide_the_error_of_a_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: ReadableStream) -> ReadableStream:
        raise RemoteStorageUnavailableError("refused")

    def read_only(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    rig = Rig(tmp_path / "cache", Store(refuse))
    with monkeypatch.context() as broken:
        broken.setattr(Path, "unlink", read_only)
        with pytest.raises(RemoteStorageUnavailableError):
            read(rig.fetchers[0])
    assert read(rig.fetchers[0]) == DATA
    assert len(list(rig.directory.glob("*/*.chunk"))) == 1


@pytest.mark.parametrize("block", [0, 1, 3])
@pytest.mark.parametrize("piece", [1 << 20, 1000])
def test_a_damaged_block_is_read_from_the_store_and_its_entry_removed(tmp_path: Path, block: int, piece: int) -> None:
    store = Store()
    rig = Rig(tmp_path / "cache", store)
    read(rig.fetchers[0])
    raw = bytearray(rig.entry().read_bytes())
    raw[CacheEntryHeader.size_for(SIZE) + block * BLOCK_BYTES + 7] ^= 0x40
    rig.entry().write_bytes(raw)
    assert read(rig.fetchers[0], piece=piece) == DATA
    assert len(store.fetched) == 2
    assert rig.counted == (1, 1, 1)
    assert not list(rig.directory.glob("*/*"))
    assert read(rig.fetchers[0]) == DATA
    assert read(rig.fetchers[0]) == DATA
    assert len(store.fetched) == 3


def test_a_short_answer_for_a_damaged_block_is_unavailable(tmp_path: Path) -> None:
    store = Store()
    rig = Rig(tmp_path / "cache", store)
    read(rig.fetchers[0])
    raw = bytearray(rig.entry().read_bytes())
    raw[-1] ^= 1
    rig.entry().write_bytes(raw)
    store.changes = [lambda stream: CutStream(stream, 10)]
    with pytest.raises(RemoteStorageUnavailableError, match="ended before"):
        read(rig.fetchers[0])


def test_discarded_bytes_are_read_from_the_store_again(tmp_path: Path) -> None:
    store = Store()
    (fetcher,) = Rig(tmp_path / "cache", store).fetchers
    read(fetcher)
    fetcher.discard(SEGMENT, 5, 6)
    assert read(fetcher) == DATA
    assert len(store.fetched) == 2


def test_open_ended_and_oversized_ranges_pass_through(tmp_path: Path) -> None:
    store = Store()
    rig = Rig(tmp_path / "cache", store)
    assert read(rig.fetchers[0], 10, -1) == DATA[10:]
    small = CachingFetcher(store, DiskCache(tmp_path / "small", 1 << 19), clock=SystemClock(), patience_seconds=1.0)
    assert read(small) == DATA
    assert not list(tmp_path.glob("*/*/*"))


@pytest.mark.parametrize("call", ["ftruncate", "pwrite"])
def test_a_full_disk_disables_caching_and_fails_no_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    rig = Rig(tmp_path / "cache", Store())
    with monkeypatch.context() as broken:
        broken.setattr(os, call, full)
        assert read(rig.fetchers[0]) == DATA
    assert "No space left" in caplog.text
    assert not list(rig.directory.glob("*/*"))
    assert read(rig.fetchers[0]) == DATA


@pytest.mark.parametrize(("call", "action"), [("ftruncate", "used"), ("pwrite", "written to")])
def test_a_disk_that_stays_full_is_a_line_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, action: str, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    clock = ManualClock()
    rig = Rig(tmp_path / "cache", Store(), clock=clock)
    monkeypatch.setattr(os, call, full)
    for _ in range(3):
        assert read(rig.fetchers[0]) == DATA
    line = f"the chunk cache cannot be {action}: No space left on device"
    assert caplog.messages == [line]
    clock.now += 60
    assert read(rig.fetchers[0]) == DATA
    assert caplog.messages == [line, f"{line}; 2 more since the last warning"]


def test_another_process_that_makes_room_holds_up_no_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(tmp_path / "cache", Store())
    with (rig.directory / "eviction.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert read(rig.fetchers[0]) == DATA
        assert not list(rig.directory.glob("*/*"))
    assert not caplog.messages
    assert read(rig.fetchers[0]) == DATA
    assert rig.entry().suffix == ".chunk"


def test_settings_and_empty_ranges_pass_through(tmp_path: Path) -> None:
    store = Store()
    (fetcher,) = Rig(tmp_path / "cache", store).fetchers
    fetcher.configure({"a": 1})
    assert store.configured == {"a": 1}
    read(fetcher)
    stream = fetcher.fetch_log_segment(SEGMENT, 0, SIZE)
    assert stream.readinto(bytearray()) == 0
    stream.close()
    assert stream.readinto(bytearray(10)) == 0


def test_settings_give_the_cache_its_size(tmp_path: Path) -> None:
    store, metrics = Store(), FetchMetrics(SystemClock())
    remote, _ = split_config({"fetch.remote.cache.max.bytes": 4 << 20})
    fetcher = cached(store, tmp_path / "cache", remote, SystemClock(), metrics)
    read(fetcher)
    read(fetcher)
    snapshot = metrics.snapshot()
    assert (snapshot["remote-fetch-chunk-cache-hits-total"], snapshot["remote-fetch-chunk-cache-misses-total"]) == (1, 1)
    assert snapshot["remote-fetch-chunk-cache-bytes"] > SIZE
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(ConfigurationError, match="other users"):
        cached(store, tmp_path / "cache", remote, SystemClock(), metrics)


def read_topic(fetcher: RemoteStorageFetcher, start: int) -> list[int]:
    # A range whose hedge wins is not kept, and a busy machine makes a range late.
    config = attrs.evolve(RemoteFetchConfig(enabled=True), read_timeout_ms=60_000, hedge_max_percent=0)
    clock = SystemClock()
    engine = FetchEngine(GoldenTierSource(), fetcher, config, clock=clock, metrics=FetchMetrics(clock))
    offsets: list[int] = []
    try:
        for item in engine.reader(
            ReadRequest("codec-none-rdk", 0, start, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        ).blocks(60):
            if isinstance(item, ReadEnd):
                assert item.reason == "local", item
            else:
                offsets.extend(row[0] for row in item.rows())
    finally:
        engine.close()
    return offsets


def test_a_second_consumer_reads_all_from_disk_at_any_start_offset(tmp_path: Path) -> None:
    stores = [ScriptedFetcher(), ScriptedFetcher()]
    caches = [DiskCache(tmp_path / "cache", 64 << 20) for _ in stores]
    first, second = (
        CachingFetcher(store, cache, clock=SystemClock(), patience_seconds=60.0)
        for store, cache in zip(stores, caches, strict=True)
    )
    assert read_topic(first, 0) == list(range(4200))
    assert read_topic(second, 437) == list(range(437, 4200))
    assert stores[0].fetched
    assert stores[1].fetched == []
    told = caches[1].statistics()
    assert (told.hits > 0, told.misses, told.damaged) == (True, 0, 0)


def test_a_consumer_uses_the_cache_of_its_settings(tmp_path: Path) -> None:
    settings = {
        "fetch.remote.enabled": True,
        "remote.storage.fetcher.class": "memory",
        "bootstrap.servers": "localhost:1",
        "fetch.remote.cache.directory": str(tmp_path / "cache"),
    }
    remote, inner = split_config(settings)
    engine = build_engine(remote, inner, SystemClock(), FetchMetrics(SystemClock()))
    assert engine is not None
    engine.close()
    restoring = engine._fetcher
    assert isinstance(restoring, RestoringFetcher)
    assert isinstance(restoring._inner, CachingFetcher)
    assert (tmp_path / "cache").is_dir()


@pytest.mark.parametrize("start", [0, 12_345, BLOCK_BYTES])
@pytest.mark.parametrize("piece", [1 << 20, 1000])
def test_a_damaged_block_is_replaced_for_any_start_of_the_range(tmp_path: Path, start: int, piece: int) -> None:
    store = Store()
    rig = Rig(tmp_path / "cache", store)
    read(rig.fetchers[0], start)
    raw = bytearray(rig.entry().read_bytes())
    raw[-1] ^= 0x40
    rig.entry().write_bytes(raw)
    assert read(rig.fetchers[0], start, piece=piece) == DATA[start:]
    assert len(store.fetched) == 2


def test_a_failed_fetch_does_not_keep_the_next_one_out_of_the_cache(tmp_path: Path) -> None:
    def refuse(_: ReadableStream) -> ReadableStream:
        raise RemoteStorageUnavailableError("refused")

    store = Store(refuse)
    (fetcher,) = Rig(tmp_path / "cache", store, clock=ManualClock()).fetchers
    with pytest.raises(RemoteStorageUnavailableError):
        read(fetcher)
    assert [read(fetcher), read(fetcher)] == [DATA, DATA]
    assert len(store.fetched) == 2, "the failed one and one more"
