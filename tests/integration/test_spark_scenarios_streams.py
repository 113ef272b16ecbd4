"""Spark's scenarios of streams from Kafka, on the real broker: the reader is driven as Spark drives it, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import NewPartitions

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import BrokerResponseError, ConfigurationError
from kafka_remote_client.spark.offsets.admin_cluster import AdminCluster
from kafka_remote_client.spark.offsets.data_loss import DataLossError
from kafka_remote_client.spark.options.source_options import parse_options
from kafka_remote_client.spark.source import pyspark_api
from tests.support.kafka_broker import KafkaBroker
from tests.support.micro_batches import Query
from tests.support.spark_scenarios import scenario, starts_of_streams
from tests.support.transactions import NEVER_ABORTED
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

FIRST, SECOND = 1_700_000_000_000, 1_700_000_001_000
SUBSCRIPTIONS: Mapping[str, Callable[[str], str]] = {
    "assign": lambda topic: json.dumps({topic: list(range(5))}),
    "subscribe": str,
    "subscribePattern": lambda topic: topic.replace("suffix", ".*"),
}
_PATIENCE = 60
_TRANSACTION = 200  # the broker answers late on a loaded machine
_SIDE_BY_SIDE = 3

Messages = Mapping[int, list[int | None]]
_numbers = count()


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> Iterator[str]:
    """A name that is unique and not a prefix of another topic."""
    name = f"scenario-{next(_numbers)}-suffix"
    yield name
    if name in kafka_broker.admin.list_topics(timeout=_PATIENCE).topics:
        kafka_broker.delete_topic(name)


@pytest.fixture
def one_row_limits(monkeypatch: pytest.MonkeyPatch) -> object:
    """As on PySpark 4.2, with a real limit."""
    monkeypatch.setattr(pyspark_api, "READ_LIMITS", SimpleNamespace(ReadAllAvailable=type("ReadAllAvailable", (), {})))
    return object()


def create(broker: KafkaBroker, topic: str, partitions: int = 5) -> None:
    broker.create_topic(topic, partitions=partitions, tiered=False, segment_bytes=1 << 20, retention_ms="-1")


def create_anew(broker: KafkaBroker, topic: str, partitions: int) -> None:
    """Deletes a topic and creates it again."""
    broker.delete_topic(topic)

    def created() -> bool:
        try:
            create(broker, topic, partitions)
        except KafkaException:
            return False
        return True

    wait_until(created, f"{topic} to be created anew")


def send(broker: KafkaBroker, topic: str, messages: Messages, timestamp: int = FIRST) -> None:
    """Values as text by partition, in their order; None for a record with neither key nor value."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    for partition, values in messages.items():
        for value in values:
            producer.produce(topic, None if value is None else str(value), partition=partition, timestamp=timestamp)
    assert producer.flush(_PATIENCE) == 0


def options(broker: KafkaBroker, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, "fetch.remote.enabled": "false", **more}


class Queries:
    """Queries on one topic, one for each way to subscribe to it and for both values of failOnDataLoss."""

    def __init__(self, broker: KafkaBroker, topic: str, **more: str) -> None:
        self._all = {
            (how, fail): Query(options(broker, failOnDataLoss=fail, **{how: named(topic)}, **more))
            for how, named in SUBSCRIPTIONS.items()
            for fail in ("true", "false")
        }

    def expect(self, *values: int, unassigned: tuple[int, ...] = ()) -> None:
        """The new values for all queries; ``unassigned``: for those without an assignment of five partitions."""
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as threads:
            found = dict(zip(self._all, threads.map(lambda query: query.values(), self._all.values()), strict=True))
        assert found == {(how, fail): sorted(values + (() if how == "assign" else unassigned)) for how, fail in self._all}

    def restart(self) -> None:
        for query in self._all.values():
            query.restart()

    def stop(self) -> None:
        for query in self._all.values():
            query.stop()


