"""The time from a known offset to its first record, with a warm shim and open connections, beside its two parts alone.

A real broker with a tier, a shim whose caches have the topic's indexes, default settings. Each store request is late. Bounded
reads of ten records at evenly spread offsets take turns with one location request and one GET of the granted range, made by the
same location source and fetcher without an engine.

==================  ==========================================================================================================
column              is
==================  ==========================================================================================================
``read_ms``         from the call that makes the reader to the block with the first record, median
``parts_ms``        one location request and one GET, median
``more_ms``         the difference of the medians
``gets``            GETs per read
``bytes``           received bytes per read
==================  ==========================================================================================================

Prints a table on standard error and JSON on standard output. The exit status is 1 with one line for each missed target: at most
5 ms more than the parts. The figures of record are in docs/benchmarks.md, "Cold starts".
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from kafka_remote_fetchers.presigned import PresignedFetcher

from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.config import split_config
from kafka_remote_client.fetch.assemble import required_engine
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.source import locate_one
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel, SegmentLocation
from tests.benchmarks.contenders import MIB, direct_config
from tests.benchmarks.running import ShimProcess, machine
from tests.benchmarks.topics import TieredTopic, write_topic
from tests.support.kafka_broker import KafkaBroker

__all__ = ["MOST_MS", "missed", "row"]

MOST_MS = 5.0
_RECORDS = 10
_PATIENCE_SECONDS = 60.0
_SMALL_RANGE = 128 * 1024


def row(latency_ms: int, reads: list[float], parts: list[float], gets: float, received: float) -> dict[str, float]:
    """Seconds become the medians of the columns above."""
    read_ms, parts_ms = (1000 * statistics.median(seconds) for seconds in (reads, parts))
    figures = {"read_ms": read_ms, "parts_ms": parts_ms, "more_ms": read_ms - parts_ms}
    return {"latency_ms": latency_ms, **figures, "gets": gets, "bytes": received}


def missed(rows: list[dict[str, float]]) -> list[str]:
    """A line for each missed target."""
    return [f"missed: {made['latency_ms']} ms: {made['more_ms']:.1f} ms more" for made in rows if made["more_ms"] > MOST_MS]


class Parts:
    """One location request and one GET."""

    def __init__(self, shim: ShimProcess, clock: Clock) -> None:
        self._clock = clock
        self._source = BrokerLocationSource(shim.bootstrap_servers, client_id="parts", clock=clock)
        self._fetcher = PresignedFetcher(clock)
        self._fetcher.configure(direct_config(shim))

    def run(self, topic: str, offset: int) -> None:
        question = LocationQuestion(
            topic=topic,
            partition=0,
            offset=offset,
            isolation_level=IsolationLevel.READ_COMMITTED,
            max_bytes=2 * _SMALL_RANGE,
            range_bytes=_SMALL_RANGE,
            read_end_offset=offset + _RECORDS,
        )
        location = locate_one(self._source, question, Deadline(self._clock, _PATIENCE_SECONDS))
        assert isinstance(location, SegmentLocation)
        granted = location.ranges[0]
        wanted = granted.range
        stream = self._fetcher.fetch_log_segment(location.metadata_for(granted), wanted.start, wanted.end)
        target = memoryview(bytearray(wanted.size))
        while target:
            target = target[stream.readinto(target) :]
        stream.close()

    def close(self) -> None:
        self._source.close()
        self._fetcher.close()


def _read(engine: FetchEngine, topic: str, offset: int) -> None:
    reader = engine.reader(
        ReadRequest(topic, 0, offset, end_offset=offset + _RECORDS, isolation_level=IsolationLevel.READ_COMMITTED)
    )
    (first, *_) = reader.blocks(_PATIENCE_SECONDS)
    assert not isinstance(first, ReadEnd)
    assert first.offset(0) == offset


def _offsets(topic: TieredTopic, count: int) -> Iterator[int]:
    last = topic.tiered[0] - _RECORDS
    return (1 + number * (last - 1) // count for number in range(count))


def measured(shim: ShimProcess, topic: TieredTopic, latency_ms: int, count: int) -> dict[str, float]:
    """The row of a latency."""
    clock = SystemClock()
    metrics = FetchMetrics(clock)
    remote, inner = split_config({"bootstrap.servers": shim.bootstrap_servers, **direct_config(shim)})
    reads, parts = [], []
    shim.set_latency(latency_ms)
    with ExitStack() as stack:
        engine = required_engine(remote, inner, clock, metrics)
        stack.callback(engine.close)
        alone = Parts(shim, clock)
        stack.callback(alone.close)
        for offset in _offsets(topic, 3):  # opens connections and loads the indexes of all segments
            _read(engine, topic.name, offset)
            alone.run(topic.name, offset)
        before = metrics.snapshot()
        for offset in _offsets(topic, count):
            began = clock.monotonic()
            _read(engine, topic.name, offset)
            between = clock.monotonic()
            alone.run(topic.name, offset)
            reads.append(between - began)
            parts.append(clock.monotonic() - between)
        after = metrics.snapshot()
    gets, received = (
        (float(str(after[name])) - float(str(before[name]))) / count
        for name in ("remote-fetch-request-total", "remote-fetch-bytes-total")
    )
    return row(latency_ms, reads, parts, gets, received)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-ms", type=int, nargs="+", default=[0, 20, 50], help="of every store request")
    parser.add_argument("--megabytes", type=int, default=100, help="values of the topic, in MB")
    parser.add_argument("--reads", type=int, default=100, help="for each latency")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="kafka-remote-bench-") as scratch, ExitStack() as stack:
        broker = KafkaBroker(Path(scratch) / "broker", storage_manager="DelayedTieredStorage")
        broker.directory.mkdir()
        stack.callback(broker.destroy)
        broker.start()
        topic = write_topic(broker, 1024, arguments.megabytes, 32 * MIB)
        shim = ShimProcess(broker)
        stack.callback(shim.stop)
        rows = [measured(shim, topic, latency, arguments.reads) for latency in arguments.latency_ms]
    lines = missed(rows)
    print("latency   read    parts     more  GETs  bytes", file=sys.stderr)
    for made in rows:
        print(
            f"{made['latency_ms']:4.0f} ms {made['read_ms']:6.1f} ms {made['parts_ms']:5.1f} ms {made['more_ms']:5.1f} ms"
            f" {made['gets']:5.2f} {made['bytes']:6.0f}",
            file=sys.stderr,
        )
    print(*lines, sep="\n", file=sys.stderr)
    print(
        json.dumps(
            {"machine": machine("confluent-kafka"), "arguments": vars(arguments), "rows": rows, "missed": lines}, indent=1
        )
    )
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
