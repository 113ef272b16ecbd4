"""``format("kafka-remote")`` compared with Spark's ``format("kafka")``, in one session on the real broker."""

from __future__ import annotations

import json

import pytest

from kafka_remote_client.shim.server import Shim
from tests.support.kafka_broker import KafkaBroker
from tests.support.scenario import TransactionalTopic
from tests.support.spark import SparkDriver, SparkJobError
from tests.support.spark_scenarios import scenario
from tests.support.spark_topics import directly, through_the_broker, write_codec_topic

# The first test waits for the session, for topics to be tiered, and for the broker to restart.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

OURS, THEIRS = "kafka-remote", "kafka"


@pytest.fixture
def spark(spark_beside: SparkDriver) -> SparkDriver:
    return spark_beside


@pytest.fixture(scope="module")
def topics(running_broker: KafkaBroker, transactional_topic: TransactionalTopic) -> dict[str, str]:
    """Names of topics by their special property."""
    return {
        "transactions, deleted records, two epochs": transactional_topic.topic,
        "codecs": write_codec_topic(running_broker, "spark-codecs"),
        "log append time": write_codec_topic(running_broker, "spark-append-time", message_timestamp_type="LogAppendTime"),
    }


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("what", ["transactions, deleted records, two epochs", "codecs", "log append time"])
def test_rows_equal_sparks_source(
    spark: SparkDriver, kafka_broker: KafkaBroker, spark_shim: Shim, topics: dict[str, str], what: str, isolation: str
) -> None:
    more = {"subscribe": topics[what], "kafka.isolation.level": isolation}
    found = spark("digest", source=OURS, options=directly(spark_shim, **more, **{"remote.splitBytes": "60000"}))
    assert found == spark("digest", source=THEIRS, options=through_the_broker(kafka_broker, **more))
    assert sum(rows for _, _, rows, *_ in found) > 1000
    assert spark_shim.metrics()["ranges_granted"] > 3


def test_the_schema_equals_sparks_source(
    spark: SparkDriver, kafka_broker: KafkaBroker, spark_shim: Shim, topics: dict[str, str]
) -> None:
    for headers in ("true", "false"):
        more = {"subscribe": topics["codecs"], "includeHeaders": headers}
        ours = spark("schema", source=OURS, options=directly(spark_shim, **more))
        assert ours == spark("schema", source=THEIRS, options=through_the_broker(kafka_broker, **more))


def test_registering_a_discovered_source_changes_nothing(spark: SparkDriver, spark_shim: Shim) -> None:
    columns = spark("registered", source=OURS, options=directly(spark_shim, subscribe="any", includeHeaders="false"))
    assert columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


@pytest.mark.parametrize(
    "bounds",
    [
        {"startingOffsets": '{"TOPIC":{"0":100,"1":-2}}', "endingOffsets": '{"TOPIC":{"0":-1,"1":555}}', "minPartitions": "7"},
        {"startingTimestamp": "1700000000400", "endingTimestamp": "1700000001001", "maxRecordsPerPartition": "50"},
        {"startingOffsetsByTimestamp": '{"TOPIC":{"0":1700000000007,"1":0}}'},
        {"startingTimestamp": "1800000000000", "startingOffsetsByTimestampStrategy": "latest"},
        {"startingOffsets": '{"TOPIC":{"0":400,"1":400}}', "endingOffsets": '{"TOPIC":{"0":500,"1":400}}'},
    ],
    ids=["offsets", "timestamps", "timestamps-by-partition", "no-match", "empty"],
)
def test_bounds_behave_as_in_sparks_source(
    spark: SparkDriver, kafka_broker: KafkaBroker, spark_shim: Shim, topics: dict[str, str], bounds: dict[str, str]
) -> None:
    topic = topics["codecs"]
    more = {"subscribe": topic, **{name: value.replace("TOPIC", topic) for name, value in bounds.items()}}
    ours = spark("digest", source=OURS, options=directly(spark_shim, **more))
    assert ours == spark("digest", source=THEIRS, options=through_the_broker(kafka_broker, **more))


