"""The progress of one grant: ranges in flight, ranges that have arrived, and verified bytes. Pure (no I/O).

Ranges land in any order and are decoded in position order, all through one CompletedFetch, because the read_committed filter
has one state per grant. A retry reads the whole range (its URL opens no other range), and skips the bytes that were verified
before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import Enum, auto

import attrs

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import CorruptRecordError, DirectFetchError
from kafka_remote_client.fetch.grant_checks import refresh_time
from kafka_remote_client.fetch.memory import Lease
from kafka_remote_client.fetch.range_place import store_host
from kafka_remote_client.model import UNKNOWN_EPOCH, GrantedRange, IsolationLevel, SegmentLocation
from kafka_remote_client.records import CompletedFetch, RecordBlock
from kafka_remote_client.records.batch import PREFIX_SIZE, BatchPrefix
from kafka_remote_client.records.completed_fetch import GrantBounds

__all__ = ["GrantRead", "RangeRead", "RangeStatus", "completed_fetch"]


class RangeStatus(Enum):
    """The state of a range."""

    WAITING = auto()
    FLYING = auto()
    LANDED = auto()
    FAILED = auto()


@attrs.define(eq=False)
class RangeRead:
    """One range. ``filled`` bytes were received into the lease's buffer, ``verified`` of the range's bytes were decoded.

    ``received`` is the bytes of the last attempt, until :meth:`over_read` has counted them. ``block_bytes`` are the bytes
    from which each block of the last decoding was made.

    ``needs`` is the memory that was taken for it and its records, 0 before. A range that waits for a retry keeps its lease,
    because ranges after it wait for it and may hold all other memory.
    """

    granted: GrantedRange
    status: RangeStatus = RangeStatus.WAITING
    attempts: int = 0
    needs: int = 0
    corrupt: int = 0
    lease: Lease | None = None
    filled: int = 0
    verified: int = 0
    received: int = 0
    accounted: int = 0
    block_bytes: list[int] = attrs.field(factory=list)
    not_before: float = 0.0
    error: DirectFetchError | None = None
    _host: tuple[GrantedRange, str] | None = attrs.field(default=None, init=False, repr=False)

    @property
    def host(self) -> str:
        """The host for the store's health. It is read from the metadata once for each URL."""
        if self._host is None or self._host[0] is not self.granted:
            self._host = self.granted, store_host(self.granted)
        return self._host[1]

    @property
    def size(self) -> int:
        return self.granted.range.size

    def over_read(self) -> int:
        """Bytes of the last attempt that were not decoded for the first time."""
        over = self.received - (self.verified - self.accounted)
        self.received, self.accounted = 0, self.verified
        return over

    def abandon(self) -> int:
        """Drops the range and frees its memory. Returns the wasted bytes of the last attempt."""
        self.drop()
        over, self.received = self.received, 0
        return over

    def wait_until(self, at: float, take: Callable[[int], None]) -> None:
        """Its attempt has failed, and the next one must not begin before ``at``. It keeps its memory; ``take`` takes some."""
        assert self.lease is not None, "every attempt has a lease"
        self.lease = self.lease.again(take)
        self.status = RangeStatus.WAITING
        self.error = None
        self.not_before = at

    def drop(self) -> None:
        """Releases the range's own use of its memory."""
        if self.lease is not None:
            self.lease.drop()
            self.lease = None


