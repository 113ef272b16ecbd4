"""Transactions across the end of the tier, on a real broker: data in the store, markers and more data on the broker.

Each transaction spans several ranges, grants and segments. Reads begin anywhere in it; the history is compared
with a plain consumer's by every invariant.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import attrs
import confluent_kafka
import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.history import History, Polled, Record
from tests.support.invariants.checker import check
from tests.support.invariants.oracle import Oracle
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, direct, settings, total
from tests.support.recorder import RecordedConsumer, recorded
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

_ROUNDS = 6
_RECORDS = 20
_ABORTED, _COMMITTED, _PLAIN = b"aborted", b"committed", b"plain"


@attrs.frozen
class Across:
    """``local``: start of the broker's own log. ``first``: offset of the first record of each transaction."""

    topic: str
    first: int
    local: int
    end: int


@pytest.fixture(scope="module")
def across(running_broker: KafkaBroker) -> Across:
    """Two parallel transactions with plain records between them; both continue after the end of the tier and end there."""
    topic = f"across-{uuid4().hex[:8]}"
    running_broker.create_topic(topic, segment_bytes=150_000)
    common = {"bootstrap.servers": running_broker.bootstrap_servers, "log_level": 0, "batch.num.messages": 5, "linger.ms": 2}
    plain = Producer({**common, "enable.idempotence": True})
    aborted, committed = (Producer({**common, "transactional.id": f"{topic}-{name}"}) for name in ("aborted", "committed"))

    def write(producer: Producer, kind: bytes, count: int) -> None:
        for number in range(count):
            producer.produce(topic, (b"%s %d " % (kind, number)).ljust(1_200, b"."), b"%d" % number, partition=0)
        assert producer.flush(PATIENCE_SECONDS) == 0

    def both(count: int) -> None:
        for producer, kind in ((aborted, _ABORTED), (committed, _COMMITTED)):
            write(producer, kind, count)

    for producer in (aborted, committed):
        producer.init_transactions(PATIENCE_SECONDS)
    write(plain, _PLAIN, 50)
    first = running_broker.offsets(topic).high_watermark
    for producer in (aborted, committed):
        producer.begin_transaction()
    for _ in range(_ROUNDS):
        both(_RECORDS)
        write(plain, _PLAIN, _RECORDS)
    both(5)
    committed.commit_transaction(PATIENCE_SECONDS)
    aborted.abort_transaction(PATIENCE_SECONDS)

    def decided() -> bool:
        now = running_broker.offsets(topic)
        return now.last_stable == now.high_watermark

    wait_until(decided, "both transactions to be decided")
    now = running_broker.wait_until_tiered(topic)
    return Across(topic, first, now.latest_tiered + 1, now.high_watermark)


@pytest.fixture(scope="module")
def shim(running_broker: KafkaBroker) -> Iterator[Shim]:
    config = ShimConfig(
        running_broker.bootstrap_servers, store=running_broker.store_url, range_bytes=64 << 10, max_grant_bytes=128 << 10
    )
    with Shim(config) as running:
        assert running.wait_ready(PATIENCE_SECONDS)
        yield running


def read_to_the_end(consumer: RecordedConsumer, topic: str, start: int) -> None:
    consumer.assign([TopicPartition(topic, 0, start)])
    deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
    ended = False
    while not ended:
        assert not deadline.expired(), f"no end of what begins at {start}"
        for message in consumer.consume(100, 0.2):
            error = message.error()
            assert error is None or error.code() == KafkaError._PARTITION_EOF, error
            ended = ended or error is not None


@pytest.mark.fault("F46", "F48")
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_f46_transactions_with_tiered_data_and_local_markers_are_decided(
    kafka_broker: KafkaBroker, across: Across, shim: Shim, isolation: str
) -> None:
    truth, history = History(), History()
    with recorded(confluent_kafka.Consumer, settings(kafka_broker.bootstrap_servers, isolation), truth) as plain:
        read_to_the_end(plain, across.topic, 0)
    oracle = Oracle.of(truth)
    kinds = {(record.value or b"").split()[0] for record in truth_records(truth)}
    assert kinds == {_PLAIN, _COMMITTED} | ({_ABORTED} if isolation == "read_uncommitted" else set())
    assert across.first + 3 * _RECORDS < across.local < across.end - 10, "both tiers have data of both transactions"
    step = (across.local - across.first) // 6
    starts = [0, *range(across.first - 1, across.local, step), across.local - 1, across.local, across.end - 2]
    with recorded(Consumer, direct(shim, isolation, **{"fetch.remote.range.bytes": 64 << 10}), history) as consumer:
        for start in starts:
            before = total(consumer.inner.metrics(), "remote-fetch-records-total")
            read_to_the_end(consumer, across.topic, start)
            metrics = consumer.inner.metrics()
            readable = len(oracle.offsets((across.topic, 0), start, across.local))
            assert total(metrics, "remote-fetch-records-total") - before >= readable, "what is tiered comes from the store"
        assert metrics["remote-fetch-fallbacks-total"] == {}
        assert total(metrics, "remote-fetch-handovers-total") >= len(starts) - 2
    check(history, oracle)


def truth_records(truth: History) -> list[Record]:
    return [record for event in truth.of(Polled) for record in event.records]
