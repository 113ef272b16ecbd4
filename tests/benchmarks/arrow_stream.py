"""The Arrow stream of a scan over HTTP, compared with ``consume``, with a decoder alone and with bare GETs.

    python -m tests.benchmarks.arrow_stream [--megabytes 400] [--rounds 3] [--latency-ms 20]

A partition of a real broker, uncompressed, in a bucket of MinIO behind a proxy that delays each request. Each measurement is a
process of its own; they take turns within a round, and the median counts. The clock runs from the first look into the tier to
the last record, without imports and clients.

=============  ================================================================================================================
way            is
=============  ================================================================================================================
``consume``    ``consume(500)``, and ``value()`` of each message, by signed URLs of a shim (reader.py)
``stream``     ``pyarrow.RecordBatchReader`` of a scan, and the sum of the values' lengths
``blocks``     the record blocks of the same splits: GETs, checksums, and all records as columns, without Arrow
``bare``       GETs of 8 MiB by ``http.client`` in eight threads, whose bytes are discarded
``in memory``  the segments' bytes, which lie in memory, as record blocks by one thread
``again``      the second ``stream`` of one opened scan: the plan, the connections and the memory are there
``bare again`` the second ``bare`` with the same connections and memory
=============  ================================================================================================================

Targets, whose ratios exit 1 if they are missed: with 100 B the stream has 3 times the speed of ``consume`` and 0.85 of that of
``blocks``; with 1 KB 0.9 of that of ``bare``. "CPU" is that of the reading process. Prints a table on standard error and JSON
on standard output; the figures of record are in docs/benchmarks.md, "Arrow".
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from threading import local
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from kafka_remote_client import scan
from kafka_remote_client.model import ByteRange
from kafka_remote_client.records import read_batches
from kafka_remote_client.registry import load_signer
from kafka_remote_client.scanning.open_scan import OpenScan
from tests.benchmarks.contenders import COMMON, MIB, direct_config, run_reader
from tests.benchmarks.minio_tier import MinioTier
from tests.benchmarks.running import ROOT, finish, machine
from tests.benchmarks.topics import TieredTopic, write_topic
from tests.support.kafka_broker import KafkaBroker

__all__ = ["WAYS", "missed"]

_SMALL, _LARGE = 100, 1024
_GET_BYTES = 8 * MIB
_GETS_AT_A_TIME = 8
_URL_SECONDS = 3600.0
_SECONDS = 60.0

Task = dict[str, Any]
"""``way``; ``store``, ``options`` and ``topic`` of a scan; ``files``: the segments' paths; ``urls``: with their sizes."""
Tick = Callable[[], None]


