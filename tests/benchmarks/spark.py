"""Spark reads one real tiered topic by its own Kafka source and by ours, side by side in one session, and throws the rows away.

Both sides pay the same latency per request in front of the store, as in consumer.py. One session of ``local[2]`` runs all of
it; rounds are interleaved: each visits every cell once, and the median counts. A cell is a topic (100 B or 1 KB, uncompressed,
lz4 or zstd), a latency, and who reads:

    kafka           format("kafka") as it is
    kafka-tuned     with 8 MiB per partition fetch and minPartitions=4
    direct          format("kafka-remote") as it is
    direct-tuned    with minPartitions=4
    one-split       ours with all of the partition in one split, so on one core

The clock runs from ``load()`` to the end of the job, the driver's planning included. A direct run counts only if the store sent
all bytes of the topic's segments to it and the broker read nothing of the tier. Beside the rates: CPU seconds of Spark (JVM and
Python), of the broker and of the shim, and GETs per GB of values. At the end, how long the driver plans 100,000 segments.

Prints a table on standard error and JSON on standard output; ``--json FILE`` writes the JSON to a file instead. The figures of
record, with their machine, are in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from tests.benchmarks.planning import planning_seconds
from tests.benchmarks.running import SessionCpu, ShimProcess, cpu_seconds, finish, machine
from tests.benchmarks.topics import Shape, TieredTopic, write_topic
from tests.support.kafka_broker import KafkaBroker
from tests.support.spark import DEFAULT_JAVA, WITH_CONNECTOR, SparkDriver, connector_jars

__all__: list[str] = []

_MIB = 1024 * 1024
_CORES, _WARMING = 2, 100

_CODECS = ("none", "lz4", "zstd", "snappy", "gzip")

KAFKA, OURS = "kafka", "kafka-remote"
READERS: dict[str, tuple[str, dict[str, str]]] = {
    "kafka": (KAFKA, {}),
    "kafka-tuned": (KAFKA, {"kafka.max.partition.fetch.bytes": str(8 * _MIB), "minPartitions": "4"}),
    "direct": (OURS, {}),
    "direct-tuned": (OURS, {"minPartitions": "4"}),
    "one-split": (OURS, {"remote.splitBytes": str(1 << 50)}),
}

Cell: TypeAlias = tuple[int, str, int, str]
"""Record bytes, codec, latency in ms, reader."""


@attrs.frozen
class Bench:
    """What runs, and how one measurement is made. ``processes``: the session of Spark's, the broker, the shim."""

    broker: KafkaBroker
    shim: ShimProcess
    spark: SparkDriver
    spark_cpu: SessionCpu

    def options(self, source: str, topic: TieredTopic) -> dict[str, str]:
        bounds = {"subscribe": topic.name, "endingOffsets": json.dumps({topic.name: {"0": topic.records}})}
        if source == KAFKA:
            return {"kafka.bootstrap.servers": self.broker.bootstrap_servers, **bounds}
        return {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "fetch.remote.bootstrap.servers": self.shim.bootstrap_servers,
            "remote.storage.fetcher.allowed.hosts": self.shim.origin_host,
            "remote.storage.fetcher.allow.http": "true",
            "remote.storage.fetcher.allow.private.addresses": "true",
            **bounds,
        }

    def measure(self, topic: TieredTopic, latency: int, reader: str) -> dict[str, Any]:
        """One job, after a very short one of the same kind: Spark ends Python workers that were idle for a minute."""
        self.broker.set_latency(latency)
        self.shim.set_latency(latency)
        source, own = READERS[reader]
        short = {"endingOffsets": json.dumps({topic.name: {"0": _WARMING}}), "minPartitions": str(_CORES)}
        self.spark("noop", source=source, options={**self.options(source, topic), **short})
        cpu, sent, asked = self._cpu(), self.shim.counts(), self.broker.remote_fetch_requests(topic.name)
        seconds = self.spark("noop", source=source, options={**self.options(source, topic), **own})
        asked_after, sent_after, cpu_after = self.broker.remote_fetch_requests(topic.name), self.shim.counts(), self._cpu()
        gigabytes = topic.records * topic.record_bytes / 1e9
        result = {
            "seconds": seconds,
            "rows_per_second": topic.records / seconds,
            "mb_per_second": 1000 * gigabytes / seconds,
            "cpu_seconds": {who: cpu_after[who] - cpu[who] for who in cpu},
            "gets": sent_after.requests - sent.requests,
            "store_bytes": sent_after.bytes_sent - sent.bytes_sent,
            "broker_reads": asked_after - asked,
        }
        result["gets_per_gb"] = result["gets"] / gigabytes
        result["impure"] = impurity(source, result, self.stored_bytes(topic))
        return result

    def stored_bytes(self, topic: TieredTopic) -> int:
        return sum(path.stat().st_size for path in self.broker.remote_segments(topic.name))

    def _cpu(self) -> dict[str, float]:
        return {
            "spark": self.spark_cpu.seconds(),
            "broker": cpu_seconds(process=self.broker.pid),
            "shim": cpu_seconds(process=self.shim.pid),
        }


def impurity(source: str, result: Mapping[str, Any], stored_bytes: int) -> str | None:
    """Why a run did not measure its side; None when it did."""
    if source == KAFKA:
        return None if result["broker_reads"] else "the broker read nothing of the tier"
    if result["broker_reads"] or result["store_bytes"] < stored_bytes:
        return (
            f"{result['store_bytes']} of {stored_bytes} bytes came from the store, {result['broker_reads']} reads by the broker"
        )
    return None


