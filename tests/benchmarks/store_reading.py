"""One measurement of stores.py, in a process of its own: reads a tier with ours, with a bare loop, or restores chunks only.

The task comes on standard input as JSON, the figures go to standard output. ``reader``:

- ``ours``: a RemoteReader over a listing, every record decoded and checked, values not looked at;
- ``bare``: ranged GETs of full ranges with the same client library and in-flight count, bytes thrown away;
- ``codec``: decrypts and decompresses all chunks from memory on as many threads as there are cores.

The latency is waited out before each GET on the client's side, by both readers alike, and by ours before each read of an index,
a checkpoint or a manifest as well.
"""

from __future__ import annotations

import http.client
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
from kafka_remote_fetchers.directory_store import DirectoryStore

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.fetch.chunked_fetcher import CHUNKED_FORMATS, ChunkedFetcher
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import GrantedRange, RemoteLogSegmentMetadata, SegmentLocation
from kafka_remote_client.plugin import LocationMetadata, ReadableStream, RemoteStorageFetcher
from kafka_remote_client.registry import load_fetcher
from kafka_remote_client.testing import FixedLatency, StoreModel
from tests.benchmarks.engine_reading import memory
from tests.benchmarks.store_tier import PARTITION, TOPIC, layout_of
from tests.support.live_store import LiveStoreModel, modelled

__all__: list[str] = []

_SECONDS = 600.0


class MeteredFetcher:
    """Waits before each GET and counts GETs and the bytes asked for. Sits on the plain fetcher: positions are the object's."""

    def __init__(self, inner: RemoteStorageFetcher, latency: float) -> None:
        self._inner = inner
        self._latency = latency
        self._lock = threading.Lock()
        self.requests = self.bytes = 0

    def configure(self, configs: Mapping[str, object]) -> None:
        """Is configured already."""

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        with self._lock:
            self.requests += 1
            self.bytes += end_position - start_position
        if self._latency:
            time.sleep(self._latency)
        return self._inner.fetch_log_segment(remote_log_segment_metadata, start_position, end_position)

    def close(self) -> None:
        self._inner.close()


class SignedSource(ListingLocationSource):
    """A listing whose ranges carry URLs, signed beforehand, in place of keys."""

    def __init__(self, *arguments: Any, urls: Mapping[str, str]) -> None:
        super().__init__(*arguments)
        self._urls = urls

    def _answer(self, *arguments: Any, **options: Any) -> Any:
        found = super()._answer(*arguments, **options)
        if not isinstance(found, SegmentLocation):
            return found
        return attrs.evolve(found, ranges=tuple(map(self._signed, found.ranges)))

    def _signed(self, granted: GrantedRange) -> GrantedRange:
        location = LocationMetadata.decode(granted.custom_metadata)
        assert location.object_key is not None
        return GrantedRange(granted.range, attrs.evolve(location, url=self._urls[location.object_key]).encode())


def ours(task: dict[str, Any]) -> dict[str, Any]:
    """Reads everything; counts records, GETs and bytes."""
    latency = task["latency_ms"] / 1000
    store = modelled(DirectoryStore(task["root"]), LiveStoreModel(StoreModel(FixedLatency(latency))))
    config = RemoteFetchConfig(
        enabled=True,
        fetcher_class=task["store"],
        max_in_flight=task["in_flight"],
        range_bytes=task["range_bytes"],
        buffer_memory=task["buffer_memory"],
        read_timeout_ms=60_000,
        fetcher_options=task["options"],
    )
    layout = layout_of(task["mode"])
    source = SignedSource(store, layout, urls=task["urls"]) if task["urls"] else ListingLocationSource(store, layout)
    metered = MeteredFetcher(load_fetcher(config), latency)
    clock = SystemClock()
    metrics = FetchMetrics(clock)
    engine = FetchEngine(source, ChunkedFetcher(metered), config, clock=clock, metrics=metrics, formats=CHUNKED_FORMATS)
    for module in ("cryptography.hazmat.primitives.ciphers.aead", "Crypto.Cipher.PKCS1_OAEP", "Crypto.Hash.SHA3_512"):
        importlib.import_module(module)  # loaded when they are needed, and no part of what reading takes
    resident = memory("VmRSS")
    started, used = time.perf_counter(), time.process_time()
    records = 0
    for item in engine.reader(ReadRequest(TOPIC, PARTITION, 0, borrow=True)).blocks(_SECONDS):
        if isinstance(item, ReadEnd):
            assert item.error is None, item
        else:
            records += len(item)
    seconds, cpu = time.perf_counter() - started, time.process_time() - used
    engine.close()
    assert records == task["records"], records
    peak = memory("VmHWM") - resident
    done = {"seconds": seconds, "cpu_seconds": cpu, "gets": metered.requests, "bytes": metered.bytes, "peak_bytes": peak}
    return {**done, "locations": metrics.snapshot()["remote-fetch-location-request-total"]}


