"""What PySpark's look-up imports; tests/integration/test_spark_batch.py runs the look-up itself."""

from __future__ import annotations

import importlib
import pickle
import sys

import pyspark_kafka_remote
import pytest

from kafka_remote_client.spark.source.datasource import KafkaRemoteDataSource


def test_is_the_source_of_the_documented_name() -> None:
    assert pyspark_kafka_remote.DefaultSource is KafkaRemoteDataSource
    assert pyspark_kafka_remote.DefaultSource.name() == "kafka-remote"


def test_travels_by_name_because_executors_import_it() -> None:
    assert len(pickle.dumps(pyspark_kafka_remote.DefaultSource)) < 200


def test_import_without_pyarrow_succeeds_and_has_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "kafka_remote_client.spark.source.datasource")
    monkeypatch.delitem(sys.modules, "pyspark_kafka_remote")
    found = importlib.import_module("pyspark_kafka_remote")
    assert found.__all__ == []
    assert not hasattr(found, "DefaultSource")
