"""The real broker and the topic of other tests have the properties that those tests assume."""

from __future__ import annotations

import fcntl

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.support.kafka_broker import KafkaBroker
from tests.support.scenario import TransactionalTopic

pytestmark = pytest.mark.broker


def _produce(broker: KafkaBroker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.num.messages": 20, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(30) == 0


def _read(broker: KafkaBroker, topic: str, start: int, isolation: str) -> list[int]:
    """Returns the offsets of all records from ``start`` to the end that ``isolation`` sees."""
    end_of_partition = -191
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "tests",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    offsets: list[int] = []
    try:
        consumer.assign([TopicPartition(topic, 0, start)])
        while True:
            message = consumer.poll(30)
            assert message is not None, "the broker gives nothing more and no end"
            error = message.error()
            if error is not None:
                assert error.code() == end_of_partition, error
                return offsets
            offset = message.offset()
            assert offset is not None
            offsets.append(offset)
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def restart_was_refused(running_broker: KafkaBroker) -> bool:
    """Whether the lock of a restart was held when this fixture was set up."""
    with (running_broker.directory.parent / "restart.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_the_broker_is_not_restarted_while_a_shared_fixture_is_set_up(restart_was_refused: bool) -> None:
    assert restart_was_refused


def test_rolled_segments_are_tiered_and_leave_the_local_disk(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("tiering", segment_bytes=2000)
    _produce(kafka_broker, "tiering", 1000)
    offsets = kafka_broker.wait_until_tiered("tiering")
    assert offsets.log_start == 0
    assert offsets.high_watermark == 1000
    assert 0 < offsets.latest_tiered == offsets.earliest_local - 1
    assert len(kafka_broker.remote_segments("tiering")) >= 5
    assert _read(kafka_broker, "tiering", 0, "read_uncommitted") == list(range(1000))


def test_deleted_records_move_the_log_start(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("deleting", segment_bytes=2000)
    _produce(kafka_broker, "deleting", 500)
    kafka_broker.wait_until_tiered("deleting")
    kafka_broker.delete_records("deleting", 123)
    assert kafka_broker.offsets("deleting").log_start == 123


def test_deleted_records_stay_deleted_when_the_broker_is_killed(restartable_broker: KafkaBroker) -> None:
    broker = restartable_broker
    broker.create_topic("deleting-killed", segment_bytes=2000)
    _produce(broker, "deleting-killed", 500)
    broker.wait_until_tiered("deleting-killed")
    broker.delete_records("deleting-killed", 123)
    broker.restart(kill=True)
    assert broker.offsets("deleting-killed").log_start == 123
    assert _read(broker, "deleting-killed", OFFSET_BEGINNING, "read_uncommitted") == list(range(123, 500))


def test_the_brokers_own_reads_of_the_tier_are_counted(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("counting", segment_bytes=2000)
    _produce(kafka_broker, "counting", 500)
    offsets = kafka_broker.wait_until_tiered("counting")
    before = kafka_broker.remote_fetch_requests("counting")
    _read(kafka_broker, "counting", offsets.earliest_local, "read_uncommitted")
    assert kafka_broker.remote_fetch_requests("counting") == before
    _read(kafka_broker, "counting", 0, "read_uncommitted")
    assert kafka_broker.remote_fetch_requests("counting") > before


def test_java_tools_read_and_write(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("tools")
    server = ("--bootstrap-server", kafka_broker.bootstrap_servers, "--topic", "tools")
    kafka_broker.run_java("org.apache.kafka.tools.ConsoleProducer", *server, stdin=b"one\ntwo\n")
    limit = ("--from-beginning", "--max-messages", "2")
    read = kafka_broker.run_java("org.apache.kafka.tools.consumer.ConsoleConsumer", *server, *limit)
    assert read.stdout == b"one\ntwo\n"


def test_a_restart_keeps_the_data_and_raises_the_leader_epoch(restartable_broker: KafkaBroker) -> None:
    broker = restartable_broker
    broker.create_topic("restarting", segment_bytes=2000)
    _produce(broker, "restarting", 300)
    before = broker.wait_until_tiered("restarting")
    broker.restart(kill=True)
    _produce(broker, "restarting", 300)
    assert broker.offsets("restarting").high_watermark == 600
    assert broker.offsets("restarting").log_start == before.log_start
    checkpoint = (broker.local_log("restarting") / "leader-epoch-checkpoint").read_text().split()
    assert checkpoint[-1] == "300"


def test_the_scenario_spans_two_leader_epochs_and_five_remote_segments(transactional_topic: TransactionalTopic) -> None:
    first, second = transactional_topic.leader_epochs
    assert first < second
    assert transactional_topic.remote_segments >= 5
    assert transactional_topic.offsets.log_start == transactional_topic.deleted_before > 0


def test_the_scenario_leaves_one_abort_marker_local_and_its_data_tiered(transactional_topic: TransactionalTopic) -> None:
    offsets = transactional_topic.offsets
    assert transactional_topic.local_abort_first <= offsets.latest_tiered < transactional_topic.local_abort


def test_the_scenario_ends_in_an_open_transaction_that_stops_tiering(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic
) -> None:
    offsets = transactional_topic.offsets
    assert offsets.last_stable == transactional_topic.open_first < offsets.high_watermark
    local = sorted(int(path.stem) for path in kafka_broker.local_log(transactional_topic.topic).glob("*.log"))
    assert len(local) > 1
    assert local[0] == offsets.earliest_local


def test_the_scenario_hides_aborted_and_open_records_at_read_committed(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic
) -> None:
    start = transactional_topic.offsets.log_start
    everything = _read(kafka_broker, transactional_topic.topic, start, "read_uncommitted")
    committed = _read(kafka_broker, transactional_topic.topic, start, "read_committed")
    assert set(committed) < set(everything)
    assert transactional_topic.local_abort_first in everything
    assert transactional_topic.local_abort_first not in committed
    assert max(committed) < transactional_topic.open_first <= max(everything)
