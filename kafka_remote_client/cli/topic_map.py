"""The time line of a topic's partitions: what holds which offsets, and what is wrong with it. Pure.

========== ====================================================================================
kind       offsets
========== ====================================================================================
log-start  marks the first offset of the log. Only a broker knows it
remote     of a segment that readers use
local      on the brokers' disks. Only a broker knows them
gap        that nothing holds
undecided  that readers of committed records do not get from the tier
duplicate  of a segment that no reader uses: another one holds its offsets
incomplete of a segment that lacks an object or cannot be read
busy       of a segment that is being copied or deleted
orphan     of objects that the metadata topic does not count as a segment of the log
missing    of a segment that the metadata topic calls finished, but that has no objects
foreign    none: objects of the topic that belong to no segment
========== ====================================================================================

"orphan", "missing" and "busy" need the metadata topic. Gaps are between what readers use, the local part included. Without a
broker they end with the tier.

References: KIP-405; docs/cli.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

import attrs

from kafka_remote_client.cli.ls import SegmentLine
from kafka_remote_client.cli.offsets import OffsetsLine
from kafka_remote_client.cli.prices import GB, StorageClass, gets_of, in_dollars
from kafka_remote_client.model import RemoteLogSegmentMetadata, uuid_to_text
from kafka_remote_client.settings import default_of
from kafka_remote_client.spark.planning.job_figures import Prices
from kafka_remote_client.verify.copies import CopyState
from kafka_remote_client.verify.finding import FindingKind, Problem

__all__ = ["COLUMNS", "PartKind", "PartitionFacts", "TopicMap", "TopicPart", "partition_parts"]

COLUMNS = {
    "partition": "partition",
    "kind": "kind",
    "start": "start_offset",
    "end": "end_offset",
    "bytes": "bytes",
    "what": "what",
}
"""From heading to field."""
_NO_READER = "a reader gets its offsets from another segment"
_BEFORE_START = "before the log start"
_UNFINISHED = frozenset({FindingKind.MISSING_OBJECT, FindingKind.HALF_COPIED})
_RANGE_BYTES: int = default_of("fetch.remote.range.bytes")


class PartKind(StrEnum):
    """The kinds of the module's table."""

    LOG_START = "log-start"
    REMOTE = "remote"
    LOCAL = "local"
    GAP = "gap"
    UNDECIDED = "undecided"
    DUPLICATE = "duplicate"
    INCOMPLETE = "incomplete"
    BUSY = "busy"
    ORPHAN = "orphan"
    MISSING = "missing"
    FOREIGN = "foreign"


@attrs.frozen
class TopicPart:
    """One part of a time line. Offsets are inclusive; ``None``: unknown, or it does not apply.

    ``bytes`` are those of the log as Kafka wrote it; ``stored_bytes`` those of all its objects. ``month_dollars`` is the price
    of storing them, ``read_dollars`` that of reading the log once, from the store's region, with ranges of the default size.
    """

    topic: str
    partition: int | None
    kind: PartKind
    start_offset: int | None = None
    end_offset: int | None = None
    segment_id: str | None = None
    bytes: int | None = None
    stored_bytes: int | None = None
    month_dollars: float | None = None
    read_dollars: float | None = None
    note: str | None = None

    @property
    def what(self) -> str | None:
        """Segment and note, for the table."""
        return ": ".join(text for text in (self.segment_id, self.note) if text) or None


@attrs.frozen
class TopicMap:
    """All parts, by partition and start offset. What a flag says was not asked is in no part."""

    topic: str
    parts: tuple[TopicPart, ...]
    asked_broker: bool
    read_metadata: bool

    @property
    def partitions(self) -> list[int]:
        """The partitions with a part, rising."""
        return sorted({part.partition for part in self.parts if part.partition is not None})

    def of(self, partition: int | None) -> list[TopicPart]:
        """The parts of one partition; None: those of none."""
        return [part for part in self.parts if part.partition == partition]

    def totals(self) -> str:
        """How many parts of each kind there are, and their stored bytes, in words."""
        counts: Counter[PartKind] = Counter(part.kind for part in self.parts if part.kind is not PartKind.LOG_START)
        stored: Counter[PartKind] = Counter()
        for part in self.parts:
            stored[part.kind] += part.stored_bytes or 0
        told = (
            f"{kind.value} {counts[kind]}" + (f" ({stored[kind]:,} bytes stored)" if stored[kind] else "")
            for kind in PartKind
            if counts[kind]
        )
        month = sum(part.month_dollars or 0 for part in self.parts)
        read = sum(part.read_dollars or 0 for part in self.parts if part.kind is PartKind.REMOTE)
        return (
            f"{self.topic}: partitions {len(self.partitions)}; {', '.join(told)}; "
            f"{in_dollars(month)} a month, {in_dollars(read)} to read what is remote once"
        )


@attrs.frozen
class PartitionFacts:
    """What is known of one partition.

    ``segments``: as ``ls`` lists them. ``stored``: bytes of all objects by segment id. ``verdicts``: what the metadata topic
    says of a segment's objects, by segment id; empty if it was not read. ``missing``: finished segments without objects.
    ``undecided``: where readers of committed records stop; None = at the tier's end. ``bounds``: None without a broker.
    """

    topic: str
    partition: int
    segments: Sequence[SegmentLine] = ()
    stored: Mapping[str, int] = attrs.field(factory=dict)
    verdicts: Mapping[str, Problem | CopyState] = attrs.field(factory=dict)
    missing: Sequence[RemoteLogSegmentMetadata] = ()
    undecided: int | None = None
    bounds: OffsetsLine | None = None


