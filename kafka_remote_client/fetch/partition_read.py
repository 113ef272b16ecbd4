"""One partition's read from the tier, in order, from a start offset to a bound or to where the tier ends. Pure (no I/O).

Theory of operation. The scheduler asks a read what it wants (:meth:`PartitionRead.next_command`) and tells it what came of
that. Its state is that of :mod:`~kafka_remote_client.fetch.partition_state`; it holds up to four grants, the first of which is
decoded, and the record blocks that wait for the owner:

=========  ============================================  =================================================
command    wanted when                                   answered by
=========  ============================================  =================================================
Locate     no grant is left, or the last one is begun    :meth:`~PartitionRead.located`, or ``postponed``
           (ahead), or its URLs are old (renews)
Fetch      a range of a grant waits for its turn         :meth:`~PartitionRead.landed`
Decode     the first range not decoded yet has landed    :meth:`~PartitionRead.decoded`
Deliver    a block waits where nothing did               :meth:`~PartitionRead.take`
End        the end waits where nothing did               :meth:`~PartitionRead.take`
=========  ============================================  =================================================

Ranges land in any order. They are decoded in position order, by one thread at a time, outside of the engine's lock: between
Decode and its answer the grant belongs to that thread, and nothing here changes what it reads. A failure is acted on in
position order too, so that what landed before it is delivered.

References: KIP-1254, "AsyncKafkaConsumer Path"; docs/design.md.
"""

from __future__ import annotations

from collections import deque

import attrs

from kafka_remote_client.errors import Action, DirectFetchError
from kafka_remote_client.fetch import policy
from kafka_remote_client.fetch.grant_read import GrantRead, RangeRead, RangeStatus, completed_fetch
from kafka_remote_client.fetch.memory import Lease
from kafka_remote_client.fetch.partition_state import ReaderEvent, ReaderState, transition
from kafka_remote_client.fetch.plan import FIRST_WINDOW, readable_end, within
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.shared import Shared
from kafka_remote_client.model import UNKNOWN_EPOCH, IsolationLevel, NotRemote, PartitionOffsets, SegmentLocation
from kafka_remote_client.records import RecordBlock
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT

__all__ = ["Decode", "Deliver", "End", "Fetch", "Locate", "PartitionRead"]

_LOOK_AHEAD_GRANTS = 4


@attrs.frozen(eq=False)
class Locate:
    """Ask where ``offset`` lies. ``leader_epoch``: of the record before it. ``ahead``: while earlier grants are being read.

    ``window``: how many bytes to ask for, in ranges of ``range_bytes``. ``renews``: the grant that it was asked for already,
    whose URLs are to be replaced.
    """

    read: PartitionRead
    offset: int
    leader_epoch: int
    window: int
    range_bytes: int
    ahead: bool
    renews: GrantRead | None = None


@attrs.define(eq=False)
class Fetch:
    """Read one range of the store, into the buffer of ``lease``. ``overtaken``: another one has brought the range meanwhile."""

    read: PartitionRead
    grant: GrantRead
    range: RangeRead
    hedges: bool = False
    lease: Lease | None = None
    overtaken: bool = False

    def drop(self) -> None:
        """Its result is not needed: its memory is free."""
        if self.lease is not None:
            self.lease.drop()
            self.lease = None


@attrs.frozen(eq=False)
class Decode:
    """Decode one range that has landed, or learn from its failure what to do."""

    read: PartitionRead
    grant: GrantRead
    range: RangeRead


@attrs.frozen(eq=False)
class Deliver:
    """Tell the owner that records wait, where nothing did."""

    read: PartitionRead


@attrs.frozen(eq=False)
class End:
    """Tell the owner that the end of the read waits, where nothing did."""

    read: PartitionRead


@attrs.frozen(eq=False)
class ReadyBlock:
    """Decoded records that wait to be taken, and what they hold of the memory: ``extra`` bytes beside a share of ``lease``.

    ``source_bytes`` is the size of the batches that they were decoded from.
    """

    block: RecordBlock
    extra: int
    lease: Lease | None
    source_bytes: int = 0


