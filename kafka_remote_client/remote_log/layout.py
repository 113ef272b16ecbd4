"""Where the objects of a segment lie in a store, and which segments a store holds.

A layout knows names only; it opens nothing but listings. It stands between the metadata (which never names an object, except
in custom metadata) and a :class:`~kafka_remote_client.plugin.RemoteObjectStore`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Protocol

import attrs

from kafka_remote_client.model import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from kafka_remote_client.plugin import RemoteObjectStore

__all__ = ["REQUIRED", "ListedSegment", "ObjectKind", "ObjectLayout"]


class ObjectKind(Enum):
    """The objects of a segment: Kafka's RemoteStorageManager.IndexType and the log itself."""

    LOG = "log"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TRANSACTION_INDEX = "transaction index"
    PRODUCER_SNAPSHOT = "producer snapshot"
    LEADER_EPOCH = "leader epoch checkpoint"


REQUIRED = frozenset(ObjectKind) - {ObjectKind.TRANSACTION_INDEX}
"""Every segment has these; one that lacks any was not copied to its end, or is being deleted."""


@attrs.frozen
class ListedSegment:
    """What a listing alone tells of a segment: its identity, where it starts, and the size of each object in bytes."""

    remote_log_segment_id: RemoteLogSegmentId
    start_offset: int
    sizes: Mapping[ObjectKind, int]

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return self.remote_log_segment_id.topic_id_partition

    @property
    def missing(self) -> frozenset[ObjectKind]:
        """The required objects that are not there: not empty for a half-copied or half-deleted segment."""
        return REQUIRED - self.sizes.keys()


class ObjectLayout(Protocol):
    """A naming scheme of a KIP-405 plugin."""

    @property
    def name(self) -> str:
        """What users call it: ``local-tiered-storage``."""

    @property
    def format_name(self) -> str:
        """The storage format under which its ``.log`` objects are announced: ``ApacheKafkaV1`` = as Kafka wrote them."""

    def object_key(self, metadata: RemoteLogSegmentMetadata, kind: ObjectKind) -> str:
        """The key of one object of a segment."""

    def list_segments(self, store: RemoteObjectStore, topic: str | None = None) -> Iterator[ListedSegment]:
        """The segments in the store (of one topic name), by partition and start offset; half-copied ones included."""
