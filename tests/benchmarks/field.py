"""Reads tiered topics under field conditions: default settings, cold caches, many partitions, a latency for all store requests.

Both sides pay the latency for each request: the broker in its RemoteStorageManager (segments and indexes), ours in the shim's
object origin and in front of the shim's own reads. Contenders are confluent-kafka with default settings and tuned, and ours
with default settings; with ``--before`` also ours of an earlier version. Rounds are interleaved: each visits every cell once.
Each measurement is a process of its own, and the median counts.

=======  =====================================================================================================================
shim     is
=======  =====================================================================================================================
cold     a new process that has read the metadata topic and nothing else; the broker's cache of remote indexes is empty
warm     the same process for all measurements, after the topic was read once; the broker's cache holds the topic's indexes
=======  =====================================================================================================================

==================  ==========================================================================================================
column              is
==================  ==========================================================================================================
``first_seconds``   from ``assign`` to the first record
``mib_per_second``  MiB/s of values, from ``assign`` to the last record
``share``           of the records below the local log start that were taken: those that came from the store. Records that wait
                    to be taken came from the store, too, so it may be above 1
``gets``            GETs of the client, hedges among them
``hedges``          GETs for ranges that were late
``gets_over_ideal`` GETs over what ranges of full size would need for the part that was read
``over_read_bytes`` received bytes that held no delivered record
``cpu_ns``          the client's CPU time per record
``servers_cpu_ns``  that of broker, shim and object origin, or MinIO and proxy; of each one in the JSON
==================  ==========================================================================================================

With ``--tail`` the store of both sides has one more property. ``lognormal``: the latency is the median of the first byte, and
the 99th percentile is four times as long. ``late``: 2 % of the requests are 2 s late, and 0.1 % are never answered.

With ``--store minio`` the tier is copied into MinIO after it was written. The shim signs URLs of it, and a proxy in front of it
delays each request of shim and client.

``--sample`` takes about three minutes. Prints a table on standard error and JSON on standard output. The exit status is 1 with
one line for each missed target. The figures of record are in docs/benchmarks.md, "Field conditions".
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import attrs

from kafka_remote_client.settings import default_of
from kafka_remote_client.testing import FixedLatency, LognormalLatency, StoreModel
from tests.benchmarks.contenders import COMMON, MIB, TUNED_LIBRDKAFKA, direct_config, run_reader
from tests.benchmarks.minio_tier import MinioTier
from tests.benchmarks.running import ShimProcess, cpu_seconds, machine
from tests.benchmarks.topics import Shape, TieredTopic, write_topic
from tests.support.kafka_broker import KafkaBroker
from tests.support.live_store import text_of_model

__all__ = ["TARGETS", "Place", "Target", "figures", "missed"]

BROKER_DEFAULT, BROKER_TUNED, DIRECT, BEFORE = "broker default", "broker tuned", "direct default", "direct before"
CONTENDERS = (BROKER_DEFAULT, BROKER_TUNED, DIRECT)
_SHIMS = ("cold", "warm")
_WARMING_SECONDS = 20.0
_OF_ALL = ("first_seconds", "mib_per_second", "cpu_ns_per_record", "servers_cpu_ns_per_record")
_FULL_RANGE = default_of("fetch.remote.range.bytes")


@attrs.frozen(order=True)
class Place:
    """The conditions that contenders are compared under."""

    shim: str
    partitions: int
    record_bytes: int
    codec: str
    latency_ms: int

    def __str__(self) -> str:
        return f"{self.shim} {self.partitions} x {self.record_bytes} B {self.codec} {self.latency_ms} ms"


@attrs.frozen
class Target:
    """Ours has ``figure`` of at least ``least``, or at most ``most``, in all places with these conditions; ``None`` = any."""

    figure: str
    least: float | None = None
    most: float | None = None
    shim: str | None = None
    partitions: int | None = None
    record_bytes: int | None = None
    codec: str | None = None
    latency_ms: int | None = None

    def holds_in(self, place: Place) -> bool:
        names = ("shim", "partitions", "record_bytes", "codec", "latency_ms")
        return all(getattr(self, name) in (None, getattr(place, name)) for name in names)

    def missed_by(self, value: float) -> bool:
        return (self.least is not None and value < self.least) or (self.most is not None and value > self.most)

    def __str__(self) -> str:
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"


TARGETS = (
    Target("over_default", 10, shim="cold", partitions=24, latency_ms=50),
    Target("over_tuned", 5, shim="cold", partitions=24, latency_ms=50),
    Target("over_tuned", 4.75, partitions=1, record_bytes=1024, codec="none", latency_ms=20),
    Target("over_tuned", 2.5, partitions=1, record_bytes=100, codec="none", latency_ms=20),
    Target("share", 0.98, shim="cold"),
    Target("location_fallbacks", most=0, shim="cold"),
)
_TAILS: dict[str, Callable[[float], StoreModel]] = {
    "none": lambda seconds: StoreModel(FixedLatency(seconds)),
    "lognormal": lambda seconds: StoreModel(LognormalLatency(seconds, 4 * seconds) if seconds else FixedLatency(0.0)),
    "late": lambda seconds: StoreModel(FixedLatency(seconds), late_share=0.02, lost_share=0.001),
}
"""The store of a place, by its latency in seconds."""
_BEFORE_TARGET = Target("over_before", 0.97, latency_ms=0)


def figures(contender: str, topic: TieredTopic, result: dict[str, Any]) -> dict[str, float]:
    """The figures of a measurement."""
    found = {name: float(result[name]) for name in _OF_ALL}
    found |= {f"{name}_cpu_ns_per_record": value for name, value in result["servers"].items()}
    if contender not in (DIRECT, BEFORE):
        return found
    metrics = result["metrics"]
    taken = sum(min(position, end) for position, end in zip(result["positions"], topic.tiered, strict=True))
    found["share"] = metrics["remote-fetch-records-total"] / taken if taken else 0.0
    if contender == BEFORE:  # the earlier version has fewer counters
        return found
    ideal = sum(-(-size // _FULL_RANGE) for size in topic.segment_bytes) * taken / sum(topic.tiered)
    fallbacks = metrics["remote-fetch-fallbacks-total"]
    return found | {
        "gets": metrics["remote-fetch-request-total"],
        "hedges": metrics["remote-fetch-hedges-total"],
        "gets_over_ideal": metrics["remote-fetch-request-total"] / ideal if ideal else 0.0,
        "over_read_bytes": metrics["remote-fetch-over-read-bytes-total"],
        "fallbacks": sum(fallbacks.values()),
        "location_fallbacks": sum(count for cause, count in fallbacks.items() if cause.startswith("location")),
    }


def rows(measured: dict[tuple[Place, str], list[dict[str, float]]]) -> list[dict[str, Any]]:
    """A row for each place: medians of the figures, and direct over the others. Fallbacks are of the worst round."""
    made = []
    for place in sorted({place for place, _ in measured}):
        here = {
            contender: {
                name: (max if name.endswith("fallbacks") else statistics.median)(run[name] for run in runs) for name in runs[0]
            }
            for (where, contender), runs in measured.items()
            if where == place
        }
        over = {
            f"over_{contender.split()[1]}": here[DIRECT]["mib_per_second"] / here[contender]["mib_per_second"]
            for contender in (BROKER_DEFAULT, BROKER_TUNED, BEFORE)
            if contender in here and DIRECT in here and here[contender]["mib_per_second"]
        }
        made.append({"place": attrs.asdict(place), "figures": here, **over})
    return made


def missed(made: Sequence[dict[str, Any]], targets: Sequence[Target] = TARGETS) -> list[str]:
    """A line for each target that a row misses, also where the figure was not measured."""
    lines = []
    for row in made:
        place = Place(**row["place"])
        ours = row["figures"].get(DIRECT, {}) | {name: value for name, value in row.items() if name.startswith("over_")}
        for target in targets:
            value = ours.get(target.figure)
            if not target.holds_in(place):
                continue
            if value is None:
                lines.append(f"not measured: {place}: {target.figure}, to be {target}")
            elif target.missed_by(value):
                lines.append(f"missed: {place}: {target.figure} is {value:.3g}, not {target}")
    return lines


@attrs.define
class Bench:
    """The running servers, and one measurement."""

    broker: KafkaBroker
    seconds: float
    minio: MinioTier | None = None
    before: Path | None = None
    tail: str = "none"
    warm_shim: ShimProcess | None = None
    warmed: set[str] = attrs.field(factory=set)

    def measure(self, topic: TieredTopic, place: Place, contender: str) -> dict[str, Any]:
        if place.shim == "cold":
            self.warmed.clear()
            self.broker.clear_index_cache()
            if contender not in (DIRECT, BEFORE):
                return self._read(topic, place.latency_ms, contender, None)
            shim = self._shim()
            try:
                return self._read(topic, place.latency_ms, contender, shim)
            finally:
                shim.stop()
        shim = self.warm_shim = self.warm_shim or self._shim()
        if topic.name not in self.warmed:
            for one in (BROKER_TUNED, DIRECT):
                self._read(topic, 0, one, shim, _WARMING_SECONDS)
            self.warmed.add(topic.name)
        return self._read(topic, place.latency_ms, contender, shim)

    def _shim(self) -> ShimProcess:
        return ShimProcess(self.broker) if self.minio is None else self.minio.shim()

    def _read(
        self, topic: TieredTopic, latency_ms: int, contender: str, shim: ShimProcess | None, seconds: float | None = None
    ) -> dict[str, Any]:
        model = _TAILS[self.tail](latency_ms / 1000)
        self.broker.behave_like(text_of_model(model))
        config = {"bootstrap.servers": self.broker.bootstrap_servers, **COMMON}
        if contender == BROKER_TUNED:
            config |= TUNED_LIBRDKAFKA
        if contender in (DIRECT, BEFORE):
            assert shim is not None
            if self.minio is None:
                shim.behave_like(model)
            else:
                self.minio.proxy.set_latency(latency_ms)
            config |= direct_config(shim)
        side, _ = contender.split()
        before = self._servers_cpu(shim)
        python = self.before if contender == BEFORE and self.before is not None else sys.executable
        task = {"side": side, "api": "consume", "config": config, "seconds": seconds or self.seconds, "fill_seconds": 0}
        read = run_reader(topic, python=python, **task)
        used = self._servers_cpu(shim)
        read["servers"] = {name: 1e9 * (used[name] - before[name]) / max(1, read["records"]) for name in used}
        read["servers_cpu_ns_per_record"] = sum(read["servers"].values())
        return read

    def _servers_cpu(self, shim: ShimProcess | None) -> dict[str, float]:
        """The CPU seconds of each server so far, by name."""
        pids = {"broker": self.broker.pid} | ({} if self.minio is None else self.minio.pids)
        if shim is not None:
            pids["shim"] = shim.pid
        return {name: cpu_seconds(process=pid) for name, pid in pids.items()}

    def stop(self) -> None:
        if self.warm_shim is not None:
            self.warm_shim.stop()


@contextmanager
def _running(arguments: argparse.Namespace) -> Iterator[tuple[Bench, dict[Shape, dict[int, TieredTopic]]]]:
    with tempfile.TemporaryDirectory(prefix="kafka-remote-bench-", dir=arguments.directory) as scratch, ExitStack() as stack:
        broker = KafkaBroker(Path(scratch) / "broker", storage_manager="DelayedTieredStorage")
        broker.directory.mkdir()
        stack.callback(broker.destroy)
        broker.start()
        minio = None
        if arguments.store == "minio":
            minio = MinioTier(broker, Path(scratch) / "minio")
            stack.callback(minio.close)
        topics: dict[Shape, dict[int, TieredTopic]] = defaultdict(dict)
        for partitions, size, codec in product(arguments.partitions, arguments.record_bytes, arguments.codec):
            shape = Shape(codec, partitions=partitions)
            topic = topics[shape][size] = write_topic(broker, size, arguments.megabytes, arguments.segment_mib * MIB, shape)
            if minio is not None:
                minio.add(topic)
        bench = Bench(broker, arguments.seconds, minio, arguments.before, arguments.tail)
        stack.callback(bench.stop)
        yield bench, topics


def _print_table(made: list[dict[str, Any]]) -> None:
    for row in made:
        print(Place(**row["place"]), file=sys.stderr)
        for contender, found in row["figures"].items():
            line = f"  {contender:<15} first {found['first_seconds']:6.2f} s {found['mib_per_second']:7.1f} MiB/s"
            line += f" {found['cpu_ns_per_record']:6.0f} + {found['servers_cpu_ns_per_record']:.0f} ns CPU"
            if contender == DIRECT:
                line += f"  share {found['share']:.3f}  GETs {found['gets']:.0f} ({found['gets_over_ideal']:.2f} of ideal)"
                line += f"  hedges {found['hedges']:.0f}"
                line += f"  over-read {found['over_read_bytes']:.0f} B  fallbacks {found['fallbacks']:.0f}"
            print(line, file=sys.stderr)
        over = ", ".join(f"{name.removeprefix('over_')} {row[name]:.2f}" for name in row if name.startswith("over_"))
        print(f"  direct over {over}" if over else "  no ratio", file=sys.stderr)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sample", action="store_true", help="24 cold partitions, 1 KB, 50 ms, 120 MB, two rounds of up to 6 s"
    )
    parser.add_argument("--store", choices=["directory", "minio"], default="directory", help="where our side reads the tier")
    parser.add_argument("--shim", nargs="+", choices=_SHIMS, default=list(_SHIMS))
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 24, 100, 1000], help="one topic each")
    parser.add_argument("--record-bytes", type=int, nargs="+", default=[100, 1024], help="one topic each")
    parser.add_argument("--codec", nargs="+", choices=["none", "zstd"], default=["none", "zstd"], help="one topic each")
    parser.add_argument("--latency-ms", type=int, nargs="+", default=[0, 20, 50], help="of every store request")
    parser.add_argument("--tail", choices=list(_TAILS), default="none", help="what the store does beside its latency")
    parser.add_argument("--before", type=Path, help="a Python with an earlier version installed, which is compared as well")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--megabytes", type=int, default=300, help="values per topic, in MB (default 300)")
    parser.add_argument("--segment-mib", type=int, default=64, help="at most; a partition has four segments or more")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each cell; the median counts")
    parser.add_argument("--seconds", type=float, default=20.0, help="longest time of one measurement")
    parser.add_argument("--directory", type=Path, help="where the broker's files go (default: the system's)")
    parser.add_argument("--json", type=Path, help="write the JSON here instead of to standard output")
    arguments = parser.parse_args()
    if arguments.store == "minio" and arguments.tail != "none":
        parser.error("the proxy in front of MinIO has a latency only")
    if arguments.sample:
        arguments.shim, arguments.partitions, arguments.record_bytes = ["cold"], [24], [1024]
        arguments.codec, arguments.latency_ms, arguments.megabytes = ["none"], [50], 120
        arguments.rounds, arguments.seconds = 2, 6.0
    return arguments


def main() -> int:
    arguments = _arguments()
    conditions = (arguments.shim, arguments.partitions, arguments.record_bytes, arguments.codec, arguments.latency_ms)
    places = [Place(*one) for one in product(*conditions)]
    measured: dict[tuple[Place, str], list[dict[str, float]]] = defaultdict(list)
    runs = []
    contenders = [*arguments.contenders, *([BEFORE] if arguments.before else [])]
    with _running(arguments) as (bench, topics):
        for number, place, contender in product(range(arguments.rounds), places, contenders):
            topic = topics[Shape(place.codec, partitions=place.partitions)][place.record_bytes]
            result = bench.measure(topic, place, contender)
            found = figures(contender, topic, result)
            measured[place, contender].append(found)
            runs.append({**attrs.asdict(place), "contender": contender, "round": number + 1, "figures": found, "run": result})
            print(f"round {number + 1} {place}, {contender}: {found['mib_per_second']:.1f} MiB/s", file=sys.stderr, flush=True)
    made = rows(measured)
    lines = missed(made, (*TARGETS, _BEFORE_TARGET) if arguments.before else TARGETS)
    report = {
        "machine": machine("confluent-kafka"),
        "arguments": {name: value for name, value in vars(arguments).items() if name not in {"json", "directory", "before"}},
        "rows": made,
        "missed": lines,
        "runs": runs,
    }
    text = json.dumps(report, indent=1)
    if arguments.json:
        arguments.json.write_text(text + "\n")
    else:
        print(text)
    _print_table(made)
    for line in lines:
        print(line, file=sys.stderr)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
