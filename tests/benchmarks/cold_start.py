"""The time from ``assign`` to the first record of each of many cold partitions, while each store request is late.

A real broker with a tier, a shim that has read the metadata topic and nothing else, default settings. The latency holds for
the client's GETs and for the shim's own reads. Each measurement is a process of its own, and the median counts. The consumer
begins at offset 0 of all partitions and reads until each has given a record.

================  ============================================================================================================
column            is
================  ============================================================================================================
``first_seconds`` from ``assign`` to the first record of all
``half_seconds``  to the first record of half of the partitions
``last_seconds``  to the first record of the last partition
``share``         of the records that were taken: those that came from the store
``gets``          of the client
================  ============================================================================================================

Prints a table on standard error and JSON on standard output. The exit status is 1 with one line for each missed target: four
round trips and 0.1 s to the first record; twelve round trips and 1 s to the last of up to 100 partitions; 20 s to the last of
1,000 at up to 200 ms; a share of 0.98; no fallback. The figures of record are in docs/benchmarks.md, "Cold starts".
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

from tests.benchmarks.contenders import COMMON, MIB, direct_config, run_reader
from tests.benchmarks.running import ShimProcess, machine
from tests.benchmarks.topics import Shape, TieredTopic, write_topic
from tests.support.kafka_broker import KafkaBroker

__all__ = ["figures", "missed", "row"]

_FIRST_TRIPS, _FIRST_SECONDS = 4, 0.1
_LAST_TRIPS, _LAST_SECONDS = 12, 1.0
_MANY, _MANY_SECONDS = 100, 20.0
"""The least number of partitions with a target for the last one."""
_LEAST_SHARE = 0.98


def figures(partitions: int, result: dict[str, Any]) -> dict[str, float]:
    """The figures of a measurement. ``last_seconds`` is infinite if a partition gave no record."""
    starts, metrics = result["started_seconds"], result["metrics"]
    fallbacks = sum(metrics["remote-fetch-fallbacks-total"].values())
    return {
        "first_seconds": starts[0] if starts else float("inf"),
        "half_seconds": starts[partitions // 2] if len(starts) > partitions // 2 else float("inf"),
        "last_seconds": starts[-1] if len(starts) == partitions else float("inf"),
        # Queued records also count for the store.
        "share": metrics["remote-fetch-records-total"] / max(1, result["records"]),
        "gets": metrics["remote-fetch-request-total"],
        "hedges": metrics["remote-fetch-hedges-total"],
        "locations": metrics["remote-fetch-location-request-total"],
        "fallbacks": fallbacks,
    }


def row(partitions: int, latency_ms: int, runs: list[dict[str, float]]) -> dict[str, float]:
    """Medians of the runs; fallbacks are of the worst, and the share too."""
    pick = {"fallbacks": max, "share": min}
    found = {name: pick.get(name, statistics.median)(run[name] for run in runs) for name in runs[0]}
    return {"partitions": partitions, "latency_ms": latency_ms, **found}


def missed(made: dict[str, float]) -> list[str]:
    """A line for each target that a row misses."""
    seconds = made["latency_ms"] / 1000
    few = made["partitions"] <= _MANY
    targets = [
        ("first_seconds", _FIRST_TRIPS * seconds + _FIRST_SECONDS),
        ("last_seconds", _LAST_TRIPS * seconds + _LAST_SECONDS if few else _MANY_SECONDS),
        ("fallbacks", 0),
    ]
    place = f"{made['partitions']:.0f} partitions, {made['latency_ms']:.0f} ms"
    lines = [f"missed: {place}: {name} is {made[name]:.3g}, not {most:.3g}" for name, most in targets if made[name] > most]
    if made["share"] < _LEAST_SHARE:
        lines.append(f"missed: {place}: share is {made['share']:.3g}, not {_LEAST_SHARE}")
    return lines


def _measure(broker: KafkaBroker, topic: TieredTopic, latency_ms: int, seconds: float) -> dict[str, float]:
    shim = ShimProcess(broker)
    try:
        shim.set_latency(latency_ms)
        config = {"bootstrap.servers": broker.bootstrap_servers, **COMMON, **direct_config(shim)}
        read = run_reader(topic, side="direct", api="starts", config=config, seconds=seconds, fill_seconds=0)
    finally:
        shim.stop()
    return figures(topic.partitions, read)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="+", default=[24, 100, 1000], help="one topic each")
    parser.add_argument("--latency-ms", type=int, nargs="+", default=[20, 50, 100, 200], help="of every store request")
    parser.add_argument("--megabytes", type=int, default=100, help="values per topic, in MB")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each cell; the median counts")
    parser.add_argument("--seconds", type=float, default=60.0, help="longest time of one measurement")
    parser.add_argument("--directory", type=Path, help="where the broker's files go (default: the system's)")
    parser.add_argument("--json", type=Path, help="write the JSON here instead of to standard output")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    measured: dict[tuple[int, int], list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="kafka-remote-bench-", dir=arguments.directory) as scratch:
        broker = KafkaBroker(Path(scratch) / "broker", storage_manager="DelayedTieredStorage")
        broker.directory.mkdir()
        try:
            broker.start()
            topics = {
                partitions: write_topic(broker, 1024, arguments.megabytes, 64 * MIB, Shape(partitions=partitions))
                for partitions in arguments.partitions
            }
            for number, partitions, latency in product(range(arguments.rounds), arguments.partitions, arguments.latency_ms):
                found = _measure(broker, topics[partitions], latency, arguments.seconds)
                measured[partitions, latency].append(found)
                print(f"round {number + 1}: {partitions} partitions, {latency} ms: {found}", file=sys.stderr, flush=True)
        finally:
            broker.destroy()
    rows = [row(*place, runs) for place, runs in measured.items()]
    lines = [line for made in rows for line in missed(made)]
    named = {name: value for name, value in vars(arguments).items() if name not in {"json", "directory"}}
    report = {"machine": machine("confluent-kafka"), "arguments": named, "rows": rows, "missed": lines}
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    else:
        print(json.dumps(report, indent=1))
    print("partitions latency   first    half    last   share   GETs hedges locations fallbacks", file=sys.stderr)
    for made in rows:
        print(
            f"{made['partitions']:10.0f} {made['latency_ms']:4.0f} ms {made['first_seconds']:7.2f} {made['half_seconds']:7.2f}"
            f" {made['last_seconds']:7.2f} {made['share']:7.3f} {made['gets']:6.0f} {made['hedges']:6.0f}"
            f" {made['locations']:9.0f} {made['fallbacks']:9.0f}",
            file=sys.stderr,
        )
    print(*lines, sep="\n", file=sys.stderr)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
