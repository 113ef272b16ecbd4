"""The interface of layouts: which segments a store has, and which objects they consist of. Authors of layouts need this module.

A layout connects the metadata (which never has object keys, except in custom metadata) with a
:class:`~kafka_remote_client.plugin.RemoteObjectStore`. It knows keys, the contents of each object, and how to restore a log
that is not stored as Kafka wrote it. It does not know the formats of indexes.

A layout has a name in the entry-point group ``kafka_remote_client.layouts``. The entry is called with :class:`LayoutOptions`
and returns an :class:`ObjectLayout`, which subclasses nothing. A layout whose segments are not stored as Kafka wrote them
announces a storage format, which a plugin of the group ``kafka_remote_client.storage_formats`` restores
(:class:`~kafka_remote_client.plugin.StorageFormat`). Test a layout with ``kafka_remote_client.testing.ObjectLayoutTests``;
docs/extending.md has a worked example.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Protocol, runtime_checkable

import attrs

from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import ByteRange, RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from kafka_remote_client.plugin import RemoteObjectStore

__all__ = [
    "ORIGINAL_FORMAT",
    "REQUIRED",
    "UPLOAD_ORDER",
    "IndexesInOneObject",
    "LayoutOptions",
    "ListedSegment",
    "LocatedRange",
    "LocatedSegment",
    "ObjectKind",
    "ObjectLayout",
    "located_as_they_are",
    "segment_order",
    "topic_in_directory",
]

ORIGINAL_FORMAT = "ApacheKafkaV1"
"""The storage format of a log that is stored as Kafka wrote it."""


class ObjectKind(Enum):
    """The objects of a segment: Kafka's RemoteStorageManager.IndexType and the log itself."""

    LOG = "log"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TRANSACTION_INDEX = "transaction index"
    PRODUCER_SNAPSHOT = "producer snapshot"
    LEADER_EPOCH = "leader epoch checkpoint"


REQUIRED = frozenset(ObjectKind) - {ObjectKind.TRANSACTION_INDEX}
"""Every segment has these. A segment without one of them was not copied completely, or is being deleted."""


UPLOAD_ORDER = (
    ObjectKind.LOG,
    ObjectKind.OFFSET_INDEX,
    ObjectKind.TIME_INDEX,
    ObjectKind.TRANSACTION_INDEX,
    ObjectKind.LEADER_EPOCH,
    ObjectKind.PRODUCER_SNAPSHOT,
)
"""The order in which plugins upload the objects of a segment: a copy that stopped lacks the last ones."""


@attrs.frozen
class LayoutOptions:
    """A user's options for a layout. ``encryption_keys``: files of private keys by key id."""

    key_prefix: str = ""
    encryption_keys: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class ListedSegment:
    """A segment in a listing: its id, its start offset, and the size of each object in bytes.

    If one object has several kinds, each kind has the size of that object.
    """

    remote_log_segment_id: RemoteLogSegmentId
    start_offset: int
    sizes: Mapping[ObjectKind, int]

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return self.remote_log_segment_id.topic_id_partition

    @property
    def missing(self) -> frozenset[ObjectKind]:
        """The required objects that are missing: not empty for a half-copied or half-deleted segment."""
        return REQUIRED - self.sizes.keys()


@attrs.frozen
class LocatedRange:
    """Bytes ``range`` of the segment are in bytes ``object_range`` of the object of ``location``.

    Both are equal if the log is stored as Kafka wrote it; otherwise ``location`` has what is needed to restore the range.
    ``first_offset``: no record of the range is below it; None = not known. The caller of the layout sets it.
    """

    range: ByteRange
    object_range: ByteRange
    location: LocationMetadata
    first_offset: int | None = None


@attrs.frozen
class LocatedSegment:
    """The storage format of a window of a segment, and its ranges, which tile the window."""

    format: str
    ranges: tuple[LocatedRange, ...]

    @property
    def has_data_key(self) -> bool:
        """Whether any location has the key of an encrypted segment."""
        return any(one.location.data_key is not None for one in self.ranges)


def located_as_they_are(object_key: str, ranges: Sequence[ByteRange]) -> LocatedSegment:
    """Ranges of a log that is stored as Kafka wrote it."""
    location = LocationMetadata(object_key=object_key)
    return LocatedSegment(ORIGINAL_FORMAT, tuple(LocatedRange(one, one, location) for one in ranges))


def segment_order(segment_id: RemoteLogSegmentId, start_offset: int) -> tuple[object, ...]:
    """A sort key: by topic, partition and start offset."""
    tip = segment_id.topic_id_partition
    return tip.topic, tip.topic_id, tip.partition, start_offset, segment_id.id


@runtime_checkable
class ObjectLayout(Protocol):
    """How a KIP-405 plugin stores segments as objects. One instance may serve many threads.

    All methods that take a store raise the errors of the store, ObjectNotFoundError for a missing object, and another
    RemoteLogError kind for a malformed one.
    """

    @property
    def name(self) -> str:
        """The name for users, such as ``local-tiered-storage``."""

    @property
    def format_name(self) -> str:
        """The storage format that a reader of its segments must support: ORIGINAL_FORMAT = as Kafka wrote them."""

    def prefix_of(self, topic: str | None = None) -> str:
        """The common prefix of all keys, or of a topic name's keys (others may have it too); "" = none."""

    def topic_of(self, key: str) -> str | None:
        """The topic of the directory of ``key``, which need not belong to a segment; None if it is not a topic's directory."""

    def object_key(self, metadata: RemoteLogSegmentMetadata, kind: ObjectKind) -> str:
        """The key of one object of a segment. Kinds in the same object have the same key."""

    def list_segments(self, store: RemoteObjectStore, topic: str | None = None) -> Iterator[ListedSegment]:
        """The segments in the store (of one topic name), by partition and start offset; half-copied ones included."""

    def stored_metadata(self, store: RemoteObjectStore, segment: ListedSegment) -> RemoteLogSegmentMetadata | None:
        """The metadata that an object of the segment has, in state COPY_SEGMENT_STARTED; None if no object has it."""

    def read_index(self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata, kind: ObjectKind) -> bytes:
        """One index as Kafka wrote it (any kind but the log); no bytes for a transaction index that does not exist."""

    def original_logs(self, store: RemoteObjectStore) -> RemoteObjectStore:
        """A store that returns logs as Kafka wrote them: ``get_range`` takes positions of the original segment."""

    def locate(
        self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata, ranges: Sequence[ByteRange]
    ) -> LocatedSegment:
        """The locations of ``ranges`` of the original segment, which tile. The result may have other cuts between them."""

    def manifest_statistics(self) -> CacheStatistics:
        """Hits and misses of cached manifests; all zero if there are none."""


def topic_in_directory(key: str, prefix: str, directory: re.Pattern[str]) -> str | None:
    """The group ``topic`` of ``directory``, if all of the first directory of ``key`` below ``prefix`` matches it; else None."""
    first, slash, _ = key.removeprefix(prefix).partition("/")
    named = directory.fullmatch(first) if slash else None
    return named["topic"] if named else None


@runtime_checkable
class IndexesInOneObject(Protocol):
    """An optional method of an ObjectLayout with all indexes of a segment in one object: it reads that object ahead.

    Without it, each index is read ahead separately.
    """

    def offer_indexes(
        self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata, *, missing: bool
    ) -> Iterator[Callable[[], None]]:
        """Reads that a thread pool may begin, whose results ``read_index`` and ``locate`` use. They raise no Exception.

        There is none for an object that is cached or being read. ``missing``: an index of the segment is needed and not cached.
        """