class GrantRead:
    """A grant being read. ``decoded`` counts ranges from the front.

    ``window``, ``range_bytes`` and ``leader_epoch`` are those of the location request, so that
    it can be repeated.
    """

    def __init__(
        self,
        location: SegmentLocation,
        completed: CompletedFetch,
        *,
        received_at: float = 0.0,
        window: int = 0,
        range_bytes: int = 0,
        leader_epoch: int = UNKNOWN_EPOCH,
    ) -> None:
        self.location = location
        self.completed = completed
        self.window = window
        self.range_bytes = range_bytes
        self.leader_epoch = leader_epoch
        self._refresh_at = refresh_time(received_at, location.expires_at)
        self.ranges = [RangeRead(granted) for granted in location.ranges]
        self.decoded = 0
        self._carry = b""
        self._unneeded = 0

    @property
    def head(self) -> RangeRead | None:
        """The range to decode next; ``None`` when all are done."""
        return self.ranges[self.decoded] if self.decoded < len(self.ranges) else None

    @property
    def to_issue(self) -> int:
        """The number of ranges that are not requested yet."""
        return [read.status for read in self.ranges[self.decoded :]].count(RangeStatus.WAITING)

    @property
    def all_issued(self) -> bool:
        return self.to_issue == 0

    def waiting(self, now: float) -> RangeRead | None:
        """Returns the first range that may be requested now."""
        for read in self.ranges[self.decoded :]:
            if read.status is RangeStatus.FAILED:
                return None
            if read.status is RangeStatus.WAITING:
                return read if read.not_before <= now else None
        return None

    def needs_refresh(self, now: float) -> bool:
        """Whether ranges that are not requested yet should get new URLs first, because half of their life is over."""
        return now >= self._refresh_at

    def refresh(self, answer: object, now: float) -> bool:
        """Takes the URLs of a new location for the ranges that are not requested yet; False if it has none for them.

        Only for the same bytes of the same segment: the records, and which of them count, are those of the first location. An
        answer that does not fit has no effect: the old URLs are valid for as long again, and are not renewed again.
        """
        waiting = [read for read in self.ranges[self.decoded :] if read.status is RangeStatus.WAITING]
        self._refresh_at = math.inf
        if not isinstance(answer, SegmentLocation) or not self._is_same_segment(answer):
            return False
        fresh = {granted.range: granted for granted in answer.ranges}
        if not all(read.granted.range in fresh for read in waiting):
            return False
        for read in waiting:
            read.granted = fresh[read.granted.range]
        self._refresh_at = refresh_time(now, answer.expires_at)
        return True

    def _is_same_segment(self, answer: SegmentLocation) -> bool:
        mine, others = self.location.metadata, answer.metadata
        return (mine.remote_log_segment_id, mine.segment_size_in_bytes, self.location.format) == (
            others.remote_log_segment_id,
            others.segment_size_in_bytes,
            answer.format,
        )

    def decode(self, read: RangeRead, *, borrow: bool) -> Iterator[RecordBlock]:
        """Decodes the complete batches that ``read`` received and that were not decoded before.

        With ``borrow`` the blocks refer to the lease's buffer, which must not change while they are in use.

        Raises CorruptRecordError or UnsupportedFormatError after it has yielded the records before the damage;
        ``read.verified`` then says where to continue.
        """
        read.block_bytes.clear()
        buffer = read.lease.buffer if read.lease is not None else None
        data = memoryview(buffer or b"")[read.verified : read.filled]
        if self._carry:
            # Only the carried batch is copied together. The range is not copied.
            # A few bytes more show the offset of the next batch, which confirms that of a first one.
            needed = min(_missing(self._carry, data) + PREFIX_SIZE, len(data))
            block, consumed = self._feed(read, memoryview(self._carry + bytes(data[:needed])), borrow=borrow)
            if consumed == 0 and needed < len(data):  # the batch is shorter than expected, and the decoder reports why
                needed = len(data)
                block, consumed = self._feed(read, memoryview(self._carry + bytes(data)), borrow=borrow)
            if consumed == 0:
                data = memoryview(self._carry + bytes(data))
            else:
                fresh = consumed - len(self._carry)  # what is carried is less than a batch, so all of it was consumed
                data = data[fresh:]
                read.verified += fresh
                self._carry = b""
                if len(block):
                    yield block
        while len(data) and not self._carry:
            block, consumed = self._feed(read, data, borrow=borrow)
            if consumed == 0:
                break
            data = data[consumed:]
            read.verified += consumed
            if len(block):
                yield block
        if read.status is RangeStatus.LANDED and read.filled == read.size:
            self._close(read, data)

    def abandon(self, decoding: RangeRead | None) -> int:
        """Drops all ranges except those in flight and the one that is ``decoding``. Returns the wasted bytes."""
        over = 0 if decoding is not None and decoding is self.head else self.carried
        for read in self.ranges:
            if read.status is not RangeStatus.FLYING and read is not decoding:
                over += read.abandon()
        return over

    @property
    def carried(self) -> int:
        """The bytes of a batch that the last range's end cut, which wait for the next range."""
        return len(self._carry)

    def unneeded(self) -> int:
        """Bytes of decoded batches without a requested record since the last call."""
        before, self._unneeded = self._unneeded, self.completed.unneeded_bytes
        return self._unneeded - before

    def _feed(self, read: RangeRead, data: memoryview, *, borrow: bool) -> tuple[RecordBlock, int]:
        before = self.completed.unneeded_bytes
        block, consumed = self.completed.feed(data, borrow=borrow)
        if len(block):
            read.block_bytes.append(consumed - (self.completed.unneeded_bytes - before))
        return block, consumed

    def _close(self, read: RangeRead, tail: memoryview) -> None:
        """A batch that a range's end cuts is completed from the next range. After the last range it is an error."""
        if len(tail) and read is self.ranges[-1]:
            raise CorruptRecordError("the granted window ends inside a batch", offset=self.completed.next_fetch_offset)
        self._carry = bytes(tail)
        read.verified = read.size
        self.decoded += 1


def completed_fetch(
    location: SegmentLocation,
    isolation_level: IsolationLevel,
    end_offset: int,
    config: RemoteFetchConfig,
    *,
    is_whole: bool = True,
    tally: bool | None = None,
) -> CompletedFetch:
    """Returns the decoder of a grant's records below ``end_offset``, which is never past the grant's end.

    ``is_whole``: the grant has all its ranges. The next offset of one that was cut is a lower bound and confirms nothing.
    """
    first_offset, span = location.ranges[0].first_offset, location.span
    return CompletedFetch(
        location.metadata,
        location.fetch_offset,
        isolation_level,
        location.aborted_transactions,
        end_offset=end_offset,
        allow_offset_gaps=config.allow_offset_gaps or location.compacted,
        max_decompressed_bytes=config.max_decompressed_bytes,
        at_segment_start=span.start == 0,
        bounds=GrantBounds(first_offset or 0, span.size, location.next_offset if is_whole else None),
        tally=tally,
    )


def _missing(carry: bytes, data: memoryview) -> int:
    """How many bytes of ``data`` complete the batch that ``carry`` begins, by the size in its header; at most all of them."""
    front = carry[:PREFIX_SIZE] + bytes(data[:PREFIX_SIZE])
    if len(front) < PREFIX_SIZE:
        return len(data)
    return min(max(BatchPrefix.read(front).size - len(carry), 0), len(data))
