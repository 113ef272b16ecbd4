"""Reads real topics through the broker (confluent-kafka) and directly through the shim (this project's consumer), side by side.

Both sides pay the same latency for each store request: the broker in its RemoteStorageManager (tests/java,
DelayedTieredStorage), direct in the shim's object origin and in front of the shim's own reads. Rounds are interleaved: each
visits every cell once. Prints a table on standard error and JSON on standard output; ``--json FILE`` writes the JSON to a
file instead.

A cell is a row (what topic, how), a record size, a latency, a call, a side and its settings:

==============  ==============================================================================================================
row             is
==============  ==============================================================================================================
``plain``       one partition, values alone, uncompressed
``keys``        each record has a key of 16 bytes
``headers``     each record has two headers
``lz4``         compressed batches, as is ``zstd``
``tls``         TLS everywhere: broker, shim, origin
``partitions``  24 partitions
``local``       everything on the broker's disk, direct fetch on
``queue``       the same, ``poll`` of a queue that was filled before the clock runs
``disabled``    the same, direct fetch off (``fetch.remote.enabled=false``)
==============  ==============================================================================================================

A direct run counts only if its own metrics say that every record came from the store (of ``partitions`` nearly every one, for
partitions end at different times), or where everything is local, none. A cell with another run gets no ratio, is listed under
``impure``, and makes the exit status 1.

The figures of record, with their machine, are in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import attrs

from tests.benchmarks.contenders import COMMON, MIB, TUNED_LIBRDKAFKA, direct_config, run_reader
from tests.benchmarks.running import ShimProcess, finish, machine
from tests.benchmarks.topics import Shape, TieredTopic, write_topic
from tests.support.certificates import Authority
from tests.support.kafka_broker import KafkaBroker

__all__: list[str] = []

_NEARLY = 0.95

_LONG_QUEUE: dict[str, object] = {"queued.min.messages": 10_000_000, "queued.max.messages.kbytes": 2_000_000}
_TUNED_DIRECT: dict[str, object] = {"fetch.remote.max.in.flight": 16, "fetch.remote.buffer.memory": 256 * MIB}
SETTINGS: dict[str, dict[str, dict[str, object]]] = {
    "broker": {"default": {}, "tuned": TUNED_LIBRDKAFKA, "queue": _LONG_QUEUE},
    "direct": {"default": {}, "tuned": {**TUNED_LIBRDKAFKA, **_TUNED_DIRECT}, "queue": _LONG_QUEUE},
    "disabled": {"default": {}, "tuned": TUNED_LIBRDKAFKA},
}

Contender = tuple[str, str]
"""Side and settings."""

_OF_THE_TIER = (("broker", "default"), ("broker", "tuned"), ("direct", "default"), ("direct", "tuned"))


@attrs.frozen
class Row:
    """A topic, its readers and their settings. ``latencies``: whether the row is measured with store latencies."""

    shape: Shape = attrs.field(factory=Shape)
    contenders: tuple[Contender, ...] = _OF_THE_TIER
    apis: tuple[str, ...] = ("consume", "poll")
    latencies: bool = True
    tls: bool = False
    fill_seconds: float = 0.0


_LOCAL = Shape(local=True)
ROWS = {
    "plain": Row(),
    "keys": Row(Shape(keys=True)),
    "headers": Row(Shape(headers=2)),
    "lz4": Row(Shape("lz4")),
    "zstd": Row(Shape("zstd")),
    "tls": Row(tls=True),
    "partitions": Row(Shape(partitions=24)),
    "local": Row(_LOCAL, latencies=False),
    "queue": Row(_LOCAL, (("broker", "queue"), ("direct", "queue")), ("poll",), latencies=False, fill_seconds=6.0),
    "disabled": Row(_LOCAL, (*_OF_THE_TIER[:2], ("disabled", "default"), ("disabled", "tuned")), latencies=False),
}


@attrs.frozen(order=True)
class Cell:
    """One thing to measure."""

    row: str
    record_bytes: int
    latency_ms: int
    api: str
    side: str
    settings: str

    @property
    def place(self) -> tuple[str, int, int, str]:
        """The conditions that compared cells share."""
        return self.row, self.record_bytes, self.latency_ms, self.api


@attrs.frozen
class Bench:
    """What runs, and how one measurement is made. ``shims`` by whether they speak TLS; ``authority``: who signed them."""

    broker: KafkaBroker
    shims: dict[bool, ShimProcess]
    authority: Path
    seconds: float

    def config(self, cell: Cell) -> dict[str, object]:
        tls = ROWS[cell.row].tls
        servers = self.broker.tls_bootstrap_servers if tls else self.broker.bootstrap_servers
        secure = {"security.protocol": "ssl", "ssl.ca.location": str(self.authority)} if tls else {}
        own = {"bootstrap.servers": servers, **COMMON, **secure, **SETTINGS[cell.side][cell.settings]}
        if cell.side != "direct":
            return own | ({"fetch.remote.enabled": False} if cell.side == "disabled" else {})
        return own | direct_config(self.shims[tls], self.authority if tls else None)

    def measure(self, topic: TieredTopic, cell: Cell) -> dict[str, Any]:
        """One run in a process of its own."""
        self.broker.set_latency(cell.latency_ms)
        for shim in self.shims.values():
            shim.set_latency(cell.latency_ms)
        result = run_reader(
            topic,
            side=cell.side,
            api=cell.api,
            config=self.config(cell),
            seconds=self.seconds,
            fill_seconds=ROWS[cell.row].fill_seconds,
        )
        result["impure"] = impurity(cell.side, result, local=ROWS[cell.row].shape.local, partitions=topic.partitions)
        return result


def impurity(side: str, result: dict[str, Any], *, local: bool = False, partitions: int = 1) -> str | None:
    """The reason why a run did not measure its side; None if it did."""
    if not result["records"]:
        return "read nothing"
    if side != "direct":
        return None
    metrics = result["metrics"]
    from_broker, fallbacks = metrics["broker-fetch-records-total"], metrics["remote-fetch-fallbacks-total"]
    from_store = metrics["remote-fetch-records-total"]
    if local:
        return f"{from_store} records came from the store" if from_store or fallbacks else None
    # The store's count may be ahead of the loop, never behind it.
    wanted = result["records"] * (1 if partitions == 1 else _NEARLY)
    if fallbacks or from_store < wanted or (from_broker and partitions == 1):
        return f"{from_broker} of {result['records']} records came from the broker, fallbacks {fallbacks}"
    return None


@contextmanager
def _running(arguments: argparse.Namespace) -> Iterator[tuple[Bench, dict[tuple[str, int], TieredTopic]]]:
    with tempfile.TemporaryDirectory(prefix="kafka-remote-bench-", dir=arguments.directory) as scratch, ExitStack() as stack:
        directory = Path(scratch)
        broker = KafkaBroker(directory / "broker", storage_manager="DelayedTieredStorage")
        broker.directory.mkdir()
        stack.callback(broker.destroy)
        broker.start()
        written: dict[tuple[Shape, int], TieredTopic] = {}
        topics = {}
        for row, size in product(arguments.rows, arguments.record_bytes):
            key = ROWS[row].shape, size
            if key not in written:
                written[key] = write_topic(broker, size, arguments.megabytes, arguments.segment_mib * MIB, key[0])
            topics[row, size] = written[key]
        issuer = Authority("The benchmark's authority")
        authority = directory / "authorities.pem"
        authority.write_text(issuer.pem + broker.authority.read_text())
        shims = {}
        for tls in sorted({ROWS[row].tls for row in arguments.rows}):
            certificate = {"ssl_certificate": str(issuer.issue().write(directory / "shim.pem")), "origin_https": True}
            shims[tls] = ShimProcess(broker, **(certificate if tls else {}))
            stack.callback(shims[tls].stop)
        yield Bench(broker, shims, authority, arguments.seconds), topics


def cells(
    rows: Sequence[str], sizes: Sequence[int], latencies: Sequence[int], apis: Sequence[str], settings: Sequence[str]
) -> list[Cell]:
    """All cells of one round; each row has its applicable cells."""
    found = []
    for name, size in product(rows, sizes):
        row = ROWS[name]
        for latency, api, (side, own) in product(latencies if row.latencies else [0], apis, row.contenders):
            if api in row.apis and (own in settings or own not in ("default", "tuned")):
                found.append(Cell(name, size, latency, api, side, own))
    return found


def ratios(medians: dict[Cell, dict[str, float]]) -> list[dict[str, Any]]:
    """Ratios for each place with both sides: direct over broker for speeds, broker over direct for CPU time per record.

    ``over``: each direct cell over each broker cell and over the best of them, by "direct/broker".
    """
    made = []
    for place in sorted({cell.place for cell in medians}):
        here = {(cell.side, cell.settings): found for cell, found in medians.items() if cell.place == place}
        broker_cells = {settings: found for (side, settings), found in here.items() if side == "broker"}
        direct_cells = {f"{side} {settings}": found for (side, settings), found in here.items() if side != "broker"}
        if not broker_cells or not direct_cells:
            continue
        over, cpu = {}, {}
        for mine, found in direct_cells.items():
            for settings, other in broker_cells.items():
                over[f"{mine}/{settings}"] = found["mib_per_second"] / other["mib_per_second"]
                cpu[f"{mine}/{settings}"] = other["cpu_ns_per_record"] / found["cpu_ns_per_record"]
            over[f"{mine}/best"] = found["mib_per_second"] / max(other["mib_per_second"] for other in broker_cells.values())
        row, size, latency, api = place
        rates = {f"{side} {settings}": found["mib_per_second"] for (side, settings), found in here.items()}
        made.append(
            {
                "row": row,
                "record_bytes": size,
                "latency_ms": latency,
                "api": api,
                "mib_per_second": rates,
                "over": over,
                "cpu_over": cpu,
            }
        )
    return made


def _print_table(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        rates = ", ".join(f"{who} {rate:.0f}" for who, rate in row["mib_per_second"].items())
        over = ", ".join(f"{pair} {ratio:.2f}" for pair, ratio in row["over"].items())
        place = f"{row['row']:<10} {row['record_bytes']:5d} B {row['latency_ms']:3d} ms {row['api']:<7}"
        print(f"{place} MiB/s: {rates}; {over}", file=sys.stderr)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS), help="default: all")
    parser.add_argument("--megabytes", type=int, default=500, help="values per topic, in MB (default 500)")
    parser.add_argument("--record-bytes", type=int, nargs="+", default=[100, 1024], help="one topic each")
    parser.add_argument("--latency-ms", type=int, nargs="+", default=[0, 20, 50], help="in front of the store, per request")
    parser.add_argument("--api", nargs="+", choices=["consume", "poll"], default=["consume", "poll"])
    parser.add_argument("--settings", nargs="+", choices=["default", "tuned"], default=["default", "tuned"])
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each cell; the median counts")
    parser.add_argument("--seconds", type=float, default=20.0, help="longest time of one measurement")
    parser.add_argument("--segment-mib", type=int, default=64)
    parser.add_argument("--directory", type=Path, help="where the broker's files go (default: the system's)")
    parser.add_argument("--json", type=Path, help="write the JSON here instead of to standard output")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    wanted = cells(arguments.rows, arguments.record_bytes, arguments.latency_ms, arguments.api, arguments.settings)
    runs: dict[Cell, list[dict[str, Any]]] = defaultdict(list)
    with _running(arguments) as (bench, topics):
        for number, cell in product(range(arguments.rounds), wanted):
            result = bench.measure(topics[cell.row, cell.record_bytes], cell)
            runs[cell].append(result)
            outcome = f"IMPURE, {result['impure']}" if result["impure"] else f"{result['mib_per_second']:.0f} MiB/s"
            print(f"round {number + 1} {attrs.astuple(cell)}: {outcome}", file=sys.stderr, flush=True)
    impure = {cell: why for cell, made in runs.items() if (why := [run["impure"] for run in made if run["impure"]])}
    names = ("mib_per_second", "cpu_ns_per_record")
    medians = {
        cell: {name: statistics.median(run[name] for run in made) for name in names}
        for cell, made in runs.items()
        if cell not in impure
    }
    rows = ratios(medians)
    report = {
        "machine": machine("confluent-kafka"),
        "arguments": {name: value for name, value in vars(arguments).items() if name not in {"json", "directory"}},
        "settings": SETTINGS,
        "topics": [attrs.asdict(topic) for topic in topics.values()],
        "ratios": rows,
        "impure": [{**attrs.asdict(cell), "why": why} for cell, why in impure.items()],
        "runs": [{**attrs.asdict(cell), "runs": made} for cell, made in runs.items()],
    }
    _print_table(rows)
    return finish(report, arguments.json, len(impure))


if __name__ == "__main__":
    sys.exit(main())
