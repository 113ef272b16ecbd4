"""A follower of a real broker's topic continues from its snapshot, and never from one of other records."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import attrs
import pytest
from confluent_kafka import Producer

from kafka_remote_client.model import RemoteLogSegmentId, RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.remote_log.events import RemoteLogMetadata
from kafka_remote_client.remote_log.follower import RemoteLogMetadataFollower
from kafka_remote_client.remote_log.metadata_snapshot import pack
from kafka_remote_client.remote_log.metadata_snapshots import MetadataSnapshots
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.partitioner import metadata_partition
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.remote_log.snapshot_folder import SNAPSHOT_FILE
from tests.support.kafka_broker import KafkaBroker
from tests.support.tier import metadata, update
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

METADATA_PARTITIONS = 3
PARTITIONS = [TopicIdPartition(UUID(int=99), "orders", number) for number in range(6)]


class CountingStore(RemoteLogMetadataStore):
    """``applied``: the number of records that were read."""

    applied = 0

    def apply(self, event: RemoteLogMetadata, *, keyed: bool = False) -> bool:
        self.applied += 1
        return super().apply(event, keyed=keyed)


class Topic:
    """A metadata topic on a broker, under a name of its own."""

    def __init__(self, broker: KafkaBroker, folder: Path) -> None:
        self.name = f"metadata-{uuid4().hex}"
        self.folder = folder
        self._broker = broker
        self._config = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        self.create()

    def create(self) -> None:
        self._broker.create_topic(self.name, partitions=METADATA_PARTITIONS, tiered=False)

    def recreate(self) -> None:
        self._broker.admin.delete_topics([self.name])[self.name].result(60)
        wait_until(lambda: self.name not in self._broker.admin.list_topics(timeout=60).topics, "the topic to be gone")
        self.create()

    def produce(self, number: int) -> int:
        """Segment ``number`` of each partition, copied; returns the number of records."""
        serde, producer = RemoteLogMetadataSerde(), Producer(self._config)
        for tip in PARTITIONS:
            copied = attrs.evolve(
                metadata(10 * number, 10 * number + 9), remote_log_segment_id=RemoteLogSegmentId(tip, UUID(int=number + 1))
            )
            for event in (copied, update(copied, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)):
                at = metadata_partition(tip, METADATA_PARTITIONS)
                producer.produce(self.name, serde.serialize(event), partition=at)
        assert producer.flush(60) == 0
        return 2 * len(PARTITIONS)

    @contextlib.contextmanager
    def followed(self) -> Iterator[tuple[CountingStore, MetadataSnapshots]]:
        """A follower that has read all records."""
        store = CountingStore()
        snapshots = MetadataSnapshots(self.folder, self._config, self.name, interval=0.1)
        follower = RemoteLogMetadataFollower(self._config, store, topic=self.name, snapshots=snapshots)
        follower.start()
        try:
            assert follower.wait_settled(60)
            assert follower.distrusted() == []
            yield store, snapshots
        finally:
            follower.close()

    def store_snapshot(self) -> list[bytes]:
        """Follows until a snapshot is written; returns what was known."""
        with self.followed() as (store, snapshots):
            wait_until(lambda: snapshots.metrics()["metadata_snapshot_writes"], "a snapshot")
            return known(store)


def known(store: RemoteLogMetadataStore) -> list[bytes]:
    return [pack(cache.contents()) for tip in store.partitions() if (cache := store.cache(tip))]


@pytest.fixture
def topic(kafka_broker: KafkaBroker, tmp_path: Path) -> Topic:
    return Topic(kafka_broker, tmp_path / "snapshots")


def test_a_restart_reads_only_what_came_after_the_snapshot(topic: Topic) -> None:
    all_records = topic.produce(0)
    before = topic.store_snapshot()
    with topic.followed() as (store, snapshots):
        assert (store.applied, snapshots.metrics()["metadata_snapshot_segments_loaded"]) == (0, len(PARTITIONS))
        assert known(store) == before
    later = topic.produce(1)
    with topic.followed() as (store, _):
        assert store.applied == later
        continued = known(store)
    (topic.folder / SNAPSHOT_FILE).unlink()
    with topic.followed() as (store, _):
        assert store.applied == all_records + later
        assert known(store) == continued


def test_a_snapshot_of_a_recreated_topic_is_not_used(topic: Topic, caplog: pytest.LogCaptureFixture) -> None:
    topic.produce(0)
    topic.store_snapshot()
    topic.recreate()
    records = topic.produce(7)
    with topic.followed() as (store, snapshots):
        assert (store.applied, snapshots.metrics()["metadata_snapshot_segments_loaded"]) == (records, 0)
        for tip in PARTITIONS:
            cache = store.cache(tip)
            assert cache is not None
            assert [one.start_offset for one in cache.list_all_remote_log_segments()] == [70]
    assert caplog.text.count("the snapshot is of the topic") == 1


def test_a_truncated_snapshot_is_replaced_by_what_the_topic_says(topic: Topic, caplog: pytest.LogCaptureFixture) -> None:
    records = topic.produce(0)
    before = topic.store_snapshot()
    file = topic.folder / SNAPSHOT_FILE
    file.write_bytes(file.read_bytes()[:-40])
    with topic.followed() as (store, snapshots):
        assert store.applied == records
        assert known(store) == before
        wait_until(lambda: snapshots.metrics()["metadata_snapshot_writes"], "a new snapshot")
    assert caplog.text.count("it is damaged or truncated") == 1
    with topic.followed() as (store, _):
        assert store.applied == 0
