"""A segment as objects: which exist, under which keys, and what could be read of them.

A layout's name for an object is its *role*: the file kinds of LocalTieredStorage, or log, indexes and manifest of Aiven's
plugin. A :class:`LayoutInspector` gives the objects in the order of upload, so that an interrupted copy differs from a lost
object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import attrs

from kafka_remote_client.errors import CorruptChunkError
from kafka_remote_client.model import UNKNOWN_OFFSET, EpochEntry, RemoteLogSegmentMetadata
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.layout import ListedSegment, ObjectKind, ObjectLayout
from kafka_remote_client.verify.finding import FindingKind, Problem

__all__ = [
    "LOG",
    "MAX_INDEX_BYTES",
    "PIECE_BYTES",
    "DamagedPieceError",
    "LayoutInspector",
    "LogSource",
    "OpenSegment",
    "PlainLog",
    "StoredSegment",
    "draft_metadata",
    "stored_segments",
]

LOG = "log"
PIECE_BYTES = 4 * 1024 * 1024
"""Bytes of a log that are read at a time."""
MAX_INDEX_BYTES = 256 * 1024 * 1024
"""A larger index is not read: Kafka's are 10 MiB by default."""


@attrs.frozen
class StoredSegment:
    """``keys``: of all objects that the segment may have, in the order of upload. ``sizes``: of those that exist."""

    listed: ListedSegment
    keys: Mapping[str, str]
    sizes: Mapping[str, int]
    optional: frozenset[str] = frozenset()

    @property
    def nbytes(self) -> int:
        """Returns the bytes of all its objects."""
        return sum(self.sizes.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """Returns the roles of missing required objects, in the order of upload."""
        return tuple(role for role in self.keys if role not in self.sizes and role not in self.optional)

    @property
    def is_front(self) -> bool:
        """Returns whether the missing objects are the last ones, as after an interrupted copy."""
        required = [role for role in self.keys if role not in self.optional]
        return tuple(required[len(required) - len(self.missing) :]) == self.missing


class DamagedPieceError(CorruptChunkError):
    """A part of a log cannot be restored. It ends at ``end`` of the segment as Kafka wrote it."""

    def __init__(self, message: str, end: int) -> None:
        super().__init__(message)
        self.end = end


class LogSource(Protocol):
    """A log as Kafka wrote it, in pieces."""

    @property
    def size(self) -> int:
        """Returns the number of readable bytes."""

    def read(self, position: int) -> bytes:
        """Returns bytes from ``position`` on, at least one; none at the end, or if the object ends early.

        Raises DamagedPieceError, and the store's errors.
        """


@attrs.frozen
class PlainLog:
    """A log that is stored as Kafka wrote it."""

    store: RemoteObjectStore
    key: str
    size: int
    piece: int = PIECE_BYTES

    def read(self, position: int) -> bytes:
        return self.store.get_range(self.key, position, min(position + self.piece, self.size))


@attrs.define
class OpenSegment:
    """The readable parts of a segment. ``problems``: pairs of role and defect. ``log`` None: it cannot be read.

    ``described``: the metadata in an object of the segment; None if no object has them. ``indexes``: the readable indexes, as
    Kafka wrote them. ``roles``: the roles of their objects. ``log_end_known`` False: the log object has a wrong size, so its
    end is no further problem. ``closed``: why a segment that may be valid cannot be checked further, for example without a key.
    """

    log: LogSource | None = None
    described: RemoteLogSegmentMetadata | None = None
    indexes: dict[ObjectKind, bytes] = attrs.field(factory=dict)
    roles: dict[ObjectKind, str] = attrs.field(factory=dict)
    problems: list[tuple[str, Problem]] = attrs.field(factory=list)
    log_end_known: bool = True
    closed: str | None = None

    def report(
        self, role: str, kind: FindingKind, message: str, *, position: int | None = None, size: int | None = None
    ) -> None:
        """Adds a problem of the object with that role."""
        self.problems.append((role, Problem(kind, message, position=position, size=size)))

    def check_log_size(self, stored: int, told: int, by: str) -> None:
        """Adds a problem if the log object's size differs from its metadata or manifest."""
        if stored != told:
            self.report(
                LOG, FindingKind.LOG_SIZE, f"the log object has {stored} bytes; the {by} says {told}", size=abs(stored - told)
            )
            self.log_end_known = False


class LayoutInspector(Protocol):
    """What ``verify`` needs to know of a layout."""

    @property
    def layout(self) -> ObjectLayout:
        """Returns the layout."""

    @property
    def prefix(self) -> str:
        """Returns the prefix of the keys of all its objects."""

    def topic_of(self, key: str) -> str | None:
        """Returns the topic of the directory that holds an object, of a segment or not; None outside of all topics."""

    def segments(self, store: RemoteObjectStore, topic: str | None = None) -> Iterator[StoredSegment]:
        """Returns all segments (of a topic name), in order, complete or not."""

    def open(
        self, store: RemoteObjectStore, segment: StoredSegment, claim: RemoteLogSegmentMetadata | None, *, log: bool
    ) -> OpenSegment:
        """Reads all objects but the log of a segment of which no object is missing. ``claim``: the segment in the metadata
        topic. Without ``log`` no byte of the log is read. Raises RemoteStorageError kinds and ObjectNotFoundError.
        """


def stored_segments(
    listed: Iterator[ListedSegment],
    sizes: Mapping[str, int],
    keys: Callable[[ListedSegment], Mapping[str, str]],
    optional: frozenset[str] = frozenset(),
) -> Iterator[StoredSegment]:
    """Returns listed segments with the sizes of all their objects, by key."""
    for segment in listed:
        named = keys(segment)
        present = {role: sizes[key] for role, key in named.items() if key in sizes}
        yield StoredSegment(segment, named, present, optional)


def draft_metadata(segment: ListedSegment, size: int = 0) -> RemoteLogSegmentMetadata:
    """Returns the metadata that a layout needs to make keys."""
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=segment.remote_log_segment_id,
        start_offset=segment.start_offset,
        end_offset=segment.start_offset,
        max_timestamp_ms=-1,
        broker_id=UNKNOWN_OFFSET,
        event_timestamp_ms=-1,
        segment_leader_epochs=(EpochEntry(0, segment.start_offset),),
        segment_size_in_bytes=size,
    )
