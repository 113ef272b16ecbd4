"""One partition's read from the tier, in order, from a start offset to a bound or to the tier's end. Pure (no I/O).

Theory of operation. The scheduler takes a read's next command (:meth:`PartitionRead.next_command`) and reports its result to
the read. Its states are in :mod:`~kafka_remote_client.fetch.partition_state`. It holds up to four grants, the first of which is
being decoded, and the record blocks that wait for the owner:

=========  ============================================  =================================================
command    issued when                                   answered by
=========  ============================================  =================================================
Locate     no grant is left, or the last one has begun   :meth:`~PartitionRead.located`, or ``postponed``
           (ahead), or its URLs are old (renews)
Fetch      a range of a grant waits for its turn         :meth:`~PartitionRead.landed`
Decode     the first range not decoded yet has landed    :meth:`~PartitionRead.decoded`
Deliver    a block waits, and none did before            :meth:`~PartitionRead.take`
End        the end waits, and nothing did before         :meth:`~PartitionRead.take`
=========  ============================================  =================================================

Ranges arrive in any order. They are decoded in position order, by one thread at a time, outside of the engine's lock: between
Decode and its answer the grant belongs to that thread, and nothing here changes what it reads. A failure is acted on in
position order too, so that ranges before it are delivered.

References: KIP-1254, "AsyncKafkaConsumer Path"; docs/design.md.
"""

from __future__ import annotations

from collections import deque
from uuid import UUID

import attrs

from kafka_remote_client.errors import Action, CorruptRecordError, DirectFetchError
from kafka_remote_client.fetch import policy
from kafka_remote_client.fetch.grant_checks import readable_end, within
from kafka_remote_client.fetch.grant_read import GrantRead, RangeRead, RangeStatus, completed_fetch
from kafka_remote_client.fetch.memory import Lease, ReadyBlock
from kafka_remote_client.fetch.partition_state import ReaderEvent, ReaderState, transition
from kafka_remote_client.fetch.range_sizes import first_window
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.shared import Shared
from kafka_remote_client.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, NotRemote, SegmentLocation
from kafka_remote_client.records import RecordBlock
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT
from kafka_remote_client.wire import ZERO_UUID

__all__ = ["Decode", "Deliver", "End", "Fetch", "Locate", "PartitionRead"]

_LOOK_AHEAD_GRANTS = 4
_NEAR_SECONDS = 0.1
"""If a location takes less, a short second window lasts until the third one is known, which has the size measured then."""


@attrs.frozen(eq=False)
class Locate:
    """Request the location of ``offset``. ``leader_epoch``: of the record before it. ``ahead``: while earlier grants are read.

    ``window``: the bytes to request, in ranges of ``range_bytes``. ``renews``: the grant of an earlier request,
    whose URLs are replaced. ``asked_at``: when.
    """

    read: PartitionRead
    offset: int
    leader_epoch: int
    window: int
    range_bytes: int
    ahead: bool
    asked_at: float
    renews: GrantRead | None = None


@attrs.define(eq=False)
class Fetch:
    """Read one range into the buffer of ``lease``. ``overtaken``: another GET won. ``answered_at``: of the first byte."""

    read: PartitionRead
    grant: GrantRead
    range: RangeRead
    hedges: bool = False
    lease: Lease | None = None
    overtaken: bool = False
    answered_at: float = 0.0

    def drop(self) -> None:
        """Drops the result and frees its memory."""
        if self.lease is not None:
            self.lease.drop()
            self.lease = None


@attrs.frozen(eq=False)
class Decode:
    """Decode one range that has arrived, or handle its failure."""

    read: PartitionRead
    grant: GrantRead
    range: RangeRead


@attrs.frozen(eq=False)
class Deliver:
    """Notify the owner that records wait, and none did before."""

    read: PartitionRead


@attrs.frozen(eq=False)
class End:
    """Notify the owner that the end of the read waits, and nothing did before."""

    read: PartitionRead


