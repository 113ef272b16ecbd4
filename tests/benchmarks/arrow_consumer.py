"""Throughput of ``consume_arrow``, compared with ``consume`` and with a decoder alone.

    python -m tests.benchmarks.arrow_consumer [--megabytes 64] [--rounds 3]

A partition of an embedded cluster has records of 100 B, and one of another cluster records of 1 KB: uncompressed, in batches of
64 KiB and segments of 2 MiB, nearly all in the tier. Each measurement is a process of its own, from the assignment to the last
record; they take turns within a round, and the median counts. The cluster, with its object origin, is one more process on the
same machine. So the clock tells of both, and the CPU time of the client alone. Prints a table on standard error and JSON on
standard output.

=================  ============================================================================================================
way                is
=================  ============================================================================================================
``consume``        ``consume(500)``, and ``value()`` of each message, until all records of the tier were delivered
``consume_arrow``  ``consume_arrow(10000)``, and the sum of the values' lengths
``arrow of files`` the segments' bytes, which lie in memory, as blocks and then as the same tables
``decode``         the same blocks alone: checksums, and all records as columns
=================  ============================================================================================================
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.records import RecordBlock, read_batches
from kafka_remote_client.records.arrow import message_table
from tests.benchmarks.running import ROOT, machine
from tests.support.embedded_topics import direct_settings, tiers

__all__ = ["WAYS", "measured", "ratios"]

_BATCH_BYTES = 64 << 10
_SEGMENT_BYTES = 2 << 20
_ARCHIVED_BYTES = 2 << 20

_SIZES = (100, 1000)
_PATIENCE_SECONDS = 60.0

Task = dict[str, Any]
"""``way``; ``settings`` and ``topic`` of a consumer, ``records`` below the local log, ``directory`` of the tier."""


def _consume(task: Task, tick: Callable[[], None]) -> int:
    taken = total = 0
    with Consumer(task["settings"]) as consumer:
        tick()
        consumer.assign([TopicPartition(task["topic"], 0, 0)])
        while taken < task["records"]:
            for message in consumer.consume(min(500, task["records"] - taken), _PATIENCE_SECONDS):
                total += len(message.value() or b"")
                taken += 1
        tick()
        _all_from_store(consumer, taken)
    return total


def _consume_arrow(task: Task, tick: Callable[[], None]) -> int:
    taken = total = 0
    with Consumer(task["settings"]) as consumer:
        tick()
        consumer.assign([TopicPartition(task["topic"], 0, 0)])
        while taken < task["records"]:
            table = consumer.consume_arrow(min(10_000, task["records"] - taken), _PATIENCE_SECONDS)
            total += pc.sum(pc.binary_length(table["value"])).as_py() or 0
            taken += len(table)
        tick()
        _all_from_store(consumer, taken)
    return total


def _all_from_store(consumer: Consumer, taken: int) -> None:
    metrics = consumer.metrics()
    assert metrics["remote-fetch-records-total"] == taken, metrics


def _blocks(task: Task, tick: Callable[[], None]) -> Iterator[RecordBlock]:
    segments = [file.read_bytes() for file in sorted(Path(task["directory"]).rglob("*.log"))]
    tick()
    return map(read_batches, segments)


def _decode(task: Task, tick: Callable[[], None]) -> int:
    count = sum(len(block) for block in _blocks(task, tick))
    tick()
    return count


def _arrow_of_files(task: Task, tick: Callable[[], None]) -> int:
    count = sum(len(block.slice_to_arrow(task["topic"], 0)) for block in _blocks(task, tick))
    tick()
    return count


WAYS: dict[str, Callable[[Task, Callable[[], None]], int]] = {
    "consume": _consume,
    "consume_arrow": _consume_arrow,
    "arrow of files": _arrow_of_files,
    "decode": _decode,
}


def measured(task: Task) -> dict[str, float]:
    """Runs one way in this process: seconds on the clock and of the processor."""
    message_table([])  # warms up Arrow
    ticks: list[tuple[float, float]] = []

    def tick() -> None:
        ticks.append((time.perf_counter(), time.process_time()))

    assert WAYS[task["way"]](task, tick) > 0
    (began, worked), (ended, done) = ticks
    return {"seconds": ended - began, "cpu_seconds": done - worked}


def ratios(found: dict[str, dict[str, float]]) -> dict[str, float]:
    """How much faster ``consume_arrow`` is than ``consume``, and which share of the decoder's rate it has."""
    arrow = found["consume_arrow"]
    return {
        "consume_arrow over consume": found["consume"]["seconds"] / arrow["seconds"],
        "consume_arrow over consume, cpu": found["consume"]["cpu_seconds"] / arrow["cpu_seconds"],
        "consume_arrow over decode": found["decode"]["seconds"] / arrow["seconds"],
        "consume_arrow over arrow of files, cpu": found["arrow of files"]["cpu_seconds"] / arrow["cpu_seconds"],
    }


def _in_a_process(task: Task) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.arrow_consumer", "--task", json.dumps(task)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, float] = json.loads(done.stdout)
    return told


def _of_size(size: int, megabytes: int, rounds: int) -> dict[str, Any]:
    topic, count = f"of-{size}", megabytes * 1_000_000 // size
    batch = max(1, _BATCH_BYTES // size)
    with (
        tempfile.TemporaryDirectory() as directory,
        EmbeddedCluster(Path(directory), segment_bytes=_SEGMENT_BYTES, expire_local=True) as cluster,
    ):
        value = os.urandom(size)
        for start in range(0, count, batch):
            cluster.produce(topic, [(None, value)] * min(batch, count - start))
            if start // batch % (_ARCHIVED_BYTES // _BATCH_BYTES) == 0:
                cluster.archive()
        cluster.archive()
        records = tiers(cluster, topic).earliest_local
        settings = direct_settings(cluster, enable_partition_eof=False)
        task = {"settings": settings, "topic": topic, "records": records, "directory": str(cluster.directory)}
        runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(rounds):
            for way in WAYS:
                runs[way].append(_in_a_process({**task, "way": way}))
    medians = {
        way: {name: statistics.median(run[name] for run in those) for name in ("seconds", "cpu_seconds")}
        for way, those in runs.items()
    }
    for way, found in medians.items():
        rate = records * size / found["seconds"] / 1e6
        print(f"{size:5} B  {way:15} {rate:8.0f} MB/s  {found['cpu_seconds'] / records * 1e6:7.3f} us CPU", file=sys.stderr)
    return {"record_bytes": size, "records": records, "ways": medians, "ratios": ratios(medians)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--task", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task is not None:
        json.dump(measured(options.task), sys.stdout)
        return 0
    rows = [_of_size(size, options.megabytes, options.rounds) for size in _SIZES]
    json.dump({"machine": machine("confluent-kafka", "pyarrow"), "rows": rows}, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