def ratios(medians: Mapping[Cell, float]) -> list[dict[str, Any]]:
    """Per topic and latency: the rates, ours over the better and over each of Spark's own, many splits over one."""
    rows = []
    for size, codec, latency in sorted({cell[:3] for cell in medians}):
        rates = {reader: medians.get((size, codec, latency, reader)) for reader in READERS}
        theirs = [rate for rate in (rates["kafka"], rates["kafka-tuned"]) if rate]
        row = {
            "record_bytes": size,
            "codec": codec,
            "latency_ms": latency,
            "mb_per_second": rates,
            "rows_per_second": {reader: rate and rate * 1e6 / size for reader, rate in rates.items()},
            "over_default": _over(rates["direct"], rates["kafka"]),
            "over_tuned": _over(rates["direct"], rates["kafka-tuned"]),
            "over_better": _over(rates["direct"], max(theirs)) if len(theirs) == 2 else None,
            "many_over_one": _over(rates["direct"], rates["one-split"]),
        }
        rows.append(row)
    return rows


def _over(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


@contextmanager
def _running(arguments: argparse.Namespace) -> Iterator[tuple[Bench, list[TieredTopic]]]:
    with tempfile.TemporaryDirectory(prefix="kafka-remote-bench-", dir=arguments.directory) as scratch:
        broker = KafkaBroker(Path(scratch) / "broker", storage_manager="DelayedTieredStorage")
        broker.directory.mkdir()
        try:
            broker.start()
            topics = [
                write_topic(broker, size, arguments.megabytes, arguments.segment_mib * _MIB, Shape(codec))
                for size, codec in product(arguments.record_bytes, arguments.codec)
            ]
            shim = ShimProcess(broker)
            spark_directory = Path(scratch) / "spark"
            spark_directory.mkdir()
            settings = {"spark.driver.memory": "2g"}
            try:
                driver = SparkDriver(
                    WITH_CONNECTOR, spark_directory, jars=connector_jars(), settings=settings, variables=DEFAULT_JAVA
                )
                with driver as spark, closing(SessionCpu(spark.pid)) as cpu:
                    yield Bench(broker, shim, spark, cpu), topics
            finally:
                shim.stop()
        finally:
            broker.destroy()


def _print_table(rows: list[dict[str, Any]]) -> None:
    def number(value: float | None, form: str) -> str:
        return format("-" if value is None else format(value, form), ">15")

    say = partial(print, file=sys.stderr)
    over = ("over_default", "over_tuned", "over_better", "many_over_one")
    say("MB/s of values       " + "".join(format(name, ">15") for name in (*READERS, *over)))
    for row in rows:
        rates = "".join(number(rate, ".0f") for rate in row["mb_per_second"].values())
        found = "".join(number(row[name], ".2f") for name in over)
        say(f"{row['record_bytes']:5d} B {row['codec']:<5} {row['latency_ms']:4d} ms {rates}{found}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000, help="values per topic, in MB (default 1000)")
    parser.add_argument("--record-bytes", type=int, nargs="+", default=[100, 1024])
    parser.add_argument(
        "--codec", nargs="+", choices=["none", "lz4", "zstd", "snappy", "gzip"], default=["none", "lz4", "zstd"]
    )
    parser.add_argument("--latency-ms", type=int, nargs="+", default=[0, 20], help="in front of the store, per request")
    parser.add_argument("--reader", nargs="+", choices=list(READERS), default=list(READERS))
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each cell; the median counts")
    parser.add_argument("--segment-mib", type=int, default=64)
    parser.add_argument("--segments", type=int, default=100_000, help="how many the driver plans at the end")
    parser.add_argument("--directory", type=Path, help="where all files go (default: the system's)")
    parser.add_argument("--json", type=Path, help="write the JSON here instead of to standard output")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    runs: dict[Cell, list[dict[str, Any]]] = defaultdict(list)
    with _running(arguments) as (bench, topics):
        for reader in arguments.reader:  # what is loaded and compiled at the first use counts for nobody
            bench.measure(topics[0], 0, reader)
        for number, topic, latency, reader in product(range(arguments.rounds), topics, arguments.latency_ms, arguments.reader):
            cell = (topic.record_bytes, topic.codec, latency, reader)
            result = bench.measure(topic, latency, reader)
            runs[cell].append(result)
            outcome = f"IMPURE, {result['impure']}" if result["impure"] else f"{result['mb_per_second']:.0f} MB/s"
            print(f"round {number + 1} {cell}: {outcome}", file=sys.stderr, flush=True)
        stored = {topic.name: bench.stored_bytes(topic) for topic in topics}
    medians = {
        cell: statistics.median(run["mb_per_second"] for run in made)
        for cell, made in runs.items()
        if not any(run["impure"] for run in made)
    }
    rows = ratios(medians)
    names = ("record_bytes", "codec", "latency_ms", "reader")
    impure = [
        {**dict(zip(names, cell, strict=True)), "why": [run["impure"] for run in made if run["impure"]]}
        for cell, made in runs.items()
        if cell not in medians
    ]
    report = {
        "machine": {**machine("confluent-kafka", "pyarrow"), "pyspark": WITH_CONNECTOR},
        "arguments": {name: value for name, value in vars(arguments).items() if name not in {"json", "directory"}},
        "readers": READERS,
        "topics": [{**attrs.asdict(topic), "stored_bytes": stored[topic.name]} for topic in topics],
        "ratios": rows,
        "planning": planning_seconds(arguments.segments),
        "impure": impure,
        "runs": [{**dict(zip(names, cell, strict=True)), "runs": made} for cell, made in runs.items()],
    }
    _print_table(rows)
    print(f"planning: {report['planning']}", file=sys.stderr)
    return finish(report, arguments.json, len(impure))


if __name__ == "__main__":
    sys.exit(main())
