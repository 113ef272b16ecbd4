"""Checkpoints of ``format("kafka-remote")``: handed over between sources and versions of Spark, with an uncommitted batch,
and by queries that end at the log end of their start.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from kafka_remote_client.shim.server import Shim
from tests.support.kafka_broker import KafkaBroker
from tests.support.spark import SparkDriver
from tests.support.spark_topics import append, directly, through_the_broker, write_codec_topic

# The first test waits for a session and for a topic to be tiered.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

OURS, THEIRS = "kafka-remote", "kafka"
CANARY = "marked-secret-a7c0"
SECRETS = {"kafka.ssl.keystore.password": CANARY, "kafka.ssl.key.password": CANARY}
FIRST = [[0, 0, 624, 625], [1, 0, 624, 625]]
SECOND = [[0, 625, 749, 125], [1, 625, 749, 125]]
THIRD = [[0, 750, 874, 125], [1, 750, 874, 125]]


class Query:
    """A topic of 625 records in each of two partitions, and a checkpoint from which either source continues."""

    def __init__(self, broker: KafkaBroker, spark_shim: Shim, checkpoint: Path) -> None:
        self.topic = write_codec_topic(broker, f"spark-checkpoint-{uuid4()}")
        self.checkpoint = checkpoint
        self._broker = broker
        more = {"subscribe": self.topic, "startingOffsets": "earliest", "includeHeaders": "false"}
        self._options = {OURS: directly(spark_shim, **more, **SECRETS), THEIRS: through_the_broker(broker, **more)}

    def append(self) -> None:
        """Appends 125 records to each partition."""
        append(self._broker, self.topic, ["lz4"])

    def run(self, driver: SparkDriver, source: str, *, options: dict[str, str] | None = None, **more: Any) -> Any:
        """Partition, first and last offset, and records of each batch by its number (``spark_driver.batches``)."""
        given = self._options[source] | (options or {})
        found = driver("batches", source=source, options=given, checkpoint=str(self.checkpoint), **more)
        return {number: partitions for number, partitions in found if partitions}

    @property
    def appended_meanwhile(self) -> dict[str, Any]:
        """Has ``spark_driver.batches`` append 10 records to partition 0 while the first batch is under way."""
        return {"append_to": [self._broker.bootstrap_servers, self.topic]}

    def logged(self, what: str) -> list[int]:
        """The batches in a log of the checkpoint."""
        return sorted(int(path.name) for path in (self.checkpoint / what).iterdir() if path.name.isdecimal())

    def check_no_secret(self) -> None:
        texts = {path: path.read_text(errors="replace") for path in self.checkpoint.rglob("*") if path.is_file()}
        assert texts
        assert [path for path, text in texts.items() if re.search(rf"{CANARY}|signature=|127\.0\.0\.1", text)] == []


@pytest.fixture
def query(kafka_broker: KafkaBroker, spark_shim: Shim, tmp_path: Path) -> Query:
    return Query(kafka_broker, spark_shim, tmp_path / "checkpoint")


def test_direct_source_repeats_the_uncommitted_batch_of_sparks(spark_beside: SparkDriver, query: Query) -> None:
    move_in_the_middle_of_a_batch(query, (spark_beside, THEIRS), (spark_beside, OURS))


def test_sparks_source_repeats_the_uncommitted_batch_of_direct(spark_beside: SparkDriver, query: Query) -> None:
    move_in_the_middle_of_a_batch(query, (spark_beside, OURS), (spark_beside, THEIRS))


def test_direct_source_continues_from_sparks_checkpoint(
    spark_beside: SparkDriver, spark_newest: SparkDriver, query: Query
) -> None:
    move_in_the_middle_of_a_batch(query, (spark_beside, THEIRS), (spark_newest, OURS))


def move_in_the_middle_of_a_batch(query: Query, first: tuple[SparkDriver, str], second: tuple[SparkDriver, str]) -> None:
    assert query.run(*first) == {0: FIRST}
    query.append()
    assert query.run(*first, fail_at=1) == {}
    assert (query.logged("offsets"), query.logged("commits")) == ([0, 1], [0])
    # Later records do not belong to the batch in progress.
    query.append()
    found = query.run(*second)
    if second[1] == OURS and second[0] is first[0]:
        # Spark 4.0 runs only one batch of a Python source.
        assert found == {1: SECOND}
        found |= query.run(*second)
    assert found == {1: SECOND, 2: THIRD}
    query.check_no_secret()
    query.append()
    assert query.run(*first if first[0] is second[0] else second) == {3: [[p, 875, 999, 125] for p in (0, 1)]}


@pytest.mark.parametrize("version", ["beside", "newest"])
def test_available_now_ends_at_the_log_end_of_its_start(
    spark_beside: SparkDriver, spark_newest: SparkDriver, query: Query, version: str
) -> None:
    driver = {"beside": spark_beside, "newest": spark_newest}[version]
    assert query.run(driver, OURS, **query.appended_meanwhile) == {0: FIRST}
    assert query.run(driver, OURS) == {1: [[0, 625, 634, 10]]}
    assert query.run(driver, OURS) == {}


def test_limited_available_now_ends_at_the_log_end_of_its_start(spark_newest: SparkDriver, query: Query) -> None:
    options = {"maxOffsetsPerTrigger": "400"}
    thirds = {n: [[p, 200 * n, 200 * n + 199, 200] for p in (0, 1)] for n in range(3)}
    found = query.run(spark_newest, OURS, options=options, fail_at=2, **query.appended_meanwhile)
    assert found == {0: thirds[0], 1: thirds[1]}
    # Restarted, it repeats the batch in progress and continues to the current log end.
    query.append()
    found = query.run(spark_newest, OURS, options=options, **query.appended_meanwhile)
    assert found == {2: thirds[2], 3: [[0, 600, 759, 160], [1, 600, 749, 150]]}
    assert query.run(spark_newest, OURS, options=options) == {4: [[0, 760, 769, 10]]}
