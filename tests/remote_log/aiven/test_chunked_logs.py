from __future__ import annotations

import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_remote_client.errors import CorruptChunkError, DataKeyError, ObjectNotFoundError
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.remote_log.aiven.chunked_logs import ChunkedLogs
from kafka_remote_client.remote_log.aiven.key_ring import KeyRing
from kafka_remote_client.remote_log.aiven.manifest_cache import ManifestCache
from kafka_remote_client.remote_log.layout import ObjectKind
from tests.support.aiven import AivenWriter, key_ring
from tests.support.tier import LAYOUT, MemoryStore, Tier, batch

WRITERS = [AivenWriter("p/", 100, compressed, encrypted) for compressed in (False, True) for encrypted in (False, True)]
CHUNKED = WRITERS[1:]


class Laid:
    """One segment in chunks: ``data`` is the log that Kafka wrote."""

    def __init__(self, writer: AivenWriter, records: int = 50) -> None:
        tier, each = Tier(), records // 5
        batches = [batch(n * each, each) for n in range(5)]
        self.segment: RemoteLogSegmentMetadata = tier.add(batches, number=1, indexed=[1])
        self.data = tier.store.get(LAYOUT.object_key(self.segment, ObjectKind.LOG))
        self.store = MemoryStore()
        self.store.objects = writer.objects(tier.store, self.segment)
        self.key = next(key for key in self.store.objects if key.endswith(".log"))

    def logs(self, keys: KeyRing | None = None, **changes) -> ChunkedLogs:
        return ChunkedLogs(self.store, ManifestCache(keys or key_ring()), **changes)


@pytest.mark.parametrize("writer", WRITERS, ids=str)
def test_reads_the_log_that_kafka_wrote(writer):
    laid = Laid(writer)
    logs = laid.logs()
    assert logs.size(laid.key) == len(laid.data)
    assert logs.get(laid.key) == laid.data
    for start, end in [(0, 1), (0, 100), (99, 101), (150, 420), (300, 10**9), (len(laid.data), 10**9), (7, 7)]:
        assert logs.get_range(laid.key, start, end) == laid.data[start:end]


@pytest.mark.parametrize("writer", CHUNKED, ids=str)
def test_one_read_fetches_all_chunks_and_the_next_one_none(writer):
    laid = Laid(writer)
    logs = laid.logs()
    for _ in range(2):
        logs.get_range(laid.key, 150, 420)
    assert laid.store.reads(".log") == 1
    logs.get_range(laid.key, 50, 550)
    assert laid.store.reads(".log") == 2
    assert logs.get(laid.key) == laid.data


def test_a_read_copies_no_more_than_it_returns():
    laid = Laid(AivenWriter("p/", 1 << 20, compressed=True, encrypted=False), records=10_000)
    logs = laid.logs()
    logs.size(laid.key)
    tracemalloc.start()
    try:
        assert logs.get_range(laid.key, 100, 110) == laid.data[100:110]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(laid.data) // 2, "the restored chunk lies in pages of its own"


def test_a_read_of_other_chunks_does_not_wait_for_one_in_progress():
    laid = Laid(CHUNKED[0])
    reads, entered, released = laid.store.get_range, threading.Event(), threading.Event()

    def get_range(key, start, end):
        if key == laid.key and not entered.is_set():
            entered.set()
            assert released.wait(60)
        return reads(key, start, end)

    laid.store.get_range = get_range
    logs = laid.logs()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(logs.get_range, laid.key, 0, 10)
        assert entered.wait(60)
        second = pool.submit(logs.get_range, laid.key, 300, 310)
        try:
            assert second.result(20) == laid.data[300:310]
        finally:
            released.set()
        assert first.result() == laid.data[:10]


def test_chunks_that_are_not_cached_are_read_again():
    laid = Laid(CHUNKED[0])
    logs = laid.logs(max_bytes=1)
    for start in (0, 100, 0):
        logs.get_range(laid.key, start, start + 1)
    assert laid.store.reads(".log") == 3


def test_a_plain_log_is_read_directly_and_needs_no_key():
    laid = Laid(WRITERS[0])
    laid.logs(KeyRing()).get_range(laid.key, 150, 160)
    assert laid.store.calls[-1] == ("get_range", laid.key, 150, 160)


def test_an_encrypted_log_needs_its_key():
    laid = Laid(WRITERS[1])
    with pytest.raises(DataKeyError):
        laid.logs(KeyRing()).get_range(laid.key, 0, 10)


@pytest.mark.parametrize("writer", CHUNKED, ids=str)
def test_a_truncated_log_raises(writer):
    laid = Laid(writer)
    laid.store.objects[laid.key] = laid.store.objects[laid.key][:-1]
    logs = laid.logs()
    assert logs.get_range(laid.key, 0, 100) == laid.data[:100]
    with pytest.raises(CorruptChunkError, match="the log has"):
        logs.get_range(laid.key, len(laid.data) - 1, len(laid.data))


def test_a_flipped_bit_raises():
    laid = Laid(AivenWriter("p/", 100, encrypted=True))
    damaged = bytearray(laid.store.objects[laid.key])
    damaged[130] ^= 1
    laid.store.objects[laid.key] = bytes(damaged)
    logs = laid.logs()
    assert logs.get_range(laid.key, 0, 100) == laid.data[:100]
    with pytest.raises(CorruptChunkError, match="fails authentication"):
        logs.get_range(laid.key, 0, 101)


def test_lists_as_the_store_does_and_does_not_close_it():
    laid = Laid(WRITERS[0])
    logs = laid.logs()
    assert [info.key for info in logs.list("p/")] == sorted(laid.store.objects)
    logs.close()
    assert not laid.store.closed
    with pytest.raises(ObjectNotFoundError):
        logs.size("p/other.log")


def test_a_second_read_uses_the_chunks_that_the_first_one_kept(monkeypatch):
    laid = Laid(CHUNKED[0])
    logs = laid.logs()
    logs.get_range(laid.key, 150, 420)
    monkeypatch.setattr(logs._restored, "get", lambda key: None)
    assert logs.get_range(laid.key, 150, 420) == laid.data[150:420]
    assert laid.store.reads(".log") == 1