def grow(broker: KafkaBroker, topic: str) -> None:
    """Adds partitions up to ten."""
    for future in broker.admin.create_partitions([NewPartitions(topic, 10)]).values():
        future.result(_PATIENCE)

    def led() -> bool:
        partitions = broker.admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
        return len(partitions) == 10 and all(partition.leader >= 0 for partition in partitions)

    wait_until(led, f"ten partitions of {topic} with a leader")


def then_it_grows(broker: KafkaBroker, topic: str, queries: Queries) -> None:
    """More records while the query is stopped, also in new partitions."""
    queries.restart()
    queries.expect()
    queries.stop()
    send(broker, topic, {0: [30], 3: [31, 32]})
    queries.restart()
    queries.expect(30, 31, 32)
    grow(broker, topic)
    send(broker, topic, {1: [40, 41], 4: [42], 7: [43], 9: [44]})
    queries.expect(40, 41, 42, unassigned=(43, 44))
    queries.stop()


@scenario("KafkaMicroBatchSourceSuite", *starts_of_streams("latest offsets"))
def test_streams_from_the_latest_offsets(kafka_broker: KafkaBroker, topic: str) -> None:
    create(kafka_broker, topic)
    send(kafka_broker, topic, {2: [-1]})
    queries = Queries(kafka_broker, topic, startingOffsets="latest")
    queries.expect()
    send(kafka_broker, topic, {0: [1], 1: [2], 4: [3]})
    queries.expect(1, 2, 3)
    then_it_grows(kafka_broker, topic, queries)


@scenario("KafkaMicroBatchSourceSuite", *starts_of_streams("earliest offsets"))
def test_streams_from_the_earliest_offsets(kafka_broker: KafkaBroker, topic: str) -> None:
    create(kafka_broker, topic)
    send(kafka_broker, topic, {0: [1], 1: [2, 3]})
    queries = Queries(kafka_broker, topic, startingOffsets="earliest")
    queries.expect(1, 2, 3)
    send(kafka_broker, topic, {2: [4, 5], 3: [6]})
    queries.expect(4, 5, 6)
    then_it_grows(kafka_broker, topic, queries)


@scenario("KafkaMicroBatchSourceSuite", *starts_of_streams("specific offsets"))
def test_streams_from_specific_offsets(kafka_broker: KafkaBroker, topic: str) -> None:
    create(kafka_broker, topic)
    send(kafka_broker, topic, {0: [-20, -21, -22], 1: [-10, -11, -12], 2: [0, 1, 2], 3: [10, 11, 12], 4: [20, 21, 22]})
    start = json.dumps({topic: {"0": -2, "1": -1, "2": 0, "3": 1, "4": 2}})
    queries = Queries(kafka_broker, topic, startingOffsets=start)
    queries.expect(-20, -21, -22, 0, 1, 2, 11, 12, 22)
    then_it_grows(kafka_broker, topic, queries)


def write_two_times(broker: KafkaBroker, topic: str) -> None:
    """The last partition has no record at or after the second time."""
    create(broker, topic)
    send(broker, topic, {0: [-20], 1: [-10], 2: [0, 1], 3: [10, 11], 4: [20, 21, 22]}, FIRST)
    send(broker, topic, {0: [-21, -22], 1: [-11, -12], 2: [2], 3: [12]}, SECOND)


@scenario("KafkaMicroBatchSourceSuite", *starts_of_streams("specific timestamps"))
def test_streams_from_specific_timestamps(kafka_broker: KafkaBroker, topic: str) -> None:
    write_two_times(kafka_broker, topic)
    start = json.dumps({topic: {**dict.fromkeys("0123", SECOND), "4": FIRST}})
    queries = Queries(kafka_broker, topic, startingOffsetsByTimestamp=start)
    queries.expect(-21, -22, -11, -12, 2, 12, 20, 21, 22)
    then_it_grows(kafka_broker, topic, queries)


@scenario("KafkaMicroBatchSourceSuite", *starts_of_streams("global timestamp per topic"))
def test_streams_from_one_timestamp(kafka_broker: KafkaBroker, topic: str) -> None:
    write_two_times(kafka_broker, topic)
    send(kafka_broker, topic, {4: [23, 24]}, SECOND)
    queries = Queries(kafka_broker, topic, startingTimestamp=str(SECOND))
    queries.expect(-21, -22, -11, -12, 2, 12, 23, 24)
    then_it_grows(kafka_broker, topic, queries)


