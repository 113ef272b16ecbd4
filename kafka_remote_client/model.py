"""The values that travel between the packages: frozen, slotted, without behaviour beyond their own arithmetic.

Names and meanings are Kafka's (``org.apache.kafka.server.log.remote.storage``) and KIP-1254's.

References: KIP-405, KIP-1248, KIP-1254.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from operator import itemgetter
from typing import NamedTuple
from uuid import UUID, uuid4

import attrs

from kafka_remote_client.errors import DirectFetchError

__all__ = [
    "NO_EXPIRY",
    "UNKNOWN_EPOCH",
    "UNKNOWN_OFFSET",
    "AbortedTransaction",
    "ByteRange",
    "EpochEntry",
    "GrantedRange",
    "IsolationLevel",
    "LocationAnswer",
    "LocationPending",
    "NotRemote",
    "PartitionOffsets",
    "RemoteLogSegmentId",
    "RemoteLogSegmentMetadata",
    "RemoteLogSegmentState",
    "SegmentLocation",
    "TopicIdPartition",
    "TopicPartition",
    "in_offset_order",
    "is_epoch_possible",
    "random_uuid",
    "uuid_from_text",
    "uuid_to_text",
]

UNKNOWN_OFFSET = -1
UNKNOWN_EPOCH = -1
NO_EXPIRY = float("inf")


_NOT_URL_SAFE = str.maketrans("+/", "==")


def random_uuid() -> UUID:
    """A new id as Kafka's Uuid.randomUuid makes it: its text never begins with a dash, which would look like an option."""
    while (drawn := uuid4()).bytes[0] >> 2 == 0b111110:
        pass
    return drawn


def uuid_to_text(value: UUID) -> str:
    """Kafka's text form of a Uuid: base64url of the 16 bytes without padding, always 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> UUID:
    """The inverse of :func:`uuid_to_text`. Raises ValueError for anything but 22 base64url characters."""
    if len(text) != 22:
        raise ValueError(f"a Kafka Uuid has 22 characters, not {len(text)}")
    try:
        # b64decode takes "+" and "/" beside the alternative characters, so they are ruled out by hand.
        raw = base64.b64decode(text.translate(_NOT_URL_SAFE).encode("ascii") + b"==", altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise ValueError(f"not a Kafka Uuid: {text!r}") from None
    return UUID(bytes=raw)


class IsolationLevel(IntEnum):
    """``isolation.level`` under the numbers of the Fetch request."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class RemoteLogSegmentState(IntEnum):
    """Kafka's RemoteLogSegmentState under its wire numbers."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class TopicPartition(NamedTuple):
    """A partition by name and number; unlike librdkafka's it can be pickled."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@attrs.frozen(cache_hash=True)
class TopicIdPartition:
    """A partition of one incarnation of a topic: a re-created topic has another ``topic_id``."""

    topic_id: UUID
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} ({uuid_to_text(self.topic_id)})"


@attrs.frozen
class RemoteLogSegmentId:
    """The identity of one copy attempt of a segment: each attempt draws a new ``id``."""

    topic_id_partition: TopicIdPartition
    id: UUID

    def __str__(self) -> str:
        return f"{self.topic_id_partition}/{uuid_to_text(self.id)}"


@attrs.frozen
class EpochEntry:
    """A leader epoch and the first offset written in it."""

    epoch: int
    start_offset: int


def is_epoch_possible(epochs: Sequence[tuple[int, int]], epoch: int, first_offset: int, last_offset: int) -> bool:
    """Whether a batch with those offsets may have that leader epoch.

    ``epochs``: (leader epoch, start offset) pairs of a segment or a log, rising. DeleteRecords moves the first pair to the
    log's start, so a batch below it has its epoch or an earlier one. Without any pair no epoch is known.
    """
    if epochs and last_offset < epochs[0][1]:
        return 0 <= epoch <= epochs[0][0]
    at = bisect_right(epochs, first_offset, key=itemgetter(1))
    return epoch == (epochs[max(at - 1, 0)][0] if epochs else UNKNOWN_EPOCH)


@attrs.frozen
class AbortedTransaction:
    """As in a Fetch response: the producer and the first offset of a transaction that was aborted."""

    producer_id: int
    first_offset: int


def in_offset_order(transactions: Iterable[AbortedTransaction]) -> tuple[AbortedTransaction, ...]:
    """The transactions in the order of their first offsets."""
    return tuple(sorted(transactions, key=lambda one: (one.first_offset, one.producer_id)))


