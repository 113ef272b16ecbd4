"""The defects of a tier, as values. Pure.

A checker checks one file and returns a :class:`Problem`. Its caller adds the segment and the object, which makes a
:class:`Finding`. ``docs/verify.md`` has the table of kinds; a test compares it with :class:`FindingKind`.
"""

from __future__ import annotations

from enum import Enum, StrEnum

import attrs

from kafka_remote_client.model import RemoteLogSegmentId, TopicIdPartition, uuid_to_text

__all__ = ["Finding", "FindingKind", "Problem", "Severity", "Unchecked"]


class Severity(StrEnum):
    """``damage``: a reader gets an error, or may get wrong records. ``waste``: bytes that no reader requests."""

    DAMAGE = "damage"
    WASTE = "waste"


class FindingKind(Enum):
    """Every kind: its severity, and what it means. Its ``label`` in the output is its name: ``batch-damaged``."""

    BATCH_DAMAGED = (Severity.DAMAGE, "a record batch fails its checksum, its sizes, or does not decode")
    BATCH_UNSUPPORTED = (Severity.DAMAGE, "a batch has an unsupported magic, codec or size")
    BATCH_CHAIN = (Severity.DAMAGE, "a valid batch does not start where the one before it ends")
    BATCH_OUTSIDE_SEGMENT = (Severity.DAMAGE, "a valid batch has offsets outside of its segment")
    BATCH_LEADER_EPOCH = (Severity.DAMAGE, "the leader epoch of a valid batch does not match its offsets")
    LOG_CUT = (Severity.DAMAGE, "the log ends within a batch, or before what several of its indexes point to")
    LOG_SIZE = (Severity.DAMAGE, "the size of the log object differs from the metadata or the manifest")
    OFFSET_INDEX_UNREADABLE = (Severity.DAMAGE, "the offset index does not parse")
    OFFSET_INDEX_MISMATCH = (Severity.DAMAGE, "an entry of the offset index does not point to a batch with its offset")
    TIME_INDEX_UNREADABLE = (Severity.DAMAGE, "the time index does not parse")
    TIME_INDEX_MISMATCH = (Severity.DAMAGE, "the timestamps of the time index differ from those of the batches")
    TRANSACTION_INDEX_UNREADABLE = (Severity.DAMAGE, "the transaction index does not parse")
    TRANSACTION_INDEX_MISMATCH = (
        Severity.DAMAGE,
        "the aborted transactions of the transaction index differ from the ABORT markers",
    )
    LEADER_EPOCHS_UNREADABLE = (Severity.DAMAGE, "the leader epoch checkpoint does not parse")
    LEADER_EPOCHS_MISMATCH = (
        Severity.DAMAGE,
        "the epochs of the leader epoch checkpoint differ from the batches or the metadata",
    )
    PRODUCER_SNAPSHOT_UNREADABLE = (Severity.DAMAGE, "the producer snapshot does not parse, or its checksum is wrong")
    PRODUCER_SNAPSHOT_MISMATCH = (Severity.DAMAGE, "the open transactions of the producer snapshot differ from the batches")
    MANIFEST_UNREADABLE = (Severity.DAMAGE, "the manifest does not parse, or contradicts itself")
    MANIFEST_FOREIGN = (Severity.DAMAGE, "the manifest describes another segment")
    MANIFEST_INDEXES = (Severity.DAMAGE, "the manifest's index slices are not contiguous from 0")
    INDEXES_SIZE = (Severity.DAMAGE, "the size of the .indexes object differs from the manifest")
    INDEX_ENCRYPTION = (Severity.DAMAGE, "an encrypted index fails authentication")
    CHUNK_DAMAGED = (Severity.DAMAGE, "a chunk of the log fails authentication, does not decompress, or has a wrong size")
    DATA_KEY = (Severity.DAMAGE, "the manifest's data key cannot be decrypted, or decrypts nothing of the segment")
    METADATA_MISMATCH = (
        Severity.DAMAGE,
        "offsets, epochs, sizes or timestamps in the metadata topic or the manifest differ from the segment",
    )
    MISSING_OBJECT = (Severity.DAMAGE, "an object of a segment is missing, and the segment is not being copied")
    MISSING_SEGMENT = (Severity.DAMAGE, "the metadata topic says that a segment is finished, but none of its objects exists")
    OFFSET_GAP = (Severity.DAMAGE, "no segment holds the offsets between two segments")
    HALF_COPIED = (Severity.WASTE, "only the objects that a plugin uploads first exist")
    ORPHAN_UNFINISHED = (Severity.WASTE, "all objects exist, but the metadata topic never said that the copy finished")
    ORPHAN_UNKNOWN = (Severity.WASTE, "the metadata topic has no record of the segment")
    ORPHAN_DELETED = (Severity.WASTE, "the metadata topic says that its deletion has started or finished, but objects remain")
    OUTSIDE_LINEAGE = (Severity.WASTE, "in today's log, none of the segment's leader epochs wrote its offsets")
    DUPLICATE = (Severity.WASTE, "dead: other segments hold all offsets of it that belong to the log")
    OVERLAP = (Severity.WASTE, "live in part: other segments hold some of its offsets")
    FOREIGN_OBJECT = (Severity.WASTE, "an object beside the segments that belongs to none")

    def __init__(self, severity: Severity, meaning: str) -> None:
        self.label = self.name.lower().replace("_", "-")
        self.severity = severity
        self.meaning = meaning


@attrs.frozen
class Problem:
    """A defect of one file. ``position`` is in the log as Kafka wrote it, or in the file; ``size`` the bytes affected."""

    kind: FindingKind
    message: str
    position: int | None = None
    offset: int | None = None
    size: int | None = None


@attrs.frozen
class Finding:
    """A defect and its place. ``None`` = does not apply. ``bytes``: the size of the affected batch, object or segment."""

    kind: FindingKind
    message: str
    bytes: int
    topic_id_partition: TopicIdPartition | None = None
    segment_id: RemoteLogSegmentId | None = None
    start_offset: int | None = None
    object_key: str | None = None
    position: int | None = None
    offset: int | None = None

    def as_json(self) -> dict[str, object]:
        """The object of ``--output json``; docs/verify.md has its fields."""
        tip = self.topic_id_partition
        return {
            "type": "finding",
            "kind": self.kind.label,
            "severity": self.kind.severity.value,
            "topic": None if tip is None else tip.topic,
            "topic_id": None if tip is None else uuid_to_text(tip.topic_id),
            "partition": None if tip is None else tip.partition,
            "segment_id": None if self.segment_id is None else uuid_to_text(self.segment_id.id),
            "start_offset": self.start_offset,
            "object": self.object_key,
            "bytes": self.bytes,
            "position": self.position,
            "offset": self.offset,
            "message": self.message,
        }


@attrs.frozen
class Unchecked:
    """Something that could not be checked, and why. ``what`` is a segment, a partition or an object."""

    what: str
    reason: str

    def as_json(self) -> dict[str, object]:
        """The object of ``--output json``."""
        return {"type": "unchecked", "what": self.what, "reason": self.reason}
