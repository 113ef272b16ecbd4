"""Dialect "tagged-1": how a client asks where an offset lies, and how a peer grants the location, on Fetch 12-18.

The schema of KIP-1248 is not public and no broker speaks it, so its fields travel as tagged fields, which a broker that does
not know them skips unread (KIP-482). Numbers start at the KIP's times ten; values use the flexible encoding::

    tag   | in             | name                             | value
    12480 | FetchRequest   | SupportedStorageFormatVersions   | ARRAY of STRING
    12481 | FetchPartition | RemoteLogSegmentLocationRequested| BOOLEAN
    12490 | FetchPartition | RemoteLogSegmentMaxBytes         | INT64, requested size of the window
    12482 | PartitionData  | RemoteLogSegmentId               | UUID; its presence is the grant
    12483 | PartitionData  | RemoteLogSegmentCustomMetadata   | BYTES, of the one range of 12484
    12484 | PartitionData  | RemoteLogSegmentRange            | StartPosition i32 | EndPosition i32 exclusive, -1 = segment size
          |                |                                  | | SegmentSize i32 | StartOffset i64 | EndOffset i64 incl. | TAGS
    12485 | PartitionData  | RemoteLogSegmentFormat           | STRING, one of those offered
    12486 | PartitionData  | RemoteLogSegmentLeaderEpochs     | ARRAY of Epoch i32 | StartOffset i64 | TAGS
    12487 | PartitionData  | RemoteLogLocationExpiresInMs     | INT64, life left when the answer was written; absent = no end
    12488 | PartitionData  | RemoteLogSegmentRanges           | ARRAY of StartPosition i32 | EndPosition i32
          |                |                                  | | CustomMetadata BYTES | TAGS; for several, without 12483
    12489 | PartitionData  | RemoteLogSegmentNextOffset       | INT64, first offset after the last range; absent = EndOffset + 1
          |                |                                  | when the ranges reach the segment's end
    12491 | FetchPartition | RemoteLogSegmentEndOffset        | INT64, first offset after the read, -1 = no bound
    12494 | FetchPartition | RemoteLogSegmentRangeBytes       | INT64, requested size of one range; absent = an eighth of 12490
    12492 | PartitionData  | RemoteLogLocationPending         | BOOLEAN, true: the look-up goes on, ask again
    12493 | PartitionData  | RemoteLogSegmentRangeOffsets     | ARRAY of INT64, one for each range: no record of the range is
          |                |                                  | below it
    12495 | FetchPartition | RemoteLogSegmentLargePositions   | BOOLEAN, true: the client understands 12496 and 12497
    12496 | PartitionData  | RemoteLogSegmentLargeRange       | 12484 with StartPosition, EndPosition and SegmentSize i64
    12497 | PartitionData  | RemoteLogSegmentLargeRanges      | 12488 with StartPosition and EndPosition i64
    12498 | FetchPartition | RemoteLogSegmentListStart        | INT64, list the segments from this offset on instead
    12499 | PartitionData  | RemoteLogSegmentList             | entries of 68 bytes (segment_list.py); its presence is the list
    12500 | PartitionData  | RemoteLogSegmentListNext         | INT64, the offset to ask from for the rest; absent = complete

A client that sends 12491 may name several partitions in one Fetch and understands 12492 and 12493. A peer sends these, and
answers several partitions, only to such a client.

A client that sends 12498 beside 12481 and 12491 asks for a list of segments, and for no location. A list grants nothing.

Positions of 32 bits reach 2 GiB. A grant in a larger segment (KIP-1333) has 12496 instead of 12484, and 12497 instead of 12488.
A peer sends these only to a client that sent 12495; it grants no such segment to others. All other grants stay as they are.

Aborted transactions, high watermark, last stable offset and log start travel in Fetch's own fields.

**Expiry is a duration.** Neither side's wall clock is trusted: the peer states the milliseconds that remain, and the client
counts them on its monotonic clock *from the moment it sent the request*. That moment lies before the grant was made, so the
client's deadline is never later than the true one, by at most the round trip.

Everything is behind one object, so that KIP-1248's own fields can become a second dialect.

References: KIP-1248, KIP-1254, KIP-482, docs/wire-format.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeVar
from uuid import UUID

import attrs

from kafka_remote_client.errors import ProtocolError, UnsupportedFormatError
from kafka_remote_client.model import ByteRange, EpochEntry, GrantedRange
from kafka_remote_client.protocol.segment_list import SegmentEntry, decode_entries, encode_entries
from kafka_remote_client.wire import NO_TAGS, ZERO_UUID, Reader, TaggedFields, Writer

__all__ = [
    "MOST_PARTITIONS",
    "LocationRequest",
    "SegmentGrant",
    "SegmentPage",
    "TaggedDialect",
    "may_request_location",
    "needs_large_positions",
]

_T = TypeVar("_T")

_FORMATS = 12480
_REQUESTED = 12481
_SEGMENT_ID = 12482
_CUSTOM_METADATA = 12483
_RANGE = 12484
_FORMAT = 12485
_LEADER_EPOCHS = 12486
_EXPIRES_IN_MS = 12487
_RANGES = 12488
_NEXT_OFFSET = 12489
_MAX_BYTES = 12490
_END_OFFSET = 12491
_PENDING = 12492
_RANGE_OFFSETS = 12493
_RANGE_BYTES = 12494
_LARGE_POSITIONS = 12495
_LARGE_RANGE = 12496
_LARGE_RANGES = 12497
_LIST_START = 12498
_LIST = 12499
_LIST_NEXT = 12500
_OF_REQUESTS = frozenset({_FORMATS, _REQUESTED, _MAX_BYTES, _END_OFFSET, _RANGE_BYTES, _LARGE_POSITIONS, _LIST_START})
_HIGHEST_POSITION = (1 << 31) - 1
_UNBOUNDED = -1

MOST_PARTITIONS = 128
"""The most partitions whose locations one Fetch may ask for."""

_TO_SEGMENT_END = -1
_FLAG_BYTES = b"\xc1\x61\x01\x01"


@attrs.frozen
class LocationRequest:
    """What a client asks for one partition: in which formats, whether at all, and how many bytes (0 = the peer's choice).

    ``end_offset``: the first offset after the read; ``None`` = no bound. ``batched``: the client says whether
    there is a bound (tag 12491), so it understands pending answers, range offsets and answers for several partitions.
    ``range_bytes``: size of one range (0 = the peer's choice). ``large_positions``: the client understands 64-bit positions.
    ``list_start``: the client asks for the segments from this offset on, and for no location; only together with ``batched``.
    """

    format_versions: tuple[str, ...]
    requested: bool = True
    max_bytes: int = 0
    end_offset: int | None = None
    batched: bool = False
    range_bytes: int = 0
    large_positions: bool = False
    list_start: int | None = None


@attrs.frozen
class SegmentGrant:
    """What a peer grants: a window of ranges in one segment.

    ``ranges`` tile and lie inside ``segment_size``; ``end_offset`` is inclusive; ``next_offset`` is the first offset after the
    last range; ``expires_in_ms`` counts from when the peer wrote the answer, ``None`` = no end.
    """

    segment_id: UUID
    format: str
    ranges: tuple[GrantedRange, ...]
    segment_size: int
    start_offset: int
    end_offset: int
    leader_epochs: tuple[EpochEntry, ...]
    next_offset: int
    expires_in_ms: int | None = None

    @property
    def span(self) -> ByteRange:
        """All ranges as one."""
        return ByteRange(self.ranges[0].range.start, self.ranges[-1].range.end)

    @property
    def is_large(self) -> bool:
        """Whether the grant has positions of 64 bits, which only some clients can read."""
        return needs_large_positions(self.segment_size)


@attrs.frozen
class SegmentPage:
    """A part of the list of a partition's segments. ``next_start``: the offset to ask from for the rest; ``None`` = none."""

    entries: tuple[SegmentEntry, ...]
    next_start: int | None = None


class TaggedDialect:
    """Translates between values and tagged fields. Stateless.

    Readers raise ProtocolError for fields that do not parse or contradict each other. They skip nested tagged fields that they
    do not know; writers never write any, because other implementations refuse them.
    """

    name = "tagged-1"
    fetch_versions = range(12, 19)

    def request_tags(self, request: LocationRequest) -> tuple[TaggedFields, TaggedFields]:
        """The tagged fields of the FetchRequest itself and of its FetchPartition; defaults are left out."""
        root: dict[int, bytes] = {}
        partition: dict[int, bytes] = {}
        if request.format_versions:
            root[_FORMATS] = _written(lambda w: w.array(request.format_versions, w.string))
        if request.requested:
            partition[_REQUESTED] = _written(lambda w: w.boolean(True))
        if request.max_bytes:
            partition[_MAX_BYTES] = _written(lambda w: w.int64(request.max_bytes))
        if request.batched:
            end_offset = _UNBOUNDED if request.end_offset is None else request.end_offset
            partition[_END_OFFSET] = _written(lambda w: w.int64(end_offset))
        if request.range_bytes:
            partition[_RANGE_BYTES] = _written(lambda w: w.int64(request.range_bytes))
        if request.large_positions:
            partition[_LARGE_POSITIONS] = _written(lambda w: w.boolean(True))
        if request.list_start is not None:
            partition[_LIST_START] = request.list_start.to_bytes(8, "big")
        return root, partition

    def read_request(self, root: TaggedFields, partition: TaggedFields) -> LocationRequest:
        """The inverse of :meth:`request_tags`; other tags are ignored. Raises ProtocolError."""
        max_bytes = _read(partition, _MAX_BYTES, Reader.int64, 0)
        if max_bytes < 0:
            raise ProtocolError(f"a location request has a negative window: {max_bytes}")
        end_offset = _read(partition, _END_OFFSET, Reader.int64, _UNBOUNDED)
        if end_offset < _UNBOUNDED:
            raise ProtocolError(f"a location request has a negative end offset: {end_offset}")
        range_bytes = _read(partition, _RANGE_BYTES, Reader.int64, 0)
        if range_bytes < 0:
            raise ProtocolError(f"a location request has negative range_bytes: {range_bytes}")
        list_start = _read(partition, _LIST_START, Reader.int64, None)
        if list_start is not None and (list_start < 0 or _END_OFFSET not in partition):
            raise ProtocolError(f"a request for a list of segments from offset {list_start} is negative, or not of a batch")
        return LocationRequest(
            _read(root, _FORMATS, lambda r: r.array(r.string), ()),
            _read(partition, _REQUESTED, Reader.boolean, False),
            max_bytes,
            None if end_offset == _UNBOUNDED else end_offset,
            batched=_END_OFFSET in partition,
            range_bytes=range_bytes,
            large_positions=_read(partition, _LARGE_POSITIONS, Reader.boolean, False),
            list_start=list_start,
        )

    def pending_tags(self) -> TaggedFields:
        """The tagged fields of a PartitionData whose location is still being looked up."""
        return {_PENDING: _written(lambda w: w.boolean(True))}

    def is_pending(self, tags: TaggedFields) -> bool:
        """Whether the location of a PartitionData is still being looked up. Raises ProtocolError."""
        return _read(tags, _PENDING, Reader.boolean, False)

    def page_tags(self, page: SegmentPage) -> TaggedFields:
        """The tagged fields of PartitionData that carry a list. Raises ProtocolError where :meth:`read_page` would."""
        following = page.next_start
        _check_page(page)
        return {_LIST: encode_entries(page.entries)} | ({} if following is None else {_LIST_NEXT: following.to_bytes(8, "big")})

    def read_page(self, tags: TaggedFields, list_start: int) -> SegmentPage | None:
        """The list of segments from ``list_start`` on in a PartitionData; ``None`` when there is none. Raises ProtocolError."""
        if _LIST not in tags:
            return None
        page = SegmentPage(tuple(decode_entries(tags[_LIST])), _read(tags, _LIST_NEXT, Reader.int64, None))
        _check_page(page)
        if page.entries and page.entries[0].first_offset < list_start:
            raise ProtocolError(f"a list of segments from offset {list_start} begins at {page.entries[0].first_offset}")
        return page

    def strip_request(self, tags: TaggedFields) -> TaggedFields:
        """The tags of a FetchRequest or FetchPartition without this dialect's own."""
        return {tag: value for tag, value in tags.items() if tag not in _OF_REQUESTS}

    def grant_tags(self, grant: SegmentGrant) -> TaggedFields:
        """The tagged fields of PartitionData that carry the grant. Raises ProtocolError where :meth:`read_grant` would."""
        _check(grant)
        return _grant_fields(grant)

    def expiring(self, tags: TaggedFields, milliseconds: int) -> TaggedFields:
        """The tagged fields of a grant whose life ends after ``milliseconds``."""
        return {**tags, _EXPIRES_IN_MS: _written(lambda w: w.int64(milliseconds))}

    def read_grant(self, tags: TaggedFields, offered: Sequence[str]) -> SegmentGrant | None:
        """The grant in the tagged fields of a PartitionData; ``None`` when it is an ordinary answer.

        Raises UnsupportedFormatError when the format is none of ``offered``; ProtocolError for anything else that is wrong.
        """
        if _SEGMENT_ID not in tags:
            return None
        name = _required(tags, _FORMAT, Reader.string)
        if name not in offered:
            raise UnsupportedFormatError("the peer grants a storage format that this client did not offer")
        large = _LARGE_RANGE in tags
        if large and (_RANGE in tags or _RANGES in tags):
            raise ProtocolError("a grant has positions of 32 and of 64 bits")
        span_tag, ranges_tag = (_LARGE_RANGE, _LARGE_RANGES) if large else (_RANGE, _RANGES)
        position = Reader.int64 if large else Reader.int32
        start, end, size, start_offset, end_offset = _required(tags, span_tag, partial(_read_range, position))
        next_offset = _read(tags, _NEXT_OFFSET, Reader.int64, end_offset + 1 if end == size else None)
        if next_offset is None:
            raise ProtocolError("a grant that ends inside its segment has no next offset")
        custom_metadata = _read(tags, _CUSTOM_METADATA, Reader.nullable_bytes, None) or None
        ranges = _read(tags, ranges_tag, lambda r: r.array(partial(_read_granted, position, r)), None)
        if ranges is None:
            ranges = (_granted(start, end, custom_metadata),)
        elif custom_metadata is not None:
            raise ProtocolError("a grant of several ranges has custom metadata outside them")
        ranges = _with_offsets(ranges, _read(tags, _RANGE_OFFSETS, lambda r: r.array(r.int64), None))
        grant = SegmentGrant(
            segment_id=_required(tags, _SEGMENT_ID, Reader.uuid),
            format=name,
            ranges=ranges,
            segment_size=size,
            start_offset=start_offset,
            end_offset=end_offset,
            leader_epochs=_required(tags, _LEADER_EPOCHS, lambda r: r.array(partial(_read_epoch, r))),
            next_offset=next_offset,
            expires_in_ms=_read(tags, _EXPIRES_IN_MS, Reader.int64, None),
        )
        _check(grant)
        if (grant.span.start, grant.span.end) != (start, end):
            raise ProtocolError(f"the granted ranges cover {grant.span}, the grant says [{start}, {end})")
        return grant


def _grant_fields(grant: SegmentGrant) -> TaggedFields:
    """The fields of a grant, whatever is in it."""
    span = grant.span
    span_tag, ranges_tag = (_LARGE_RANGE, _LARGE_RANGES) if grant.is_large else (_RANGE, _RANGES)
    position = Writer.int64 if grant.is_large else Writer.int32
    tags = {
        _SEGMENT_ID: grant.segment_id.bytes,
        span_tag: _written(lambda w: _write_range(position, w, span, grant)),
        _FORMAT: _written(lambda w: w.string(grant.format)),
        _LEADER_EPOCHS: _written(lambda w: w.array(grant.leader_epochs, partial(_write_epoch, w))),
        _NEXT_OFFSET: _written(lambda w: w.int64(grant.next_offset)),
    }
    if len(grant.ranges) > 1:
        tags[ranges_tag] = _written(lambda w: w.array(grant.ranges, partial(_write_granted, position, w)))
    elif grant.ranges[0].custom_metadata:
        tags[_CUSTOM_METADATA] = _written(lambda w: w.nullable_bytes(grant.ranges[0].custom_metadata))
    offsets = [granted.first_offset for granted in grant.ranges if granted.first_offset is not None]
    if len(offsets) == len(grant.ranges):
        tags[_RANGE_OFFSETS] = _written(lambda w: w.array(offsets, w.int64))
    if grant.expires_in_ms is not None:
        tags[_EXPIRES_IN_MS] = _written(lambda w: w.int64(grant.expires_in_ms or 0))
    return tags


def needs_large_positions(segment_size: int) -> bool:
    """Whether a segment of that many bytes has positions that need more than 32 bits."""
    return segment_size > _HIGHEST_POSITION


def may_request_location(frame: bytes | bytearray | memoryview) -> bool:
    """Whether a Fetch request could ask for a location: a search that reads nothing else.

    False is certain; True may be chance, so the request is then decoded. The bytes are FetchPartition's tag 12481 set to true.
    """
    return _FLAG_BYTES in (bytes(frame) if isinstance(frame, memoryview) else frame)


def _check(grant: SegmentGrant) -> None:
    """The rules that every grant keeps, on both sides of the wire."""
    if grant.segment_id == ZERO_UUID:
        raise ProtocolError("a grant has no segment id")
    if not grant.ranges:
        raise ProtocolError("a grant has no range")
    for one, following in pairwise(grant.ranges):
        if one.range.end != following.range.start:
            raise ProtocolError(f"granted ranges do not tile: {one.range}, {following.range}")
    if grant.span.end > grant.segment_size:
        raise ProtocolError(f"granted bytes {grant.span} are outside of a segment of {grant.segment_size} bytes")
    if not 0 <= grant.start_offset < grant.next_offset <= grant.end_offset + 1:
        raise ProtocolError(
            f"a grant's next offset {grant.next_offset} is not in its segment [{grant.start_offset}, {grant.end_offset}]"
        )
    offsets = [granted.first_offset for granted in grant.ranges if granted.first_offset is not None]
    if offsets and not grant.start_offset <= offsets[0] <= offsets[-1] < grant.next_offset:
        raise ProtocolError(
            f"a grant's range offsets [{offsets[0]}, {offsets[-1]}] are not in [{grant.start_offset}, next offset)"
        )
    if any(one > following for one, following in pairwise(offsets)):
        raise ProtocolError("a grant's range offsets decrease")
    epochs = grant.leader_epochs
    if not epochs or epochs[0].epoch < 0:
        raise ProtocolError("a grant has no leader epochs")
    if any(one.epoch >= other.epoch or one.start_offset >= other.start_offset for one, other in pairwise(epochs)):
        raise ProtocolError("a grant's leader epochs do not increase")
    if epochs[0].start_offset < grant.start_offset or epochs[-1].start_offset > grant.end_offset:
        raise ProtocolError("a grant's leader epochs are outside of its segment")


def _check_page(page: SegmentPage) -> None:
    """A list that goes on says where, and has an entry: so each request of a client gets nearer to the end."""
    if page.next_start is not None and not (page.entries and page.entries[-1].next_offset == page.next_start):
        raise ProtocolError(f"a list of {len(page.entries)} segments continues at {page.next_start}, not where it ends")


def _written(write: Callable[[Writer], None]) -> bytes:
    writer = Writer(flexible=True)
    write(writer)
    return writer.getvalue()


def _read(tags: TaggedFields, tag: int, read: Callable[[Reader], _T], default: _T) -> _T:
    """One tagged field's value; it has to fill the field's bytes exactly."""
    if tag not in tags:
        return default
    reader = Reader(tags[tag], flexible=True)
    value = read(reader)
    reader.expect_end()
    return value


def _required(tags: TaggedFields, tag: int, read: Callable[[Reader], _T]) -> _T:
    value = _read(tags, tag, read, None)
    if value is None:
        raise ProtocolError(f"a grant lacks tagged field {tag}")
    return value


def _granted(start: int, end: int, custom_metadata: bytes | None) -> GrantedRange:
    try:
        return GrantedRange(ByteRange(start, end), custom_metadata or None)
    except ValueError:
        raise ProtocolError(f"a granted range is empty or negative: [{start}, {end})") from None


def _with_offsets(ranges: tuple[GrantedRange, ...], offsets: tuple[int, ...] | None) -> tuple[GrantedRange, ...]:
    if offsets is None:
        return ranges
    if len(offsets) != len(ranges):
        raise ProtocolError(f"a grant of {len(ranges)} ranges has {len(offsets)} range offsets")
    return tuple(attrs.evolve(granted, first_offset=offset) for granted, offset in zip(ranges, offsets, strict=True))


def _write_range(position: Callable[[Writer, int], None], writer: Writer, span: ByteRange, grant: SegmentGrant) -> None:
    position(writer, span.start)
    position(writer, span.end)
    position(writer, grant.segment_size)
    writer.int64(grant.start_offset)
    writer.int64(grant.end_offset)
    writer.tagged_fields(NO_TAGS)


def _read_range(position: Callable[[Reader], int], reader: Reader) -> tuple[int, int, int, int, int]:
    start, end, size = position(reader), position(reader), position(reader)
    start_offset, end_offset = reader.int64(), reader.int64()
    reader.tagged_fields()
    return start, size if end == _TO_SEGMENT_END else end, size, start_offset, end_offset


def _write_epoch(writer: Writer, entry: EpochEntry) -> None:
    writer.int32(entry.epoch)
    writer.int64(entry.start_offset)
    writer.tagged_fields(NO_TAGS)


def _read_epoch(reader: Reader) -> EpochEntry:
    entry = EpochEntry(reader.int32(), reader.int64())
    reader.tagged_fields()
    return entry


def _write_granted(position: Callable[[Writer, int], None], writer: Writer, granted: GrantedRange) -> None:
    position(writer, granted.range.start)
    position(writer, granted.range.end)
    writer.bytes_(granted.custom_metadata or b"")
    writer.tagged_fields(NO_TAGS)


def _read_granted(position: Callable[[Reader], int], reader: Reader) -> GrantedRange:
    granted = _granted(position(reader), position(reader), reader.bytes_())
    reader.tagged_fields()
    return granted
