"""The shim in front of a real Kafka broker with tiered storage: transparent to clients, with locations on request."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.model import IsolationLevel, NotRemote, SegmentLocation, uuid_to_text
from kafka_remote_client.protocol import fetch, metadata
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.protocol.dialect import LocationRequest, TaggedDialect
from kafka_remote_client.shim.config import ShimConfig, parse_address
from kafka_remote_client.shim.server import Shim
from tests.support.granted import asked, granted_rows
from tests.support.kafka_broker import KafkaBroker
from tests.support.scenario import TransactionalTopic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


@contextmanager
def shim_of(broker: KafkaBroker) -> Iterator[Shim]:
    config = ShimConfig(
        broker.bootstrap_servers,
        store=broker.store_directory.as_uri(),
        range_bytes=64 << 10,
        metadata_consumer={"log_level": 0},
    )
    with Shim(config) as started:
        assert started.wait_ready(60)
        yield started


@pytest.fixture
def shim(kafka_broker: KafkaBroker) -> Iterator[Shim]:
    with shim_of(kafka_broker) as started:
        yield started


@pytest.fixture
def lone_shim(restartable_broker: KafkaBroker) -> Iterator[Shim]:
    """A shim that no other test shares the broker with, so that the broker's counters are those of this test."""
    with shim_of(restartable_broker) as started:
        yield started


@pytest.fixture
def topic() -> str:
    """An unused topic name."""
    return f"shim-{uuid4().hex}"


def consumed(bootstrap: str, topic: str, start: int, isolation_level: IsolationLevel, end: int) -> list[tuple[Any, ...]]:
    """Returns the records of partition 0 in [start, end) of a plain consumer, as RecordBlock's rows."""
    level = isolation_level.name.lower()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "judge", "isolation.level": level, "log_level": 0})
    rows: list[tuple[Any, ...]] = []
    try:
        consumer.assign([TopicPartition(topic, 0, start)])
        while True:
            for message in consumer.consume(500, 0.2):
                assert message.error() is None, message.error()
                kind, time = message.timestamp()
                row = (message.offset(), time, kind - 1, message.leader_epoch(), message.key(), message.value())
                if message.offset() < end:
                    rows.append((*row, message.headers() or []))
            (position,) = consumer.position([TopicPartition(topic, 0)])
            if position.offset >= end:
                return rows
    finally:
        consumer.close()


@pytest.mark.parametrize("isolation_level", [COMMITTED, UNCOMMITTED])
@pytest.mark.parametrize("max_bytes", [5_000, 8 << 20])
def test_granted_records_equal_those_of_a_plain_consumer(
    transactional_topic: TransactionalTopic,
    restartable_broker: KafkaBroker,
    lone_shim: Shim,
    isolation_level: IsolationLevel,
    max_bytes: int,
) -> None:
    topic, offsets = transactional_topic.topic, transactional_topic.offsets
    before = restartable_broker.remote_fetch_requests(topic)
    granted = list(granted_rows(lone_shim.bootstrap_servers, topic, offsets.log_start, isolation_level, max_bytes=max_bytes))
    own_remote_fetches = restartable_broker.remote_fetch_requests(topic) - before
    expected = consumed(
        restartable_broker.bootstrap_servers, topic, offsets.log_start, isolation_level, offsets.latest_tiered + 1
    )
    assert granted == expected
    assert len(granted) > 1000
    counted = lone_shim.metrics()
    assert own_remote_fetches == counted.get("remote_probes", 0)
    assert counted["locations_granted"] > 0
    # Once per end of the tier, and never for read_uncommitted.
    assert counted.get("aborted_probes", 0) == (isolation_level is COMMITTED)


def test_an_aborted_transaction_whose_marker_is_local_is_listed(transactional_topic: TransactionalTopic, shim: Shim) -> None:
    facts = transactional_topic
    location = asked(shim.bootstrap_servers, facts.topic, facts.local_abort_first)
    assert isinstance(location, SegmentLocation)
    assert location.aborted_transactions is not None
    assert facts.local_abort_first in [one.first_offset for one in location.aborted_transactions]
    assert facts.local_abort > facts.offsets.latest_tiered


def test_offsets_outside_the_tier_go_to_the_broker(transactional_topic: TransactionalTopic, shim: Shim) -> None:
    facts = transactional_topic
    below = asked(shim.bootstrap_servers, facts.topic, facts.deleted_before - 1)
    assert isinstance(below, NotRemote)
    assert below.out_of_range
    beyond = asked(shim.bootstrap_servers, facts.topic, 10**9)
    assert isinstance(beyond, NotRemote)
    assert beyond.out_of_range
    local = asked(shim.bootstrap_servers, facts.topic, facts.offsets.latest_tiered + 1)
    assert isinstance(local, NotRemote)
    assert not local.out_of_range


