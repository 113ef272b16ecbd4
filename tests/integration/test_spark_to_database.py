"""examples/spark_to_database.py: each record is stored exactly once, also when tasks or the job fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.shim.server import Shim
from tests.support.kafka_broker import KafkaBroker
from tests.support.postgres import PostgresServer, postgres_programs
from tests.support.spark import SparkDriver
from tests.support.spark_examples import printed_by
from tests.support.spark_topics import append, directly, through_the_broker, write_codec_topic

# The first test waits for sessions, and each for a topic to be tiered.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

COPIED = "tests.support.spark_segments:copied"


# Use PostgreSQL if it is installed, otherwise SQLite: no test is skipped.
@pytest.fixture(params=["sqlite", *(["postgresql"] if postgres_programs() else [])])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'copy.db'}"
        return
    programs = postgres_programs()
    assert programs is not None
    with PostgresServer(programs) as server:
        yield server.url


@pytest.fixture(scope="module")
def topic(running_broker: KafkaBroker) -> str:
    """Each test appends records."""
    return write_codec_topic(running_broker, "spark-to-database")


def stored(database: str) -> list[tuple[Any, ...]]:
    """All rows in the order of offsets, times in seconds and bytes as hexadecimal digits, as the jobs give them."""
    if database.startswith("sqlite"):
        connection: Any = sqlite3.connect(database.removeprefix("sqlite:///"))
    else:
        import psycopg

        connection = psycopg.connect(database)
    with closing(connection):
        query = "SELECT key, value, topic, part, position, time_ms FROM records ORDER BY topic, part, position"
        found = connection.cursor().execute(query).fetchall()
    return [
        (None if key is None else key.hex(), None if value is None else value.hex(), topic, part, position, time / 1000)
        for key, value, topic, part, position, time in found
    ]


def of_spark_s_own_source(spark: SparkDriver, broker: KafkaBroker, topic: str) -> list[tuple[Any, ...]]:
    found = spark("rows", source="kafka", options=through_the_broker(broker, subscribe=topic))
    return sorted((tuple(row[1:7]) for row in found), key=lambda row: row[2:5])


def test_each_record_is_stored_once_when_tasks_fail(
    spark_repeating: SparkDriver,
    spark_beside: SparkDriver,
    kafka_broker: KafkaBroker,
    spark_shim: Shim,
    topic: str,
    database: str,
) -> None:
    options = directly(spark_shim, subscribe=topic)
    trouble = {"0": "raise", "2": "kill", "5": "raise"}
    split = {"minPartitions": "8"}
    assert spark_repeating(COPIED, options=options | split, database=database, trouble=trouble) >= 8
    assert stored(database) == of_spark_s_own_source(spark_beside, kafka_broker, topic)
    # Restarted, the job finds nothing to do; later it finds new records.
    assert spark_repeating(COPIED, options=options, database=database, trouble={}) == 0
    append(kafka_broker, topic, ["lz4"])
    if database.startswith("sqlite"):
        arguments = ["--database", database, *(f"{name}={value}" for name, value in options.items())]
        assert "2 splits copied" in printed_by("examples/spark_to_database.py", *arguments)
    else:
        assert spark_repeating(COPIED, options=options, database=database, trouble={}) == 2
    assert stored(database) == of_spark_s_own_source(spark_beside, kafka_broker, topic)
