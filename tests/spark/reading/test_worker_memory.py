from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest

from kafka_remote_client.spark.reading.worker_memory import WorkerMemory


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of the garbage collector."""
    made: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: made.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: made.append("freeze"))
    return made


def test_a_worker_of_spark_is_settled_once(monkeypatch: pytest.MonkeyPatch, steps: list[str]) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.worker", ModuleType("pyspark.worker"))
    memory = WorkerMemory()
    assert memory.settle()
    assert not memory.settle()
    assert steps == ["collect", "freeze"]


def test_no_other_process_is_touched(monkeypatch: pytest.MonkeyPatch, steps: list[str]) -> None:
    monkeypatch.delitem(sys.modules, "pyspark.worker", raising=False)
    assert not WorkerMemory().settle()
    assert steps == []
