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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile
from sqlalchemy import event

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.scanning.export import commits
from kafka_remote_client.scanning.table_scan import TableScan, scan
from tests.support.counted_files import counted_files
from tests.support.golden import golden_local
from tests.support.ledger import ledger
from tests.support.scanned import Row, rows_of, tiered_rows

__all__ = ["main"]

_KINDS = ("local", "objects", "iceberg", "delta")
_PARTITIONS = (("epochs", 0), ("epochs", 1), ("txn", 0))
_TOPICS = ("epochs", "txn")
_NAME = "kafka.orders"
_SPLIT_BYTES = 100_000
_SPLITS_OF_A_COMMIT = 3
_LATEST_SECONDS = 0.005
_EXPORTS = (
    "kafka_remote_client/fetch",
    "kafka_remote_client/location",
    "kafka_remote_client/records",
    "kafka_remote_client/scanning",
)
_PIECES = commits.pieces


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


@attrs.frozen
class _Place:
    """Where a table is. ``broker``: the address of the broker, which must get no connection."""

    directory: Path
    kind: str
    broker: str

    @property
    def table(self) -> Path:
        return self.directory / "table"

    def export(self, point: _Point | None) -> list[int]:
        """Runs the export; the numbers of its operations before and after the commit plan."""
        counter = _Counter(point)
        with ExitStack() as patched:
            patched.enter_context(patch.object(commits, "pieces", _small_pieces))
            getattr(self, f"_{self.kind}")(self._scan(), counter, patched)
        counter.wait()
        return list(counter.counted.values())

    def rows(self) -> list[Row]:
        """What a plain reader sees."""
        return rows_of(self._visible())

    def check(self) -> None:
        """Raises AssertionError unless the table has the consumer's rows, each once, and nothing else is left."""
        expected, found = _expected(), self.rows()
        assert found == expected, f"{len(found)} rows, {len(expected)} expected"
        assert list(self.directory.rglob("_staging/*")) == []
        named = {Path(name).name for name in self._files()}
        assert {path.name for path in self.table.rglob("*.parquet")} == named

    def check_killed(self) -> None:
        """Raises AssertionError if a reader sees a record twice, or one that is not of the consumer."""
        seen = Counter(map(repr, self.rows()))
        seen.subtract(map(repr, _expected()))
        assert max(seen.values(), default=0) <= 0, "a plain reader sees records of a killed attempt"

    def _scan(self) -> TableScan:
        store = (golden_local() / "remote").as_uri()
        table = scan(store, _TOPICS, threads=2, broker={"bootstrap.servers": self.broker})
        return attrs.evolve(table, scan=attrs.evolve(table.scan, split_bytes=_SPLIT_BYTES))

    def _local(self, table: TableScan, counter: _Counter, _: ExitStack) -> None:
        files = counted_files(counter.before, self.kind)
        table.to_parquet(self.table, partition_by="day", row_group_bytes=200_000, filesystem=files)

    _objects = _local

    def _delta(self, table: TableScan, counter: _Counter, patched: ExitStack) -> None:
        _count(patched, DeltaTable, "create_write_transaction", counter)
        table.to_delta(self.table, filesystem=counted_files(counter.before))

    def _iceberg(self, table: TableScan, counter: _Counter, patched: ExitStack) -> None:
        _count(patched, PyArrowFile, "create", counter)
        catalog = patched.enter_context(self._catalog())
        event.listen(catalog.engine, "before_cursor_execute", lambda *_: counter.before("execute", ""))
        event.listen(catalog.engine, "commit", lambda _: counter.before("commit", ""))
        table.to_iceberg(catalog, _NAME, filesystem=counted_files(counter.before))

    @contextmanager
    def _catalog(self) -> Iterator[Any]:
        uri = f"sqlite:///{self.directory}/catalog.db"
        with closing(SqlCatalog("killed", uri=uri, warehouse=self.table.as_uri())) as catalog:
            yield catalog

    def _visible(self) -> pa.Table:
        if not self._exists():
            return pa.table({})
        if self.kind == "iceberg":
            with self._catalog() as catalog:
                return catalog.load_table(_NAME).scan().to_arrow()
        if self.kind == "delta":
            return pa.table(DeltaTable(self.table).to_pyarrow_table())
        return ds.dataset(self.table, format="parquet").to_table()

    def _files(self) -> list[str]:
        """The data files that the table's metadata names; of Parquet all that are visible."""
        if self.kind == "iceberg":
            with self._catalog() as catalog:
                return [task.file.file_path for task in catalog.load_table(_NAME).scan().plan_files()]
        if self.kind == "delta":
            return DeltaTable(self.table).file_uris()
        return [str(file) for file in ds.dataset(self.table, format="parquet").files]

    def _exists(self) -> bool:
        if self.kind == "iceberg":
            with self._catalog() as catalog:
                return bool(catalog.table_exists(_NAME))
        if self.kind == "delta":
            return DeltaTable.is_deltatable(str(self.table))
        return self.table.exists()


