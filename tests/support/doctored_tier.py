"""A real broker's tier and metadata topic as copies that tests may damage, while the broker keeps its own."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import UUID, uuid4

import attrs
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from kafka_remote_client.model import RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentState, uuid_to_text
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataUpdate
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from tests.support.kafka_broker import KafkaBroker

__all__ = ["DoctoredTier", "Event", "Segment"]

_PATIENCE_SECONDS = 60
_SERDE = RemoteLogMetadataSerde()
_INDEX_ENTRY = struct.Struct(">ii")


@attrs.frozen
class Event:
    """A record of the metadata topic; ``value`` None = a tombstone."""

    partition: int
    value: bytes | None


@attrs.frozen
class Segment:
    """A finished segment and the metadata partition that its events are in."""

    metadata: RemoteLogSegmentMetadata
    partition: int

    def ended(self, state: RemoteLogSegmentState) -> Event:
        """The event that moves it to ``state``."""
        segment = self.metadata
        update = RemoteLogSegmentMetadataUpdate(
            segment.remote_log_segment_id, segment.broker_id, segment.event_timestamp_ms, state
        )
        return Event(self.partition, _SERDE.serialize(update))

    def renamed(self, segment_id: UUID) -> Segment:
        """The same segment under another id."""
        identifier = RemoteLogSegmentId(self.metadata.topic_id_partition, segment_id)
        return attrs.evolve(self, metadata=attrs.evolve(self.metadata, remote_log_segment_id=identifier))

    @property
    def begun(self) -> Event:
        """The event that its copy began."""
        return Event(self.partition, _SERDE.serialize(self.metadata))

    @property
    def file_name(self) -> str:
        """The common prefix of the segment's objects."""
        return f"{self.metadata.start_offset:020}-{uuid_to_text(self.metadata.remote_log_segment_id.id)}"


class DoctoredTier:
    """Copies of one topic's objects (below ``directory``), and, once :meth:`publish` was called, of its metadata events."""

    def __init__(self, broker: KafkaBroker, topic: str, directory: Path) -> None:
        self._broker = broker
        self.store = directory / "doctored"
        self.objects = broker.copy_of_tier(topic, self.store)
        self.metadata_topic = f"metadata-{uuid4().hex[:8]}"
        self._known: dict[RemoteLogSegmentId, RemoteLogSegmentMetadata] = {}
        self._finished: set[RemoteLogSegmentId] = set()
        self.events = [event for event in _all_events(broker) if self._is_of(topic, event)]
        self.partition = self.events[0].partition
        """The metadata partition of the topic."""

    def _is_of(self, topic: str, event: Event) -> bool:
        parsed = _SERDE.deserialize(event.value)
        if isinstance(parsed, RemoteLogSegmentMetadata) and parsed.topic_id_partition.topic == topic:
            self._known[parsed.remote_log_segment_id] = parsed
            return True
        if isinstance(parsed, RemoteLogSegmentMetadataUpdate) and parsed.remote_log_segment_id in self._known:
            if parsed.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
                self._finished.add(parsed.remote_log_segment_id)
            return True
        return False

    @property
    def store_url(self) -> str:
        return self.store.as_uri()

    def segments(self) -> list[Segment]:
        """The finished segments by their offsets."""
        found = [Segment(self._known[one], self.partition) for one in self._finished]
        return sorted(found, key=lambda segment: segment.metadata.start_offset)

    def finishes(self, event: Event) -> bool:
        """Whether an event says that a copy is finished."""
        parsed = _SERDE.deserialize(event.value)
        return (
            isinstance(parsed, RemoteLogSegmentMetadataUpdate) and parsed.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        )

    def publish(self, events: Iterable[Event]) -> None:
        """Writes events to the metadata topic of this tier. The first call creates the topic."""
        if self.metadata_topic not in self._broker.admin.list_topics(timeout=_PATIENCE_SECONDS).topics:
            partitions = int(self._broker.properties()["rlmm.config.remote.log.metadata.topic.num.partitions"])
            made = NewTopic(self.metadata_topic, num_partitions=partitions, replication_factor=1)
            self._broker.admin.create_topics([made])[self.metadata_topic].result(_PATIENCE_SECONDS)
        producer = Producer({"bootstrap.servers": self._broker.bootstrap_servers, "log_level": 0})
        for event in events:
            producer.produce(self.metadata_topic, event.value, partition=event.partition)
        assert producer.flush(_PATIENCE_SECONDS) == 0

    def rename(self, old: Segment, new: Segment) -> None:
        """Renames all objects of a segment to its other id."""
        for path in self.objects.glob(f"{old.file_name}*"):
            path.rename(path.with_name(path.name.replace(old.file_name, new.file_name)))

    def change_offset_indexes(self, change: Callable[[list[tuple[int, int]]], list[tuple[int, int]] | None]) -> int:
        """Sets the entries (relative offset, position) of every offset index, or removes it (None). Returns their number."""
        paths = list(self.objects.glob("*.index"))
        for path in paths:
            changed = change(list(_INDEX_ENTRY.iter_unpack(path.read_bytes())))
            if changed is None:
                path.unlink()
            else:
                path.write_bytes(b"".join(_INDEX_ENTRY.pack(*entry) for entry in changed))
        return len(paths)


def _all_events(broker: KafkaBroker) -> list[Event]:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "copier",
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = Consumer(settings | {"enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(METADATA_TOPIC, timeout=_PATIENCE_SECONDS).topics[METADATA_TOPIC].partitions
        consumer.assign([TopicPartition(METADATA_TOPIC, partition, OFFSET_BEGINNING) for partition in partitions])
        events: list[Event] = []
        ended = 0
        while ended < len(partitions):
            for message in consumer.consume(500, 0.2):
                error = message.error()
                if error is None:
                    events.append(Event(int(message.partition() or 0), message.value()))
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended += 1
        return events
    finally:
        consumer.close()