def test_no_batch_below_the_logs_start_is_granted(
    transactional_topic: TransactionalTopic, kafka_broker: KafkaBroker, shim: Shim
) -> None:
    facts = transactional_topic
    location = asked(shim.bootstrap_servers, facts.topic, facts.deleted_before, max_bytes=10_000)
    assert isinstance(location, SegmentLocation)
    start = location.span.start
    assert start > 0
    name = f"{location.metadata.start_offset:020}-{uuid_to_text(location.metadata.remote_log_segment_id.id)}.log"
    (log,) = (path for path in kafka_broker.remote_segments(facts.topic) if path.name == name)
    base, delta = struct.unpack_from(">q15xi", log.read_bytes(), start)
    assert base <= facts.deleted_before <= base + delta


def test_an_unknown_or_diverging_epoch_comes_from_the_broker(transactional_topic: TransactionalTopic, shim: Shim) -> None:
    facts = transactional_topic
    # The later epoch has no record at this offset: it began after it.
    diverging = asked(shim.bootstrap_servers, facts.topic, facts.offsets.latest_tiered, leader_epoch=facts.leader_epochs[0])
    assert isinstance(diverging, NotRemote)
    assert diverging.reason == "diverging-epoch"
    assert shim.metrics()["locations_refused.broker-error"] == 1


def exchange(
    bootstrap: str, topic: str, version: int, *, tagged: bool, offset: int, max_bytes: int = 1 << 20
) -> fetch.FetchResponse:
    """Sends a Fetch of partition 0 on its own connection."""
    clock = SystemClock()
    deadline = Deadline(clock, 30)
    host, port = parse_address(bootstrap)
    connection = BrokerConnection(host, port, client_id="tests", clock=clock, connect_timeout=5)
    try:
        body = metadata.encode_request(metadata.MetadataRequest((metadata.MetadataRequestTopic(topic),)), 12)
        told = metadata.decode_response(connection.send_receive(ApiKey.METADATA, 12, body, deadline), 12)
        asking = LocationRequest(("ApacheKafkaV1",), max_bytes=1 << 20)
        root, tags = TaggedDialect().request_tags(asking) if tagged else ({}, {})
        wanted = fetch.FetchTopic((fetch.FetchPartition(0, offset, max_bytes, tags=tags),), topic, told.topics[0].topic_id)
        request = fetch.FetchRequest((wanted,), max_wait_ms=0, max_bytes=max_bytes, isolation_level=1, tags=root)
        body = fetch.encode_request(request, version)
        answer = fetch.decode_response(connection.send_receive(ApiKey.FETCH, version, body, deadline), version)
        (partition,) = answer.responses[0].partitions
        assert partition.error_code == 0
        return answer
    finally:
        connection.close()


@pytest.mark.parametrize("version", range(12, 19))
def test_a_broker_answers_a_tagged_fetch_as_an_untagged_one(
    transactional_topic: TransactionalTopic, kafka_broker: KafkaBroker, version: int
) -> None:
    topic, offset = transactional_topic.topic, transactional_topic.offsets.latest_tiered + 1
    answers = [
        exchange(kafka_broker.bootstrap_servers, topic, version, tagged=tagged, offset=offset) for tagged in (True, False)
    ]
    assert answers[0] == answers[1]
    assert answers[0].responses[0].partitions[0].records


@pytest.mark.parametrize("version", range(12, 16))
def test_every_offered_version_is_granted(transactional_topic: TransactionalTopic, shim: Shim, version: int) -> None:
    topic, offset = transactional_topic.topic, transactional_topic.offsets.latest_tiered
    answer = exchange(shim.bootstrap_servers, topic, version, tagged=True, offset=offset, max_bytes=1)
    grant = TaggedDialect().read_grant(answer.responses[0].partitions[0].tags, ("ApacheKafkaV1",))
    assert grant is not None
    assert grant.start_offset <= offset < grant.next_offset


@pytest.mark.fault("S10")
def test_java_console_tools_work_through_the_shim(kafka_broker: KafkaBroker, shim: Shim, topic: str) -> None:
    kafka_broker.create_topic(topic, partitions=2)
    lines = [f"line {number}" for number in range(100)]
    at_shim = ("--bootstrap-server", shim.bootstrap_servers, "--topic", topic)
    kafka_broker.run_java("org.apache.kafka.tools.ConsoleProducer", *at_shim, stdin="\n".join(lines).encode())
    ended = ("--from-beginning", "--max-messages", "100", "--timeout-ms", "60000", "--group", topic)
    done = kafka_broker.run_java("org.apache.kafka.tools.consumer.ConsoleConsumer", *at_shim, *ended)
    assert sorted(done.stdout.decode().splitlines()) == sorted(lines)