def missed(record_bytes: int, seconds: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    """The ratios of speed of the stream to the other ways, and the names of those below their targets."""
    found = {f"stream / {way}": taken / seconds["stream"] for way, taken in seconds.items() if way != "stream"}
    targets = {"stream / consume": 3.0, "stream / blocks": 0.85} if record_bytes == _SMALL else {"stream / bare": 0.9}
    return found, [name for name, least in targets.items() if name in found and found[name] < least]


def _stream(task: Task, tick: Tick) -> int:
    with scan(task["store"], task["topic"], store_options=task["options"]).open() as opened:
        tick()
        total = _streamed(opened)
        tick()
    return total


def _again(task: Task, tick: Tick) -> int:
    with scan(task["store"], task["topic"], store_options=task["options"]).open() as opened:
        _streamed(opened)
        tick()
        total = _streamed(opened)
        tick()
    return total


def _streamed(opened: OpenScan) -> int:
    total = 0
    with pa.RecordBatchReader.from_batches(opened.schema, opened.stream()) as batches:
        for batch in batches:
            total += pc.sum(pc.binary_length(batch.column("value"))).as_py() or 0
    return total


def _blocks(task: Task, tick: Tick) -> int:
    count = 0
    with scan(task["store"], task["topic"], store_options=task["options"]).open() as opened:
        tick()
        for split in opened.plan.splits:
            with closing(opened._borrowed(split)) as blocks:
                count += sum(map(len, blocks))
        tick()
    return count * task["record_bytes"]


def _in_memory(task: Task, tick: Tick) -> int:
    segments = [Path(file).read_bytes() for file in task["files"]]
    tick()
    count = sum(len(read_batches(segment)) for segment in segments)
    tick()
    return count * task["record_bytes"]


def _bare(task: Task, tick: Tick, *, warm: bool = False) -> int:
    own = local()

    def read(url: str, start: int, end: int) -> int:
        parts = urlsplit(url)
        if not hasattr(own, "connection"):
            own.connection = http.client.HTTPConnection(parts.netloc, blocksize=MIB)
            own.buffer = memoryview(bytearray(_GET_BYTES))
        own.connection.request("GET", f"{parts.path}?{parts.query}", headers={"Range": f"bytes={start}-{end - 1}"})
        answer, filled = own.connection.getresponse(), 0
        while count := answer.readinto(own.buffer[filled : end - start]):
            filled += count
        assert filled == end - start, answer.status
        return filled

    with ThreadPoolExecutor(_GETS_AT_A_TIME) as threads:

        def read_all() -> int:
            return sum(get.result() for get in [threads.submit(read, *wanted) for wanted in task["urls"]])

        if warm:
            read_all()
        tick()
        total = read_all()
        tick()
    return total


WAYS: dict[str, Callable[[Task, Tick], int]] = {
    "stream": _stream,
    "blocks": _blocks,
    "bare": _bare,
    "in memory": _in_memory,
    "again": _again,
    "bare again": partial(_bare, warm=True),
}


def measured(task: Task) -> dict[str, float]:
    """Runs one way in this process: seconds on the clock and of the processor, and the bytes that it counted."""
    ticks: list[tuple[float, float]] = []

    def tick() -> None:
        ticks.append((time.perf_counter(), time.process_time()))

    found = WAYS[task["way"]](task, tick)
    (began, worked), (ended, done) = ticks
    return {"seconds": ended - began, "cpu_seconds": done - worked, "bytes": found}


class _Bench:
    """The servers, and one measurement."""

    def __init__(self, broker: KafkaBroker, minio: MinioTier) -> None:
        self._broker = broker
        self._minio = minio
        self._tasks: dict[str, Task] = {}

    def add(self, topic: TieredTopic) -> None:
        """Copies a topic, and signs the URLs of its ranges."""
        self._minio.add(topic)
        root = self._broker.store_directory
        files = sorted(root.glob(f"*/{topic.name}-*/*.log"))
        with self._minio.variables():
            signer = load_signer(self._minio.url, self._minio.options)
            urls = [
                (_signed(signer, file.relative_to(root).as_posix(), start, end), start, end)
                for file in files
                for start, end in _cuts(file.stat().st_size)
            ]
        self._tasks[topic.name] = {
            "store": self._minio.url,
            "options": self._minio.options,
            "topic": topic.name,
            "record_bytes": topic.record_bytes,
            "files": list(map(str, files)),
            "urls": urls,
        }

    def measure(self, topic: TieredTopic, way: str, latency_ms: int) -> dict[str, float]:
        self._minio.proxy.set_latency(latency_ms)
        if way == "consume":
            return self._consumed(topic)
        command = [sys.executable, "-m", "tests.benchmarks.arrow_stream", "--task"]
        task = json.dumps({**self._tasks[topic.name], "way": way})
        environment = {**os.environ, **self._minio.environment}
        done = subprocess.run(command, cwd=ROOT, env=environment, input=task, stdout=subprocess.PIPE, text=True, check=True)
        found: dict[str, float] = json.loads(done.stdout)
        if not way.startswith("bare") and found["bytes"] != topic.records * topic.record_bytes:
            raise RuntimeError(f"{way} read {found['bytes']} bytes of {topic.name}, not {topic.records * topic.record_bytes}")
        return found

    def _consumed(self, topic: TieredTopic) -> dict[str, float]:
        shim = self._minio.shim()
        try:
            config = {"bootstrap.servers": self._broker.bootstrap_servers, **COMMON, **direct_config(shim)}
            found = run_reader(topic, side="direct", api="consume", config=config, seconds=_SECONDS, fill_seconds=0)
        finally:
            shim.stop()
        if found["metrics"]["remote-fetch-records-total"] < found["records"] or found["records"] < topic.records:
            raise RuntimeError(f"consume did not read all of {topic.name} from the store")
        return {name: found[name] for name in ("seconds", "cpu_seconds")}


def _signed(signer: Any, key: str, start: int, end: int) -> str:
    url: str = signer.sign(key, ByteRange(start, end), _URL_SECONDS).url
    return url


def _cuts(size: int) -> Iterable[tuple[int, int]]:
    return [(start, min(start + _GET_BYTES, size)) for start in range(0, size, _GET_BYTES)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--record-bytes", type=int, nargs="+", default=[_SMALL, _LARGE])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency-ms", type=int, default=20)
    parser.add_argument("--segment-mib", type=int, default=64)
    parser.add_argument("--directory", type=Path, help="where all files go (default: the system's)")
    parser.add_argument("--json", type=Path, help="write the JSON here instead of to standard output")
    parser.add_argument("--task", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        json.dump(measured(json.load(sys.stdin)), sys.stdout)
        return 0
    runs: dict[tuple[int, str], list[dict[str, float]]] = defaultdict(list)
    topics = []
    with tempfile.TemporaryDirectory(prefix="kafka-remote-bench-", dir=arguments.directory) as scratch, ExitStack() as stack:
        broker = KafkaBroker(Path(scratch) / "broker")
        broker.directory.mkdir()
        stack.callback(broker.destroy)
        broker.start()
        minio = MinioTier(broker, Path(scratch) / "minio")
        stack.callback(minio.close)
        bench = _Bench(broker, minio)
        for size in arguments.record_bytes:
            topics.append(write_topic(broker, size, arguments.megabytes, arguments.segment_mib * MIB))
            bench.add(topics[-1])
        for _ in range(arguments.rounds):
            for topic in topics:
                for way in ("consume", *WAYS):
                    runs[topic.record_bytes, way].append(bench.measure(topic, way, arguments.latency_ms))
    rows, failed = [], 0
    for topic in topics:
        made = {way: taken for (size, way), taken in runs.items() if size == topic.record_bytes}
        medians = {
            way: {name: statistics.median(run[name] for run in taken) for name in ("seconds", "cpu_seconds")}
            for way, taken in made.items()
        }
        for way, found in medians.items():
            rate = topic.records * topic.record_bytes / found["seconds"] / 1e6
            cpu = found["cpu_seconds"] / topic.records * 1e6
            print(f"{topic.record_bytes:5} B  {way:10} {rate:8.0f} MB/s  {cpu:7.3f} us CPU", file=sys.stderr)
        ratios, short = missed(topic.record_bytes, {way: found["seconds"] for way, found in medians.items()})
        print(
            f"{topic.record_bytes:5} B  " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()), file=sys.stderr
        )
        failed += len(short)
        rows.append({"record_bytes": topic.record_bytes, "records": topic.records, "ways": medians, "ratios": ratios})
    report = {"machine": machine("confluent-kafka", "pyarrow"), "latency_ms": arguments.latency_ms, "rows": rows}
    return finish(report, arguments.json, failed, "ratios are below their targets")


if __name__ == "__main__":
    sys.exit(main())
