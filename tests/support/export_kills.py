"""Kills an export at chosen operations on its files, runs it again, and compares the table with what Kafka's consumer got.

    python -m tests.support.export_kills --points 180 --seed 7

A process for each run is forked, and killed by SIGKILL before the operation with that number: opening, writing, closing,
renaming, copying or deleting a file. Half of the points are of a file system that renames, half of an object store.
The last line is JSON with the number of points and of those that failed.

The rows come from the golden consumer (``tests.support.scanned``), which shares nothing with the product.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import attrs
import pyarrow.dataset as ds

from kafka_remote_client.scanning.table_scan import scan
from tests.support.counted_files import counted_files
from tests.support.golden import golden_local
from tests.support.scanned import expected_rows, rows_of

__all__ = ["main"]

_KINDS = ("local", "objects")
_TOPICS = ("epochs", "txn")
_SPLIT_BYTES = 100_000


def _export(folder: Path, kind: str, killed_at: int | None) -> int:
    """Runs the export; the number of its operations."""
    lock, counted = threading.Lock(), 0

    def before(operation: str, path: str) -> None:
        nonlocal counted
        with lock:
            counted += 1
            if counted == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)

    table = scan((golden_local() / "remote").as_uri(), _TOPICS, threads=2)
    table = attrs.evolve(table, scan=attrs.evolve(table.scan, split_bytes=_SPLIT_BYTES))
    table.to_parquet(folder, partition_by="day", row_group_bytes=200_000, filesystem=counted_files(before, kind))
    return counted


def _check(folder: Path, kind: str) -> None:
    """Raises AssertionError unless the table has the consumer's rows, each once."""
    table = scan((golden_local() / "remote").as_uri(), _TOPICS)
    ends = table.plan().ends
    expected = [
        row
        for topic, partition in sorted(ends)
        for row in expected_rows(topic, partition, "read_committed")
        if row["offset"] < ends[topic, partition]  # type: ignore[index]
    ]
    found = ds.dataset(folder, format="parquet").to_table()
    assert rows_of(found) == expected, f"{len(found)} rows, {len(expected)} expected"
    assert list(folder.glob("_staging/*")) == []


def _forked(work: Callable[[], object]) -> int:
    """The wait status of a child that does the work; what it raises is printed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return os.waitpid(child, 0)[1]


def _operations(directory: Path, kind: str) -> int:
    counted = directory / "counted"
    status = _forked(lambda: counted.write_text(str(_export(directory / "whole", kind, None))))
    assert status == 0
    shutil.rmtree(directory / "whole")
    return int(counted.read_text())


def _survives(folder: Path, kind: str, point: int) -> bool:
    killed = _forked(lambda: _export(folder, kind, point))
    if not (os.WIFSIGNALED(killed) and os.WTERMSIG(killed) == signal.SIGKILL):
        print(f"{kind}: not killed at operation {point}: status {killed}")
        return False

    def again() -> None:
        _export(folder, kind, None)
        _check(folder, kind)

    return _forked(again) == 0


def main() -> int:
    """Exit status 1 where a table was not the consumer's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    golden_local()  # unpacked before anything is forked
    drawn, failed = random.Random(arguments.seed), []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        operations = {kind: _operations(directory, kind) for kind in _KINDS}
        for number in range(arguments.points):
            kind = _KINDS[number % 2]
            # One point in each of equal parts of the export, so that all of its stages are met. Threads share them by chance.
            part = operations[kind] * 9 // 10 * 2 / arguments.points
            point = max(1, int((number // 2 + drawn.random()) * part))
            if not _survives(directory / str(number), kind, point):
                failed.append((kind, point))
            shutil.rmtree(directory / str(number), ignore_errors=True)
    told = {"points": arguments.points, "seed": arguments.seed, "operations": operations, "failed": failed}
    print(json.dumps(told))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