@pytest.mark.fault("S10")
def test_javas_transactional_producer_works_through_the_shim(kafka_broker: KafkaBroker, shim: Shim, topic: str) -> None:
    kafka_broker.create_topic(topic)
    arguments = (topic, "0", "shim-java", "4", "10", "100")
    kafka_broker.run_java("TransactionalWriter", shim.bootstrap_servers, *arguments)
    end = kafka_broker.offsets(topic).last_stable
    rows = consumed(shim.bootstrap_servers, topic, 0, COMMITTED, end)
    committed = [b"shim-java-%d-%d" % (transaction, record) for transaction in (0, 2) for record in range(10)]
    assert [row[4] for row in rows] == committed


@pytest.mark.fault("S10")
def test_librdkafka_works_through_the_shim(kafka_broker: KafkaBroker, shim: Shim, topic: str) -> None:
    kafka_broker.create_topic(topic, partitions=3)
    quiet = {"bootstrap.servers": shim.bootstrap_servers, "log_level": 0}
    producer = Producer({**quiet, "transactional.id": topic})
    producer.init_transactions(30)
    for commit in (True, False, True):
        producer.begin_transaction()
        for number in range(50):
            producer.produce(topic, b"%d %d" % (commit, number), b"%d" % number)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    consumer = Consumer({**quiet, "group.id": topic, "auto.offset.reset": "earliest"})
    got: list[bytes | None] = []
    try:
        consumer.subscribe([topic])
        while len(got) < 100:
            got += [message.value() for message in consumer.consume(100, 1.0)]
        consumer.commit(asynchronous=False)
        assert {broker.port for broker in consumer.list_topics().brokers.values()}.isdisjoint({kafka_broker.port})
    finally:
        consumer.close()
    assert sorted(filter(None, got)) == sorted([b"1 %d" % number for number in range(50)] * 2)


def test_an_ordinary_read_of_the_tier_works_through_the_shim(
    transactional_topic: TransactionalTopic, kafka_broker: KafkaBroker, shim: Shim
) -> None:
    topic, offsets = transactional_topic.topic, transactional_topic.offsets
    window = (topic, offsets.log_start, COMMITTED, offsets.log_start + 300)
    assert consumed(shim.bootstrap_servers, *window) == consumed(kafka_broker.bootstrap_servers, *window)


def test_an_unreadable_store_grants_nothing(
    transactional_topic: TransactionalTopic, kafka_broker: KafkaBroker, tmp_path: Any
) -> None:
    config = ShimConfig(kafka_broker.bootstrap_servers, store=tmp_path.as_uri(), metadata_consumer={"log_level": 0})
    with Shim(config) as shim:
        assert shim.wait_ready(60)
        refused = asked(shim.bootstrap_servers, transactional_topic.topic, transactional_topic.offsets.log_start)
        assert isinstance(refused, NotRemote)
        assert shim.metrics()["locations_refused.object-not-found"] == 1


def test_a_tier_that_ends_at_the_last_stable_offset_costs_one_read_of_it(
    kafka_broker: KafkaBroker, shim: Shim, topic: str
) -> None:
    """A is aborted at [0, 4) with its marker at 5, B is open from 4: tiering stops at 4, where a Fetch lists nothing."""
    kafka_broker.create_topic(topic)
    one, other = (
        Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "transactional.id": f"{topic}-{name}", "log_level": 0})
        for name in ("a", "b")
    )
    value = b"x" * 15_000  # a segment holds one record of this size
    for producer in (one, other):
        producer.init_transactions(30)
        producer.begin_transaction()
    for producer, count in ((one, 4), (other, 1)):
        for _ in range(count):
            producer.produce(topic, value, partition=0)
            assert producer.flush(30) == 0
    one.abort_transaction(30)
    for _ in range(3):
        other.produce(topic, value, partition=0)
        assert other.flush(30) == 0
    wait_until(lambda: kafka_broker.offsets(topic).last_stable == 4, "the abort marker to be written")
    offsets = kafka_broker.wait_until_tiered(topic)
    assert (offsets.latest_tiered, offsets.last_stable) == (3, 4)

    def located() -> SegmentLocation | None:
        found = asked(shim.bootstrap_servers, topic, 0)
        return found if isinstance(found, SegmentLocation) else None

    before = kafka_broker.remote_fetch_requests(topic)
    location = wait_until(located, "the shim to have read the metadata of the last segment")
    assert location.aborted_transactions is not None
    assert [aborted.first_offset for aborted in location.aborted_transactions] == [0]
    assert list(granted_rows(shim.bootstrap_servers, topic, 0, COMMITTED)) == []
    assert [row[0] for row in granted_rows(shim.bootstrap_servers, topic, 0, UNCOMMITTED)] == [0, 1, 2, 3]
    assert shim.metrics()["remote_probes"] == kafka_broker.remote_fetch_requests(topic) - before == 1
    other.abort_transaction(30)
