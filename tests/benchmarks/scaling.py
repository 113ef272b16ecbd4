"""Time and memory of the fetch engine over tiers of the same bytes: larger segments, and more partitions.

A store with 20 ms to the first byte, default settings, each measurement in a process of its own, the median counts. The
tiers are synthetic (synthetic_tier.py), the engine, HTTP, decoder and checksums are not.

================  ============================================================================================================
column            is
================  ============================================================================================================
``over_first``    seconds over those of the first row of the same kind: 1.0 = the time depends on the bytes alone
``gets``          GETs, and ``locations`` location requests
``failed_gets``   GETs that failed in all rounds; each was read again from the store
``peak_bytes``    memory beyond what the process held before it read
``within``        whether that is at most the budget (``fetch.remote.buffer.memory``) and 32 MiB
================  ============================================================================================================

Rows of doubled bytes show whether time is linear. Prints a table on standard error and JSON on standard output. The exit status
is 1 where memory goes beyond. The figures of record are in docs/benchmarks.md, "Scaling".
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

from tests.benchmarks.running import ROOT, machine
from tests.benchmarks.synthetic_tier import BATCH_BYTES, StoreProcess, SyntheticTier, write_tier

__all__ = ["rows", "tiers"]

_MIB = 1 << 20
_SLACK_BYTES = 32 * _MIB
_LATENCY = 0.02
_SECONDS = 300.0
_SEGMENT_MIB = (1, 16, 256, 1024)
_PARTITIONS = (1, 10, 100, 1000)
_TOTAL_MIB = (256, 512, 1024, 2048)


def tiers(megabytes: int) -> dict[tuple[str, int], SyntheticTier]:
    """Returns tiers by what differs: tiers of ``megabytes`` MiB, and of other amounts in segments of 64 MiB."""
    per_mib = _MIB // BATCH_BYTES
    made = {
        ("segment MiB", size): SyntheticTier(1, max(1, megabytes // size), min(size, megabytes) * per_mib)
        for size in _SEGMENT_MIB
    }
    made |= {("partitions", count): SyntheticTier(count, 1, max(1, megabytes * per_mib // count)) for count in _PARTITIONS}
    scale = megabytes / 1024
    return made | {
        ("total MiB", size): SyntheticTier(1, max(1, int(size * scale) // 64), min(64, int(size * scale)) * per_mib)
        for size in _TOTAL_MIB
    }


def rows(measured: dict[tuple[str, int], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Medians, and seconds per byte over those of the first row of the same kind."""
    made: list[dict[str, Any]] = []
    first: dict[str, float] = {}
    for (kind, value), runs in measured.items():
        per_byte = statistics.median(run["seconds"] / run["bytes"] for run in runs)
        peak = max(run["peak_bytes"] for run in runs)
        made.append(
            {
                "kind": kind,
                "value": value,
                "mib_per_second": 1 / per_byte / _MIB,
                "over_first": per_byte / first.setdefault(kind, per_byte),
                "gets": statistics.median(run["gets"] for run in runs),
                "hedges": statistics.median(run["hedges"] for run in runs),
                "failed_gets": sum(sum(run["errors"].values()) for run in runs),
                "locations": statistics.median(run["locations"] for run in runs),
                "peak_mib": peak / _MIB,
                "budget_mib": runs[0]["budget_bytes"] / _MIB,
                "within": all(run["peak_bytes"] <= run["budget_bytes"] + _SLACK_BYTES for run in runs),
            }
        )
    return made


def _measure(tier: SyntheticTier, url: str) -> dict[str, Any]:
    shape = {"partitions": tier.partitions, "segments": tier.segments, "batches": tier.batches}
    task = {"tier": shape, "url": url, "latency": _LATENCY, "seconds": _SECONDS}
    command = [sys.executable, "-m", "tests.benchmarks.engine_reading"]
    done = subprocess.run(command, cwd=ROOT, input=json.dumps(task), stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    if not result["finished"]:  # a read that leaves the store ends engine_reading with an assertion
        raise RuntimeError(f"reading {shape} did not end: {result}")
    return result


def _print_table(made: list[dict[str, Any]]) -> None:
    print("              MiB/s  time/first   GETs hedges locations  peak MiB (budget)", file=sys.stderr)
    for row in made:
        print(
            f"{row['kind']:<11} {row['value']:5d} {row['mib_per_second']:6.0f} {row['over_first']:8.2f} {row['gets']:9.0f}"
            f" {row['hedges']:6.0f} {row['locations']:8.0f} {row['peak_mib']:9.0f} ({row['budget_mib']:.0f})"
            + ("" if row["within"] else " beyond"),
            file=sys.stderr,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1024, help="MiB of each tier (default 1024)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each row; the median counts")
    parser.add_argument("--directory", type=Path, help="where the tiers are written (default: the system's)")
    parser.add_argument("--json", type=Path, help="write the JSON here instead of to standard output")
    arguments = parser.parse_args()
    measured: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for number, (place, tier) in product(range(arguments.rounds), tiers(arguments.megabytes).items()):
        with tempfile.TemporaryDirectory(prefix="kafka-remote-bench-", dir=arguments.directory) as scratch:
            write_tier(Path(scratch), tier)
            with StoreProcess(Path(scratch), _LATENCY) as store:
                found = _measure(tier, store.url)
        measured[place].append(found)
        print(f"round {number + 1} {place}: {found['bytes'] / _MIB / found['seconds']:.0f} MiB/s", file=sys.stderr, flush=True)
    made = rows(measured)
    text = json.dumps({"machine": machine("requests"), "rows": made, "megabytes": arguments.megabytes}, indent=1)
    if arguments.json:
        arguments.json.write_text(text + "\n")
    else:
        print(text)
    _print_table(made)
    return int(not all(row["within"] for row in made))


if __name__ == "__main__":
    sys.exit(main())