def bare(task: dict[str, Any]) -> dict[str, Any]:
    """Reads all logs in full ranges on ``in_flight`` threads."""
    size = task["range_bytes"]
    wanted = iter([(key, at, min(at + size, length)) for key, length in task["objects"] for at in range(0, length, size)])
    lock = threading.Lock()
    connect = {"local": _local, "presigned": _http, "s3": _boto}[task["store"]](task)

    def run() -> None:
        buffer = memoryview(bytearray(size))
        read = connect()
        while True:
            with lock:
                following = next(wanted, None)
            if following is None:
                return
            if task["latency_ms"]:
                time.sleep(task["latency_ms"] / 1000)
            key, start, end = following
            read(key, start, end, buffer[: end - start])

    started, used = time.perf_counter(), time.process_time()
    _on_threads(task["in_flight"], run)
    return {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - used}


def codec(task: dict[str, Any]) -> dict[str, Any]:
    """Restores all chunks, which lie in memory, into memory that is used again."""
    store = DirectoryStore(task["root"])
    layout: Any = layout_of(task["mode"])
    work = []
    for key, _ in task["objects"]:
        log = layout._manifests.stored_log(store, key)
        data = memoryview(store.get(key))
        work += [(log.transform(), data[one.object_start : one.object_end], one.original_size) for one in log.manifest.chunks]
    following: Iterator[Any] = iter(work)
    lock = threading.Lock()

    def run() -> None:
        target = memoryview(bytearray(max(size for _, _, size in work)))
        while True:
            with lock:
                chunk = next(following, None)
            if chunk is None:
                return
            transform, stored, size = chunk
            transform.restore(stored, target[:size])

    started, used = time.perf_counter(), time.process_time()
    _on_threads(os.cpu_count() or 1, run)
    return {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - used}


Read = Callable[[str, int, int, memoryview], None]


def _local(task: dict[str, Any]) -> Callable[[], Read]:
    def read(key: str, start: int, end: int, target: memoryview) -> None:
        descriptor = os.open(Path(task["root"]) / key, os.O_RDONLY)
        filled = 0
        while filled < end - start:
            filled += os.preadv(descriptor, [target[filled:]], start + filled)
        os.close(descriptor)

    return lambda: read


def _http(task: dict[str, Any]) -> Callable[[], Read]:
    authority = urlsplit(next(iter(task["urls"].values()))).netloc

    def connect() -> Read:
        connection = http.client.HTTPConnection(authority, blocksize=1 << 20)

        def read(key: str, start: int, end: int, target: memoryview) -> None:
            url = urlsplit(task["urls"][key])
            connection.request("GET", f"{url.path}?{url.query}", headers={"Range": f"bytes={start}-{end - 1}"})
            _drain(connection.getresponse(), target)

        return read

    return connect


def _boto(task: dict[str, Any]) -> Callable[[], Read]:
    import boto3
    from botocore.config import Config

    pool = Config(max_pool_connections=task["in_flight"])
    client = boto3.client("s3", endpoint_url=task["endpoint"], region_name=task["region"], config=pool)

    def read(key: str, start: int, end: int, target: memoryview) -> None:
        answer = client.get_object(Bucket=task["bucket"], Key=key, Range=f"bytes={start}-{end - 1}")
        _drain(answer["Body"]._raw_stream, target)

    return lambda: read


def _drain(body: Any, target: memoryview) -> None:
    filled = 0
    while filled < len(target):
        count = body.readinto(target[filled:])
        assert count, "the store ended early"
        filled += count
    body.read()


def _on_threads(count: int, run: Callable[[], None]) -> None:
    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    wanted_task = json.load(sys.stdin)
    print(json.dumps({"ours": ours, "bare": bare, "codec": codec}[wanted_task["reader"]](wanted_task)))
