"""Exports on a Spark cluster in which attempts overlap, repeat or end: a plain reader sees the consumer's records once each.

Each test proves by the log of operations that its fault happened. Spark never runs a speculative twin on the host of the first
attempt, so the cluster has two workers with addresses of their own.
"""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.artifacts import MissingPartError
from tests.support.export_log import Entry, is_commit, is_data, is_record, split_of
from tests.support.exported_table import ExportedTable, connections
from tests.support.processes import is_running
from tests.support.spark_export_kills import ExportCluster, Point, operations, survives
from tests.support.waiting import wait_until

# The first test waits for the cluster and a session.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

# A speculative twin starts when 90 % of the tasks have ended, so here only for the task that a test holds.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "1s",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExportCluster]:
    try:
        started = ExportCluster(tmp_path_factory.mktemp("spark"), SPECULATION)
    except MissingPartError as error:
        pytest.skip(f"no Spark: {error}")
    with started:
        yield started


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listener in place of the broker, which no export may contact."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening
        assert connections(listening) == 0


def table_of(kind: str, listener: socket.socket, tmp_path: Path) -> ExportedTable:
    table = ExportedTable(tmp_path / kind, kind, f"127.0.0.1:{listener.getsockname()[1]}")
    table.directory.mkdir()
    return table


def recorded(found: list[Entry]) -> dict[str, set[int]]:
    """The tasks that recorded each split."""
    tasks = defaultdict(set)
    for entry in found:
        if is_record(entry):
            tasks[split_of(entry)].add(entry["task"])
    return tasks


def check(cluster: ExportCluster, table: ExportedTable, done: dict[str, int]) -> None:
    """A plain reader sees the consumer's rows, before and after the next run, which writes nothing."""
    table.check_rows()
    assert len(table.rows()) == done["rows"]
    assert done["splits"] >= 6
    assert cluster.export(table) == {**done, "resumed": done["splits"]}
    table.check_rows()


def test_concurrent_speculative_attempts_export_a_split_once(
    cluster: ExportCluster, listener: socket.socket, tmp_path: Path
) -> None:
    table = table_of("local", listener, tmp_path)
    done = cluster.export(table, overlap=True)
    first = [entry for entry in operations(table) if entry["split"] == 0]
    begun = [entry for entry in first if is_data(entry, "open")]
    assert {entry["attempt"] for entry in begun} >= {0, 1}
    assert len({entry["executor"] for entry in begun}) == 2
    # Both had begun their file before the first one ended.
    assert len({entry["task"] for entry in first[: first.index(next(e for e in first if is_record(e)))]}) == 2
    check(cluster, table, done)


def test_a_split_written_by_two_tasks_is_exported_once(cluster: ExportCluster, listener: socket.socket, tmp_path: Path) -> None:
    table = table_of("delta", listener, tmp_path)
    done = cluster.export(table, session="twice")
    tasks = recorded(operations(table))
    assert len(tasks) == done["splits"]
    assert min(map(len, tasks.values())) >= 2
    check(cluster, table, done)


def test_a_repeated_stage_changes_no_row(cluster: ExportCluster, listener: socket.socket, tmp_path: Path) -> None:
    table = table_of("iceberg", listener, tmp_path)
    known = cluster.executor_ids()
    done = cluster.export(table, session="again")
    assert set(known) - set(cluster.executor_ids())
    again = {split: tasks for split, tasks in recorded(operations(table)).items() if len(tasks) > 1}
    assert len(again) >= done["splits"] // 2
    check(cluster, table, done)


def test_splits_of_a_lost_executor_are_written_by_another(
    cluster: ExportCluster, listener: socket.socket, tmp_path: Path
) -> None:
    table = table_of("objects", listener, tmp_path)
    known = cluster.executor_ids()
    done = cluster.export(table, kill="executor")
    found = operations(table)
    (lost,) = [entry for entry in found if entry["operation"] == "killed"]
    assert not is_running(lost["executor"])
    wait_until(lambda: set(known) - set(cluster.executor_ids()), "the driver to know of the loss")
    before = found[: found.index(lost)]
    assert len([entry for entry in before if is_record(entry) and entry["executor"] == lost["executor"]]) >= 2
    # The interrupted split was written again.
    assert len({entry["task"] for entry in found if entry["split"] == lost["split"] and is_data(entry, "open")}) >= 2
    check(cluster, table, done)


def test_a_rerun_completes_the_export_of_a_killed_driver(
    cluster: ExportCluster, listener: socket.socket, tmp_path: Path
) -> None:
    table = ExportedTable(tmp_path / "iceberg", "iceberg", f"127.0.0.1:{listener.getsockname()[1]}")
    # Of the driver's 60 operations from the commit plan on.
    assert survives(cluster, table, Point("driver", commits=True, operation=39)) == []
    found = operations(table)
    planned = next(number for number, entry in enumerate(found) if is_commit(entry))
    # Commits of the table and of three pieces; the last one did not happen.
    assert [entry["operation"] for entry in found[planned:]].count("commit") == 4
    assert recorded(operations(table, 1)) == {}