class PartitionRead:
    """See the module. Not thread-safe: the engine's lock guards it. ``now`` is always monotonic seconds.

    ``start_offset`` may be OFFSET_BEGINNING (-2): the log's start. ``end_offset`` is exclusive. ``stop_at_local``: end where
    the broker's local log begins, because from there on the broker is the better source. ``borrow``: blocks refer to memory
    that is used again once the next one is taken or this one is released. ``offsets``: what is known of the partition's tiers.
    ``window``: bytes of each window and of one of its ranges, for an owner that must know them before; ``None`` = as measured.
    """

    def __init__(
        self,
        shared: Shared,
        topic: str,
        partition: int,
        start_offset: int,
        *,
        end_offset: int | None = None,
        leader_epoch: int = UNKNOWN_EPOCH,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
        stop_at_local: bool = False,
        borrow: bool = False,
        offsets: PartitionOffsets | None = None,
        window: tuple[int, int] | None = None,
        tally: bool | None = None,  # as of CompletedFetch
    ) -> None:
        self.topic, self.partition = topic, partition
        self.name = f"{topic}-{partition}"
        self.isolation_level, self.end_offset = isolation_level, end_offset
        self.stop_at_local, self.borrow = stop_at_local, borrow
        self.state = ReaderState.LOCATING
        self.next_offset, self.leader_epoch = start_offset, leader_epoch
        self.offsets = PartitionOffsets() if offsets is None else offsets
        self.begun, self._shared = False, shared  # whether something was taken
        self._fixed_window, self._tally = window, tally
        self._locating, self._locate_at = False, 0.0
        self._pending_since: float | None = None
        self._grants: deque[GrantRead] = deque()
        self._after: NotRemote | None = None
        self._ahead_failed = self._relocated = False
        self._leaves_for: str | None = None
        self._decoding: RangeRead | None = None
        self._decoding_carried = 0
        self._ready: deque[ReadyBlock] = deque()
        self._taken: ReadyBlock | None = None
        self._using: tuple[int, float] | None = None  # bytes of the block taken last, and when it was taken
        self._end: ReadEnd | None = None
        self._segment_id: object = None

    # -- the owner's side ------------------------------------------------------------------------------------------------

    def take(self, now: float) -> RecordBlock | ReadEnd | None:
        """The next block, the end, or ``None`` while nothing is there. Gives the memory of the block before back."""
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
        """The owner is done with the block taken last: its memory is free, though it may be long until the next one comes."""
        self._used(now)

    @property
    def ready(self) -> Deliver | End | None:
        """What the owner is to be told: that records wait, or that only the end does; ``None`` while nothing does."""
        if self._ready:
            return Deliver(self)
        return End(self) if self.state is ReaderState.ENDING else None

    @property
    def has_ready(self) -> bool:
        """Whether :meth:`take` would return something. May be asked without the lock."""
        return bool(self._ready) or self.state is ReaderState.ENDING

    @property
    def passed(self) -> tuple[int, int] | None:
        """Where reading stands and its leader epoch, if all blocks below were taken; else ``None``."""
        return None if self.has_ready else (self.next_offset, self.leader_epoch)

    def stop(self, now: float) -> None:
        """Gives the read up: nothing more is delivered, and what is in flight is dropped as it lands."""
        self.state = transition(self.state, ReaderEvent.STOP)
        self._used(now)
        self._drop_grants()
        while self._ready:
            self._shared.counters.over_read(self._ready[0].source_bytes)
            self._give_back(self._ready.popleft())

    def _used(self, now: float) -> None:
        """The owner wants the next block, or none any more: so long it was busy with the one before."""
        self._release_taken()
        if self._using is not None:
            self._shared.budget.read_ahead.used(*self._using, now)
            self._using = None

    def _release_taken(self) -> None:
        if self._taken is not None:
            self._give_back(self._taken)
            self._taken = None

    def _give_back(self, ready: ReadyBlock) -> None:
        self._shared.budget.memory.give_back(ready.extra)
        if ready.lease is not None:
            ready.lease.drop()

    # -- what it wants ---------------------------------------------------------------------------------------------------

    def next_command(self, now: float) -> Locate | Fetch | None:
        """What to do next for this partition; ``None`` when it has to wait. Nothing changes before :meth:`issued`."""
        if self.state is ReaderState.LOCATING and not self._locating and self._locate_at <= now and self._wants_more:
            return Locate(self, self.next_offset, self.leader_epoch, *self._window(), ahead=False)
        if self.state is not ReaderState.READING or self._leaves_for is not None:
            return None
        for grant in self._grants:
            waiting = grant.waiting(now)
            if waiting is None and not grant.all_issued:
                return None
            if waiting is not None and (grant is not self._grants[-1] or not self._wants_next_location(now)):
                return Fetch(self, grant, waiting)
        if self._wants_next_location(now):
            last = self._grants[-1].location
            epoch = last.metadata.epoch_for_offset(last.next_offset - 1)
            return Locate(self, last.next_offset, epoch, *self._window(), ahead=True)
        return None

    def with_fresh_url(self, command: Fetch, now: float) -> Locate | Fetch | None:
        """What has to come before the range, for which there is room: a new location where its URL is old; ``None`` = wait."""
        grant = command.grant
        if not grant.needs_refresh(now):
            return command
        if self._locating or self._locate_at > now:
            return None
        offset = grant.location.fetch_offset
        return Locate(self, offset, grant.leader_epoch, grant.window, grant.range_bytes, ahead=True, renews=grant)

    def next_decode(self) -> Decode | None:
        """The range to decode now, if one has landed and no other thread is at it; to be answered by :meth:`decoded`."""
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
        """Bytes of the window to ask for, and of one range. The first window is small: the owner may want few records."""
        if self._fixed_window is not None:
            return self._shared.budget.sizer.delivered(self._fixed_window)
        if self._segment_id is None:
            return FIRST_WINDOW
        chunked = bool(self._grants) and self._grants[-1].location.format != ORIGINAL_FORMAT
        return self._shared.budget.window(chunked=chunked)

    @property
    def _wants_more(self) -> bool:
        """Until something was taken, one window with records is enough. The next one will be of the right size."""
        return self.begun or not self._ready

    def _wants_next_location(self, now: float) -> bool:
        if self._locating or self._locate_at > now or self._ahead_failed or self._after is not None:
            return False
        if not self.begun or len(self._grants) >= _LOOK_AHEAD_GRANTS:
            return False
        last, budget = self._grants[-1], self._shared.budget
        if self.end_offset is not None and last.location.next_offset >= self.end_offset:
            return False
        # Once it is begun, and sooner than its last range is asked for: what flies would end while the answer is on its way.
        to_issue = last.to_issue
        return to_issue < len(last.ranges) and to_issue <= budget.most_in_flight

    # -- what came of it -------------------------------------------------------------------------------------------------

    def postponed(self, until: float) -> None:
        """No location request before ``until``."""
        self._locating = False
        self._locate_at = until

    def pending(self, now: float) -> NotRemote | None:
        """The look-up goes on: the location is asked for again. The refusal once that has taken too long."""
        self._pending_since = now if self._pending_since is None else self._pending_since
        if now - self._pending_since >= self._shared.config.pending_timeout_ms / 1000:
            return NotRemote("location-pending", self.offsets)
        self.postponed(now + policy.PENDING_PAUSE_SECONDS)
        return None

    def located(
        self, command: Locate, answer: SegmentLocation | NotRemote | DirectFetchError, start_offset: int, now: float
    ) -> None:
        """The answer to a location request. ``start_offset`` is the numeric offset that was asked for."""
        self._locating = False
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
            # Asked ahead of time: a refusal is kept until the grants are used up, a failure is tried again then.
            self._after = answer if isinstance(answer, NotRemote) else None
            self._ahead_failed = self._after is None
        elif isinstance(answer, NotRemote):
            self._finish(answer.reason, answer.error, out_of_range=answer.out_of_range)
        elif not command.ahead:  # else it is asked once more, now that it is needed
            self._finish(answer.cause, answer)

    def _awaits(self, offset: int) -> bool:
        """Whether an answer for ``offset``, asked ahead of time, still fits what was read since."""
        if self._grants:
            return self._grants[-1].location.next_offset == offset
        return self.state is ReaderState.LOCATING and self.next_offset == offset

    def _granted(self, command: Locate, location: SegmentLocation, now: float) -> None:
        end = readable_end(location, self.isolation_level, self.end_offset)
        grant = GrantRead(
            location,
            completed_fetch(location, self.isolation_level, end, self._shared.config, tally=self._tally),
            received_at=now,
            window=command.window,
            range_bytes=command.range_bytes,
            leader_epoch=command.leader_epoch,
        )
        self._grants.append(grant)
        self.offsets = self.offsets.told_by(location)
        if location.metadata.remote_log_segment_id != self._segment_id:
            self._segment_id = location.metadata.remote_log_segment_id
            self._shared.counters.segment_opened(location.metadata.segment_size_in_bytes)
        self.state = transition(self.state, ReaderEvent.GRANTED)

    def landed(self, command: Fetch, received: int, error: DirectFetchError | None) -> None:
        """A range's attempt is over. Its turn to be decoded, or its failure to be acted on, comes in position order."""
        command.range.lease, command.lease = command.lease, None
        command.range.filled = command.range.received = received
        command.range.error = error
        command.range.status = RangeStatus.LANDED if error is None else RangeStatus.FAILED

    def starves_for(self, needed: RangeRead) -> bool:
        """Whether the owner can have nothing before this range has come."""
        return not self._ready and bool(self._grants) and self._grants[0].head is needed

    def owns(self, grant: GrantRead) -> bool:
        """Whether results for this grant are still wanted."""
        return grant in self._grants

    def decoded(
        self, command: Decode, blocks: list[RecordBlock], error: DirectFetchError | None, now: float, jitter: float
    ) -> float | None:
        """What a range gave: blocks in order, then perhaps damage. When it is tried again, if that is what follows.

        ``jitter``: a random number in [0, 1), which spreads the pauses before retries.
        """
        grant, decoded = command.grant, command.range
        self._decoding = None
        if self.state is not ReaderState.READING or not self._grants or self._grants[0] is not grant:
            self._shared.counters.over_read(decoded.abandon() + self._decoding_carried)
            return None
        for block, size in zip(blocks, decoded.block_bytes, strict=True):
            self._ready.append(self._held(block, decoded, size))
        self._shared.counters.over_read(decoded.over_read() + grant.unneeded())
        self.next_offset = max(self.next_offset, grant.completed.next_fetch_offset)
        if grant.completed.last_leader_epoch != UNKNOWN_EPOCH:
            self.leader_epoch = grant.completed.last_leader_epoch
        failure, retry_at = error or decoded.error, None
        if failure is None:
            self._range_done(grant, decoded)
        else:
            retry_at = self._range_failed(decoded, failure, now, jitter, damaged=error is not None)
        self._end_where_drained()
        return retry_at

    def _held(self, block: RecordBlock, decoded: RangeRead, source_bytes: int) -> ReadyBlock:
        """Accounts for a block: what it needs beyond the range's own memory, which it shares where it refers to it."""
        lease = decoded.lease.share() if self.borrow and decoded.lease is not None else None
        extra = max(0, block.nbytes - lease.size) if lease else block.nbytes
        self._shared.budget.memory.force(extra)
        return ReadyBlock(block, extra, lease, source_bytes)

    def _range_done(self, grant: GrantRead, decoded: RangeRead) -> None:
        decoded.drop()
        self._relocated = False
        if self.end_offset is not None and self.next_offset >= self.end_offset:
            self._finish("end")
        elif grant.head is None:
            self._grant_done(grant)

    def _grant_done(self, grant: GrantRead) -> None:
        """A used-up grant ends exactly at its next offset; anything else is a doubt, and doubts go to the broker."""
        expected = readable_end(grant.location, self.isolation_level, self.end_offset)
        if self.next_offset < expected and self._shared.config.allow_offset_gaps:
            self.next_offset = expected
            if expected == self.end_offset:
                self._finish("end")
                return
        if self.next_offset != grant.location.next_offset:
            self._finish("undecided" if self.next_offset == expected else "bad-location")
            return
        self._grants.popleft()
        if self._grants:
            return
        if self._after is not None:
            self._finish(self._after.reason, self._after.error, out_of_range=self._after.out_of_range)
        else:
            self._ahead_failed = False
            self.state = transition(self.state, ReaderEvent.EXHAUSTED)

    def _range_failed(
        self, failed: RangeRead, error: DirectFetchError, now: float, jitter: float, *, damaged: bool
    ) -> float | None:
        if damaged:
            failed.corrupt += 1
            self._shared.counters.error(error.cause)
        action = self._shared.admission.decide(failed, error, relocated=self._relocated)
        if action is Action.RETRY:
            retry_at = now + policy.retry_pause(error, failed.attempts, jitter)
            failed.wait_until(retry_at)
            return retry_at
        if action is Action.RELOCATE:
            self._relocated = True
            self._drop_grants()
            self.state = transition(self.state, ReaderEvent.RELOCATE)
        else:
            self._finish(error.cause, error)
        return None

    # -- its end ---------------------------------------------------------------------------------------------------------

    def refuse(self, reason: str, error: DirectFetchError | None = None) -> None:
        """The store is not to be asked for this read; ``error`` is the failure that led to it."""
        self._finish(reason, error)

    def fail(self, error: DirectFetchError) -> None:
        """An unexpected exception: the broker goes on, unless the end was reached already."""
        if self.state in (ReaderState.LOCATING, ReaderState.READING):
            self._finish(error.cause, error)

    def leave(self, reason: str) -> None:
        """Nothing more is asked of the store; reading ends once what is on its way has come and was decoded."""
        self._leaves_for = reason
        self._end_where_drained()

    def _end_where_drained(self) -> None:
        if self._leaves_for is None or self._decoding is not None or self.state is ReaderState.ENDING:
            return
        head = self._grants[0].head if self._grants else None
        if head is None or head.status is RangeStatus.WAITING:  # what landed behind it cannot be decoded without it
            self._finish(self._leaves_for)

    def _finish(self, reason: str, error: DirectFetchError | None = None, *, out_of_range: bool = False) -> None:
        segment = self._grants[0].location.metadata.remote_log_segment_id if error is not None and self._grants else None
        self._drop_grants()
        self._end = ReadEnd(reason, self.next_offset, self.leader_epoch, error, self.offsets, out_of_range, segment)
        self.state = transition(self.state, ReaderEvent.END)

    def _drop_grants(self) -> None:
        """Forgets all grants. Buffers of ranges still flying or being decoded come back when that ends."""
        for grant in self._grants:
            self._shared.counters.over_read(grant.abandon(self._decoding))
        self._grants.clear()
        self._after = None
        self._ahead_failed = False
