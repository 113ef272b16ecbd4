"""A broker reports throttling in its answers: ``throttle_cb`` gets it on both tiers, as with the plain consumer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import confluent_kafka
import pytest
from confluent_kafka import ThrottleEvent, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.protocol import fetch
from kafka_remote_client.tiered_kafka.fetches import Fetches
from kafka_remote_client.wire import Buffer
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    direct_settings,
    filled_cluster,
    from_store,
    plain_settings,
    take,
    tiers,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

TOPIC = "orders"
COUNT = 300
HELD_BACK_MS = 20
KINDS = ["confluent", "off", "on"]


cluster = filled_cluster(TOPIC, COUNT)


@pytest.fixture(autouse=True)
def _holds_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the broker report a throttle time with each Fetch response."""
    answer = Fetches.answer_fetch

    async def held_back(self: Fetches, node_id: int, version: int, body: Buffer) -> bytes:
        response = fetch.decode_response(await answer(self, node_id, version, body), version)
        return fetch.encode_response(attrs.evolve(response, throttle_time_ms=HELD_BACK_MS), version)

    monkeypatch.setattr(Fetches, "answer_fetch", held_back)


def consumer_of(cluster: EmbeddedCluster, kind: str, throttle_cb: Callable[[ThrottleEvent], None]) -> confluent_kafka.Consumer:
    settings: dict[str, Any] = (plain_settings if kind == "confluent" else direct_settings)(cluster, enable_partition_eof=False)
    settings["throttle_cb"] = throttle_cb
    if kind == "off":
        settings["fetch.remote.enabled"] = False
    return (confluent_kafka.Consumer if kind == "confluent" else Consumer)(settings)


@pytest.mark.parametrize("kind", KINDS)
def test_throttle_cb_names_the_broker_that_throttles(cluster: EmbeddedCluster, kind: str) -> None:
    events: list[ThrottleEvent] = []
    with consumer_of(cluster, kind, events.append) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        assert [row[2] for row in take(consumer, COUNT)] == list(range(COUNT))
        wait_until(lambda: consumer.poll(0.1) is None and bool(events), "a throttle event", seconds=PATIENCE_SECONDS, pause=0)
        if isinstance(consumer, Consumer) and kind == "on":
            assert from_store(consumer) == tiers(cluster, TOPIC).earliest_local
    assert {type(event) for event in events} == {ThrottleEvent}
    assert all(event.broker_name for event in events)
    # librdkafka ends a time of throttling with an event of 0 s, which names whatever connection gets the next answer. That may
    # be the bootstrap connection, whose id is -1 (rd_kafka_op_throttle_time: rk_last_throttle belongs to the whole client).
    held_back = [event for event in events if event.throttle_time]
    assert {event.throttle_time for event in held_back} == {HELD_BACK_MS / 1000}
    assert all(event.broker_id >= 0 for event in held_back)


@pytest.mark.parametrize("kind", KINDS)
def test_what_throttle_cb_raises_comes_out_and_costs_no_record(cluster: EmbeddedCluster, kind: str) -> None:
    offsets: list[int] = []
    raised: list[LookupError] = []

    def throttle_cb(_: ThrottleEvent) -> None:
        if not raised:
            raise LookupError("of throttle_cb")

    with consumer_of(cluster, kind, throttle_cb) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])

        def done() -> bool:
            try:
                message = consumer.poll(0.1)
            except LookupError as error:
                raised.append(error)
            else:
                if message is not None:
                    offsets.append(message.offset() or 0)
            return bool(raised) and len(offsets) >= COUNT

        wait_until(done, "the error and all records", seconds=PATIENCE_SECONDS, pause=0)
    assert offsets == list(range(COUNT))
