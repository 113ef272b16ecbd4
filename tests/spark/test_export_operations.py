"""The operations that a fault of a Spark export counts."""

from __future__ import annotations

from tests.support.export_log import Entry, operations_of


def entry(operation: str, path: str, task: int | None) -> Entry:
    return {"operation": operation, "path": path, "task": task}


PLAN = entry("move", "table/_job/commit.json", None)
DRIVER = entry("commit", "catalogue", None)
TASK = entry("write", "table/data/0.parquet", 3)
BEFORE = [entry("create", "table/_job", None), TASK, TASK]


def test_a_late_second_attempt_does_not_count_after_the_plan() -> None:
    found = [*BEFORE, PLAN, DRIVER, TASK, DRIVER, TASK]
    assert operations_of("driver", found, commits=True) == [PLAN, DRIVER, DRIVER]


def test_the_driver_dies_at_any_operation_before_the_plan() -> None:
    assert operations_of("driver", [*BEFORE, PLAN, DRIVER], commits=False) == BEFORE
    assert operations_of("driver", BEFORE, commits=True) == []


def test_executors_and_workers_die_at_operations_of_tasks() -> None:
    found = [*BEFORE, PLAN, DRIVER, TASK]
    assert operations_of("worker", found, commits=False) == operations_of("executor", found, commits=False) == [TASK, TASK]