@attrs.frozen
class ByteRange:
    """Bytes ``[start, end)`` of the original segment. Raises ValueError unless ``0 <= start < end``."""

    start: int = attrs.field()
    end: int = attrs.field()

    @end.validator
    def _check(self, _attribute: object, end: int) -> None:
        if not 0 <= self.start < end:
            raise ValueError(f"not a byte range: [{self.start}, {end})")

    @property
    def size(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"


def _redacted(value: bytes | None) -> str:
    return "None" if value is None else f"<{len(value)} bytes>"


@attrs.frozen
class RemoteLogSegmentMetadata:
    """What ``__remote_log_metadata`` says about a segment; also the argument of a fetcher.

    ``end_offset`` is inclusive. ``segment_leader_epochs`` is never empty and rises in both fields; its first entry starts
    at ``start_offset``, or later if DeleteRecords moved the log's start into the segment before its upload.
    ``custom_metadata`` is opaque and may hold a signed URL: its ``repr`` is redacted.
    ``broker_leader_epoch``: the epoch of the leader that copies it (KIP-1266); UNKNOWN_EPOCH in today's records.
    """

    remote_log_segment_id: RemoteLogSegmentId
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    segment_leader_epochs: tuple[EpochEntry, ...]
    segment_size_in_bytes: int
    custom_metadata: bytes | None = attrs.field(default=None, repr=_redacted)
    state: RemoteLogSegmentState = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    txn_index_empty: bool = False
    broker_leader_epoch: int = UNKNOWN_EPOCH

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return self.remote_log_segment_id.topic_id_partition

    def epoch_end(self, index: int) -> int:
        """Last offset (inclusive) of the epoch at ``index`` of ``segment_leader_epochs`` inside this segment."""
        following = index + 1
        if following < len(self.segment_leader_epochs):
            return self.segment_leader_epochs[following].start_offset - 1
        return self.end_offset

    def epoch_for_offset(self, offset: int) -> int:
        """The leader epoch that wrote ``offset``; UNKNOWN_EPOCH when the offset is outside the segment."""
        if not self.start_offset <= offset <= self.end_offset:
            return UNKNOWN_EPOCH
        found = UNKNOWN_EPOCH
        for entry in self.segment_leader_epochs:
            if entry.start_offset > offset:
                break
            found = entry.epoch
        return found

    def with_custom_metadata(self, custom_metadata: bytes | None) -> RemoteLogSegmentMetadata:
        return attrs.evolve(self, custom_metadata=custom_metadata)


@attrs.frozen
class GrantedRange:
    """One range of a grant with what its fetcher needs to read it (redacted: it may hold a signed URL).

    ``first_offset``: no record of the range is below it; ``None`` = not known.
    """

    range: ByteRange
    custom_metadata: bytes | None = attrs.field(default=None, repr=_redacted)
    first_offset: int | None = None


@attrs.frozen
class PartitionOffsets:
    """Where the two tiers of a partition begin and end. -1 = not known (or, for ``latest_tiered``, nothing tiered).

    ``earliest_local`` is the local log start (ListOffsets -4), ``latest_tiered`` inclusive (ListOffsets -5). ``last_stable`` is
    known once there was a grant.
    """

    log_start: int = UNKNOWN_OFFSET
    earliest_local: int = UNKNOWN_OFFSET
    latest_tiered: int = UNKNOWN_OFFSET
    high_watermark: int = UNKNOWN_OFFSET
    last_stable: int = UNKNOWN_OFFSET

    def with_location(self, location: SegmentLocation) -> PartitionOffsets:
        """These bounds, updated by a newer grant."""
        if UNKNOWN_OFFSET in (location.log_start_offset, location.high_watermark):
            return self
        return attrs.evolve(
            self,
            log_start=location.log_start_offset,
            high_watermark=location.high_watermark,
            last_stable=location.last_stable_offset,
        )


@attrs.frozen
class SegmentLocation:
    """A grant: where the records from ``fetch_offset`` on lie, and everything needed to filter them.

    ``ranges`` tile: each starts where the one before it ends, and the first begins at or before the batch that holds
    ``fetch_offset``. ``next_offset`` is the first offset after the last range. ``aborted_transactions`` is complete for all
    offsets below ``next_offset`` and was collected from ``fetch_offset``, so it serves a read that starts there and no
    other; ``None`` = unknown, which a read_committed reader must not accept. ``expires_at`` is on the monotonic clock, in
    seconds. ``range_signed`` = each range can only be read whole. ``compacted``: the topic's ``cleanup.policy`` has compact, so
    gaps between batches are no damage.
    """

    metadata: RemoteLogSegmentMetadata
    format: str
    fetch_offset: int
    ranges: tuple[GrantedRange, ...]
    next_offset: int
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    high_watermark: int = UNKNOWN_OFFSET
    last_stable_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    expires_at: float = NO_EXPIRY
    range_signed: bool = False
    throttle_time_ms: int = 0
    compacted: bool = False

    @property
    def span(self) -> ByteRange:
        """All ranges as one."""
        return ByteRange(self.ranges[0].range.start, self.ranges[-1].range.end)

    def metadata_for(self, granted: GrantedRange) -> RemoteLogSegmentMetadata:
        """The segment's metadata with that range's bytes in place of the segment's own: what its fetcher gets."""
        return self.metadata.with_custom_metadata(granted.custom_metadata)

    def __iter__(self) -> Iterator[GrantedRange]:
        return iter(self.ranges)


@attrs.frozen
class LocationPending:
    """No answer yet: the look-up is not finished, and the caller must ask again. Neither an error nor a refusal."""


@attrs.frozen
class NotRemote:
    """No grant: the broker serves this offset. ``reason`` is a short name that metrics count by.

    ``out_of_range`` = the offset is outside the log, which only the broker may tell the application. ``error`` is set where the
    reason is a mistake that the user must correct; its text says which. ``topic_id``: of the leader's topic, if it answered for
    an id; zeros = not known. Neither counts for equality.
    """

    reason: str
    offsets: PartitionOffsets = PartitionOffsets()
    out_of_range: bool = False
    error: DirectFetchError | None = attrs.field(default=None, eq=False)
    topic_id: UUID = attrs.field(default=UUID(int=0), eq=False)


LocationAnswer = SegmentLocation | NotRemote | LocationPending | DirectFetchError
"""The answer to a question for a location."""
