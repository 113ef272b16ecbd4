from __future__ import annotations

import sys
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest

import kafka_remote_client.spark
from kafka_remote_client.errors import MissingExtraError
from kafka_remote_client.spark.source import pyspark_api
from kafka_remote_client.spark.source.datasource import KafkaRemoteDataSource
from kafka_remote_client.spark.source.pyspark_api import require_pyspark


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The packages that seem to be installed."""
    names: set[str] = set()
    monkeypatch.setattr(pyspark_api, "find_spec", lambda name: ModuleSpec(name, None) if name in names else None)
    return names


def pretend(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_says_what_to_install_where_there_is_no_pyspark(installed: set[str]) -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'kafka-remote-client\[pyspark\]'"):
        require_pyspark()


def test_says_which_pyspark_is_too_old(monkeypatch: pytest.MonkeyPatch, installed: set[str]) -> None:
    installed.add("pyspark")
    pretend(monkeypatch, "pyspark", __version__="3.4.4")
    with pytest.raises(MissingExtraError, match=r"PySpark 3\.4\.4 is not supported; 3\.5 is the oldest supported version"):
        require_pyspark()


def test_pyspark_3_5_reads_segments_and_has_no_source(monkeypatch: pytest.MonkeyPatch, installed: set[str]) -> None:
    installed |= {"pyspark", "pyarrow"}
    pretend(monkeypatch, "pyspark", __version__="3.5.9")
    session: Any = object()
    options = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}
    assert repr(kafka_remote_client.spark.read_segments(session, options)) == "Segments(not planned yet)"
    with pytest.raises(MissingExtraError, match=r"PySpark 3\.5\.9 has no Python data sources; 4\.0 is .* Use read_segments"):
        kafka_remote_client.spark.register(session)


def test_says_what_to_install_where_there_is_no_pyarrow(monkeypatch: pytest.MonkeyPatch, installed: set[str]) -> None:
    installed.add("pyspark")
    pretend(monkeypatch, "pyspark", __version__="4.1.0.dev1")
    with pytest.raises(MissingExtraError, match=r"pip install 'kafka-remote-client\[spark\]'"):
        require_pyspark()
    installed.add("pyarrow")
    assert require_pyspark() == (4, 1)


def test_modules_are_pyspark_s_where_there_is_one(monkeypatch: pytest.MonkeyPatch, installed: set[str]) -> None:
    assert pyspark_api._module("pyspark.sql.datasource") is None
    installed.add("pyspark")
    pretend(monkeypatch, "pyspark")
    pretend(monkeypatch, "pyspark.sql")
    found = pretend(monkeypatch, "pyspark.sql.datasource")
    assert pyspark_api._module("pyspark.sql.datasource") is found


def test_an_older_pyspark_has_fewer_modules(monkeypatch: pytest.MonkeyPatch, installed: set[str]) -> None:
    installed.add("pyspark")
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    assert pyspark_api._module("pyspark.sql.streaming.datasource") is None


def test_classes_have_stand_ins() -> None:
    assert pyspark_api._StandInSource({"a": "b"}).options == {"a": "b"}
    assert pyspark_api._StandInPartition(5).value == 5


def test_registers_with_a_session(monkeypatch: pytest.MonkeyPatch, installed: set[str]) -> None:
    registered: list[type] = []

    class DataSources:
        def register(self, source: type) -> None:
            registered.append(source)

    class Session:
        dataSource = DataSources()  # noqa: N815 - PySpark's own spelling

    session: Any = Session()
    with pytest.raises(MissingExtraError):
        kafka_remote_client.spark.register(session)
    installed |= {"pyspark", "pyarrow"}
    pretend(monkeypatch, "pyspark", __version__="4.0.1")
    kafka_remote_client.spark.register(session)
    assert registered == [KafkaRemoteDataSource]


@pytest.mark.parametrize(("condition", "fails"), [("DATA_SOURCE_ALREADY_EXISTS", False), ("DATA_SOURCE_INVALID", True)])
def test_registers_where_pyspark_has_found_the_source(
    monkeypatch: pytest.MonkeyPatch, installed: set[str], condition: str, fails: bool
) -> None:
    class PySparkError(Exception):
        def getCondition(self) -> str:
            return condition

    class DataSources:
        def register(self, source: type) -> None:
            raise PySparkError

    class Session:
        dataSource = DataSources()  # noqa: N815 - PySpark's own spelling

    session: Any = Session()
    installed |= {"pyspark", "pyarrow"}
    pretend(monkeypatch, "pyspark", __version__="4.0.1")
    with pytest.raises(PySparkError) if fails else nullcontext():
        kafka_remote_client.spark.register(session)
