"""What PySpark's look-up imports; tests/integration/test_spark_batch.py runs the look-up itself."""

from __future__ import annotations

import importlib
import pickle
import sys
from types import ModuleType

import pyspark_kafka_remote
import pytest

from kafka_remote_client.spark.source.datasource import KafkaRemoteDataSource


def imported_again(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.delitem(sys.modules, "pyspark_kafka_remote")
    return importlib.import_module("pyspark_kafka_remote")


def test_is_the_source_of_the_documented_name() -> None:
    assert pyspark_kafka_remote.DefaultSource is KafkaRemoteDataSource
    assert pyspark_kafka_remote.DefaultSource.name() == "kafka-remote"


def test_travels_by_name_because_executors_import_it() -> None:
    assert len(pickle.dumps(pyspark_kafka_remote.DefaultSource)) < 200


def test_import_without_pyarrow_succeeds_and_has_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "kafka_remote_client.spark.source.datasource")
    found = imported_again(monkeypatch)
    assert found.__all__ == []
    assert not hasattr(found, "DefaultSource")


@pytest.mark.parametrize(
    ("driver", "executors", "found"),
    [
        (None, None, True),
        (None, "./environment/bin/python", True),
        ("python3", "python3", True),
        ("python3", None, True),
        ("/usr/bin/python3", None, False),
        ("python3", "./environment/bin/python", False),
    ],
)
def test_is_found_only_if_executors_have_the_driver_s_python(
    monkeypatch: pytest.MonkeyPatch, driver: str | None, executors: str | None, found: bool
) -> None:
    for name, value in (("PYSPARK_DRIVER_PYTHON", driver), ("PYSPARK_PYTHON", executors)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert hasattr(imported_again(monkeypatch), "DefaultSource") is found