@scenario(
    "KafkaMicroBatchSourceSuite",
    *(
        f"subscribing topic by {how} from {what} with non-matching starting offset"
        for how in ("name", "pattern")
        for what in ("specific timestamps", "global timestamp per topic")
    ),
)
def test_timestamps_that_no_record_reaches(kafka_broker: KafkaBroker, topic: str) -> None:
    write_two_times(kafka_broker, topic)
    for start in (
        {"startingTimestamp": str(SECOND)},
        {"startingOffsetsByTimestamp": json.dumps({topic: dict.fromkeys("01234", SECOND)})},
    ):
        for strategy in ({}, {"startingoffsetsbytimestampstrategy": "error"}):
            refused = Query(options(kafka_broker, subscribe=topic, **start, **strategy))
            with pytest.raises(ConfigurationError, match=f"no record at or after the timestamp in {topic}-4"):
                refused.batch()
            refused.stop()
    latest = {"startingoffsetsbytimestampstrategy": "latest"}
    queries = Queries(kafka_broker, topic, **start, **latest)
    one_for_all = Query(options(kafka_broker, subscribe=topic, startingTimestamp=str(SECOND), **latest))
    queries.expect(-21, -22, -11, -12, 2, 12)
    assert one_for_all.values() == [-22, -21, -12, -11, 2, 12]
    send(kafka_broker, topic, {4: [23, 24, 25]}, SECOND)
    queries.expect(23, 24, 25)
    assert one_for_all.values() == [23, 24, 25]
    queries.stop()
    one_for_all.stop()


@scenario("KafkaMicroBatchSourceSuite", "subscribing topics from topic-level offsets")
def test_streams_from_ends_of_whole_topics(kafka_broker: KafkaBroker, topic: str) -> None:
    other = topic.replace("suffix", "other")
    create(kafka_broker, topic, 3)
    create(kafka_broker, other, 2)
    send(kafka_broker, topic, {0: [1, 2, 3]})
    send(kafka_broker, other, {0: [11]})
    start = json.dumps({topic: "earliest", other: "latest"})
    query = Query(options(kafka_broker, subscribe=f"{topic},{other}", startingOffsets=start))
    assert query.values() == [1, 2, 3]
    send(kafka_broker, other, {0: [12], 1: [4]})
    assert query.values() == [4, 12]
    query.restart()
    assert query.values() == []
    query.stop()
    kafka_broker.delete_topic(other)


@scenario("KafkaMicroBatchSourceSuite", "topic-level offsets tolerate a new topic matching subscribePattern after the start")
def test_a_topic_created_later_is_read_from_its_start(kafka_broker: KafkaBroker, topic: str) -> None:
    other = topic.replace("suffix", "other")
    create(kafka_broker, topic, 1)
    send(kafka_broker, topic, {0: [1]})
    pattern = SUBSCRIPTIONS["subscribePattern"](topic)
    query = Query(options(kafka_broker, subscribePattern=pattern, startingOffsets=json.dumps({topic: "earliest"})))
    assert query.values() == [1]
    create(kafka_broker, other, 1)
    send(kafka_broker, other, {0: [2]})
    assert query.values() == [2]
    query.stop()
    kafka_broker.delete_topic(other)


@scenario(
    "KafkaMicroBatchSourceSuite",
    "subscribing topic by pattern with topic deletions",
    "SPARK-41375: empty partitions should not record to latest offset",
)
def test_topics_of_a_pattern_are_deleted_and_recreated(kafka_broker: KafkaBroker, topic: str) -> None:
    other = topic.replace("suffix", "other")
    create(kafka_broker, topic)
    send(kafka_broker, topic, {0: [-1]})
    pattern = SUBSCRIPTIONS["subscribePattern"](topic)
    query = Query(options(kafka_broker, subscribePattern=pattern, failOnDataLoss="false"))
    assert query.values() == []
    send(kafka_broker, topic, {0: [1], 1: [2], 2: [3]})
    assert query.values() == [1, 2, 3]
    kafka_broker.delete_topic(topic)
    wait_until(lambda: topic not in kafka_broker.admin.list_topics(timeout=10).topics, "the topic to be gone")
    assert query.values() == []
    query.restart()
    assert query.values() == []
    assert "{}" not in query.checkpoint
    create(kafka_broker, other)
    send(kafka_broker, other, {0: [4], 1: [5], 2: [6]})
    assert query.values() == [4, 5, 6]
    query.stop()
    kafka_broker.delete_topic(other)


