"""The clocks of shim, store and client differ: a grant has a duration, not an end time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import (
    direct_settings,
    fallbacks,
    fill_topic,
    from_store,
    plain_rows,
    read_to_ends,
    small_cluster,
)

pytestmark = pytest.mark.embedded

TOPIC = "orders"
COUNT = 200
MINUTES, DAYS = 60_000, 86_400_000


class SkewedClock(SystemClock):
    """The machine's clock, with another time of day."""

    def __init__(self, skew_ms: int) -> None:
        self.skew_ms = skew_ms

    def time_ms(self) -> int:
        return super().time_ms() + self.skew_ms


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> SkewedClock:
    return SkewedClock(request.param)


@pytest.fixture
def cluster(clock: SkewedClock, tmp_path: Path) -> Iterator[EmbeddedCluster]:
    with small_cluster(tmp_path, clock=clock) as made:
        fill_topic(made, TOPIC, COUNT)
        yield made


@pytest.mark.fault("F60")
@pytest.mark.parametrize("clock", [20 * MINUTES, -20 * MINUTES, DAYS, -DAYS], indirect=True)
def test_a_client_clock_that_differs_from_the_shims_has_no_effect(cluster: EmbeddedCluster, clock: SkewedClock) -> None:
    expected = plain_rows(cluster, TOPIC)
    with Consumer(direct_settings(cluster)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        assert read_to_ends(consumer)[TOPIC, 0] == expected
        assert from_store(consumer) > COUNT // 2
        assert fallbacks(consumer) == {}


@pytest.mark.fault("F60")
@pytest.mark.parametrize("clock", [0], indirect=True)
@pytest.mark.parametrize(("skew", "refused"), [(20 * MINUTES, True), (-20 * MINUTES, False)], ids=["ahead", "behind"])
def test_a_store_clock_that_differs_from_the_shims_costs_speed_only(
    cluster: EmbeddedCluster, clock: SkewedClock, skew: int, refused: bool
) -> None:
    """A store whose clock is ahead rejects every URL as expired. One whose clock is behind accepts them for longer."""
    expected = plain_rows(cluster, TOPIC)
    origin: Any = cluster._origin
    origin._verifier._clock = SkewedClock(skew)
    with Consumer(direct_settings(cluster, fetch_remote_fallback_backoff_ms=600_000)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        assert read_to_ends(consumer)[TOPIC, 0] == expected
        assert fallbacks(consumer) == ({"expired": 1} if refused else {})
        assert (from_store(consumer) == 0) == refused