def _count(patched: ExitStack, owner: type, name: str, counter: _Counter) -> None:
    """Counts calls of a method as operations, and the return from each as one more."""
    real = getattr(owner, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        counter.before(name, "")
        found = real(*arguments, **named)
        counter.before(f"after {name}", "")
        return found

    patched.enter_context(patch.object(owner, name, counted))


def _small_pieces(written: Any, size: int = 0) -> Any:
    return _PIECES(written, _SPLITS_OF_A_COMMIT)


def _expected() -> list[Row]:
    return [row for place in _PARTITIONS for row in tiered_rows(*place, "read_committed")]


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


def _operations(place: _Place) -> list[int]:
    place.directory.mkdir()
    counted = place.directory / "counted"
    assert _forked(lambda: counted.write_text(json.dumps(place.export(None)))) == 0
    found: list[int] = json.loads(counted.read_text())
    shutil.rmtree(place.directory)
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


def _survives(place: _Place, point: _Point) -> bool:
    place.directory.mkdir()
    killed = _forked(lambda: place.export(point))
    if not (os.WIFSIGNALED(killed) and os.WTERMSIG(killed) == signal.SIGKILL):
        print(f"{place.kind}: not killed at {point}: status {killed}")
        return False
    if _forked(place.check_killed) != 0:
        return False

    def again() -> None:
        place.export(None)
        place.check()

    return _forked(again) == 0


def _connections(listener: socket.socket) -> int:
    listener.setblocking(False)
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return 0
    return 1


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
    _expected()  # read, and the archive unpacked, before anything is forked
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as listener:
        broker = f"127.0.0.1:{listener.getsockname()[1]}"
        operations = {kind: _operations(_Place(Path(name, kind), kind, broker)) for kind in _KINDS}
        each = arguments.points // len(_KINDS)
        points = [(kind, point) for kind in _KINDS for point in _points(each, operations[kind], drawn)]
        for number, (kind, point) in enumerate(points):
            place = _Place(Path(name, str(number)), kind, broker)
            if not _survives(place, point):
                print(f"{kind}: failed at {point}", flush=True)
                failed.append((kind, *attrs.astuple(point)))
            shutil.rmtree(place.directory, ignore_errors=True)
        connections = _connections(listener)
    counts = {
        "points": len(points),
        "in_commits": sum(point.commits for _, point in points),
        "operations": {kind: sum(found) for kind, found in operations.items()},
        "broker_connections": connections,
    }
    seconds = round(clock.monotonic() - started)
    ledger("export-kills", describes=_EXPORTS, seed=seed, seconds=seconds, **counts, failed=len(failed))
    print(json.dumps({"seed": seed, **counts, "failed": failed}))
    return 1 if failed or connections else 0


if __name__ == "__main__":
    sys.exit(main())