class PartitionRead:
    """See the module. Not thread-safe: the engine's lock guards it. ``now`` is always monotonic seconds."""

    def __init__(self, shared: Shared, request: ReadRequest) -> None:
        self.topic, self.partition = request.topic, request.partition
        self.name = f"{request.topic}-{request.partition}"
        self.isolation_level, self.end_offset = request.isolation_level, request.end_offset
        self.stop_at_local, self.borrow = request.stop_at_local, request.borrow
        self.state = ReaderState.LOCATING
        self.next_offset, self.leader_epoch = request.start_offset, request.leader_epoch
        self.offsets, self.topic_id = request.offsets, request.topic_id
        # Whether something was taken. A read with fixed windows is complete, so it does not wait for that.
        self.begun, self._shared = request.window is not None, shared
        self._fixed_window, self._tally = request.window, request.tally
        self._locating, self._locate_at, self.was_postponed = False, 0.0, False
        self._pending_since: float | None = None
        self._grants: deque[GrantRead] = deque()
        self._after: NotRemote | None = None
        self._ahead_failed, self._relocated_at = False, UNKNOWN_OFFSET  # the second until a good range has passed it
        self.met_gap = False  # then each location has to say whether the topic is compacted
        self._leaves_for: str | None = None
        self._decoding: RangeRead | None = None
        self._decoding_carried = 0
        self._ready: deque[ReadyBlock] = deque()
        self._taken: ReadyBlock | None = None
        self._using: tuple[int, float] | None = None  # bytes of the block taken last, and when it was taken
        self._end: ReadEnd | None = None
        self._segment_id: object = None
        self._location_seconds = 0.0  # of the last location
        self._second: GrantRead | None = None  # requested before the owner took something, and read after that

    # -- the owner's side ------------------------------------------------------------------------------------------------

    def take(self, now: float) -> RecordBlock | ReadEnd | None:
        """Returns the next block, the end, or ``None`` if neither is ready. Releases the memory of the block before."""
        self._used(now)
        if self._ready:
            self._taken = self._ready.popleft()
            self.begun = True
            self._using = self._taken.block.nbytes, now
            return self._taken.block
        if self.state is ReaderState.ENDING:
            self.state = transition(self.state, ReaderEvent.TAKEN)
            return self._end
        return None

    def release(self, now: float) -> None:
        """Releases the memory of the last taken block, before the next one arrives."""
        self._used(now)

    @property
    def ready(self) -> Deliver | End | None:
        """Returns the owner's notice: records wait, or only the end does; ``None`` if nothing waits."""
        if self._ready:
            return Deliver(self)
        return End(self) if self.state is ReaderState.ENDING else None

    @property
    def has_ready(self) -> bool:
        """Whether :meth:`take` would return something. May be asked without the lock."""
        return bool(self._ready) or self.state is ReaderState.ENDING

    @property
    def passed(self) -> tuple[int, int] | None:
        """Returns the position of the read and its leader epoch, if all blocks below were taken; else ``None``."""
        return None if self.has_ready else (self.next_offset, self.leader_epoch)

    def stop(self, now: float) -> None:
        """Stops the read: it delivers nothing more, and drops ranges in flight when they arrive."""
        self.state = transition(self.state, ReaderEvent.STOP)
        self._used(now)
        self._drop_grants()
        while self._ready:
            self._shared.counters.over_read(self._ready[0].source_bytes)
            self._ready.popleft().release(self._shared.budget.memory)

    def _used(self, now: float) -> None:
        """The owner takes the next block, or stops: releases the block before, and measures the time that it was needed."""
        if self._taken is not None:
            self._taken.release(self._shared.budget.memory)
            self._taken = None
        if self._using is not None:
            self._shared.budget.read_ahead.used(*self._using, now)
            self._using = None

    # -- the next command ------------------------------------------------------------------------------------------------

    def next_command(self, now: float) -> Locate | Fetch | None:
        """What to do next for this partition; ``None`` when it has to wait. Nothing changes before :meth:`issued`."""
        if self.state is ReaderState.LOCATING and not self._locating and self._locate_at <= now and self._wants_more:
            return Locate(self, self.next_offset, self.leader_epoch, *self._window(), ahead=False, asked_at=now)
        if self.state is not ReaderState.READING or self._leaves_for is not None:
            return None
        for grant in self._grants:
            if grant is self._second and not self.begun and (grant is not self._grants[0] or self._ready):
                return None
            waiting = grant.waiting(now)
            if waiting is None and not grant.all_issued:
                return None
            if waiting is not None and (grant is not self._grants[-1] or not self._wants_next_location(now)):
                return Fetch(self, grant, waiting)
        if self._wants_next_location(now):
            last = self._grants[-1].location
            epoch = last.metadata.epoch_for_offset(last.next_offset - 1)
            return Locate(self, last.next_offset, epoch, *self._window(), ahead=True, asked_at=now)
        return None

    def with_fresh_url(self, command: Fetch, now: float) -> Locate | Fetch | None:
        """Returns ``command``, for which there is memory, or a location request if its URL is old; ``None`` = wait."""
        grant = command.grant
        if not grant.needs_refresh(now):
            return command
        if self._locating or self._locate_at > now:
            return None
        offset = grant.location.fetch_offset
        window = grant.window, grant.range_bytes
        return Locate(self, offset, grant.leader_epoch, *window, ahead=True, asked_at=now, renews=grant)

    def next_decode(self) -> Decode | None:
        """Returns the range to decode now, if one has arrived and no other thread decodes; :meth:`decoded` gets the result."""
        if self._decoding is not None or self.state is not ReaderState.READING:
            return None
        grant = self._grants[0]
        head = grant.head
        if head is None or head.status not in (RangeStatus.LANDED, RangeStatus.FAILED):
            return None
        self._decoding, self._decoding_carried = head, grant.carried
        return Decode(self, grant, head)

    def issued(self, command: Locate | Fetch) -> None:
        """A worker has the command."""
        if isinstance(command, Locate):
            self._locating = True
        else:
            command.range.status = RangeStatus.FLYING
            command.range.attempts += 1

    def _window(self) -> tuple[int, int]:
        """Returns the bytes of the next window, and of one range. The first window is small: the owner may need few records."""
        if self._fixed_window is not None:
            return self._shared.budget.sizer.delivered(self._fixed_window)
        if self._segment_id is None:
            return first_window(few_readers=self._shared.budget.few_readers)
        chunked = bool(self._grants) and self._grants[-1].location.format != ORIGINAL_FORMAT
        short = not self.begun and self._location_seconds < _NEAR_SECONDS
        return self._shared.budget.window(chunked=chunked, short=short)

    @property
    def _wants_more(self) -> bool:
        """Until the owner takes something, one window with records is enough. The next one will have the right size."""
        return self.begun or not self._ready

    def _wants_next_location(self, now: float) -> bool:
        if self._locating or self._locate_at > now or self._ahead_failed or self._after is not None:
            return False
        if len(self._grants) >= _LOOK_AHEAD_GRANTS:
            return False
        last, budget = self._grants[-1], self._shared.budget
        if self.end_offset is not None and last.location.next_offset >= self.end_offset:
            return False
        if not self.begun:
            # The second window, of which nothing is read before the owner takes something.
            return len(self._grants) == 1 and budget.few_readers and last.all_issued
        # When it has begun, and before its last range is requested: otherwise no range is in flight during the request.
        to_issue = last.to_issue
        return to_issue < len(last.ranges) and to_issue <= budget.most_in_flight

    # -- results of commands -----------------------------------------------------------------------------------------------

    def postponed(self, until: float) -> None:
        """No location request before ``until``. ``was_postponed`` is true until the peer answers."""
        self._locating, self._locate_at, self.was_postponed = False, until, True

    def pending(self, now: float) -> NotRemote | None:
        """The look-up is pending: requests the location again. Returns a refusal after the time-out."""
        self._pending_since = now if self._pending_since is None else self._pending_since
        if now - self._pending_since >= self._shared.config.pending_timeout_ms / 1000:
            return NotRemote("location-pending", self.offsets)
        self.postponed(now + policy.PENDING_PAUSE_SECONDS)
        self.was_postponed = False  # the peer can be reached
        return None

    def located(
        self, command: Locate, answer: SegmentLocation | NotRemote | DirectFetchError, start_offset: int, now: float
    ) -> None:
        """The answer to a location request. ``start_offset`` is the requested numeric offset."""
        self._locating = self.was_postponed = False
        self._location_seconds = now - command.asked_at
        self._pending_since = None
        if self.state not in (ReaderState.LOCATING, ReaderState.READING):
            return
        if isinstance(answer, SegmentLocation):
            answer = within(answer, self.end_offset)
        if command.renews is not None:
            command.renews.refresh(answer, now)
            return
        if command.ahead and not self._awaits(command.offset):
            return
        if not command.ahead:
            self.next_offset = start_offset
        if isinstance(answer, SegmentLocation):
            self._granted(command, answer, now)
        elif self.state is ReaderState.READING:
            # Requested ahead: a refusal is kept until the grants are used up; a failure is retried then.
            self._after = answer if isinstance(answer, NotRemote) else None
            self._ahead_failed = self._after is None
        elif isinstance(answer, NotRemote):
            self._not_remote(answer)
        elif not command.ahead:  # otherwise it is requested again, because it is needed now
            self._finish(answer.cause, answer)

    def _awaits(self, offset: int) -> bool:
        """Whether an answer for ``offset``, requested ahead, still fits the position of the read."""
        if self._grants:
            return self._grants[-1].location.next_offset == offset
        return self.state is ReaderState.LOCATING and self.next_offset == offset

    def _granted(self, command: Locate, location: SegmentLocation, now: float) -> None:
        end = readable_end(location, self.isolation_level, self.end_offset)
        # One that :func:`within` cut ends at a lower bound of the offsets that follow.
        is_whole = self.end_offset is None or location.next_offset < self.end_offset
        grant = GrantRead(
            location,
            completed_fetch(location, self.isolation_level, end, self._shared.config, is_whole=is_whole, tally=self._tally),
            received_at=now,
            window=command.window,
            range_bytes=command.range_bytes,
            leader_epoch=command.leader_epoch,
        )
        self._grants.append(grant)
        if command.ahead and not self.begun:
            self._second = grant
        self.offsets = self.offsets.with_location(location)
        self.topic_id = location.metadata.topic_id_partition.topic_id
        if location.metadata.remote_log_segment_id != self._segment_id:
            self._segment_id = location.metadata.remote_log_segment_id
            self._shared.counters.segment_opened(location.metadata.segment_size_in_bytes)
        self.state = transition(self.state, ReaderEvent.GRANTED)

    def landed(self, command: Fetch, received: int, error: DirectFetchError | None) -> None:
        """A range's attempt is over. Its result is decoded, or its failure handled, in position order."""
        command.range.lease, command.lease = command.lease, None
        command.range.filled = command.range.received = received
        command.range.error = error
        command.range.status = RangeStatus.LANDED if error is None else RangeStatus.FAILED

    def starves_for(self, needed: RangeRead) -> bool:
        """Whether the owner gets nothing before this range has arrived."""
        return not self._ready and bool(self._grants) and self._grants[0].head is needed

    def owns(self, grant: GrantRead) -> bool:
        """Whether results for this grant are still needed."""
        return grant in self._grants

    def decoded(
        self, command: Decode, blocks: list[RecordBlock], error: DirectFetchError | None, now: float, jitter: float
    ) -> float | None:
        """The result of a range: blocks in order, then perhaps damage. Returns the time of a retry, if one follows.

        ``jitter``: a random number in [0, 1), which spreads the pauses before retries.
        """
        grant, decoded = command.grant, command.range
        self._decoding = None
        if self.state is not ReaderState.READING or not self._grants or self._grants[0] is not grant:
            self._shared.counters.over_read(decoded.abandon() + self._decoding_carried)
            return None
        for block, size in zip(blocks, decoded.block_bytes, strict=True):
            lease = decoded.lease.share() if self.borrow and decoded.lease is not None else None
            self._ready.append(ReadyBlock.held(block, lease, size, self._shared.budget.memory))
        self._shared.counters.over_read(decoded.over_read() + grant.unneeded())
        self.next_offset = max(self.next_offset, grant.completed.next_fetch_offset)
        if grant.completed.last_leader_epoch != UNKNOWN_EPOCH:
            self.leader_epoch = grant.completed.last_leader_epoch
        failure, retry_at = error or decoded.error, None
        if failure is None:
            self._range_done(grant, decoded)
        else:
            retry_at = self._range_failed(decoded, failure, now, jitter, damaged=error is not None)
        self._end_if_drained()
        return retry_at

    def _range_done(self, grant: GrantRead, decoded: RangeRead) -> None:
        decoded.drop()
        if self.next_offset > self._relocated_at:  # else a range that ends inside its first batch permits another, without end
            self._relocated_at = UNKNOWN_OFFSET
        if self.end_offset is not None and self.next_offset >= self.end_offset:
            self._finish("end")
        elif grant.head is None:
            self._grant_done(grant)

    def _grant_done(self, grant: GrantRead) -> None:
        """Checks that a grant ended exactly at its next offset. Otherwise the read moves to the broker."""
        expected = readable_end(grant.location, self.isolation_level, self.end_offset)
        if self.next_offset < expected and (self._shared.config.allow_offset_gaps or grant.location.compacted):
            self.next_offset = expected
            if expected == self.end_offset:
                self._finish("end")
                return
        if self.next_offset < expected and self._asks_for_policy():
            return
        if self.next_offset != grant.location.next_offset:
            self._finish("undecided" if self.next_offset == expected else "bad-location")
            return
        self._grants.popleft()
        if not self._grants and self._after is not None:
            self._not_remote(self._after)
        elif not self._grants:
            self._ahead_failed = False
            self.state = transition(self.state, ReaderEvent.EXHAUSTED)

    def _range_failed(
        self, failed: RangeRead, error: DirectFetchError, now: float, jitter: float, *, damaged: bool
    ) -> float | None:
        if damaged and isinstance(error, CorruptRecordError) and error.gap and self._asks_for_policy():
            return None
        if damaged:
            failed.corrupt += 1
            self._shared.counters.error(error.cause)
        action = self._shared.admission.decide(failed, error, relocated=self._relocated_at != UNKNOWN_OFFSET)
        if action is Action.RETRY:
            retry_at = now + policy.retry_pause(error, failed.attempts, jitter)
            failed.wait_until(retry_at, self._shared.budget.memory.force)
            return retry_at
        if action is Action.RELOCATE:
            self._relocated_at = self.next_offset
            self._drop_grants()
            self.state = transition(self.state, ReaderEvent.RELOCATE)
        else:
            self._finish(error.cause, error)
        return None

    def _asks_for_policy(self) -> bool:
        """After the first gap, requests the location again: it says whether the topic is compacted. False later."""
        if self.met_gap or self._shared.config.allow_offset_gaps:
            return False
        self.met_gap = True
        self._drop_grants()
        self.state = transition(self.state, ReaderEvent.RELOCATE)
        return True

    # -- its end ---------------------------------------------------------------------------------------------------------

    def refuse(self, reason: str, error: DirectFetchError | None = None) -> None:
        """The store must not be used for this read; ``error`` is the failure that led to it."""
        self._finish(reason, error)

    def fail(self, error: DirectFetchError) -> None:
        """An unexpected exception: the broker continues, unless the end was already reached."""
        if self.state in (ReaderState.LOCATING, ReaderState.READING):
            self._finish(error.cause, error)

    def leave(self, reason: str) -> None:
        """Sends no more requests; reading ends after the ranges in flight have arrived and were decoded."""
        self._leaves_for = reason
        self._end_if_drained()

    def _end_if_drained(self) -> None:
        if self._leaves_for is None or self._decoding is not None or self.state is ReaderState.ENDING:
            return
        head = self._grants[0].head if self._grants else None
        if head is None or head.status is RangeStatus.WAITING:  # ranges after it cannot be decoded without it
            self._finish(self._leaves_for)

    def _not_remote(self, answer: NotRemote) -> None:
        self._finish(answer.reason, answer.error, answer.topic_id, out_of_range=answer.out_of_range)

    def _finish(
        self,
        reason: str,
        error: DirectFetchError | None = None,
        topic_id_of_leader: UUID = ZERO_UUID,
        *,
        out_of_range: bool = False,
    ) -> None:
        segment = self._grants[0].location.metadata.remote_log_segment_id if error is not None and self._grants else None
        self._drop_grants()
        told = (error, self.offsets, out_of_range, segment, self.topic_id, topic_id_of_leader)
        self._end = ReadEnd(reason, self.next_offset, self.leader_epoch, *told)
        self.state = transition(self.state, ReaderEvent.END)

    def _drop_grants(self) -> None:
        """Drops all grants. Buffers of ranges in flight or in decoding are released when that ends."""
        for grant in self._grants:
            self._shared.counters.over_read(grant.abandon(self._decoding))
        self._grants.clear()
        self._after = None
        self._ahead_failed = False
