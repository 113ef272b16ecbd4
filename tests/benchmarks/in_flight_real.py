"""Four cells of in_flight.py in real time: the adaptive choice compared with fixed numbers and sizes of ranges.

The engine, the presigned fetcher, HTTP, decoder and checksums are the product's; the store is an object origin in a process of
its own that answers as the cell's model would. Each measurement is a process of its own. Rounds are interleaved and the median
counts. The first seconds are not counted, because the product has to learn in them what the fixed settings are given.

Prints a line of JSON per cell. The exit status is 1 if a ratio is below 0.9. The figures of record are in docs/benchmarks.md,
"Ranges in flight".
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

from tests.benchmarks.in_flight import LEAST_RATIO, best_fixed, measured
from tests.benchmarks.running import ROOT
from tests.benchmarks.synthetic_tier import BATCH_BYTES, StoreProcess, SyntheticTier, write_tier
from tests.support.virtual_reading import distant

__all__ = ["cell_of"]

_MIB = 1 << 20
_CELLS = ((0.02, 40_000_000, 1), (0.05, None, 1), (0.2, 40_000_000, 1), (0.05, 40_000_000, 100))
"""Seconds to the first byte, bytes per second and connection, partitions."""
_FIXED = tuple((size * _MIB, number) for size, number in product((1, 4, 8), (8, 16, 64)))
_APPLICATION = 1_000_000_000
_WARM_SECONDS = 2.0
_SEGMENTS, _SEGMENT_BYTES = 12, 1 << 30


def cell_of(ours: list[float], fixed: dict[tuple[int, int], list[float]]) -> dict[str, Any]:
    """The median of the adaptive choice, the best median of the fixed settings (bytes per second), and their ratio."""
    medians = {setting: statistics.median(rates) for setting, rates in fixed.items()}
    size, number = max(medians, key=medians.__getitem__)
    best = medians[size, number]
    return {
        "megabytes_per_second": round(statistics.median(ours) / 1e6),
        "best_fixed": {"megabytes_per_second": round(best / 1e6), "range_mib": size / _MIB, "in_flight": number},
        "ratio": round(statistics.median(ours) / best, 3),
    }


def _measure(url: str, latency: float, partitions: int, seconds: float, setting: tuple[int, int] | None) -> dict[str, Any]:
    shape = {"partitions": partitions, "segments": _SEGMENTS, "batches": _SEGMENT_BYTES // BATCH_BYTES}
    task: dict[str, Any] = {"tier": shape, "url": url, "latency": latency, "seconds": seconds, "warm_seconds": _WARM_SECONDS}
    if setting is not None:
        task |= {"range_bytes": setting[0], "in_flight": setting[1]}
    command = [sys.executable, "-m", "tests.benchmarks.engine_reading"]
    done = subprocess.run(command, cwd=ROOT, input=json.dumps(task), stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    if result["finished"]:
        raise RuntimeError(f"the tier was read before the time was over: {result}")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=7.0, help=f"of each measurement; {_WARM_SECONDS:g} are not counted")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each setting; the median counts")
    parser.add_argument("--directory", type=Path, help="where the tier is written (default: the system's)")
    arguments = parser.parse_args()
    rates: dict[tuple[int, tuple[int, int] | None], list[float]] = defaultdict(list)
    most: dict[int, int] = defaultdict(int)
    with tempfile.TemporaryDirectory(prefix="kafka-remote-bench-", dir=arguments.directory) as scratch, ExitStack() as stack:
        write_tier(Path(scratch), SyntheticTier(1, _SEGMENTS, _SEGMENT_BYTES // BATCH_BYTES))
        stores = [stack.enter_context(StoreProcess(Path(scratch), latency, rate)) for latency, rate, _ in _CELLS]
        for number, at, setting in product(range(arguments.rounds), range(len(_CELLS)), (None, *_FIXED)):
            latency, _, partitions = _CELLS[at]
            found = _measure(stores[at].url, latency, partitions, arguments.seconds, setting)
            rates[at, setting].append(found["bytes_per_second"])
            if setting is None:
                most[at] = max(most[at], found["most_in_flight"])
            line = f"round {number + 1} {_CELLS[at]} {setting}: {found['bytes_per_second'] / 1e6:.0f} MB/s"
            print(line, file=sys.stderr, flush=True)
    short = 0
    for at, (latency, rate, partitions) in enumerate(_CELLS):
        cell = cell_of(rates[at, None], {setting: rates[at, setting] for setting in _FIXED})
        store = distant(latency, rate)
        virtual = measured(store, partitions, _APPLICATION).bytes_per_second
        best, _ = best_fixed(store, partitions, _APPLICATION, settings=_FIXED)
        short += cell["ratio"] < LEAST_RATIO
        place = {"round_trip_ms": round(1000 * latency), "connection_megabytes_per_second": rate and rate / 1e6}
        more = {"most_in_flight": most[at], "ratio_in_virtual_time": round(virtual / best.bytes_per_second, 3)}
        print(json.dumps({**place, "partitions": partitions, **cell, **more}), flush=True)
    return int(short > 0)


if __name__ == "__main__":
    sys.exit(main())
