"""The embedded cluster's metadata store: it passes each event to observers and writes it to ``__remote_log_metadata``.

A real broker writes these records before a segment counts as tiered. So a shim or a client with
``fetch.remote.location.source=metadata-topic`` can follow the embedded cluster as well.

References: KIP-405, TopicBasedRemoteLogMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Producer

from kafka_remote_client.errors import LocationError
from kafka_remote_client.remote_log.events import RemoteLogMetadata, RemoteLogSegmentMetadataSnapshot
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.partitioner import metadata_partition
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde

__all__ = ["MetadataPublisher", "ObservedStore"]

_FLUSH_SECONDS = 10.0


class ObservedStore(RemoteLogMetadataStore):
    """Calls each observer with each event that was applied, in the thread that applies it."""

    def __init__(self, *observers: Callable[[RemoteLogMetadata], None]) -> None:
        super().__init__()
        self._observers = observers

    def apply(self, event: RemoteLogMetadata, *, keyed: bool = False) -> bool:
        applied = super().apply(event, keyed=keyed)
        for observer in self._observers if applied else ():
            observer(event)
        return applied


class MetadataPublisher:
    """An observer that produces events to the metadata topic. Creates the topic if brokers create topics on demand.

    Raises KafkaException if the broker does not answer.
    """

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._partitions = len(producer.list_topics(METADATA_TOPIC, timeout=_FLUSH_SECONDS).topics[METADATA_TOPIC].partitions)

    def __call__(self, event: RemoteLogMetadata) -> None:
        """Returns after the broker has acknowledged the record. Raises LocationError if it rejects the record."""
        assert not isinstance(event, RemoteLogSegmentMetadataSnapshot)  # no store applies one
        partition = metadata_partition(event.topic_id_partition, self._partitions)
        self._producer.produce(METADATA_TOPIC, RemoteLogMetadataSerde().serialize(event), partition=partition)
        if self._producer.flush(_FLUSH_SECONDS):
            raise LocationError(f"the broker does not accept records of {METADATA_TOPIC}")
