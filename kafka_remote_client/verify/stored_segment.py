"""A segment as its objects: which there are, under which keys, and what could be read of them.

What a layout calls its objects is its *role* here: the file kinds of LocalTieredStorage, or log, indexes and manifest of
Aiven's plugin. A :class:`LayoutInspector` is a layout as ``verify`` needs it: in the order of upload, so that a copy that
stopped can be told from an object that went missing.
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
"""How much of a log is read at a time."""
MAX_INDEX_BYTES = 256 * 1024 * 1024
"""An index that is larger is not read: Kafka's are 10 MiB by default."""


@attrs.frozen
class StoredSegment:
    """``keys`` of all objects that the segment may have, in the order of upload; ``sizes`` of those that are there."""

    listed: ListedSegment
    keys: Mapping[str, str]
    sizes: Mapping[str, int]
    optional: frozenset[str] = frozenset()

    @property
    def nbytes(self) -> int:
        """Bytes of all its objects."""
        return sum(self.sizes.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """The roles of objects that it must have and has not, in the order of upload."""
        return tuple(role for role in self.keys if role not in self.sizes and role not in self.optional)

    @property
    def is_front(self) -> bool:
        """Whether the missing objects are the last ones: a copy that stopped leaves nothing else."""
        required = [role for role in self.keys if role not in self.optional]
        return tuple(required[len(required) - len(self.missing) :]) == self.missing


class DamagedPieceError(CorruptChunkError):
    """A part of a log cannot be restored. It ends at ``end`` of the segment as Kafka wrote it."""

    def __init__(self, message: str, end: int) -> None:
        super().__init__(message)
        self.end = end


class LogSource(Protocol):
    """A log as Kafka wrote it, piece by piece."""

    @property
    def size(self) -> int:
        """How many bytes there are to read."""

    def read(self, position: int) -> bytes:
        """The next bytes from ``position`` on, as many as are convenient; none at the end, or where the object ends early.

        Raises DamagedPieceError, and what the store raises.
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
    """What could be read: ``problems`` are pairs of role and defect; ``log`` None = it cannot be looked into.

    ``described`` is what an object of the segment says of it, None where no object does; ``indexes`` holds those that could be
    read, as Kafka wrote them, and ``roles`` those of their objects. ``log_end_known`` False = the log object has a wrong size,
    so where it ends says nothing new. ``closed`` = why it cannot be checked further, although all may be valid: no key was
    given.
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
        """Adds a problem of the object in that role."""
        self.problems.append((role, Problem(kind, message, position=position, size=size)))

    def check_log_size(self, stored: int, told: int, by: str) -> None:
        """Adds a problem if the log object's size differs from its metadata or manifest."""
        if stored != told:
            self.report(
                LOG, FindingKind.LOG_SIZE, f"the log object has {stored} bytes; the {by} says {told}", size=abs(stored - told)
            )
            self.log_end_known = False


class LayoutInspector(Protocol):
    """A layout as verify needs it."""

    @property
    def layout(self) -> ObjectLayout:
        """The layout itself."""

    @property
    def prefix(self) -> str:
        """What the keys of all its objects begin with."""

    def topic_of(self, key: str) -> str | None:
        """The topic in whose directory an object lies, segment or not; None outside of any."""

    def segments(self, store: RemoteObjectStore, topic: str | None = None) -> Iterator[StoredSegment]:
        """All segments (of a topic name), in order, whole or not."""

    def open(
        self, store: RemoteObjectStore, segment: StoredSegment, claim: RemoteLogSegmentMetadata | None, *, log: bool
    ) -> OpenSegment:
        """Reads everything but the log of a segment that lacks no object. ``claim`` is what the metadata topic says of it;
        without ``log`` nothing of the log is read. Raises RemoteStorageError kinds and ObjectNotFoundError.
        """


def stored_segments(
    listed: Iterator[ListedSegment],
    sizes: Mapping[str, int],
    keys: Callable[[ListedSegment], Mapping[str, str]],
    optional: frozenset[str] = frozenset(),
) -> Iterator[StoredSegment]:
    """Listed segments with the sizes of all their objects, by key."""
    for segment in listed:
        named = keys(segment)
        present = {role: sizes[key] for role, key in named.items() if key in sizes}
        yield StoredSegment(segment, named, present, optional)


def draft_metadata(segment: ListedSegment, size: int = 0) -> RemoteLogSegmentMetadata:
    """Enough metadata to ask a layout for keys."""
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
