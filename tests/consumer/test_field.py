"""Cold partitions with default settings and a slow store, also for the shim's own reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from kafka_remote_fetchers.directory_store import DirectoryStore

from kafka_remote_client import Consumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.settings import default_of
from kafka_remote_client.testing import FixedLatency, StoreModel
from tests.support.embedded_topics import direct_settings, fallbacks, fill_topic, from_broker, from_store, small_cluster, take
from tests.support.live_store import LiveStoreModel
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

TOPICS = tuple(f"cold-{number}" for number in range(6))
PARTITIONS = [(topic, number) for topic in TOPICS for number in range(4)]
COUNT = 60


class StoreTimes:
    """Seconds that each request to the store takes. A request never ends if its key contains ``hangs``."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.hangs: str | None = None
        self.released = threading.Event()
        self._never = threading.Event()

    def delayed_method(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """The same method, with a delayed answer."""

        def delayed(store: DirectoryStore, key: str, *arguments: int) -> Any:
            if self.hangs is not None and self.hangs in key:
                self.released.wait(120)
            self._never.wait(self.seconds)
            return method(store, key, *arguments)

        return delayed


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreTimes]:
    times = StoreTimes()
    for ask in (DirectoryStore.get, DirectoryStore.get_range, DirectoryStore.size):
        monkeypatch.setattr(DirectoryStore, ask.__name__, times.delayed_method(ask))
    yield times
    times.released.set()


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, store: StoreTimes) -> Iterator[EmbeddedCluster]:
    """An embedded cluster whose shim has cached nothing yet."""
    with small_cluster(tmp_path_factory.mktemp("tier"), segment_bytes=500) as made:
        for topic in TOPICS:
            fill_topic(made, topic, COUNT, partitions=range(4))
        made.archive(keep_open=False)
        yield made
        store.released.set()


def with_defaults(cluster: EmbeddedCluster, **more: object) -> dict[str, Any]:
    """The settings that a consumer must have, and no others."""
    settings = direct_settings(cluster)
    for name in list(settings):
        if name.startswith("fetch.remote."):
            with suppress(KeyError):
                settings[name] = default_of(name)
    return {**settings, "fetch.remote.enabled": True, **{name.replace("_", "."): value for name, value in more.items()}}


@pytest.mark.parametrize("milliseconds", [20, 50])
def test_cold_partitions_are_read_from_the_store_however_late_it_answers(
    cluster: EmbeddedCluster, store: StoreTimes, milliseconds: int
) -> None:
    store.seconds = milliseconds / 1000
    cluster.faults.slow_store(store.seconds)
    with Consumer(with_defaults(cluster)) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for topic, number in PARTITIONS])
        messages = take(consumer, COUNT * len(PARTITIONS))
        assert fallbacks(consumer) == {}
        assert (from_store(consumer), from_broker(consumer)) == (len(messages), 0)
    by_partition: dict[tuple[str, int], list[int]] = {}
    for message in messages:
        by_partition.setdefault((message[0], message[1]), []).append(message[2])
    assert by_partition == {key: list(range(COUNT)) for key in PARTITIONS}


@pytest.mark.fault("F78")
def test_a_look_up_that_hangs_keeps_no_other_partition_waiting(cluster: EmbeddedCluster, store: StoreTimes) -> None:
    store.hangs = f"/{TOPICS[0]}-"
    hanging = {(TOPICS[0], number) for number in range(4)}
    with Consumer(with_defaults(cluster, fetch_remote_pending_timeout_ms=2_000)) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for topic, number in PARTITIONS])
        seen: set[tuple[str, int]] = set()

        def others_have_come() -> bool:
            seen.update((one.topic(), one.partition()) for one in consumer.consume(500, 0.05))
            return seen >= set(PARTITIONS) - hanging

        wait_until(others_have_come, "records of the other partitions", pause=0)
        assert set(fallbacks(consumer)) <= {"location-pending"}
        wait_until(lambda: others_have_come() and seen >= hanging, "the broker's records", pause=0)
        assert fallbacks(consumer) == {"location-pending": 4}


@pytest.mark.fault("F76")
def test_requests_that_are_never_answered_cost_no_partition_the_store(cluster: EmbeddedCluster) -> None:
    """The 7th GET of this seed gets no answer, nor do the 114th and more behind it."""
    cluster.faults.behave_like(LiveStoreModel(StoreModel(FixedLatency(0.02), lost_share=0.02), seed=3))
    with Consumer(with_defaults(cluster)) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for topic, number in PARTITIONS])
        messages = take(consumer, COUNT * len(PARTITIONS))
        assert fallbacks(consumer) == {}
        assert from_store(consumer) == len(messages)
        hedges = consumer.metrics()["remote-fetch-hedges-won-total"]
        assert isinstance(hedges, int)
        assert hedges >= 1
