"""Reads one real tiered topic through the broker (confluent-kafka) and directly (ours, through the shim), side by side.

Both sides pay the same latency per request in front of the store: the broker in its RemoteStorageManager (tests/java,
DelayedTieredStorage), ours in the shim's object origin. Rounds are interleaved: each visits every cell once. Prints a table
on standard error and JSON on standard output; ``--json FILE`` writes the JSON to a file instead.

A direct run counts only if its own metrics say that every record came from the store: what fell back measured the broker.
A cell with such a run gets no ratio, is listed under ``impure``, and makes the exit status 1.

The figures of record, with their machine, are in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from tests.benchmarks.running import ROOT, ShimProcess, machine
from tests.benchmarks.topics import TieredTopic, write_topic
from tests.support.kafka_broker import KafkaBroker

__all__: list[str] = []

_MIB = 1024 * 1024

_COMMON: dict[str, object] = {"group.id": "benchmark", "enable.auto.commit": False, "log_level": 0}
_TUNED_LIBRDKAFKA: dict[str, object] = {
    "max.partition.fetch.bytes": 8 * _MIB,
    "fetch.queue.backoff.ms": 5,
    "queued.max.messages.kbytes": 262_144,
    "queued.min.messages": 1_000_000,
}
_TUNED_DIRECT: dict[str, object] = {"fetch.remote.max.in.flight": 16, "fetch.remote.buffer.memory": 256 * _MIB}
SETTINGS: dict[str, dict[str, dict[str, object]]] = {
    "broker": {"default": {}, "tuned": _TUNED_LIBRDKAFKA},
    "direct": {"default": {}, "tuned": {**_TUNED_LIBRDKAFKA, **_TUNED_DIRECT}},
}

Cell: TypeAlias = tuple[int, int, str, str, str]
"""Record bytes, latency in ms, api, side, settings."""


@attrs.frozen
class Bench:
    """What runs, and how one measurement is made."""

    broker: KafkaBroker
    shim: ShimProcess
    seconds: float

    def config(self, side: str, settings: str) -> dict[str, object]:
        own = SETTINGS[side][settings]
        if side == "broker":
            return {"bootstrap.servers": self.broker.bootstrap_servers, **_COMMON, **own}
        direct = {
            "fetch.remote.enabled": True,
            "fetch.remote.bootstrap.servers": self.shim.bootstrap_servers,
            "remote.storage.fetcher.class": "presigned",
            "remote.storage.fetcher.allow.http": True,
            "remote.storage.fetcher.allow.private.addresses": True,
            "remote.storage.fetcher.allowed.hosts": self.shim.origin_host,
        }
        return {"bootstrap.servers": self.broker.bootstrap_servers, **_COMMON, **direct, **own}

    def measure(self, topic: TieredTopic, cell: Cell) -> dict[str, Any]:
        """One run in a process of its own; adds MiB/s of values and records per second."""
        _, latency, api, side, settings = cell
        self.broker.set_latency(latency)
        self.shim.set_latency(latency)
        task = {
            "side": side,
            "api": api,
            "config": self.config(side, settings),
            "topic": topic.name,
            "start": 0,
            "records": topic.records,
            "seconds": self.seconds,
        }
        command = [sys.executable, "-m", "tests.benchmarks.reader"]
        done = subprocess.run(command, cwd=ROOT, input=json.dumps(task), stdout=subprocess.PIPE, text=True, check=True)
        result: dict[str, Any] = json.loads(done.stdout)
        result["mib_per_second"] = result["value_bytes"] / _MIB / result["seconds"]
        result["records_per_second"] = result["records"] / result["seconds"]
        result["impure"] = impurity(side, result)
        return result


def impurity(side: str, result: dict[str, Any]) -> str | None:
    """Why a run did not measure its side; None when it did."""
    if not result["records"]:
        return "read nothing"
    if side == "broker":
        return None
    metrics = result["metrics"]
    from_broker, fallbacks = metrics["broker-fetch-records-total"], metrics["remote-fetch-fallbacks-total"]
    # The store's count may be ahead of the loop, never behind it.
    if from_broker or fallbacks or metrics["remote-fetch-records-total"] < result["records"]:
        return f"{from_broker} of {result['records']} records came from the broker, fallbacks {fallbacks}"
    return None


@contextmanager
def _running(arguments: argparse.Namespace) -> Iterator[tuple[Bench, list[TieredTopic]]]:
    with tempfile.TemporaryDirectory(prefix="kafka-remote-bench-", dir=arguments.directory) as scratch:
        broker = KafkaBroker(Path(scratch) / "broker", storage_manager="DelayedTieredStorage")
        broker.directory.mkdir()
        try:
            broker.start()
            sizes = arguments.record_bytes
            topics = [write_topic(broker, size, arguments.megabytes, arguments.segment_mib * _MIB) for size in sizes]
            shim = ShimProcess(broker)
            try:
                yield Bench(broker, shim, arguments.seconds), topics
            finally:
                shim.stop()
        finally:
            broker.destroy()


def _ratios(medians: dict[Cell, float]) -> list[dict[str, object]]:
    """Per record size, latency and api: the rates, and ours over the broker's default, tuned, and better of both."""
    rows = []
    for size, latency, api in sorted({cell[:3] for cell in medians}):
        wanted = {(size, latency, api, side, settings) for side, settings in product(SETTINGS, ("default", "tuned"))}
        if not wanted <= medians.keys():
            continue
        rates = {
            f"{side}_{settings}": medians[size, latency, api, side, settings]
            for side, settings in product(SETTINGS, ("default", "tuned"))
        }
        row: dict[str, object] = {"record_bytes": size, "latency_ms": latency, "api": api, "mib_per_second": rates}
        best_of_broker = max(rates["broker_default"], rates["broker_tuned"])
        for ours in ("default", "tuned"):
            rate = rates[f"direct_{ours}"]
            row[f"{ours}_over_broker_default"] = rate / rates["broker_default"]
            row[f"{ours}_over_broker_tuned"] = rate / rates["broker_tuned"]
            row[f"{ours}_over_best_of_broker"] = rate / best_of_broker
        rows.append(row)
    return rows


