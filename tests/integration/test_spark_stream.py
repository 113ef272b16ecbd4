"""``readStream`` and Spark's Kafka source: a query switches between them at a checkpoint and gets each record once."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from kafka_remote_client.shim.server import Shim
from tests.support.kafka_broker import KafkaBroker
from tests.support.spark import SparkDriver, SparkJobError
from tests.support.spark_scenarios import scenario
from tests.support.spark_topics import append, directly, through_the_broker, write_codec_topic

# The first test waits for the session and for a topic to be tiered.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

OURS, THEIRS = "kafka-remote", "kafka"


@pytest.fixture
def spark(spark_beside: SparkDriver) -> SparkDriver:
    return spark_beside


def rows(batches: list[tuple[int, int | None]]) -> int:
    return sum(count for count, _ in batches)


@scenario("KafkaMicroBatchSourceSuite", "input row metrics")
@pytest.mark.parametrize(("first", "second"), [(OURS, THEIRS), (THEIRS, OURS)], ids=["to-theirs", "to-ours"])
def test_a_query_switches_sources_at_a_checkpoint(
    spark: SparkDriver, kafka_broker: KafkaBroker, spark_shim: Shim, tmp_path: Path, first: str, second: str
) -> None:
    topic = write_codec_topic(kafka_broker, f"spark-stream-{first}")
    more = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "false"}
    options = {OURS: directly(spark_shim, **more), THEIRS: through_the_broker(kafka_broker, **more)}
    places = {"directory": str(tmp_path / "rows"), "checkpoint": str(tmp_path / "checkpoint")}
    assert rows(spark("stream", source=first, options=options[first], **places)) == 1250
    append(kafka_broker, topic, ["lz4"])
    assert rows(spark("stream", source=second, options=options[second], **places)) == 250
    # Switch back, without new records.
    assert rows(spark("stream", source=first, options=options[first], **places)) == 0
    assert spark("stored", directory=places["directory"]) == [[topic, *place] for place in product((0, 1), range(750))]


def test_limits_are_refused_by_name(spark: SparkDriver, spark_shim: Shim, tmp_path: Path) -> None:
    options = directly(spark_shim, subscribe="any", maxOffsetsPerTrigger="5")
    with pytest.raises(SparkJobError, match=r"PySpark 4\.2 is the oldest version that supports maxOffsetsPerTrigger"):
        spark("stream", source=OURS, options=options, directory=str(tmp_path / "rows"), checkpoint=str(tmp_path / "checkpoint"))