@scenario("KafkaMicroBatchSourceSuite", "subscribe topic by pattern with topic recreation between batches")
def test_a_recreated_topic_fails_the_query(kafka_broker: KafkaBroker, topic: str) -> None:
    create(kafka_broker, topic, 1)
    send(kafka_broker, topic, {0: [2, 4]})
    pattern = SUBSCRIPTIONS["subscribePattern"](topic)
    query = Query(options(kafka_broker, subscribePattern=pattern, startingOffsets="earliest"))
    assert query.values() == [2, 4]
    query.stop()
    create_anew(kafka_broker, topic, 1)
    send(kafka_broker, topic, {0: [6]})
    query.restart()
    with pytest.raises(DataLossError, match="the log end moved back from 2 to 1"):
        query.take()
    query.stop()


@scenario("KafkaMicroBatchSourceSuite", "delete a topic when a Spark job is running")
@pytest.mark.parametrize("again", [True, False], ids=["made-anew", "gone"])
def test_a_topic_is_deleted_before_its_tasks_read_it(kafka_broker: KafkaBroker, topic: str, again: bool) -> None:
    create(kafka_broker, topic, 1)
    send(kafka_broker, topic, {0: list(range(10))})
    delete = partial(create_anew, kafka_broker, topic, 1) if again else partial(kafka_broker.delete_topic, topic)
    given = options(kafka_broker, subscribe=topic, startingOffsets="earliest", failOnDataLoss="false")
    query = Query(given | {"kafkaConsumer.pollTimeoutMs": "5000"}, before_tasks=delete)
    assert query.batch() == []
    query.stop()


@scenario(
    "KafkaDontFailOnDataLossSuite",
    "failOnDataLoss=false should not return duplicated records: microbatch v1",
    "failOnDataLoss=false should not return duplicated records: microbatch v2",
)
def test_deleted_records_are_skipped_and_others_delivered_once(kafka_broker: KafkaBroker, topic: str) -> None:
    create(kafka_broker, topic, 1)
    send(kafka_broker, topic, {0: list(range(50))})
    kafka_broker.delete_records(topic, 20)
    given = options(kafka_broker, subscribe=topic, startingOffsets=json.dumps({topic: {"0": 0}}))
    lenient = Query(given | {"failOnDataLoss": "false"})
    assert lenient.values() == list(range(20, 50))
    lenient.stop()
    strict = Query(given)
    with pytest.raises(DataLossError, match="the offsets 0 to 19 were deleted"):
        strict.take()
    strict.stop()


@scenario("KafkaMicroBatchSourceSuite", "cannot stop Kafka stream")
def test_a_query_can_be_stopped_at_any_time(kafka_broker: KafkaBroker, topic: str) -> None:
    create(kafka_broker, topic)
    query = Query(options(kafka_broker, subscribe=topic))
    query.stop()
    assert query.values() == []
    query.stop()
    query.stop()


class Transactions:
    """Transactions of one producer on partition 0; values are numbers that count up."""

    def __init__(self, broker: KafkaBroker, topic: str) -> None:
        self.broker, self.topic = broker, topic
        transactional = {"transactional.id": topic, "linger.ms": 1, "log_level": 0, **NEVER_ABORTED}
        self.producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **transactional})
        self.producer.init_transactions(_TRANSACTION)

    def begin(self, *values: int | None) -> None:
        self.producer.begin_transaction()
        for value in values:
            text = None if value is None else str(value)
            self.producer.produce(self.topic, text, partition=0)
        assert self.producer.flush(_PATIENCE) == 0

    def finish(self, offset: int, *, commit: bool = True) -> None:
        """``offset``: the log end after the marker."""
        (self.producer.commit_transaction if commit else self.producer.abort_transaction)(_TRANSACTION)
        wait_until(lambda: self.broker.offsets(self.topic).last_stable == offset, f"the marker before {offset}")

    def write(self, offset: int, *values: int) -> None:
        self.begin(*values)
        self.finish(offset)


