"""Kills exports at chosen points, runs them again, and compares the tables with what Kafka's consumer got.

    python -m tests.support.export_kills --points 180 --seed 7

A process for each run is forked, and killed by SIGKILL before the operation with that number, or up to 5 ms after its start.
Operations open, write, close, rename, copy or delete a file, send a statement to the catalog's database, or commit to Delta.
Half of the points are after the commit plan. A quarter of the points each is of Parquet files that are renamed, of Parquet
files in an object store, of Iceberg and of Delta.

After the kill a plain reader must see no record twice and none that the consumer did not get. After the next run it must see
the consumer's records, each once, and files of killed attempts must be gone. The scan knows the address of a broker, which
must get no connection.

The rows come from the golden consumer (``tests.support.scanned``), which shares nothing with the product. The last line is JSON
with the number of points and of those that failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from kafka_remote_client.clock import SystemClock
from tests.support.exported_table import EXPORTS, KINDS, ExportedTable, connections, expected
from tests.support.ledger import ledger

__all__ = ["main"]

_LATEST_SECONDS = 0.005


@attrs.frozen
class _Point:
    """An operation before or after the commit plan. ``delay``: seconds from the beginning of the operation to the kill."""

    commits: bool
    operation: int
    delay: float = 0.0


class _Counter:
    """Counts operations, and kills this process at its point."""

    def __init__(self, point: _Point | None) -> None:
        self.counted = {False: 0, True: 0}
        self._commits = False
        self._point = point
        self._lock = threading.Lock()
        self._killer: threading.Timer | None = None

    def before(self, operation: str, path: str) -> None:
        with self._lock:
            self._commits = self._commits or path.endswith("/commit.json")
            self.counted[self._commits] += 1
            if self._point is None or (self._commits, self.counted[self._commits]) != (
                self._point.commits,
                self._point.operation,
            ):
                return
            if not self._point.delay:
                os.kill(os.getpid(), signal.SIGKILL)
            self._killer = threading.Timer(self._point.delay, os.kill, (os.getpid(), signal.SIGKILL))
            self._killer.start()

    def wait(self) -> None:
        """Returns if the process is not to be killed any more."""
        if self._killer is not None:
            self._killer.join()


def _export(table: ExportedTable, point: _Point | None) -> list[int]:
    """Runs the export; the numbers of its operations before and after the commit plan."""
    counter = _Counter(point)
    table.export(counter.before)
    counter.wait()
    return list(counter.counted.values())


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


def _operations(table: ExportedTable) -> list[int]:
    table.directory.mkdir()
    counted = table.directory / "counted"
    assert _forked(lambda: counted.write_text(json.dumps(_export(table, None)))) == 0
    found: list[int] = json.loads(counted.read_text())
    shutil.rmtree(table.directory)
    return found


def _points(count: int, operations: list[int], drawn: random.Random) -> Iterator[_Point]:
    """Half of them before the commit plan, and half after it, where few operations are; one in each of equal parts.

    Threads share the operations before the plan by chance, so the last of them are left out.
    """
    for number in range(count):
        commits = number % 2 == 0
        operation = (number // 2 + drawn.random()) * 2 / (count + 1) * operations[commits] * (1.0 if commits else 0.9)
        delay = drawn.choice([0.0, drawn.uniform(0, _LATEST_SECONDS)])
        yield _Point(commits, min(int(operation) + 1, operations[commits]), delay)


def _survives(table: ExportedTable, point: _Point) -> bool:
    table.directory.mkdir()
    killed = _forked(lambda: _export(table, point))
    if not (os.WIFSIGNALED(killed) and os.WTERMSIG(killed) == signal.SIGKILL):
        print(f"{table.kind}: not killed at {point}: status {killed}")
        return False
    if _forked(table.check_killed) != 0:
        return False

    def again() -> None:
        _export(table, None)
        table.check()

    return _forked(again) == 0


def main() -> int:
    """Exit status 1 where a table was not the consumer's."""
    parser = argparse.ArgumentParser(
        prog="make export-kills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=180)
    parser.add_argument("--seed", type=int, help="a new one by default")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if arguments.seed is None else arguments.seed
    drawn, failed = random.Random(seed), []
    clock = SystemClock()
    started = clock.monotonic()
    expected()  # read, and the archive unpacked, before anything is forked
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as listener:
        broker = f"127.0.0.1:{listener.getsockname()[1]}"
        operations = {kind: _operations(ExportedTable(Path(name, kind), kind, broker)) for kind in KINDS}
        each = arguments.points // len(KINDS)
        points = [(kind, point) for kind in KINDS for point in _points(each, operations[kind], drawn)]
        for number, (kind, point) in enumerate(points):
            table = ExportedTable(Path(name, str(number)), kind, broker)
            if not _survives(table, point):
                print(f"{kind}: failed at {point}", flush=True)
                failed.append((kind, *attrs.astuple(point)))
            shutil.rmtree(table.directory, ignore_errors=True)
        connected = connections(listener)
    counts = {
        "points": len(points),
        "in_commits": sum(point.commits for _, point in points),
        "operations": {kind: sum(found) for kind, found in operations.items()},
        "broker_connections": connected,
    }
    seconds = round(clock.monotonic() - started)
    ledger("export-kills", describes=EXPORTS, seed=seed, seconds=seconds, **counts, failed=len(failed))
    print(json.dumps({"seed": seed, **counts, "failed": failed}))
    return 1 if failed or connected else 0


if __name__ == "__main__":
    sys.exit(main())
