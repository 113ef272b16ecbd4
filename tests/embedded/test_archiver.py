"""The archiver copies a mock broker's log to disk, segment by segment, with metadata that follow the files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka_remote_fetchers.directory_store import DirectoryStore

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.embedded.archiver import Archiver
from kafka_remote_client.embedded.log import EmbeddedLogs
from kafka_remote_client.errors import LocationError
from kafka_remote_client.model import RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.records import read_batches
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.listing import TierListing
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.shim.config import Address

LAYOUT = LocalTieredStorageLayout()


class Mock:
    """A mock broker and its producer, with batches of ten records."""

    def __init__(self) -> None:
        config = {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0, "batch.num.messages": 10}
        self.producer = Producer(config)
        (broker,) = self.producer.list_topics("orders", timeout=30).brokers.values()
        self.address: Address = (broker.host, broker.port)

    def produce(self, count: int, size: int = 100, partition: int = 0, topic: str = "orders") -> None:
        for number in range(count):
            self.producer.produce(topic, b"%d " % number + bytes(size), partition=partition)
        assert self.producer.flush(30) == 0


@pytest.fixture
def mock() -> Mock:
    return Mock()


@pytest.fixture
def store() -> RemoteLogMetadataStore:
    return RemoteLogMetadataStore()


@pytest.fixture
def logs() -> EmbeddedLogs:
    return EmbeddedLogs()


@pytest.fixture
def archiver(mock: Mock, store: RemoteLogMetadataStore, logs: EmbeddedLogs, tmp_path: Path) -> Iterator[Archiver]:
    made = Archiver(mock.address, tmp_path, LAYOUT, store, logs, SystemClock(), segment_bytes=4000)
    yield made
    made.close()


def tip_of(store: RemoteLogMetadataStore, partition: int = 0) -> TopicIdPartition:
    return next(tip for tip in store.partitions() if (tip.topic, tip.partition) == ("orders", partition))


def test_rolls_segments_and_keeps_the_last_one_open(
    mock: Mock, archiver: Archiver, store: RemoteLogMetadataStore, tmp_path: Path
) -> None:
    mock.produce(100)
    written = archiver.step()
    cache = store.cache(tip_of(store))
    assert cache is not None
    segments = cache.list_all_remote_log_segments()
    assert written == len(segments) == 3
    assert all(segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED for segment in segments)
    assert all(segment.segment_size_in_bytes <= 4000 for segment in segments)
    assert {segment.broker_id for segment in segments} == {0}
    objects = DirectoryStore(tmp_path)
    offsets = [
        row[0] for segment in segments for row in read_batches(objects.get(LAYOUT.object_key(segment, ObjectKind.LOG))).rows()
    ]
    assert offsets == list(range(90))
    assert archiver.step() == 0


def test_continues_where_it_stopped(mock: Mock, archiver: Archiver, store: RemoteLogMetadataStore) -> None:
    mock.produce(20)
    assert archiver.step() == 0
    mock.produce(20)
    mock.produce(40, partition=2)
    assert archiver.step(keep_open=False) == 4
    first, third = (store.cache(tip_of(store, partition)) for partition in (0, 2))
    assert first is not None
    assert third is not None
    assert [(one.start_offset, one.end_offset) for one in first.list_all_remote_log_segments()] == [(0, 29), (30, 39)]
    assert [(one.start_offset, one.end_offset) for one in third.list_all_remote_log_segments()] == [(0, 29), (30, 39)]


def test_archived_segments_can_be_listed(mock: Mock, archiver: Archiver, store: RemoteLogMetadataStore, tmp_path: Path) -> None:
    mock.produce(100)
    archiver.step(keep_open=False)
    listing = TierListing(DirectoryStore(tmp_path), LAYOUT)
    assert listing.partitions() == store.partitions()
    tip = tip_of(store)
    assert not listing.unreadable(tip)
    listed = [
        (one.start_offset, one.end_offset, one.max_timestamp_ms) for one in listing.cache(tip).list_all_remote_log_segments()
    ]
    cache = store.cache(tip)
    assert cache is not None
    known = [(one.start_offset, one.end_offset, one.max_timestamp_ms) for one in cache.list_all_remote_log_segments()]
    assert listed == known


def test_a_batch_larger_than_a_segment_is_a_segment(mock: Mock, archiver: Archiver) -> None:
    mock.produce(1, size=10_000)
    mock.produce(1, size=10_000)
    assert archiver.step() == 1


def test_raises_if_the_broker_dropped_records_before_the_copy(mock: Mock, archiver: Archiver) -> None:
    mock.produce(700, size=10_000)
    with pytest.raises(LocationError, match="orders-0"):
        archiver.step()


def test_the_embedded_log_has_the_archived_records(
    mock: Mock, archiver: Archiver, store: RemoteLogMetadataStore, logs: EmbeddedLogs
) -> None:
    mock.produce(100)
    archiver.step(keep_open=False)
    tip = tip_of(store)
    log = logs.log(tip.topic, tip.topic_id, 0)
    assert log is not None
    assert (log.start, log.end) == (0, 100)
    data, aborted = log.read(0, 1 << 20)
    assert [row[0] for row in read_batches(data).rows()] == list(range(30))  # the first segment
    assert not aborted
