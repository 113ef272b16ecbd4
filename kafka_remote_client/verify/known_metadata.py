"""Reads ``__remote_log_metadata`` to its end for a check, and follows it while the check runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

from confluent_kafka import KafkaException

from kafka_remote_client.errors import ConfigurationError, LocationError
from kafka_remote_client.model import RemoteLogSegmentId, RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.remote_log.events import RemoteLogMetadata
from kafka_remote_client.remote_log.follower import METADATA_TOPIC, RemoteLogMetadataFollower
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.packed_segment import MetadataEvent, SegmentUpdate, packed_event

__all__ = ["DeletionTrackingStore", "KnownMetadata", "MetadataTopicReader"]


class KnownMetadata(Protocol):
    """The metadata that a check needs."""

    def ready(self, topic_id_partition: TopicIdPartition) -> bool:
        """Returns whether the partition's metadata are completely read and consistent."""

    def cache(self, topic_id_partition: TopicIdPartition) -> RemoteLogMetadataCache | None:
        """Returns the partition's segments; None if the topic has no record of it."""

    def partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Returns all partitions with records (of one topic name)."""

    def deleted(self, segment_id: RemoteLogSegmentId) -> bool:
        """Returns whether the segment's deletion has finished."""


class DeletionTrackingStore(RemoteLogMetadataStore):
    """Also keeps the ids of segments whose deletion has finished."""

    def __init__(self) -> None:
        super().__init__()
        self._deleted: set[RemoteLogSegmentId] = set()
        self._guard = threading.Lock()

    def apply(self, event: MetadataEvent | RemoteLogMetadata, *, keyed: bool = False) -> bool:
        applied = super().apply(event, keyed=keyed)
        packed = packed_event(event)
        if applied and isinstance(packed, SegmentUpdate) and packed.state is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            with self._guard:
                self._deleted.add(packed.unpacked().remote_log_segment_id)
        return applied

    def deleted(self, segment_id: RemoteLogSegmentId) -> bool:
        """As KnownMetadata says."""
        with self._guard:
            return segment_id in self._deleted


class MetadataTopicReader(DeletionTrackingStore):
    """KnownMetadata from a broker. ``config`` is librdkafka's. Begins with :meth:`read`, ends with :meth:`close`."""

    def __init__(self, config: Mapping[str, str], topic: str = METADATA_TOPIC) -> None:
        super().__init__()
        self._topic = topic
        self._follower = RemoteLogMetadataFollower(config, self, topic=topic, recovers=False)

    def read(self, seconds: float) -> None:
        """Reads what there is. Raises ConfigurationError for settings that librdkafka refuses.

        Raises LocationError for a topic that the brokers do not show, and after ``seconds``.
        """
        try:
            self._follower.start()
        except KafkaException as error:
            raise ConfigurationError(f"invalid broker settings: {error.args[0].str()}") from None
        if not self._follower.wait_settled(seconds):
            raise LocationError(f"timed out after {seconds:g} s reading {self._topic}; raise --metadata-timeout")
        if (refused := self._follower.refused) is not None:
            raise LocationError(f"the metadata topic {self._topic} cannot be read: {refused.str()}; check --metadata-topic")

    def ready(self, topic_id_partition: TopicIdPartition) -> bool:
        return self._follower.ready(topic_id_partition)

    def close(self) -> None:
        """Stops following. May be called twice."""
        self._follower.close()
