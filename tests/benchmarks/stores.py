"""Our RemoteReader against a bare ranged-GET loop and against the codec alone, store by store, side by side.

One partition of uncompressed 1 KB records lies in the tier in three forms: as Kafka wrote it, in zstd chunks, and in zstd
chunks that are encrypted (Aiven's layout, 4 MiB chunks). Each is read from a directory, from a real S3 server with own
credentials, and through presigned URLs of that server, with 0, 20 and 50 ms in front of each GET. Rounds are interleaved: each
visits every cell once, each measurement is a process of its own, the median counts.

What is reported for each cell: MiB/s of the original segments for ours, for the bare loop and for the codec alone on all
cores; ours over the bare loop, and over the slower of the two; the CPU time of restoring the chunks alone and of reading the
raw segments, over what ours takes for both at once (what is left of the machine matters less to that ratio); GETs per ideal
GET (full ranges, segment by segment), bytes asked for beyond the objects' own, and peak memory beyond what the process held.

JSON on standard output, a table on standard error. The figures of record, with their machine, are in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import attrs

from tests.benchmarks.running import ROOT, machine
from tests.benchmarks.store_tier import MODES, StoredTier, write_tier
from tests.support.s3_server import S3Server

__all__: list[str] = []

_MIB = 1024 * 1024
_STORES = ("local", "presigned", "s3")
_SLACK_BYTES = 32 * _MIB

Cell: TypeAlias = tuple[str, str, int]
"""Mode, store, latency in ms."""


@attrs.frozen
class Bench:
    """The tier, where it is served, and how one measurement is made."""

    directory: Path
    tier: StoredTier
    server: S3Server | None
    in_flight: int
    range_bytes: int
    buffer_memory: int

    def measure(self, cell: Cell, reader: str) -> dict[str, Any]:
        """One run in a process of its own; adds MiB/s of original bytes."""
        mode, store, latency = cell
        task = {
            "reader": reader,
            "mode": mode,
            "store": store,
            "latency_ms": latency,
            "root": str(self.directory / mode),
            "objects": self.tier.objects[mode],
            "records": self.tier.records,
            "in_flight": self.in_flight,
            "range_bytes": self.range_bytes,
            "buffer_memory": self.buffer_memory,
            "urls": {},
            "options": {"remote.storage.fetcher.local.root": str(self.directory / mode)},
        }
        environment = dict(os.environ)
        if store != "local":
            assert self.server is not None
            task |= self._served(self.server, mode, store)
            environment |= {"AWS_ACCESS_KEY_ID": self.server.access_key, "AWS_SECRET_ACCESS_KEY": self.server.secret_key}
        command = [sys.executable, "-m", "tests.benchmarks.store_reading"]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, input=json.dumps(task), stdout=subprocess.PIPE, text=True, check=True
        )
        result: dict[str, Any] = json.loads(done.stdout)
        result["mib_per_second"] = sum(self.tier.segment_bytes) / _MIB / result["seconds"]
        return result

    def _served(self, server: S3Server, mode: str, store: str) -> dict[str, Any]:
        if store == "presigned":
            client = _client(server)
            urls = {
                key: client.generate_presigned_url("get_object", Params={"Bucket": mode, "Key": key}, ExpiresIn=7200)
                for key, _ in self.tier.objects[mode]
            }
            options = {
                "remote.storage.fetcher.allow.http": True,
                "remote.storage.fetcher.allow.private.addresses": True,
                "remote.storage.fetcher.allowed.hosts": urlsplit(server.endpoint).netloc,
            }
            return {"urls": urls, "options": options}
        options = {
            "remote.storage.fetcher.store.url": f"s3://{mode}",
            "remote.storage.fetcher.s3.endpoint.url": server.endpoint,
            "remote.storage.fetcher.s3.region": server.region,
            "remote.storage.fetcher.s3.path.style": True,
            "remote.storage.fetcher.allow.http": True,
        }
        return {"options": options, "endpoint": server.endpoint, "region": server.region, "bucket": mode}


def _client(server: S3Server) -> Any:
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name=server.region,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
    )


@contextmanager
def _running(arguments: argparse.Namespace) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="kafka-remote-bench-", dir=arguments.directory) as scratch:
        directory = Path(scratch)
        tier = write_tier(directory, arguments.segments, arguments.segment_mib * _MIB)
        server = None
        if set(arguments.store) != {"local"}:
            server = S3Server(directory / "server")
            server.start()
        try:
            if server is not None:
                _upload(server, directory, tier)
            sizes = (arguments.range_mib * _MIB, arguments.buffer_mib * _MIB)
            yield Bench(directory, tier, server, arguments.in_flight, *sizes)
        finally:
            if server is not None:
                server.stop()


def _upload(server: S3Server, directory: Path, tier: StoredTier) -> None:
    client = _client(server)
    for mode, objects in tier.objects.items():
        client.create_bucket(Bucket=mode)
        for key, _ in objects:
            client.put_object(Bucket=mode, Key=key, Body=(directory / mode / key).read_bytes())


def _row(bench: Bench, cell: Cell, all_runs: dict[Cell, dict[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    """One line of the report: medians, ratios, and what ours asked of the store."""
    runs = all_runs[cell]
    mode, store, latency = cell
    rates = {reader: statistics.median(run["mib_per_second"] for run in made) for reader, made in runs.items()}
    objects = [size for _, size in bench.tier.objects[mode]]
    # A range is cut by the bytes of the original: so many GETs are needed at least.
    ideal = sum(-(-size // bench.range_bytes) for size in bench.tier.segment_bytes)
    last = runs["ours"][-1]
    peak = max(run["peak_bytes"] for run in runs["ours"])
    raw = all_runs.get(("raw", store, latency))
    apart = _cpu(runs["codec"]) + _cpu(raw["ours"]) if "codec" in runs and raw else None
    return {
        "mode": mode,
        "store": store,
        "latency_ms": latency,
        "mib_per_second": rates,
        "over_bare": rates["ours"] / rates["bare"],
        "over_limit": rates["ours"] / min(rates["bare"], rates.get("codec", rates["bare"])),
        "binds": "codec" if rates.get("codec", rates["bare"]) < rates["bare"] else "store",
        "gets_over_ideal": last["gets"] / ideal,
        "gets_per_gib": last["gets"] / (sum(bench.tier.segment_bytes) / 1024**3),
        "over_read": last["bytes"] / sum(objects) - 1,
        "locations": last["locations"],
        "cpu_seconds": _cpu(runs["ours"]),
        "parts_over_cpu": None if apart is None else apart / _cpu(runs["ours"]),
        "peak_mib": peak / _MIB,
        "within_budget": peak <= bench.buffer_memory + _SLACK_BYTES,
    }


def _cpu(runs: list[dict[str, Any]]) -> float:
    return float(statistics.median(run["cpu_seconds"] for run in runs))


def _print_table(rows: list[dict[str, Any]]) -> None:
    print("mode     store     latency  ours  bare codec MiB/s  /bare /limit /CPU  GETs  over-read  peak MiB", file=sys.stderr)
    for row in rows:
        rates = row["mib_per_second"]
        print(
            f"{row['mode']:<8} {row['store']:<9} {row['latency_ms']:4d} ms {rates['ours']:6.0f}{rates['bare']:6.0f}"
            f"{rates.get('codec', float('nan')):6.0f}        {row['over_bare']:5.2f}  {row['over_limit']:5.2f} "
            f"{row['parts_over_cpu'] or float('nan'):5.2f} "
            f"{row['gets_over_ideal']:5.2f}  {100 * row['over_read']:7.2f} %  {row['peak_mib']:7.0f}",
            file=sys.stderr,
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small tier, one round")
    parser.add_argument("--mode", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--store", nargs="+", choices=_STORES, default=list(_STORES))
    parser.add_argument("--latency-ms", type=int, nargs="+", default=[0, 20, 50], help="in front of each GET")
    parser.add_argument("--segments", type=int, default=4)
    parser.add_argument("--segment-mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each cell; the median counts")
    parser.add_argument("--in-flight", type=int, default=8, help="ranges read at the same time, on both sides")
    parser.add_argument("--range-mib", type=int, default=8)
    parser.add_argument("--buffer-mib", type=int, default=128)
    parser.add_argument("--directory", type=Path, help="where the tier is written (default: the system's)")
    parser.add_argument("--json", type=Path, help="write the JSON here instead of to standard output")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.segments, arguments.segment_mib, arguments.rounds = 2, 128, 1
    return arguments


def main() -> int:
    arguments = _arguments()
    runs: dict[Cell, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    with _running(arguments) as bench:
        for number, mode, store, latency in product(
            range(arguments.rounds), arguments.mode, arguments.store, arguments.latency_ms
        ):
            cell = (mode, store, latency)
            for reader in ("bare", "ours") if mode == "raw" else ("bare", "ours", "codec"):
                result = bench.measure(cell, reader)
                runs[cell][reader].append(result)
                print(f"round {number + 1} {cell} {reader}: {result['mib_per_second']:.0f} MiB/s", file=sys.stderr, flush=True)
        rows = [_row(bench, cell, runs) for cell in runs]
    _print_table(rows)
    report = {
        "machine": machine("cramjam"),
        "arguments": {name: value for name, value in vars(arguments).items() if name not in {"json", "directory"}},
        "ratios": rows,
        "runs": [{**dict(zip(("mode", "store", "latency_ms"), cell, strict=True)), **made} for cell, made in runs.items()],
    }
    text = json.dumps(report, indent=1)
    if arguments.json:
        arguments.json.write_text(text + "\n")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