@scenario("KafkaMicroBatchSourceSuite", "read Kafka transactional messages: read_committed")
def test_transactions_that_are_committed(kafka_broker: KafkaBroker, topic: str, one_row_limits: object) -> None:
    transactional(kafka_broker, topic, one_row_limits, "read_committed")


@scenario("KafkaMicroBatchSourceSuite", "read Kafka transactional messages: read_uncommitted")
def test_transactions_that_are_not_committed(kafka_broker: KafkaBroker, topic: str, one_row_limits: object) -> None:
    transactional(kafka_broker, topic, one_row_limits, "read_uncommitted")


def transactional(broker: KafkaBroker, topic: str, limit: object, isolation: str) -> None:
    """Values are the offsets, batches are of three offsets: whole ones, first and last ones hold no record."""
    committed = isolation == "read_committed"
    create(broker, topic, 1)
    more = {"kafka.isolation.level": isolation, "maxOffsetsPerTrigger": "3", "startingOffsets": "earliest"}
    query = Query(options(broker, subscribe=topic, **more), limit=limit)

    def expect(*batches: list[int] | None) -> None:
        found = [query.batch() for _ in batches]
        assert [None if rows is None else [int(row["value"]) for row in rows] for rows in found] == list(batches)

    expect(None)
    transactions = Transactions(broker, topic)
    transactions.begin(0, 1, 2, 3, 4)
    expect(None) if committed else expect([0, 1, 2])
    transactions.finish(6)
    expect(*([[0, 1, 2], [3, 4], None] if committed else [[3, 4], None]))
    transactions.begin(6, 7, 8, 9, 10)
    transactions.finish(12, commit=False)
    expect(*([[], []] if committed else [[6, 7, 8], [9, 10]]), None)
    transactions.write(18, 12, 13, 14, 15, 16)
    expect([12, 13, 14], [15, 16], None)
    transactions.write(20, 18)
    transactions.write(22, 20)
    transactions.write(25, 22, 23)
    expect([18, 20], [22, 23], [], None)
    query.stop()


@scenario("KafkaMicroBatchSourceSuite", "SPARK-25495: FetchedData.reset should reset all fields")
def test_records_produced_during_a_batch_are_in_the_next_one(kafka_broker: KafkaBroker, topic: str) -> None:
    create(kafka_broker, topic, 1)
    transactions = Transactions(kafka_broker, topic)
    transactions.write(5, 0, 1, 2, 3)
    more = [(10, 4, 5, 6, 7)]

    def before_tasks() -> None:
        while more:
            transactions.write(*more.pop())

    given = options(kafka_broker, subscribe=topic, startingOffsets="earliest", **{"kafka.isolation.level": "read_committed"})
    query = Query(given, before_tasks=before_tasks)
    batches = [query.batch() for _ in range(3)]
    assert [None if rows is None else [int(row["value"]) for row in rows] for rows in batches] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        None,
    ]
    query.stop()


@scenario("KafkaMicroBatchSourceSuite", "SPARK-27494: read kafka record containing null key/values.")
def test_records_without_key_or_value(kafka_broker: KafkaBroker, topic: str) -> None:
    create(kafka_broker, topic, 1)
    wanted = [(None, None)] * 5 + [(b"%d" % n, None) for n in range(5)] + [(None, b"%d" % n) for n in range(5)]
    transactions = Transactions(kafka_broker, topic)
    transactions.producer.begin_transaction()
    for key, value in wanted:
        transactions.producer.produce(topic, value, key, partition=0)
    transactions.finish(16)
    given = options(kafka_broker, subscribe=topic, startingOffsets="earliest", **{"kafka.isolation.level": "read_committed"})
    query = Query(given)
    assert [(row["key"], row["value"]) for row in query.take()] == wanted
    query.stop()


