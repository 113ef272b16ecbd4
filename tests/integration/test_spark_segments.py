"""``read_segments`` compared with Spark's source: with repeated tasks, and on Spark Connect, also for exports."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.shim.server import Shim
from tests.support.artifacts import MissingPartError
from tests.support.export_log import entries, is_record, split_of
from tests.support.exported_table import ExportedTable, connections
from tests.support.kafka_broker import KafkaBroker
from tests.support.spark import NEWEST, SparkDriver, SparkJobError
from tests.support.spark_topics import directly, through_the_broker, write_codec_topic

# The first test waits for sessions and for a topic to be tiered.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

JOBS, FAULTS = "tests.support.spark_segments", "tests.support.spark_export_faults"
SPLITS = {"minPartitions": "8"}
TIER, BROKER = "remote-fetch-records-total", "broker-fetch-records-total"


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """A Spark Connect session with its own server at a free port."""
    directory = tmp_path_factory.mktemp("connect")
    try:
        driver = SparkDriver(NEWEST, directory, settings={"spark.remote": "local[2,4]"}, variables={"SPARK_TESTING": "1"})
    except MissingPartError as error:
        pytest.skip(f"no Spark: {error}")
    with driver:
        yield driver


@pytest.fixture
def repeating(spark_repeating: SparkDriver) -> SparkDriver:
    return spark_repeating


@pytest.fixture(scope="module")
def topic(running_broker: KafkaBroker) -> str:
    return write_codec_topic(running_broker, "spark-segments")


@pytest.fixture(scope="module")
def expected(spark_beside: SparkDriver, running_broker: KafkaBroker, topic: str) -> list[Any]:
    """The rows of Spark's source without the task number."""
    found = spark_beside("rows", source="kafka", options=through_the_broker(running_broker, subscribe=topic))
    return sorted((row[1:] for row in found), key=place)


def place(row: list[Any]) -> tuple[int, int]:
    return row[3], row[4]


def read(directory: Path) -> tuple[list[str], list[Any]]:
    """Completed attempts by split, and their records."""
    files = sorted(directory.iterdir())
    return [file.name for file in files], sorted((row for file in files for row in json.loads(file.read_text())), key=place)


def test_a_repeated_task_gets_the_same_whole_split(
    repeating: SparkDriver, spark_shim: Shim, topic: str, expected: list[Any], tmp_path: Path
) -> None:
    trouble = {"1": "raise", "3": "kill"}
    places = {"directory": str(tmp_path), "finished": [], "trouble": trouble}
    done = repeating(f"{JOBS}:handled", options=directly(spark_shim, subscribe=topic, **SPLITS), **places)
    attempts, rows = read(tmp_path)
    assert rows == expected
    ids = done["ids"]
    assert len(ids) >= 8
    assert {name.rpartition(".")[0] for name in attempts} == set(ids)
    assert {f"{ids[1]}.0", f"{ids[3]}.0"}.isdisjoint(attempts)
    # Only completed attempts are counted; each split was read twice, as messages and as Arrow.
    assert done["counters"][TIER] + done["counters"][BROKER] == 2 * len(expected)
    assert done["counters"][TIER] > done["counters"][BROKER] > 0
    assert done["counters"]["remote-fetch-fallbacks-total"] == {}
    assert spark_shim.metrics()["ranges_granted"] > 3


def test_an_error_of_the_handler_fails_the_job(repeating: SparkDriver, spark_shim: Shim, topic: str) -> None:
    with pytest.raises(SparkJobError, match=rf"RuntimeError: the table of {topic}-0-0-\d+ is gone"):
        repeating(f"{JOBS}:failing", options=directly(spark_shim, assign=f'{{"{topic}": [0]}}'))


def test_dataframe_of_unfinished_segments_has_the_rows_of_sparks_source(
    repeating: SparkDriver, spark_beside: SparkDriver, kafka_broker: KafkaBroker, spark_shim: Shim, topic: str
) -> None:
    found = repeating(f"{JOBS}:frame", options=directly(spark_shim, subscribe=topic, **SPLITS), finished=[f"{topic}-0-0-300"])
    bounds = {"startingOffsets": f'{{"{topic}": {{"0": 300, "1": 0}}}}'}
    options = through_the_broker(kafka_broker, subscribe=topic, **bounds)
    assert found["digest"] == spark_beside("digest", source="kafka", options=options)
    assert found["counters"][TIER] + found["counters"][BROKER] == sum(count for _, _, count, *_ in found["digest"])


def test_read_segments_works_on_spark_connect(
    connect: SparkDriver, spark_shim: Shim, topic: str, expected: list[Any], tmp_path: Path
) -> None:
    options = directly(spark_shim, subscribe=topic, **SPLITS)
    finished = [f"{topic}-0-0-300", f"{topic}-1-100-333"]
    done = connect(f"{JOBS}:handled", options=options, directory=str(tmp_path), finished=finished, trouble={})
    gone = {(0, offset) for offset in range(300)} | {(1, offset) for offset in range(100, 333)}
    attempts, rows = read(tmp_path)
    assert rows == [row for row in expected if place(row) not in gone]
    assert attempts == sorted(f"{split_id}.0" for split_id in done["ids"])
    assert done["counters"][TIER] + done["counters"][BROKER] == 2 * len(rows)
    sizes = connect(f"{JOBS}:sizes", options=options)
    assert len(sizes) >= 8
    assert sum(records for _, records in sizes) == len(expected)
    assert {split_id.rsplit("-", 2)[0] for split_id, _ in sizes} == {f"{topic}-0", f"{topic}-1"}
    left = connect(f"{JOBS}:frame", options=options, finished=finished)
    assert sum(count for _, _, count, *_ in left["digest"]) == len(rows)
    assert left["counters"] == {}


def test_a_spark_connect_export_has_the_consumers_rows_once(connect: SparkDriver, tmp_path: Path) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    with listening:
        broker = f"127.0.0.1:{listening.getsockname()[1]}"
        for kind in ("local", "iceberg"):
            table = ExportedTable(tmp_path / kind, kind, broker)
            table.directory.mkdir()
            wanted = {"directory": str(table.directory), "kind": kind, "broker": broker, "session": "plain"}
            log = table.directory / "run-0"
            # The worker of a task is killed, and Spark repeats the task.
            fault = {"kill": "worker", "operation": 30}
            done = connect(f"{FAULTS}:exported", **wanted, log=str(log), fault=fault)
            found = entries(log)
            assert [entry["victim"] for entry in found if entry["operation"] == "killed"] == ["worker"]
            tasks = {split_of(entry): entry["split"] for entry in found if is_record(entry)}
            assert len(tasks) == done["splits"] >= 6
            assert len(set(tasks.values())) == done["splits"]  # a task for each split
            again = connect(f"{FAULTS}:exported", **wanted, log=str(table.directory / "run-1"), fault={})
            assert again == {**done, "resumed": done["splits"]}
            table.check()
        assert connections(listening) == 0
