"""A tier as Parquet: Spark's Kafka source, ours, and exports, side by side.

Topics of one partition on a real broker, all of it in the tier only: records of 100 B and of 1 KB without codec, and JSON
and Avro with zstd. Each is written as Parquet (zstd) in these ways, in turn, and the medians count:

    kafka-tuned     Spark: format("kafka") with 8 MiB per partition fetch and minPartitions=4
    kafka-remote    Spark: format("kafka-remote")
    executors       Spark: Scan.to_parquet(spark=session)
    export          Scan.to_parquet in one process with two threads
    bare            the same number of threads: GET, decompress, Arrow, pyarrow's writer (table_writing.py)

The row "typed" writes the JSON values as typed columns: by ``from_json``, and by ``value_format="json"``. The row "Avro" does
it with Avro values behind the id of a Schema Registry: by ``from_avro`` of spark-avro, which gets the schema and the values
without ids, and by ``value_format="avro"`` with the registry. The bare loop decodes Avro by pyruhvro, as the export does.

Spark is one session of ``local[2]`` with Java's default compiler. Each store request takes the same time on all sides, but for
the executors, which run without latency only. CPU is seconds of Spark (JVM and Python) and broker and shim, or of the process
that exports.

Targets, whose ratios exit 1 if they are missed: CPU of kafka-tuned divided by that of export (4; 1 KB: 3), and bare seconds
divided by those of export (0.8). Prints JSON; the figures of record are in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing
from itertools import count, product
from pathlib import Path
from typing import Any

import attrs
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tests.benchmarks.running import ROOT, SessionCpu, ShimProcess, cpu_seconds, finish, machine
from tests.benchmarks.topics import ORDER_SCHEMA, ORDER_SCHEMA_ID, Shape, TieredTopic, write_topic
from tests.support.artifacts import CACHE, jars_of
from tests.support.kafka_broker import KafkaBroker
from tests.support.schema_registry import SchemaRegistry
from tests.support.spark import DEFAULT_JAVA, WITH_CONNECTOR, SparkDriver, connector_jars

__all__ = ["Row", "missed"]

_AVRO_POM = ROOT / "tests" / "benchmarks" / "spark-avro-pom.xml"
_MIB = 1024 * 1024
_DDL = "id BIGINT, customer STRING, amount DOUBLE, currency STRING, note STRING"
_SCHEMA = {"id": "int64", "customer": "string", "amount": "double", "currency": "string", "note": "string"}
_TUNED = {"kafka.max.partition.fetch.bytes": str(8 * _MIB), "minPartitions": "4"}


@attrs.frozen
class Row:
    """A topic, whether its values become typed columns, and the least CPU of kafka-tuned divided by that of an export."""

    name: str
    record_bytes: int
    shape: Shape
    least_cpu_ratio: float
    typed: bool = False


ROWS = (
    Row("100 B", 100, Shape(), 4.0),
    Row("1 KB", 1024, Shape(), 3.0),
    Row("JSON", 300, Shape("zstd", json=True), 4.0),
    Row("typed", 300, Shape("zstd", json=True), 4.0, typed=True),
    Row("Avro", 200, Shape("zstd", avro=True), 4.0, typed=True),
)
_LEAST_OF_BARE = 0.8


def missed(row: Row, medians: Mapping[str, Mapping[str, float]]) -> tuple[dict[str, float], list[str]]:
    """The ratios of a row, and the names of those below their targets. ``medians``: by way, ``seconds`` and ``cpu_seconds``."""
    export = medians["export"]
    ratios = {
        "cpu: kafka-tuned / export": medians["kafka-tuned"]["cpu_seconds"] / export["cpu_seconds"],
        "seconds: bare / export": medians["bare"]["seconds"] / export["seconds"],
        "seconds: kafka-tuned / export": medians["kafka-tuned"]["seconds"] / export["seconds"],
    }
    targets = {"cpu: kafka-tuned / export": row.least_cpu_ratio, "seconds: bare / export": _LEAST_OF_BARE}
    return ratios, [name for name, least in targets.items() if ratios[name] < least]


@attrs.frozen
class _Bench:
    broker: KafkaBroker
    shim: ShimProcess
    spark: SparkDriver
    spark_cpu: SessionCpu
    registry: SchemaRegistry
    scratch: Path
    numbers: count[int] = attrs.field(factory=count)

    def measure(self, row: Row, topic: TieredTopic, way: str, latency: int) -> dict[str, float]:
        self.broker.set_latency(latency)
        self.shim.set_latency(latency)
        target = str(self.scratch / f"table-{next(self.numbers)}")
        if way in ("export", "bare"):
            found = self._in_a_process(row, topic, way, latency, target)
        else:
            before = self._cpu()
            found = self._in_spark(row, topic, way, target)
            found["cpu_seconds"] = self._cpu() - before
        if found["rows"] != topic.records:
            raise RuntimeError(f"{way} wrote {found['rows']} of {topic.records} records of {topic.name}")
        return found

    def _in_a_process(self, row: Row, topic: TieredTopic, way: str, latency: int, target: str) -> dict[str, float]:
        task = {"way": way, "store": self.broker.store_url, "topic": topic.name, "target": target, "threads": 2}
        task |= {"latency_ms": latency, "values": self._values(row)}
        command = [sys.executable, "-m", "tests.benchmarks.table_writing"]
        done = subprocess.run(command, cwd=ROOT, input=json.dumps(task), stdout=subprocess.PIPE, text=True, check=True)
        found: dict[str, float] = json.loads(done.stdout)
        return found

    def _in_spark(self, row: Row, topic: TieredTopic, way: str, target: str) -> dict[str, float]:
        module = "tests.benchmarks.spark_tables"
        if way == "executors":
            job, arguments = "export_on_executors", {"store": self.broker.store_url, "topic": topic.name}
            arguments |= {"values": self._values(row)}
        else:
            source = "kafka" if way == "kafka-tuned" else way
            job, arguments = "rows_to_parquet", {"source": source, "options": self._options(source, topic)}
            if row.typed:
                arguments |= {"avro": json.dumps(ORDER_SCHEMA)} if row.shape.avro else {"ddl": _DDL}
        found: dict[str, float] = self.spark(f"{module}:{job}", target=target, **arguments)
        return found

    def _values(self, row: Row) -> dict[str, Any]:
        """How values become typed columns: see table_writing.py."""
        if not row.typed:
            return {}
        return {"avro": ORDER_SCHEMA, "registry": self.registry.url} if row.shape.avro else {"json": _SCHEMA}

    def _options(self, source: str, topic: TieredTopic) -> dict[str, str]:
        ends = json.dumps({topic.name: {"0": topic.records}})
        common = {"kafka.bootstrap.servers": self.broker.bootstrap_servers, "subscribe": topic.name, "endingOffsets": ends}
        if source == "kafka":
            return common | _TUNED
        return common | {
            "fetch.remote.bootstrap.servers": self.shim.bootstrap_servers,
            "remote.storage.fetcher.allowed.hosts": self.shim.origin_host,
            "remote.storage.fetcher.allow.http": "true",
            "remote.storage.fetcher.allow.private.addresses": "true",
        }

    def _cpu(self) -> float:
        return self.spark_cpu.seconds() + cpu_seconds(self.broker.pid) + cpu_seconds(self.shim.pid)


def spark_jars(rows: Iterable[Row]) -> list[Path]:
    """Spark's Kafka source, and its Avro functions if a row has Avro. Raises MissingPartError."""
    if not any(row.shape.avro for row in rows):
        return connector_jars()
    directory = jars_of(_AVRO_POM, CACHE / "spark" / "avro", "Maven cannot fetch Spark's Avro functions")
    return [*connector_jars(), *directory.glob("spark-avro_*.jar")]


