"""Kills exports on a Spark cluster at chosen points, runs them again, and compares the tables with what Kafka's consumer got.

    python -m tests.support.spark_export_kills --points 20 --seed 7

A standalone cluster with two workers, each with an executor of one core. SIGKILL ends one of these before an operation with a
drawn number (``tests.support.spark_export_faults``):

    driver     Python and Java, in the middle of the tasks, or after the commit plan; the executors end by themselves
    executor   Java, with its tasks; its Python process goes on until it notices
    worker     the Python process of a task

Spark repeats the tasks of the other two, and the export goes on. After a killed driver a plain reader must see no record twice
and none that the consumer did not get. At last, and after one more run, it must see the consumer's records, each once, and no
other file may be left. The scan knows the address of a broker, which must get no connection.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

from kafka_remote_client.clock import SystemClock
from tests.support.artifacts import ROOT
from tests.support.export_log import Entry, entries, operations_of
from tests.support.exported_table import EXPORTS, KINDS, ExportedTable, connections, expected
from tests.support.ledger import ledger
from tests.support.spark import WITH_CONNECTOR, SparkDriver
from tests.support.spark_standalone import StandaloneCluster
from tests.support.waiting import wait_until

__all__ = ["ExportCluster", "Point", "main", "operations", "survives"]

_JOB = "tests.support.spark_export_faults:exported"
_SETTINGS = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


@attrs.frozen
class Point:
    """The process that is killed, and the number of the operation before or after the commit plan (``commits``)."""

    kill: str
    commits: bool
    operation: int


class ExportCluster:
    """A cluster with a session that runs exports; after a killed driver it starts another session.

    ``more``: Spark's settings.
    """

    def __init__(self, directory: Path, more: Mapping[str, str] | None = None) -> None:
        """Raises MissingPartError if Java or PySpark is missing."""
        self._directory = directory
        self._more = dict(more or {})
        self._sessions = 0
        self.standalone = StandaloneCluster(WITH_CONNECTOR, directory, modules=[ROOT, ROOT / "fetchers"])
        try:
            self._driver = self._session()
        except BaseException:
            self.standalone.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._driver.stop()
        self.standalone.stop()

    def export(self, table: ExportedTable, *, session: str = "plain", **fault: Any) -> Any:
        """Runs an export; the figures of its result. ``fault``: as tests.support.spark_export_faults has it.

        Raises RuntimeError if the driver is killed, SparkJobError for the export's own error.
        """
        place = {"directory": str(table.directory), "kind": table.kind, "broker": table.broker}
        log = str(_log(table, sum(1 for _ in table.directory.glob("run-*"))))
        return self._driver(_JOB, **place, log=log, fault=fault, session=session)

    def replace_driver(self) -> None:
        """Starts a session after the driver was killed, once its executors are gone."""
        self._driver.stop()
        wait_until(lambda: not self.standalone.executors(), "the executors of the killed driver to end")
        self._driver = self._session()

    def executor_ids(self) -> list[str]:
        """The executors that the driver knows."""
        found: list[str] = self._driver("tests.support.spark_export_faults:executor_ids")
        return found

    def _session(self) -> SparkDriver:
        self._sessions += 1
        directory = self._directory / f"session-{self._sessions}"
        directory.mkdir()
        settings = {"spark.master": self.standalone.master, **_SETTINGS, **self._more}
        return SparkDriver(WITH_CONNECTOR, directory, settings=settings)


def operations(table: ExportedTable, run: int = 0) -> list[Entry]:
    """The operations of a run."""
    return entries(_log(table, run))


def _log(table: ExportedTable, run: int) -> Path:
    return table.directory / f"run-{run}"


def survives(cluster: ExportCluster, table: ExportedTable, point: Point) -> list[str]:
    """Returns the errors of an export that was killed at a point, and of the runs after it."""
    table.directory.mkdir()
    fault = attrs.asdict(point)
    wrong = []
    if point.kill == "driver":
        try:
            cluster.export(table, **fault)
            return ["the driver was not killed"]
        except RuntimeError as error:
            if "the driver ended" not in str(error):
                raise
        cluster.replace_driver()
        wrong += _failed(table.check_killed)
    else:
        cluster.export(table, **fault)
    killed = [entry["victim"] for entry in operations(table) if entry["operation"] == "killed"]
    if killed != [point.kill]:
        wrong.append(f"killed: {killed}")
    done = [cluster.export(table) for _ in range(2)]
    if done[1]["resumed"] != done[1]["splits"]:
        wrong.append(f"the last run wrote splits: {done[1]}")
    return wrong + _failed(table.check)


def _failed(check: Any) -> list[str]:
    try:
        check()
    except AssertionError as error:
        return [str(error)]
    return []


def _counted(cluster: ExportCluster, table: ExportedTable) -> dict[str, int]:
    """Returns the operations of an undisturbed export, of each kind at which a fault can kill a process."""
    table.directory.mkdir()
    cluster.export(table)
    table.check()
    found = operations(table)
    shutil.rmtree(table.directory)
    return {
        "tasks": len(operations_of("worker", found, commits=False)),
        "before": len(operations_of("driver", found, commits=False)),
        "after": len(operations_of("driver", found, commits=True)),
    }


def _points(count: int, counted: Mapping[str, int], drawn: random.Random) -> Iterator[Point]:
    """Two of five kill the driver, before and after the commit plan; the others an executor or a worker."""
    for number in range(count):
        kind = number % 5
        if kind < 2:
            commits = kind == 1
            # Tasks share the operations by chance, so the last of them are left out.
            last = counted["after"] if commits else int(0.9 * counted["before"])
            yield Point("driver", commits, drawn.randint(1, last))
        else:
            victim = ("executor", "worker", drawn.choice(["executor", "worker"]))[kind - 2]
            yield Point(victim, False, drawn.randint(1, int(0.9 * counted["tasks"])))


def main() -> int:
    """Exit status 1 where a table was not the consumer's."""
    parser = argparse.ArgumentParser(
        prog="make spark-export-kills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--seed", type=int, help="a new one by default")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if arguments.seed is None else arguments.seed
    drawn = random.Random(seed)
    clock = SystemClock()
    started = clock.monotonic()
    expected()  # read, and the archive unpacked, before executors need it
    failed: list[Any] = []
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as listener:
        broker = f"127.0.0.1:{listener.getsockname()[1]}"
        (spark := Path(name, "spark")).mkdir()
        with ExportCluster(spark) as cluster:
            counted = {kind: _counted(cluster, ExportedTable(Path(name, kind), kind, broker)) for kind in KINDS}
            print(f"operations: {counted}", flush=True)
            each = max(1, arguments.points // len(KINDS))
            points = [(kind, point) for kind in KINDS for point in _points(each, counted[kind], drawn)][: arguments.points]
            for number, (kind, point) in enumerate(points):
                table = ExportedTable(Path(name, str(number)), kind, broker)
                wrong = survives(cluster, table, point)
                print(f"{kind}: {point}: {'; '.join(wrong) or 'as it should be'}", flush=True)
                if wrong:
                    failed.append((kind, *attrs.astuple(point), wrong))
                shutil.rmtree(table.directory, ignore_errors=True)
        connected = connections(listener)
    counts = {
        "points": len(points),
        **{victim: sum(point.kill == victim for _, point in points) for victim in ("driver", "executor", "worker")},
        "operations": {kind: found["before"] + found["after"] for kind, found in counted.items()},
        "broker_connections": connected,
    }
    seconds = round(clock.monotonic() - started)
    ledger("spark-export-kills", describes=EXPORTS, seed=seed, seconds=seconds, **counts, failed=len(failed))
    print(json.dumps({"seed": seed, **counts, "failed": failed}))
    return 1 if failed or connected else 0


if __name__ == "__main__":
    sys.exit(main())
