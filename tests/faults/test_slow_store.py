"""F29: the consumer leaves a store that is slower than the broker, and returns to it when it is fast again."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    by_consume,
    direct_settings,
    fallbacks,
    fill_topic,
    from_broker,
    from_store,
    plain_settings,
    read_to_ends,
    small_cluster,
    tiers,
)
from tests.support.history import Fired, History
from tests.support.invariants.checker import check
from tests.support.invariants.oracle import Oracle
from tests.support.recorder import recorded
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

TOPIC = "orders"
COUNT = 4_000
_SLOW_SECONDS = 1.5
_PAUSE_SECONDS = 0.005
"""The pause between two calls of an application that is faster than such a store, but does not reach the tier's end."""


@pytest.mark.fault("F29")
def test_f29_a_slow_store_is_left_for_the_broker_and_used_again(tmp_path: Path) -> None:
    truth, history = History(), History()
    with small_cluster(tmp_path, max_grant_bytes=2_000) as cluster:
        fill_topic(cluster, TOPIC, COUNT)
        with recorded(confluent_kafka.Consumer, plain_settings(cluster, check_crcs=True), truth) as plain:
            plain.assign([TopicPartition(TOPIC, 0, 0)])
            read_to_ends(plain, by_consume)
        local = tiers(cluster, TOPIC).earliest_local
        cluster.faults.slow_store(_SLOW_SECONDS)
        one_at_a_time = direct_settings(
            cluster,
            fetch_remote_max_in_flight=1,
            fetch_remote_recheck_interval_ms=200,
            fetch_remote_slow_bytes_per_second=1 << 20,
        )
        with recorded(Consumer, one_at_a_time, history) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])

            def takes(wanted: int) -> bool:
                consumer.consume(3, 0.1)
                return from_store(consumer.inner) >= wanted

            def left() -> bool:
                takes(0)
                return bool(fallbacks(consumer.inner)) and from_broker(consumer.inner) > 0

            wait_until(left, "the store to be left", seconds=2 * PATIENCE_SECONDS, pause=_PAUSE_SECONDS)
            assert set(fallbacks(consumer.inner)) == {"slower-than-broker"}
            history.add(Fired, fault="F29")
            cluster.faults.clear()
            more = from_store(consumer.inner) + 20
            wait_until(lambda: takes(more), "the store to be taken again", seconds=2 * PATIENCE_SECONDS, pause=_PAUSE_SECONDS)
            assert consumer.position([TopicPartition(TOPIC, 0)])[0].offset < local, "not because the tier was at its end"
            read_to_ends(consumer, by_consume)
    check(history, Oracle.of(truth))