def _print_table(rows: list[dict[str, Any]]) -> None:
    say = partial(print, file=sys.stderr)
    say("MiB/s of values      broker          direct         direct / broker (best of both)")
    say("record latency api   default  tuned  default  tuned  default  tuned")
    for row in rows:
        rates = row["mib_per_second"]
        say(
            f"{row['record_bytes']:6d} {row['latency_ms']:4d} ms {row['api']:<7}"
            f" {rates['broker_default']:6.0f} {rates['broker_tuned']:6.0f} {rates['direct_default']:7.0f}"
            f" {rates['direct_tuned']:7.0f} {row['default_over_best_of_broker']:7.2f} {row['tuned_over_best_of_broker']:7.2f}"
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=500, help="values per topic, in MB (default 500)")
    parser.add_argument("--record-bytes", type=int, nargs="+", default=[100, 1024], help="one topic each")
    parser.add_argument("--latency-ms", type=int, nargs="+", default=[0, 20, 50], help="in front of the store, per request")
    parser.add_argument("--api", nargs="+", choices=["consume", "poll"], default=["consume", "poll"])
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each cell; the median counts")
    parser.add_argument("--seconds", type=float, default=20.0, help="longest time of one measurement")
    parser.add_argument("--segment-mib", type=int, default=64)
    parser.add_argument("--directory", type=Path, help="where the broker's files go (default: the system's)")
    parser.add_argument("--json", type=Path, help="write the JSON here instead of to standard output")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    runs: dict[Cell, list[dict[str, Any]]] = defaultdict(list)
    with _running(arguments) as (bench, topics):
        for number, topic, latency, api, side, settings in product(
            range(arguments.rounds), topics, arguments.latency_ms, arguments.api, SETTINGS, ("default", "tuned")
        ):
            cell = (topic.record_bytes, latency, api, side, settings)
            result = bench.measure(topic, cell)
            runs[cell].append(result)
            outcome = f"IMPURE, {result['impure']}" if result["impure"] else f"{result['mib_per_second']:.0f} MiB/s"
            print(f"round {number + 1} {cell}: {outcome}", file=sys.stderr, flush=True)
    impure = {cell: [run["impure"] for run in made if run["impure"]] for cell, made in runs.items()}
    pure = {cell: made for cell, made in runs.items() if not impure[cell]}
    medians = {cell: statistics.median(run["mib_per_second"] for run in made) for cell, made in pure.items()}
    ratios = _ratios(medians)
    names = ("record_bytes", "latency_ms", "api", "side", "settings")
    report = {
        "machine": machine("confluent-kafka"),
        "arguments": {name: value for name, value in vars(arguments).items() if name not in {"json", "directory"}},
        "settings": SETTINGS,
        "topics": [attrs.asdict(topic) for topic in topics],
        "ratios": ratios,
        "impure": [{**dict(zip(names, cell, strict=True)), "why": why} for cell, why in impure.items() if why],
        "runs": [{**dict(zip(names, cell, strict=True)), "runs": made} for cell, made in runs.items()],
    }
    _print_table(ratios)
    text = json.dumps(report, indent=1)
    if arguments.json:
        arguments.json.write_text(text + "\n")
    else:
        print(text)
    if report["impure"]:
        print(f"{len(report['impure'])} cells did not measure their side and have no ratio", file=sys.stderr)
    return int(bool(report["impure"]))


if __name__ == "__main__":
    sys.exit(main())
