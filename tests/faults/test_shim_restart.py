"""A restart of the shim with SIGTERM under load: no produce fails, and a plain consumer gets each record once, in order."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from kafka_remote_client.clock import SystemClock
from tests.support.kafka_broker import KafkaBroker
from tests.support.killable_shim import KillableShim

pytestmark = pytest.mark.broker

_PRODUCED_BEFORE, _UNDER_WAY, _PRODUCED = 300, 50, 600
_PATIENCE_SECONDS = 60.0
_CLOCK = SystemClock()


@pytest.mark.fault("F57", "F58")
def test_a_restart_under_load_fails_no_produce_and_no_consumer(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    topic = f"restart-{uuid4().hex[:8]}"
    kafka_broker.create_topic(topic, tiered=False)
    errors: list[KafkaError] = []
    delivered, values = 0, []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        nonlocal delivered
        delivered += error is None
        if error is not None:
            errors.append(error)

    with KillableShim(kafka_broker, tmp_path / "shim.log") as shim:
        common = {"bootstrap.servers": shim.bootstrap_servers, "log_level": 0, "reconnect.backoff.max.ms": 200}
        producer = Producer({**common, "enable.idempotence": True, "linger.ms": 5})
        group = {"group.id": topic, "enable.auto.commit": False}
        with closing(Consumer({**common, **group})) as consumer:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            deadline = _CLOCK.monotonic() + _PATIENCE_SECONDS
            sent, restarted = 0, False
            while len(values) < _PRODUCED and _CLOCK.monotonic() < deadline:
                if sent < (_PRODUCED if restarted else _PRODUCED_BEFORE):
                    producer.produce(topic, b"%d" % sent, partition=0, on_delivery=on_delivery)
                    sent += 1
                producer.poll(0)
                values += [message.value() for message in consumer.consume(100, 0.002) if message.error() is None]
                if not restarted and len(values) >= _PRODUCED_BEFORE:
                    for _ in range(_UNDER_WAY):
                        producer.produce(topic, b"%d" % sent, partition=0, on_delivery=on_delivery)
                        sent += 1
                    assert shim.terminate() == 0
                    shim.start()
                    restarted = True
            assert producer.flush(_PATIENCE_SECONDS) == 0
    assert (restarted, errors, delivered) == (True, [], _PRODUCED)
    assert values == [b"%d" % number for number in range(_PRODUCED)]
