"""Where the objects of a segment lie in a store, and which segments a store holds: all that the author of a layout must read.

A layout stands between the metadata (which never names an object, except in custom metadata) and a
:class:`~kafka_remote_client.plugin.RemoteObjectStore`. It knows names, which object holds what, and how a log that is not
stored as Kafka wrote it becomes that again. Of the formats inside the indexes it knows nothing.

A layout is found by its name in the entry-point group ``kafka_remote_client.layouts``. The entry is called with
:class:`LayoutOptions` and returns an :class:`ObjectLayout`, which subclasses nothing. A layout whose segments are not stored as
Kafka wrote them announces a storage format, which a plugin of the group ``kafka_remote_client.storage_formats`` restores
(:class:`~kafka_remote_client.plugin.StorageFormat`). Prove a layout with ``kafka_remote_client.testing.ObjectLayoutTests``; a
worked example is in docs/extending.md.
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
"""Every segment has these; one that lacks any was not copied to its end, or is being deleted."""


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
    """What a user may say about a tier besides its layout's name. ``encryption_keys``: files of private keys by key id."""

    key_prefix: str = ""
    encryption_keys: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class ListedSegment:
    """What a listing shows of a segment: its identity, where it starts, and the size of each object in bytes.

    Where several kinds lie in one object, each has the size of that object.
    """

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


@attrs.frozen
class LocatedRange:
    """Bytes ``range`` of the segment lie in bytes ``object_range`` of the object that ``location`` names.

    The two are equal where the log is stored as Kafka wrote it. ``location`` says all that is needed to make one of the other.
    ``first_offset``: no record of the range is below it; None = not known. A layout leaves it to the caller.
    """

    range: ByteRange
    object_range: ByteRange
    location: LocationMetadata
    first_offset: int | None = None


@attrs.frozen
class LocatedSegment:
    """In which storage format a window of a segment is announced, and its ranges, which tile the window."""

    format: str
    ranges: tuple[LocatedRange, ...]

    @property
    def has_data_key(self) -> bool:
        """Whether any location holds the key that the segment is encrypted with."""
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
    """How a KIP-405 plugin lays segments out as objects. One instance may serve many threads.

    All methods that take a store raise what the store raises, ObjectNotFoundError for an object that is not there, and another
    RemoteLogError kind for one that is not what it should be.
    """

    @property
    def name(self) -> str:
        """What users call it: ``local-tiered-storage``."""

    @property
    def format_name(self) -> str:
        """The storage format that a reader of all its segments has to understand: ORIGINAL_FORMAT = as Kafka wrote them."""

    def prefix_of(self, topic: str | None = None) -> str:
        """What the keys of all objects begin with (those of a topic name, perhaps others, too); "" = anything."""

    def topic_of(self, key: str) -> str | None:
        """The topic whose objects lie where ``key`` does, segment or not; None for a key that belongs to no topic."""

    def object_key(self, metadata: RemoteLogSegmentMetadata, kind: ObjectKind) -> str:
        """The key of one object of a segment. Kinds that lie in one object have one key."""

    def list_segments(self, store: RemoteObjectStore, topic: str | None = None) -> Iterator[ListedSegment]:
        """The segments in the store (of one topic name), by partition and start offset; half-copied ones included."""

    def stored_metadata(self, store: RemoteObjectStore, segment: ListedSegment) -> RemoteLogSegmentMetadata | None:
        """Metadata from an object of the segment itself, in state COPY_SEGMENT_STARTED; None where no object does."""

    def read_index(self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata, kind: ObjectKind) -> bytes:
        """One index as Kafka wrote it (any kind but the log); no bytes for a transaction index that was never there."""

    def original_logs(self, store: RemoteObjectStore) -> RemoteObjectStore:
        """The same store, but each log reads as Kafka wrote it: ``get_range`` takes positions of the original segment."""

    def locate(
        self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata, ranges: Sequence[ByteRange]
    ) -> LocatedSegment:
        """Where ``ranges`` of the original segment, which tile, are to be read. They may be cut at other places within."""

    def manifest_statistics(self) -> CacheStatistics:
        """What the layout keeps of the segments' manifests; all zero where there are none."""


def topic_in_directory(key: str, prefix: str, directory: re.Pattern[str]) -> str | None:
    """The group ``topic`` of ``directory``, if all of the first directory of ``key`` below ``prefix`` matches it; else None."""
    first, slash, _ = key.removeprefix(prefix).partition("/")
    named = directory.fullmatch(first) if slash else None
    return named["topic"] if named else None


@runtime_checkable
class IndexesInOneObject(Protocol):
    """What an ObjectLayout may have besides where all indexes of a segment lie in one object: a way to read that ahead.

    Without it, each index is read ahead by itself.
    """

    def offer_indexes(
        self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata, *, missing: bool
    ) -> Iterator[Callable[[], None]]:
        """Reads that a thread pool may begin, and of which ``read_index`` and ``locate`` make use. They raise no Exception.

        None for what is kept or being read already. ``missing``: an index of the segment is about to be asked for.
        """