def register_orders(url: str, topic: str) -> None:
    """Registers the schema of Avro orders for the values of a topic. Raises RuntimeError for another id than the values'."""
    with SchemaRegistryClient({"url": url}) as client:
        if client.register_schema(f"{topic}-value", Schema(json.dumps(ORDER_SCHEMA), "AVRO")) != ORDER_SCHEMA_ID:
            raise RuntimeError(f"the schema of {topic} has another id than its values")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [row.name for row in ROWS]
    parser.add_argument("--rows", nargs="+", choices=names, default=names)
    parser.add_argument("--megabytes", type=int, default=500, help="values per topic, in MB (default 500)")
    parser.add_argument("--latency-ms", type=int, nargs="+", default=[0, 20], help="of each store request")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each cell; the median counts")
    parser.add_argument("--segment-mib", type=int, default=64)
    parser.add_argument("--directory", type=Path, help="where all files go (default: the system's)")
    parser.add_argument("--json", type=Path, help="write the JSON here instead of to standard output")
    return parser.parse_args()


def _run(arguments: argparse.Namespace, scratch: Path) -> tuple[list[dict[str, Any]], int]:
    rows = [row for row in ROWS if row.name in arguments.rows]
    broker = KafkaBroker(scratch / "broker", storage_manager="DelayedTieredStorage")
    broker.directory.mkdir()
    (scratch / "spark").mkdir()
    runs: dict[tuple[str, int, str], list[dict[str, float]]] = defaultdict(list)
    try:
        broker.start()
        topics = {}
        for row in rows:
            if (row.shape, row.record_bytes) not in topics:
                size = arguments.segment_mib * _MIB
                topics[row.shape, row.record_bytes] = write_topic(
                    broker, row.record_bytes, arguments.megabytes, size, row.shape
                )
        shim = ShimProcess(broker)
        try:
            settings = {"spark.driver.memory": "2g"}
            driver = SparkDriver(
                WITH_CONNECTOR, scratch / "spark", jars=spark_jars(rows), settings=settings, variables=DEFAULT_JAVA
            )
            with driver as spark, closing(SessionCpu(spark.pid)) as cpu, SchemaRegistry() as registry:
                for topic in topics.values():
                    register_orders(registry.url, topic.name)
                bench = _Bench(broker, shim, spark, cpu, registry, scratch)
                for number, latency, row in product(range(-1, arguments.rounds), arguments.latency_ms, rows):
                    for way in ("kafka-tuned", "kafka-remote", "executors", "export", "bare"):
                        if (way == "executors" and latency) or (number < 0 and latency != arguments.latency_ms[0]):
                            continue
                        found = bench.measure(row, topics[row.shape, row.record_bytes], way, latency)
                        if number >= 0:  # the first round warms the compilers up
                            runs[row.name, latency, way].append(found)
                        line = f"round {number + 1} {row.name} {latency} ms {way}: {found}"
                        print(line, file=sys.stderr, flush=True)
        finally:
            shim.stop()
    finally:
        broker.destroy()
    report, failed = [], 0
    for row, latency in product(rows, arguments.latency_ms):
        topic = topics[row.shape, row.record_bytes]
        medians = {
            way: {name: statistics.median(one[name] for one in made) for name in ("seconds", "cpu_seconds")}
            for (name, milliseconds, way), made in runs.items()
            if (name, milliseconds) == (row.name, latency)
        }
        ratios, short = missed(row, medians)
        failed += len(short)
        gigabytes = topic.records * topic.record_bytes / 1e9
        report.append(
            {
                "row": row.name,
                "latency_ms": latency,
                "mb_per_second": {way: round(1000 * gigabytes / one["seconds"], 1) for way, one in medians.items()},
                "cpu_seconds_per_gb": {way: round(one["cpu_seconds"] / gigabytes, 2) for way, one in medians.items()},
                "ratios": {name: round(ratio, 2) for name, ratio in ratios.items()},
                "missed": short,
            }
        )
    return report, failed


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="kafka-remote-bench-", dir=arguments.directory) as scratch:
        rows, failed = _run(arguments, Path(scratch))
    named = {name: value for name, value in vars(arguments).items() if name not in {"json", "directory"}}
    report = {"machine": {**machine("pyarrow"), "pyspark": WITH_CONNECTOR}, "arguments": named, "rows": rows}
    return finish(report, arguments.json, failed, "ratios are below their targets")


if __name__ == "__main__":
    sys.exit(main())
