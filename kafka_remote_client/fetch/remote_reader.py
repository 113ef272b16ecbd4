"""One partition's records from the tier, in order, from a start offset to a bound or to where the tier ends.

A reader is passive: the engine asks it for tasks and tells it results, always under the engine's lock; only decoding runs
outside of it, by one thread at a time. The owner takes record blocks and at last one :class:`ReadEnd`, from whose
``next_offset`` the broker continues. Consumer, bounded reads and the command line stand on this class.

References: KIP-1254, "AsyncKafkaConsumer Path"; docs/design.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from kafka_remote_client.errors import Action, DirectFetchError
from kafka_remote_client.fetch.grant_read import GrantRead, RangeRead, RangeStatus
from kafka_remote_client.fetch.partition_state import ReaderEvent, ReaderState, transition
from kafka_remote_client.fetch.plan import readable_end
from kafka_remote_client.fetch.range_io import Transfer
from kafka_remote_client.fetch.reader_values import LocateTask, RangeTask, ReadEnd, ReadyBlock
from kafka_remote_client.fetch.record_forms import RecordForms
from kafka_remote_client.model import UNKNOWN_EPOCH, IsolationLevel, NotRemote, PartitionOffsets, SegmentLocation
from kafka_remote_client.records import CompletedFetch, RecordBlock
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT

if TYPE_CHECKING:
    from kafka_remote_client.fetch.engine import FetchEngine

__all__ = ["LocateTask", "RangeTask", "ReadEnd", "RemoteReader"]

_LOOK_AHEAD_GRANTS = 4


class RemoteReader(RecordForms):
    """See the module. Built by :meth:`FetchEngine.reader`.

    ``start_offset`` may be OFFSET_BEGINNING (-2): the log's start. ``end_offset`` is exclusive. ``stop_at_local``: end where
    the broker's local log begins, because from there on the broker is the better source. ``borrow``: blocks refer to memory
    that is used again once the next one is taken, or :meth:`release` is called, so the owner must be done with a block by then.
    ``offsets``: what is known of the partition's tiers. ``on_ready`` is called, by any thread and under the engine's lock, when
    there is something to take where there was nothing.
    """

    def __init__(
        self,
        engine: FetchEngine,
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
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.name = f"{topic}-{partition}"
        self.isolation_level = isolation_level
        self.end_offset = end_offset
        self.stop_at_local = stop_at_local
        self.borrow = borrow
        self.on_ready = on_ready
        self.state = ReaderState.LOCATING
        self.next_offset = start_offset
        self.leader_epoch = leader_epoch
        self.offsets = PartitionOffsets() if offsets is None else offsets
        self._engine = engine
        self._locating = False
        self._locate_at = 0.0
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

    def __repr__(self) -> str:
        return f"RemoteReader({self.topic}-{self.partition}, {self.state.name}, next_offset={self.next_offset})"

    # -- the owner's side ------------------------------------------------------------------------------------------------

    def take(self) -> RecordBlock | ReadEnd | None:
        """The next block, the end, or ``None`` while nothing is there. Gives the memory of the block before back."""
        with self._engine.lock:
            self._used()
            if self._ready:
                self._taken = self._ready.popleft()
                self._using = self._taken.block.nbytes, self._engine.now()
                self._engine.announce(self)
                return self._taken.block
            if self.state is ReaderState.ENDING:
                self.state = transition(self.state, ReaderEvent.TAKEN)
                self._engine.announce(self)
                return self._end
            return None

    def release(self) -> None:
        """The owner is done with the block taken last: its memory is free, though it may be long until the next one comes."""
        with self._engine.lock:
            self._release_taken()

    @property
    def has_ready(self) -> bool:
        """Whether :meth:`take` would return something. May be asked without the lock."""
        return bool(self._ready) or self.state is ReaderState.ENDING

    def passed(self) -> tuple[int, int] | None:
        """Where reading stands and its leader epoch, if all blocks below were taken; else ``None``."""
        with self._engine.lock:
            return None if self.has_ready else (self.next_offset, self.leader_epoch)

    def blocks(self, timeout: float | None = None) -> Generator[RecordBlock | ReadEnd, None, None]:
        try:
            while True:
                item = self._engine.wait_for(self, timeout)
                yield item
                if isinstance(item, ReadEnd):
                    return
        finally:
            self.stop()

    def stop(self) -> None:
        """Gives the reader up. When it returns nothing more is delivered; what is in flight is dropped as it lands."""
        with self._engine.lock:
            self.state = transition(self.state, ReaderEvent.STOP)
            self._used()
            self._drop_grants()
            while self._ready:
                self._engine.metrics.over_read(self._ready[0].source_bytes)
                self._give_back(self._ready.popleft())
            self._engine.announce(self)
            self._engine.forget(self)
            self.on_ready = None  # it refers to the owner, which refers to this

    # -- the engine's side: under its lock -------------------------------------------------------------------------------

    def next_task(self, now: float) -> LocateTask | RangeTask | None:
        """What to do next for this partition; ``None`` when it has to wait."""
        if self.state is ReaderState.LOCATING and not self._locating and self._locate_at <= now:
            return LocateTask(self, self.next_offset, self.leader_epoch, ahead=False)
        if self.state is not ReaderState.READING or self._leaves_for is not None:
            return None
        for grant in self._grants:
            read = grant.waiting(now)
            if read is None and not grant.all_issued:
                return None
            if read is not None and (grant is not self._grants[-1] or not self._wants_next_location()):
                return RangeTask(self, grant, read)
        if self._wants_next_location():
            last = self._grants[-1].location
            return LocateTask(self, last.next_offset, last.metadata.epoch_for_offset(last.next_offset - 1), ahead=True)
        return None

    def with_fresh_url(self, task: RangeTask, now: float) -> LocateTask | RangeTask | None:
        """What has to come before the range, for which there is room: a new location where its URL is old; ``None`` = wait."""
        grant = task.grant
        if not grant.needs_refresh(now):
            return task
        if self._locating:
            return None
        return LocateTask(self, grant.location.fetch_offset, grant.leader_epoch, ahead=True, renews=grant)

    @property
    def reads_chunks(self) -> bool:
        """Whether the last grant was for a segment that is kept in chunks."""
        return bool(self._grants) and self._grants[-1].location.format != ORIGINAL_FORMAT

    def _wants_next_location(self) -> bool:
        if self._locating or self._ahead_failed or self._after is not None or len(self._grants) >= _LOOK_AHEAD_GRANTS:
            return False
        last, room = self._grants[-1], self._engine.room
        if self.end_offset is not None and last.location.next_offset >= self.end_offset:
            return False
        # Before anything was measured one window is enough to ask for: the next one will be of the right size.
        if not room.read_ahead.is_measured:
            return False
        # Once it is begun, and sooner than its last range is asked for: what flies would end while the answer is on its way.
        to_issue = last.to_issue
        return to_issue < len(last.ranges) and to_issue <= room.most_in_flight

    def started(self, task: LocateTask | RangeTask) -> None:
        """The engine took the task."""
        if isinstance(task, LocateTask):
            self._locating = True
        else:
            task.read.status = RangeStatus.FLYING
            task.read.attempts += 1

    def postponed(self, until: float) -> None:
        """Nobody may be asked for the location before ``until``."""
        self._locating = False
        self._locate_at = until

    def located(
        self,
        task: LocateTask,
        answer: SegmentLocation | NotRemote | DirectFetchError,
        start_offset: int,
        *,
        window: int = 0,
        now: float = 0.0,
    ) -> None:
        """The answer to a location request. ``start_offset`` is the numeric offset that was asked for, ``window`` its size."""
        self._locating = False
        if self.state not in (ReaderState.LOCATING, ReaderState.READING):
            return
        if task.renews is not None:
            task.renews.refresh(answer, now)
            return
        if task.ahead and not self._awaits(task.offset):
            return
        if not task.ahead:
            self.next_offset = start_offset
        if isinstance(answer, SegmentLocation):
            completed = self._completed_fetch(answer)
            grant = GrantRead(answer, completed, received_at=now, window=window, leader_epoch=task.leader_epoch)
            self._grants.append(grant)
            self.offsets = self.offsets.told_by(answer)
            if answer.metadata.remote_log_segment_id != self._segment_id:
                self._segment_id = answer.metadata.remote_log_segment_id
                self._engine.metrics.segment_opened(answer.metadata.segment_size_in_bytes)
            self.state = transition(self.state, ReaderEvent.GRANTED)
        elif self.state is ReaderState.READING:
            # Asked ahead of time: a refusal is kept until the grants are used up, a failure is tried again then.
            self._after = answer if isinstance(answer, NotRemote) else None
            self._ahead_failed = self._after is None
        elif isinstance(answer, NotRemote):
            self._finish(answer.reason, answer.error, out_of_range=answer.out_of_range)
        elif not task.ahead:  # else it is asked once more, now that it is needed
            self._finish(answer.cause, answer)

    def _awaits(self, offset: int) -> bool:
        """Whether an answer for ``offset``, asked ahead of time, still fits what was read since."""
        if self._grants:
            return self._grants[-1].location.next_offset == offset
        return self.state is ReaderState.LOCATING and self.next_offset == offset

    def _completed_fetch(self, location: SegmentLocation) -> CompletedFetch:
        config = self._engine.config
        return CompletedFetch(
            location.metadata,
            location.fetch_offset,
            self.isolation_level,
            location.aborted_transactions,
            end_offset=readable_end(location, self.isolation_level, self.end_offset),
            allow_offset_gaps=config.allow_offset_gaps,
            max_decompressed_bytes=config.max_decompressed_bytes,
            at_segment_start=location.ranges[0].range.start == 0,
        )

    def refuse(self, reason: str, error: DirectFetchError | None = None) -> None:
        """The engine will not go on with this reader's store; ``error`` is the failure that led to it."""
        self._finish(reason, error)

    def fail(self, error: DirectFetchError) -> None:
        """Something broke that nobody expected to: the broker goes on, unless the end was reached already."""
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

    def landed(self, task: RangeTask, transfer: Transfer | None, error: DirectFetchError | None) -> None:
        """A range's attempt is over. Its turn to be decoded, or its failure to be acted on, comes in position order."""
        task.read.filled = transfer.filled if transfer else task.read.verified
        task.read.received = transfer.filled if transfer else 0
        task.read.error = error
        task.read.status = RangeStatus.LANDED if error is None else RangeStatus.FAILED

    def begin_decode(self) -> tuple[GrantRead, RangeRead] | None:
        """The range to decode now, if no other thread is at it; to be answered by :meth:`end_decode`."""
        if self._decoding is not None or self.state is not ReaderState.READING:
            return None
        head = self._grants[0].head
        if head is None or head.status not in (RangeStatus.LANDED, RangeStatus.FAILED):
            return None
        self._decoding = head
        self._decoding_carried = self._grants[0].carried
        return self._grants[0], head

    def end_decode(self, grant: GrantRead, read: RangeRead, blocks: list[RecordBlock], error: DirectFetchError | None) -> None:
        """What a range gave: blocks in order, then perhaps damage."""
        self._decoding = None
        if self.state is not ReaderState.READING or not self._grants or self._grants[0] is not grant:
            self._engine.metrics.over_read(read.abandon() + self._decoding_carried)
            return
        for block, size in zip(blocks, read.block_bytes, strict=True):
            self._ready.append(self._held(block, read, size))
        self._engine.metrics.over_read(read.over_read() + grant.unneeded())
        self.next_offset = max(self.next_offset, grant.completed.next_fetch_offset)
        if grant.completed.last_leader_epoch != UNKNOWN_EPOCH:
            self.leader_epoch = grant.completed.last_leader_epoch
        failure = error or read.error
        if failure is None:
            self._range_done(grant, read)
        else:
            self._range_failed(read, failure, damaged=error is not None)
        self._end_where_drained()
        self._engine.announce(self)

    def _held(self, block: RecordBlock, read: RangeRead, source_bytes: int) -> ReadyBlock:
        """Accounts for a block: what it needs beyond the range's own memory, which it shares where it refers to it."""
        lease = read.lease.share() if self.borrow and read.lease is not None else None
        extra = max(0, block.nbytes - lease.size) if lease else block.nbytes
        self._engine.memory.force(extra)
        return ReadyBlock(block, extra, lease, source_bytes)

    def _give_back(self, ready: ReadyBlock) -> None:
        self._engine.give_back(ready.extra)
        if ready.lease is not None:
            ready.lease.drop()

    def _range_done(self, grant: GrantRead, read: RangeRead) -> None:
        read.drop()
        self._relocated = False
        if self.end_offset is not None and self.next_offset >= self.end_offset:
            self._finish("end")
        elif grant.head is None:
            self._grant_done(grant)

    def _grant_done(self, grant: GrantRead) -> None:
        """A used-up grant ends exactly at its next offset; anything else is a doubt, and doubts go to the broker."""
        expected = readable_end(grant.location, self.isolation_level, self.end_offset)
        if self.next_offset < expected and self._engine.config.allow_offset_gaps:
            self.next_offset = expected
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

    def _range_failed(self, read: RangeRead, error: DirectFetchError, *, damaged: bool) -> None:
        if damaged:
            read.corrupt += 1
            self._engine.metrics.error(error.cause)
        action = self._engine.decide(read, error, relocated=self._relocated)
        if action is Action.RETRY:
            self._engine.retry_later(self, read, error)
        elif action is Action.RELOCATE:
            self._relocated = True
            self._drop_grants()
            self.state = transition(self.state, ReaderEvent.RELOCATE)
        else:
            self._finish(error.cause, error)

    def _finish(self, reason: str, error: DirectFetchError | None = None, *, out_of_range: bool = False) -> None:
        segment = self._grants[0].location.metadata.remote_log_segment_id if error is not None and self._grants else None
        self._drop_grants()
        self._end = ReadEnd(reason, self.next_offset, self.leader_epoch, error, self.offsets, out_of_range, segment)
        self.state = transition(self.state, ReaderEvent.END)
        self._engine.announce(self)

    def _drop_grants(self) -> None:
        """Forgets all grants. Buffers of ranges still flying or being decoded come back when that ends."""
        for grant in self._grants:
            self._engine.metrics.over_read(grant.abandon(self._decoding))
        self._grants.clear()
        self._after = None
        self._ahead_failed = False

    def owns(self, grant: GrantRead) -> bool:
        """Whether results for this grant are still wanted."""
        return grant in self._grants

    def _used(self) -> None:
        """The owner wants the next block, or none any more: so long it was busy with the one before."""
        self._release_taken()
        if self._using is not None:
            self._engine.room.read_ahead.used(*self._using, self._engine.now())
            self._using = None

    def _release_taken(self) -> None:
        if self._taken is not None:
            self._give_back(self._taken)
            self._taken = None
