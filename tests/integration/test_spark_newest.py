"""``format("kafka-remote")`` on the newest PySpark. There is no Kafka source for it, so the oracle is a plain consumer."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.shim.server import Shim
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import plain
from tests.support.scenario import TransactionalTopic
from tests.support.spark import SparkDriver
from tests.support.spark_topics import append, directly, write_codec_topic

# The first test waits for the session, for a topic to be tiered, and for the broker to restart.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]


@pytest.fixture
def spark(spark_newest: SparkDriver) -> SparkDriver:
    return spark_newest


def as_shown(headers: Any) -> Any:
    return None if not headers else [[name, None if value is None else value.hex()] for name, value in headers]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_rows_equal_a_plain_consumers(
    transactional_topic: TransactionalTopic, spark: SparkDriver, kafka_broker: KafkaBroker, spark_shim: Shim, isolation: str
) -> None:
    topic = transactional_topic.topic
    more = {"subscribe": topic, "kafka.isolation.level": isolation, "remote.splitBytes": "60000", "minPartitions": "4"}
    found = spark("rows", source="kafka-remote", options=directly(spark_shim, **more))
    assert len({task for task, *_ in found}) >= 4
    read = sorted((offset, key, value, time, kind, headers) for _, key, value, _, _, offset, time, kind, headers in found)
    assert read == [
        (
            offset,
            None if key is None else key.hex(),
            None if value is None else value.hex(),
            time / 1000,
            kind - 1,
            as_shown(headers),
        )
        for offset, (kind, time), _, key, value, headers in plain(kafka_broker, topic, isolation)
    ]
    assert spark_shim.metrics()["ranges_granted"] > 3


def test_options_determine_schema_and_plan(
    transactional_topic: TransactionalTopic, spark: SparkDriver, spark_shim: Shim
) -> None:
    more = {"subscribe": transactional_topic.topic, "remote.includeValue": "false", "includeHeaders": "false"}
    columns = [
        field["name"] for field in spark("schema", source="kafka-remote", options=directly(spark_shim, **more))["fields"]
    ]
    assert columns == ["key", "topic", "partition", "offset", "timestamp", "timestampType"]
    # At least five: a shim lists the segments, and splits end with them.
    assert 5 <= spark("tasks", source="kafka-remote", options=directly(spark_shim, **more, minPartitions="5")) <= 7


def test_available_now_reads_to_its_end_in_batches_of_the_limit(
    spark: SparkDriver, kafka_broker: KafkaBroker, spark_shim: Shim, tmp_path: Path
) -> None:
    topic = write_codec_topic(kafka_broker, "spark-available-now")
    options = directly(
        spark_shim, subscribe=topic, startingOffsets="earliest", includeHeaders="false", maxOffsetsPerTrigger="400"
    )
    places = {"directory": str(tmp_path / "rows"), "checkpoint": str(tmp_path / "checkpoint")}
    batches = [batch for batch in spark("stream", source="kafka-remote", options=options, **places) if batch[0]]
    assert sum(rows for rows, _ in batches) == 1250
    assert [behind for _, behind in batches] == [850, 450, 50, 0]
    append(kafka_broker, topic, ["zstd"])
    rewrite_as_kafka_does(tmp_path / "checkpoint")
    assert sum(rows for rows, _ in spark("stream", source="kafka-remote", options=options, **places)) == 250
    assert spark("stored", directory=places["directory"]) == [[topic, *place] for place in product((0, 1), range(750))]


def rewrite_as_kafka_does(checkpoint: Path) -> None:
    """Gives the last offset of a query the form in which Spark's own source writes it: no blanks, sorted."""
    last = max((path for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
    lines = last.read_text().splitlines()
    lines[-1] = json.dumps(json.loads(lines[-1]), separators=(",", ":"), sort_keys=True)
    last.write_text("\n".join(lines))
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