def partition_parts(facts: PartitionFacts, storage: StorageClass) -> list[TopicPart]:
    """The time line of one partition, by start offset. ``storage``: the class of the tier's objects."""
    log_start = None if facts.bounds is None else facts.bounds.start_offset
    parts = _unhidden([_segment(facts, line, log_start) for line in facts.segments])
    parts += [_missing(facts, segment) for segment in facts.missing]
    held = [_span(part) for part in parts if part.kind is PartKind.REMOTE]
    tier_end = max((end for _, end in held), default=None)
    begin, end = log_start, tier_end
    if facts.bounds is not None and facts.bounds.earliest_local is not None and facts.bounds.end_offset is not None:
        local, end = facts.bounds.earliest_local, facts.bounds.end_offset
        if local < end:
            held.append((local, end))
            parts.append(_part(facts, PartKind.LOCAL, local, end - 1))
    if begin is not None:
        parts.append(_part(facts, PartKind.LOG_START, begin))
    parts += [_part(facts, PartKind.GAP, *gap) for gap in _gaps(held, begin, end)]
    if facts.undecided is not None and tier_end is not None and facts.undecided < tier_end:
        note = "a transaction begins here that the tier does not decide"
        parts.append(attrs.evolve(_part(facts, PartKind.UNDECIDED, facts.undecided, tier_end - 1), note=note))
    order = list(PartKind)
    parts.sort(key=lambda part: (part.start_offset or 0, order.index(part.kind), part.segment_id or ""))
    logs = {line.segment_id: line.stored_bytes for line in facts.segments}
    return [_priced(part, logs.get(part.segment_id or "", 0), storage) for part in parts]


def _part(facts: PartitionFacts, kind: PartKind, start: int, end: int | None = None) -> TopicPart:
    return TopicPart(facts.topic, facts.partition, kind, start, end)


def _segment(facts: PartitionFacts, line: SegmentLine, log_start: int | None) -> TopicPart:
    kind, note = _kind(line, facts.verdicts.get(line.segment_id))
    if kind is PartKind.REMOTE and log_start is not None and line.end_offset is not None and line.end_offset < log_start:
        note = _BEFORE_START
    return TopicPart(
        facts.topic,
        facts.partition,
        kind,
        line.start_offset,
        line.end_offset,
        line.segment_id,
        line.bytes,
        facts.stored.get(line.segment_id, line.stored_bytes),
        note=note,
    )


def _unhidden(parts: Sequence[TopicPart]) -> list[TopicPart]:
    """Returns the segments, where one that only an orphan hid is remote: a listing may prefer the orphan, brokers do not."""
    held = [_span(part) for part in parts if part.kind is PartKind.REMOTE]
    orphans = [_span(part) for part in parts if part.kind is PartKind.ORPHAN and part.end_offset is not None]
    shown = list(parts)
    for at, part in enumerate(parts):
        if part.kind is PartKind.DUPLICATE:
            start, end = _span(part)
            if _within(orphans, start, end) and any(_gaps(_within(held, start, end), start, end)):
                shown[at] = attrs.evolve(part, kind=PartKind.REMOTE, note=None)
                held.append((start, end))
    return shown


def _within(spans: Iterable[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    return [one for one in spans if one[0] < end and start < one[1]]


def _kind(line: SegmentLine, verdict: Problem | CopyState | None) -> tuple[PartKind, str | None]:
    """The metadata topic decides first: what it does not call finished is no segment of the log."""
    incomplete = line.state.partition("incomplete: ")[2]
    if verdict is CopyState.BUSY:
        return PartKind.BUSY, None
    if isinstance(verdict, Problem):
        return PartKind.INCOMPLETE if verdict.kind in _UNFINISHED else PartKind.ORPHAN, verdict.message
    if incomplete:
        return PartKind.INCOMPLETE, incomplete
    return (PartKind.REMOTE, None) if line.state == "live" else (PartKind.DUPLICATE, _NO_READER)


def _priced(part: TopicPart, log_bytes: int, storage: StorageClass) -> TopicPart:
    """``log_bytes``: those of the stored log, which a plugin may compress. They are what the store sends and charges for."""
    if not part.stored_bytes:
        return part
    month = part.stored_bytes / GB * storage.per_gb_month
    if part.kind is not PartKind.REMOTE or not part.bytes:
        return attrs.evolve(part, month_dollars=month)
    read = Prices(storage.per_1000_gets, storage.retrieval_per_gb).of(gets_of(part.bytes, _RANGE_BYTES), log_bytes)
    return attrs.evolve(part, month_dollars=month, read_dollars=read)


def _missing(facts: PartitionFacts, segment: RemoteLogSegmentMetadata) -> TopicPart:
    return TopicPart(
        facts.topic,
        facts.partition,
        PartKind.MISSING,
        segment.start_offset,
        segment.end_offset,
        uuid_to_text(segment.remote_log_segment_id.id),
        segment.segment_size_in_bytes,
        0,
        note="none of its objects exists",
    )


def _span(part: TopicPart) -> tuple[int, int]:
    assert part.start_offset is not None
    assert part.end_offset is not None
    return part.start_offset, part.end_offset + 1


def _gaps(held: Iterable[tuple[int, int]], begin: int | None, end: int | None) -> Iterator[tuple[int, int]]:
    """Inclusive bounds of what no span holds, from ``begin`` (None: the first span) to ``end`` exclusive."""
    at = begin
    for start, stop in sorted(held):
        if at is not None and start > at:
            yield at, start - 1
        at = stop if at is None else max(at, stop)
    if at is not None and end is not None and at < end:
        yield at, end - 1