@scenario("KafkaMicroBatchSourceSuite", "SPARK-30656: minPartitions")
def test_more_splits_than_partitions(kafka_broker: KafkaBroker, topic: str) -> None:
    create(kafka_broker, topic, 3)
    send(kafka_broker, topic, {0: list(range(10)), 1: list(range(10, 20)), 2: [20]})
    query = Query(options(kafka_broker, subscribe=topic, startingOffsets="earliest", minPartitions="6"))
    assert query.values() == list(range(21))
    assert query.splits >= 6
    query.stop()


@scenario("KafkaMicroBatchSourceSuite", "SPARK-53560: no crash looping during uncommitted batch retry in AvailableNow trigger")
def test_a_failed_batch_is_repeated_despite_new_partitions(
    kafka_broker: KafkaBroker, topic: str, one_row_limits: object
) -> None:
    create(kafka_broker, topic, 1)
    send(kafka_broker, topic, {0: list(range(1, 8))})
    query = Query(options(kafka_broker, subscribe=topic, startingOffsets="earliest"), limit=one_row_limits)
    reader = query._reader
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, one_row_limits)
    query.stop()
    grow(kafka_broker, topic)
    query.restart()
    again = query._reader
    again.prepareForTriggerAvailableNow()
    rows = query._read(again.partitions(start, end))
    assert [int(row["value"]) for row in rows] == list(range(1, 8))
    query.stop()


@scenario("KafkaMicroBatchSourceSuite", "Kafka column types")
def test_columns_of_a_stream(kafka_broker: KafkaBroker, topic: str) -> None:
    create(kafka_broker, topic, 1)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0})
    producer.produce(topic, b"1", partition=0, timestamp=FIRST, headers=[("a", b"b"), ("c", b"d")])
    assert producer.flush(_PATIENCE) == 0
    query = Query(options(kafka_broker, subscribe=topic, startingOffsets="earliest", includeHeaders="true"))
    (row,) = query.take()
    assert int(row.pop("timestamp").timestamp() * 1000) == FIRST
    headers = [{"key": "a", "value": b"b"}, {"key": "c", "value": b"d"}]
    assert row == {
        "key": None,
        "value": b"1",
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestampType": 0,
        "headers": headers,
    }
    query.stop()


@scenario(
    "ConsumerStrategySuite",
    "AssignStrategy.assignedTopicPartitions must give back all assigned",
    "SubscribeStrategy.assignedTopicPartitions must give back all assigned",
    "SubscribePatternStrategy.assignedTopicPartitions must give back all assigned",
)
def test_which_partitions_are_subscribed(kafka_broker: KafkaBroker, topic: str) -> None:
    other = topic.replace("suffix", "other")
    create(kafka_broker, topic, 3)
    create(kafka_broker, other, 2)

    def subscribed(**how: str) -> list[str]:
        parsed = parse_options(options(kafka_broker, **how))
        cluster = AdminCluster(parsed, SystemClock())
        try:
            return [str(partition) for partition in cluster.partitions(parsed.subscription)]
        finally:
            cluster.close()

    all_of = [*(f"{other}-{number}" for number in range(2)), *(f"{topic}-{number}" for number in range(3))]
    assert subscribed(assign=json.dumps({topic: [0, 2]})) == [f"{topic}-0", f"{topic}-2"]
    assert subscribed(subscribe=f"{topic},{other}") == all_of
    assert subscribed(subscribePattern=SUBSCRIPTIONS["subscribePattern"](topic)) == all_of
    assert subscribed(subscribePattern=topic.removesuffix("suffix")) == all_of
    assert subscribed(subscribePattern=f"{topic}.") == []
    with pytest.raises(BrokerResponseError, match=f"unknown partitions: {topic}-7"):
        subscribed(assign=json.dumps({topic: [0, 7]}))
    kafka_broker.delete_topic(other)
