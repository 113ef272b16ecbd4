"""Jobs of :class:`tests.support.spark.SparkDriver`: exports whose operations are logged, with a fault at one of them."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import attrs
from pyspark import TaskContext
from pyspark.sql import SparkSession

from tests.support.export_log import Entry, entries, is_data, is_record, operations_of
from tests.support.exported_table import ExportedTable
from tests.support.waiting import wait_until

__all__ = ["executor_ids", "exported"]

_EXECUTOR = b"CoarseGrainedExecutorBackend"
_PATIENCE_SECONDS = 400.0
"""A second attempt begins when the other tasks have ended, which took 100 s under a load average of 20."""


@attrs.frozen(kw_only=True)
class _Fault:
    """``kill``: the process that ends at an operation: "worker", "executor" or "driver".

    The operation is the one with the number ``operation`` of ``operations_of(kill, …)``. Without a number
    it is the end of a file in an executor that has recorded two splits.

    ``overlap``: attempts at the first split end their file when two of them have begun one.
    """

    kill: str = ""
    operation: int | None = None
    commits: bool = False
    overlap: bool = False

    def kills_at(self, found: Sequence[Entry]) -> bool:
        """Whether it happens before the last operation of these."""
        last = found[-1]
        if any(entry["operation"] == "killed" for entry in found):
            return False
        if self.operation is None:
            recorded = [entry for entry in found if is_record(entry) and entry["executor"] == last["executor"]]
            return last["task"] is not None and is_data(last, "close") and len(recorded) >= 2
        counted = operations_of(self.kill, found, commits=self.commits)
        return bool(counted) and counted[-1] is last and len(counted) == self.operation


@attrs.frozen
class _Watch:
    """Runs before each operation of an export, in the driver (a process) and in its tasks."""

    log: Path
    driver: int
    fault: _Fault

    def before(self, operation: str, path: str) -> None:
        entry = {"operation": operation, "path": path, **_place()}
        with self._locked() as file:
            print(json.dumps(entry), file=file, flush=True)
            if self.fault.kill and self.fault.kills_at(entries(self.log)):
                print(json.dumps({**entry, "operation": "killed", "victim": self.fault.kill}), file=file, flush=True)
                self._kill(entry)
        if self.fault.overlap and entry["split"] == 0 and is_data(entry, "close"):
            wait_until(lambda: self._attempts(entry["split"]) > 1, "a second attempt", seconds=_PATIENCE_SECONDS)

    def _attempts(self, split: int) -> int:
        return len({entry["task"] for entry in entries(self.log) if entry["split"] == split and is_data(entry, "open")})

    def _kill(self, entry: Entry) -> None:
        if self.fault.kill == "driver":
            os.killpg(self.driver, signal.SIGKILL)
        elif self.fault.kill == "executor":
            os.kill(entry["executor"], signal.SIGKILL)
        else:
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def _locked(self) -> Iterator[TextIO]:
        with self.log.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file


def _place() -> Entry:
    context = TaskContext.get()
    if context is None:
        return {"task": None, "split": None, "attempt": None, "executor": None, "worker": os.getpid()}
    return {
        "task": context.taskAttemptId(),
        "split": context.partitionId(),
        "attempt": context.attemptNumber(),
        "executor": _executor(),
        "worker": os.getpid(),
    }


def _executor() -> int | None:
    """The executor of this worker; ``None`` once it has ended."""
    process = os.getppid()
    while process > 1:
        try:
            if _EXECUTOR in Path(f"/proc/{process}/cmdline").read_bytes():
                return process
            process = int(Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            return None
    return None


class _TwiceInAJob:
    """A session that gives each split to two tasks of a job, one after the other."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self.sparkContext = self

    def parallelize(self, rows: Sequence[Any], tasks: int) -> Any:
        return self._context.parallelize([row for row in rows for _ in range(2)], 2 * tasks)


class _StageAgain:
    """A session in which an executor is lost after its tasks, and with it their results: Spark runs the stage again.

    The results of the stage are in the executors, because another stage takes them.
    """

    def __init__(self, spark: SparkSession, log: Path) -> None:
        self._spark = spark
        self._log = log
        self.sparkContext = self

    def parallelize(self, rows: Sequence[Any], tasks: int) -> _StageAgain:
        self._tasks = self._spark.sparkContext.parallelize(rows, tasks)
        return self

    def mapPartitions(self, task: Any) -> _StageAgain:
        self._tasks = self._tasks.mapPartitions(task).repartition(1)
        return self

    def collect(self) -> Any:
        self._tasks.count()
        known = set(executor_ids(self._spark))
        found = entries(self._log)
        most = Counter(entry["executor"] for entry in found if is_record(entry)).most_common(1)[0][0]
        os.kill(most, signal.SIGKILL)
        wait_until(lambda: known - set(executor_ids(self._spark)), "the executor to be lost")
        return self._tasks.collect()


def executor_ids(spark: SparkSession) -> list[str]:
    """The executors that the driver knows; one that is started again has another id."""
    text: str = spark.sparkContext._jsc.sc().getExecutorIds().mkString(",")
    return text.split(",") if text else []


def exported(spark: SparkSession, directory: str, kind: str, broker: str, log: str, fault: Any, session: str) -> Any:
    """Exports the golden tier. ``session``: "plain", "twice" or "again". Returns the figures of the result."""
    watch = _Watch(Path(log), os.getpid(), _Fault(**fault))
    sessions = {"plain": lambda: spark, "twice": lambda: _TwiceInAJob(spark), "again": lambda: _StageAgain(spark, watch.log)}
    result = ExportedTable(Path(directory), kind, broker).export(watch.before, sessions[session]())
    return {"rows": result.rows, "splits": result.splits, "resumed": result.resumed}