def test_a_start_after_the_end_fails_as_in_sparks_source(
    spark: SparkDriver, kafka_broker: KafkaBroker, spark_shim: Shim, topics: dict[str, str]
) -> None:
    topic = topics["codecs"]
    bounds = {"startingOffsets": f'{{"{topic}":{{"0":400,"1":0}}}}', "endingOffsets": f'{{"{topic}":{{"0":300,"1":5}}}}'}
    with pytest.raises(SparkJobError, match="Beginning offset 400 is after the ending offset 300"):
        spark("digest", source=THEIRS, options=through_the_broker(kafka_broker, subscribe=topic, **bounds))
    with pytest.raises(SparkJobError, match="startingOffsets begins at offset 400, after the end at 300"):
        spark("digest", source=OURS, options=directly(spark_shim, subscribe=topic, **bounds))


def test_a_split_keeps_the_order_of_offsets(spark: SparkDriver, spark_shim: Shim, topics: dict[str, str]) -> None:
    more = {"subscribePattern": "spark-code.*", "remote.splitBytes": "20000", "minPartitions": "9"}
    found = spark("rows", source=OURS, options=directly(spark_shim, **more))
    by_task: dict[int, list[tuple[int, int]]] = {}
    for task, _key, _value, topic, partition, offset, *_ in found:
        assert topic == topics["codecs"]
        by_task.setdefault(task, []).append((partition, offset))
    assert len(by_task) >= 9
    assert all(read == sorted(read) and len({partition for partition, _ in read}) == 1 for read in by_task.values())
    assert len({place for read in by_task.values() for place in read}) == len(found) == 1250


@scenario(
    "KafkaDontFailOnDataLossSuite",
    "failOnDataLoss=false should not return duplicated records: batch v1",
    "failOnDataLoss=false should not return duplicated records: batch v2",
)
def test_deleted_records_fail_or_are_reported(
    spark: SparkDriver, kafka_broker: KafkaBroker, spark_shim: Shim, transactional_topic: TransactionalTopic
) -> None:
    topic = transactional_topic.topic
    more = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 0}})}
    with pytest.raises(SparkJobError, match=r"the offsets 0 to \d+ were deleted"):
        spark("digest", source=OURS, options=directly(spark_shim, **more))
    more |= {"failOnDataLoss": "false"}
    ours = spark("digest", source=OURS, options=directly(spark_shim, **more))
    assert ours == spark("digest", source=THEIRS, options=through_the_broker(kafka_broker, **more))


def test_sql_can_name_the_source(spark: SparkDriver, spark_shim: Shim, topics: dict[str, str]) -> None:
    assert spark("sql", source=OURS, options=directly(spark_shim, subscribe=topics["codecs"])) == 1250


def test_no_plan_shows_a_credential_or_a_location(spark: SparkDriver, spark_shim: Shim, topics: dict[str, str]) -> None:
    more = {"subscribe": topics["codecs"], "remote.librdkafka.sasl.password": "canary", "remote.librdkafka.sasl.username": "u"}
    shown = spark("plan", source=OURS, options=directly(spark_shim, **more))
    assert "kafka-remote" in shown
    assert "canary" not in shown
    assert "127.0.0.1" not in shown


def test_options_are_refused_by_their_own_names(spark: SparkDriver, spark_shim: Shim) -> None:
    with pytest.raises(SparkJobError, match="exactly one of assign, subscribe and subscribePattern must be set"):
        spark("digest", source=OURS, options=directly(spark_shim))
    with pytest.raises(SparkJobError, match="minPartitions must be a whole number"):
        spark("digest", source=OURS, options=directly(spark_shim, subscribe="x", minPartitions="many"))
    with pytest.raises(SparkJobError, match="unknown partitions: nobody-has-written-this"):
        spark("digest", source=OURS, options=directly(spark_shim, subscribe="nobody-has-written-this"))
