"""Splits as Spark tasks, with a fake session that pickles its arguments: retries, duplicates, failures."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

from kafka_remote_client.errors import ExportError
from kafka_remote_client.fallback import TierUnavailableError
from kafka_remote_client.scanning.open_scan import OpenScan
from kafka_remote_client.scanning.table_scan import TableScan
from tests.support.scanned import Row

Task = Callable[[Iterable[Any]], Iterator[str]]


class Session:
    """Fake Spark session: runs each task ``attempts`` times in this process and returns the last result."""

    def __init__(self, attempts: int = 1) -> None:
        self.attempts = attempts
        self.tasks: list[list[Any]] = []
        self.sparkContext = self

    def parallelize(self, rows: list[Any], count: int) -> Session:
        self.tasks = [rows[number::count] for number in range(count)]
        return self

    def mapPartitions(self, task: Task) -> Session:
        self.pickled = pickle.dumps(task)
        return self

    def collect(self) -> list[str]:
        found: list[str] = []
        for rows in self.tasks:
            answers = [list(pickle.loads(self.pickled)(iter(rows))) for _ in range(self.attempts)]
            found += answers[-1]
        return found


class ConnectSession:
    """Fake Spark Connect session: runs each task of a DataFrame ``attempts`` times and returns the last result."""

    def __init__(self, attempts: int = 1) -> None:
        self.attempts = attempts

    def createDataFrame(self, rows: list[tuple[Any, ...]], schema: str) -> ConnectSession:
        self.rows = [dict(zip((column.split()[0] for column in schema.split(", ")), row, strict=True)) for row in rows]
        return self

    def repartitionByRange(self, count: int, column: str) -> ConnectSession:
        rows = sorted(self.rows, key=lambda row: row[column])
        self.tasks = [rows[len(rows) * n // count : len(rows) * (n + 1) // count] for n in range(count)]
        return self

    def mapInArrow(self, task: Any, schema: str) -> ConnectSession:
        self.names = [column.split()[0] for column in schema.split(", ")]
        self.pickled = pickle.dumps(task)
        return self

    def collect(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for rows in self.tasks:
            batches = [pa.RecordBatch.from_pylist(rows)] if rows else []
            answers = [list(pickle.loads(self.pickled)(iter(batches))) for _ in range(self.attempts)]
            assert all(batch.schema.names == self.names for batch in answers[-1])
            found += [row for batch in answers[-1] for row in batch.to_pylist()]
        return found


ConnectSession.__module__ = "pyspark.sql.connect.session"


@pytest.fixture
def small(orders: TableScan) -> TableScan:
    return attrs.evolve(orders, scan=attrs.evolve(orders.scan, split_bytes=100_000))


def test_tasks_write_each_record_once(small: TableScan, committed: list[Row], tmp_path: Path, visible: Any) -> None:
    session = Session(attempts=2)
    result = small.to_parquet(tmp_path, spark=session, partition_by="topic", file_bytes=1, row_group_bytes=50_000)
    assert len(session.tasks) == result.splits > 3
    assert len(result.files) > result.splits
    assert result.rows == len(committed)
    places = [(row["partition"], row["offset"]) for row in visible(tmp_path)]
    assert sorted(places) == sorted((row["partition"], row["offset"]) for row in committed)
    again = small.to_parquet(tmp_path, spark=None, partition_by="topic", file_bytes=1, row_group_bytes=50_000)
    assert again.files == result.files


def test_tasks_of_spark_connect_write_each_record_once(
    small: TableScan, committed: list[Row], tmp_path: Path, visible: Any
) -> None:
    session = ConnectSession(attempts=2)
    result = small.to_parquet(tmp_path, spark=session)
    assert [len(rows) for rows in session.tasks] == [1] * result.splits
    assert result.splits > 3
    assert visible(tmp_path) == committed
    again = small.to_parquet(tmp_path)
    assert (again.files, again.resumed) == (result.files, result.splits)


def test_a_failed_job_names_the_error_and_the_next_continues(
    small: TableScan, committed: list[Row], tmp_path: Path, visible: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, read = OpenScan.record_batches, []

    def record_batches(self: OpenScan, split: Any) -> Any:
        read.append(split.id)
        if len(read) == 3:
            raise TierUnavailableError("the store is gone")
        return real(self, split)

    monkeypatch.setattr(OpenScan, "record_batches", record_batches)
    with pytest.raises(ExportError, match="the Spark job of export export failed: the store is gone"):
        small.to_parquet(tmp_path, spark=Session())
    assert list(tmp_path.rglob("*.parquet")) == []
    result = small.to_parquet(tmp_path, spark=Session())
    assert result.resumed == 2
    assert len(read) == result.splits + 1
    assert visible(tmp_path) == committed


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "An error occurred\n  at java\n  kafka_remote_client.errors.ExportError: cannot write a\n",
            "kafka_remote_client.errors.ExportError: cannot write a",
        ),
        (
            "An error occurred while calling z:PythonRDD.collectAndServe.\n: SparkException: Job aborted\n\tat DAGScheduler\n",
            "SparkException: Job aborted",
        ),
        ("An error occurred while calling z:PythonRDD.collectAndServe.\n", "RuntimeError"),
        ("\n", "RuntimeError"),
    ],
)
def test_a_spark_stack_trace_is_reduced_to_its_cause(
    small: TableScan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, cause: str
) -> None:
    def collect(self: Session) -> list[str]:
        raise RuntimeError(text)

    monkeypatch.setattr(Session, "collect", collect)
    with pytest.raises(ExportError) as caught:
        small.to_parquet(tmp_path, spark=Session())
    assert str(caught.value) == f"the Spark job of export export failed: {cause}"


def test_no_spark_job_without_splits(small: TableScan, tmp_path: Path) -> None:
    nothing = attrs.evolve(small, scan=attrs.evolve(small.scan, start_offset=10**6))
    session = Session()
    assert nothing.to_parquet(tmp_path, spark=session).splits == 0
    assert session.tasks == []
