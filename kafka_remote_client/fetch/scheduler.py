"""Decides the next work for all partitions of one engine: events go in, commands come out. Pure (no I/O).

Theory of operation. The scheduler owns the reads of partitions with their grants and ranges, the shared budget, the
ranges in flight and the queue of readers with work. It has no thread and no clock: each event has the time.

=============  ===========================================  ==========================================================
event          comes from                                   next commands
=============  ===========================================  ==========================================================
opened         the owner                                    LocationBatch
located        the worker of LocationBatch                  Fetch, LocationBatch after a pause, or End
landed         the worker of Fetch                          Decode, and Fetch in the free place
failed         the same, or a Fetch that is overdue         Decode in turn: ranges before it are delivered first
overtaken      the same: another GET brought the range      Fetch in the free place
decoded        the worker of Decode                         Deliver, Decode, Fetch again, LocationBatch or End
taken          the owner                                    Fetch for a reader that waited for the memory
stopped        the owner                                    the same; ranges in flight are dropped on arrival
broke          the thread that met an unexpected exception  End
time           any of the above, as ``now``                 Fetch of what had to wait and of what is late, once more;
                                                            ``failed`` of what is overdue
=============  ===========================================  ==========================================================

LocationBatch, Fetch and Decode take long. A worker that has nothing to do takes *one* from :meth:`Scheduler.next_command`, so
none waits between its decision and its start, and each decision uses the latest state. All reads that need a location at that
moment are in one LocationBatch. Decode comes first: the worker that read a range finds its bytes in its processor's cache.
Deliver and End take no time; the thread that reported the event takes them from :meth:`Scheduler.notices`.

The scheduler examines a read after an event (:mod:`~kafka_remote_client.fetch.ready_queue`), so a step costs the same with
a thousand partitions as with one. A Fetch needs, in this order: a free place in flight, memory and its share of the rate
limits (:mod:`~kafka_remote_client.fetch.fetch_budget`); a URL that is young enough; a store that may be asked
(:mod:`~kafka_remote_client.fetch.admission`). A read that waits for the first of these keeps its place before all others. A
range that is requested again has its memory and goes first: its reader cannot give back other memory before it arrives.

An unexpected exception is a defect. It moves one read to the broker, and never costs records, a thread or another partition:
:class:`ReadDefectError` names the read, and the engine ends it with :meth:`Scheduler.broke`.

References: kafka_remote_client/fetch/README.md, "Windows, ranges, grants".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import DirectFetchError, RemoteStorageError
from kafka_remote_client.fetch import policy
from kafka_remote_client.fetch.admission import Admission
from kafka_remote_client.fetch.commands import BatchUnderWay, LocationBatch, Passed, Work
from kafka_remote_client.fetch.fetch_budget import FetchBudget
from kafka_remote_client.fetch.flights import NO_THREAD, Flights, Return
from kafka_remote_client.fetch.hedging import Hedging
from kafka_remote_client.fetch.memory import Lease
from kafka_remote_client.fetch.partition_read import Decode, Deliver, End, Fetch, Locate, PartitionRead
from kafka_remote_client.fetch.preference import SLOWER_THAN_BROKER
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.ready_queue import ReadyQueue
from kafka_remote_client.fetch.shared import ReadCounters, Shared
from kafka_remote_client.model import LocationAnswer, LocationPending, PartitionOffsets
from kafka_remote_client.plugin import WritableBuffer
from kafka_remote_client.records import RecordBlock

__all__ = ["LOCATION_BATCHES", "ReadDefectError", "Scheduler"]

LOCATION_BATCHES = 2
"""Location batches in flight: one may wait for a slow or unreachable peer. To one peer they go one after the other."""
_MOST_LOCATIONS = 128
_FEWEST_LOCATIONS = 8
"""Locations in a batch. A peer that leaves most of a batch pending is overloaded: the next batch has half as many."""

_UNMEASURED_SHARE = 0.25
"""The share of the read time-out after which a GET of an unmeasured size is late."""
_MOST_RACING = 5
"""GETs of one range. A hedge may be late as well."""
_LOOK_SECONDS = 0.1
"""How often to check a GET that may be late, because new measurements change that."""


class ReadDefectError(Exception):
    """An unexpected exception during a decision for ``read``; ``command`` is the intended command."""

    def __init__(self, read: PartitionRead, command: Work | None) -> None:
        super().__init__(read.name)
        self.read = read
        self.command = command


class Scheduler:
    """See the module. Not thread-safe: the engine's lock guards it. ``now`` is always monotonic seconds.

    ``recycle`` takes the buffer of a range without references.
    """

    def __init__(
        self, config: RemoteFetchConfig, budget: FetchBudget, counters: ReadCounters, recycle: Callable[[WritableBuffer], None]
    ) -> None:
        self.budget = budget
        self.admission = Admission(config, budget)
        self.shared = Shared(config, budget, self.admission, counters)
        self._counters = counters
        self._recycle = recycle
        self._reads: dict[PartitionRead, None] = {}
        self._queue: ReadyQueue[PartitionRead] = ReadyQueue()
        self._to_decode: dict[PartitionRead, None] = {}
        self._to_locate: dict[PartitionRead, None] = {}
        self._locating: list[BatchUnderWay] = []
        self._locations_at_once = _MOST_LOCATIONS
        self._wanted: tuple[int, bool] | None = None  # memory for the first range that waits for budget; whether it has it
        self.flying = Flights(config)
        self._hedging = Hedging(config.hedge_max_percent, config.read_timeout_ms / 1000 * _UNMEASURED_SHARE)
        self._ready: set[PartitionRead] = set()
        self._notices: list[Deliver | End | Passed] = []

    # -- what there is to do ---------------------------------------------------------------------------------------------

    def next_command(self, now: float) -> Work | None:
        """Returns one command for one idle worker; ``None`` if everything must wait.

        Raises ReadDefectError; the next call continues with the other reads.
        """
        self._give_up_overdue(now)
        self._queue.wake(now)
        return self._next_decode() or self._next_hedge(now) or self._next_fetch(now) or self._next_locations(now)

    def notices(self) -> list[Deliver | End | Passed]:
        """Returns the notices for owners since the last call."""
        notices, self._notices = self._notices, []
        return notices

    def patience(self, now: float, longest: float) -> float | None:
        """Seconds after which there may be work without an event, at most ``longest``; ``None``: never.

        A GET of a read that has ended must be given up in time as well: it may be the one that tries a failed store.
        """
        if not self._reads and not self.in_flight:
            return None
        return self.flying.patience(now, self._queue.patience(now, self.budget.patience(now, longest)))

    @property
    def has_work(self) -> bool:
        """Whether :meth:`next_command` may have work before time passes or something happens; else no thread should wake."""
        if self._to_decode or self._queue.has_turns or self._may_locate:
            return True
        free = self._wanted is None or self.flying.exhausted or self.budget.has_room_for(*self._wanted, self.in_flight)
        return bool(self._queue) and free

    @property
    def has_ready(self) -> bool:
        """Whether some owner has something to take."""
        return bool(self._ready)

    @property
    def in_flight(self) -> int:
        """How many ranges are in flight."""
        return len(self.flying)

    @property
    def stuck(self) -> int:
        """The number of workers that hang in an abandoned Fetch, and are not available until it returns."""
        return self.flying.stuck

    @property
    def reads(self) -> Collection[PartitionRead]:
        """Those that were opened and not stopped."""
        return self._reads.keys()

    # -- events ----------------------------------------------------------------------------------------------------------

    def opened(self, read: PartitionRead) -> None:
        """A partition is to be read. ``read`` was made with :attr:`shared`."""
        self._reads[read] = None
        self.budget.readers = len(self._reads)
        self._queue.add(read)

    def located(
        self,
        command: Locate,
        answer: LocationAnswer,
        offset: int,
        offsets: PartitionOffsets,
        now: float,
    ) -> None:
        """The answer for the numeric ``offset``, and the new bounds of the partition's tiers."""
        read = command.read
        self._forget(command, pending=isinstance(answer, LocationPending))
        read.offsets = offsets
        if isinstance(answer, LocationPending):
            refusal = read.pending(now)
            if refusal is None:
                self._queue.add_later(read, now + policy.PENDING_PAUSE_SECONDS)
                return
            answer = refusal
        pause = 0.0 if command.ahead else policy.location_pause(answer, again=read.was_postponed)
        if pause:
            read.postponed(now + pause)
            self._queue.add_later(read, now + pause)
            return
        if isinstance(answer, DirectFetchError):
            self._counters.error(answer.cause)
        read.located(command, answer, offset, now)
        if command.renews is not None:
            self._counters.add("remote-fetch-location-refresh-total")
        self._happened(read)

    def landed(self, command: Fetch, seconds: float, now: float) -> None:
        """All bytes of the range are in its buffer, ``seconds`` after the request."""
        read, came = command.read, command.range
        found, others = self.flying.end(command)
        if found is not Return.WANTED:
            self._wasted(command, came.size)
            return
        for other in others:
            self._hedging.took(came.host, came.size, self.flying.overtake(other, now))
        if command.hedges:
            self._counters.add("remote-fetch-hedges-won-total")
        self._hedging.took(came.host, came.size, seconds)
        self.admission.succeeded(came, seconds, now - command.answered_at)
        self.budget.request_rate.answered(now)
        if read.stop_at_local and read.owns(command.grant):
            key, segment = (read.topic, read.partition), command.grant.location.metadata
            in_flight = self.in_flight + 1
            self.admission.preference.landed(key, segment, came.size, seconds, in_flight=in_flight, now=now)
        self._returned(command, came.size, None)

    def failed(self, command: Fetch, received: int, error: RemoteStorageError, now: float) -> None:
        """The range failed after ``received`` bytes."""
        found, others = self.flying.end(command)
        if found is Return.WANTED:
            self._failed(command, received, error, now, others)
        else:
            self._wasted(command, received)

    def overtaken(self, command: Fetch, received: int) -> None:
        """The worker of Fetch saw that it is ``overtaken``, and stopped after ``received`` bytes."""
        self.flying.end(command)
        self._wasted(command, received)

    def decoded(
        self,
        command: Decode,
        blocks: list[RecordBlock],
        error: DirectFetchError | None,
        *,
        began: float,
        now: float,
        jitter: float,
    ) -> None:
        """The range gave ``blocks``, and then perhaps damage. ``jitter``: a random number in [0, 1)."""
        self.budget.decoded(command.range.size, sum(block.nbytes for block in blocks), began, now)
        stood_at = blocks[-1].next_offset if blocks else command.read.next_offset
        retry_at = command.read.decoded(command, blocks, error, now, jitter)
        if command.read.next_offset > stood_at:
            self._notices.append(Passed(command.read))
        if retry_at is not None:
            self._queue.add_later(command.read, retry_at)
        self._to_decode[command.read] = None
        self._happened(command.read)

    def taken(self, read: PartitionRead, now: float) -> RecordBlock | ReadEnd | None:
        """The owner takes the next block or the end, and releases the block before. Returns the item."""
        begun = read.begun
        item = read.take(now)
        if read.begun and not begun:
            self._queue.add(read)  # it may need more than its first window
        self._notify(read)
        return item

    def released(self, read: PartitionRead, now: float) -> None:
        """The owner is done with the block taken last."""
        read.release(now)

    def stopped(self, read: PartitionRead, now: float) -> None:
        """The owner stops. Results that are not there yet are dropped on arrival."""
        read.stop(now)
        self._notify(read)
        self._reads.pop(read, None)
        self.budget.readers = len(self._reads)
        self._to_decode.pop(read, None)
        self._to_locate.pop(read, None)
        self._queue.discard(read)
        self._wanted = None

    def refused(self, read: PartitionRead, reason: str) -> None:
        """No thread can execute commands: the broker continues."""
        read.refuse(reason)
        self._notify(read)

    def abandoned(self, command: Work | None) -> None:
        """The command met an unexpected exception: releases its resources."""
        if isinstance(command, Fetch):
            self.flying.discard(command)
            command.drop()
        elif isinstance(command, LocationBatch):
            for locate in command.locates:
                self._forget(locate)

    def broke(self, read: PartitionRead, defect: BaseException | None) -> None:
        """Reading met an unexpected exception: the broker continues."""
        kind = type(defect).__name__
        error = DirectFetchError(f"reading {read.name} failed with {kind}; see the traceback in the log")
        error.__cause__ = defect
        read.fail(error.with_context(topic=read.topic, partition=read.partition, offset=read.next_offset))
        self._notify(read)

    # -- how it is decided -----------------------------------------------------------------------------------------------

    def _next_decode(self) -> Decode | None:
        while self._to_decode:
            read = next(iter(self._to_decode))
            del self._to_decode[read]
            try:
                command = read.next_decode()
            except Exception as error:
                raise ReadDefectError(read, None) from error
            if command is not None:
                return command
        return None

    def _next_hedge(self, now: float) -> Fetch | None:
        """One more GET of a range that is late, if one may be sent."""
        for late in self.flying.late(now):
            try:
                hedge = self._hedge(late, now)
            except Exception as error:
                self.flying.watch(late, math.inf)  # its thread returns and sees that
                raise ReadDefectError(late.read, None) from error
            if hedge is not None:
                return hedge
        return None

    def _hedge(self, late: Fetch, now: float) -> Fetch | None:
        wanted = late.range
        delay = self._hedging.delay(wanted.host, wanted.size)
        left = delay - self.flying.age(late, now)
        if left > 0 or self._hedging.is_slow(wanted.host):
            self.flying.watch(late, now + (min(left, _LOOK_SECONDS) if left > 0 else _LOOK_SECONDS))
            return None
        if not (
            late.read.owns(late.grant)
            and self.flying.racing(late) < _MOST_RACING
            and self.admission.allows_hedge(wanted)
            and self.budget.has_for_hedge(wanted.needs, self.in_flight, now)
            and self._hedging.take(wanted.size, urgent=late.read.starves_for(wanted))
        ):
            return None
        self.budget.take_for_hedge(wanted, now)
        hedge = Fetch(late.read, late.grant, wanted, hedges=True, lease=Lease(wanted.needs, self._release))
        self.flying.hedge(late, hedge, now, late_at=now + delay)
        self._counters.add("remote-fetch-hedges-total")
        return hedge

    def _next_fetch(self, now: float) -> Fetch | None:
        """Returns the next range that may be requested, reads in turn. It collects reads that need a location."""
        budget = True
        while (read := self._queue.take(budget=budget)) is not None:
            command: Locate | Fetch | None = None
            try:
                command = read.next_command(now)
                if isinstance(command, Fetch):
                    repeats = command.range.lease is not None
                    needs = self.budget.needs(command.range)
                    if not (self.flying.exhausted or self.budget.has_for(needs, self.in_flight, now, repeats)):
                        if budget or repeats:
                            self._wanted = needs, repeats
                        self._queue.hold(read, first=budget or repeats)
                        budget = False
                        continue
                    command = read.with_fresh_url(command, now)
                if isinstance(command, Locate):
                    self._to_locate[read] = None
                elif command is not None and self._admits(command, now):
                    read.issued(command)
                    self._queue.add(read)
                    return command
            except Exception as error:
                raise ReadDefectError(read, command if isinstance(command, Fetch) else None) from error
        return None

    @property
    def _may_locate(self) -> bool:
        return bool(self._to_locate) and len(self._locating) < LOCATION_BATCHES

    def _next_locations(self, now: float) -> LocationBatch | None:
        """Returns one batch for the reads that need a location, limited to the number that the peer decides at once."""
        locates: list[Locate] = []
        while self._may_locate and len(locates) < self._locations_at_once:
            read = next(iter(self._to_locate))
            try:
                command = read.next_command(now)
                if isinstance(command, Fetch):
                    command = read.with_fresh_url(command, now)
                if isinstance(command, Locate) and self._admits(command, now):
                    read.issued(command)
                    locates.append(command)
                self._queue.add(read)
            except Exception as error:
                if locates:
                    break  # these are requested first
                del self._to_locate[read]
                raise ReadDefectError(read, None) from error
            del self._to_locate[read]
        if not locates:
            return None
        self._locating.append(BatchUnderWay(set(locates), len(locates)))
        return LocationBatch(tuple(locates))

    def _forget(self, command: Locate, *, pending: bool = False) -> None:
        """The location request has ended. ``pending``: it must be repeated."""
        batch = next(one for one in self._locating if command in one.left)
        batch.left.remove(command)
        batch.pending += pending
        if not batch.left:
            self._locating.remove(batch)
            fewer, more = self._locations_at_once // 2, self._locations_at_once * 2
            much = 2 * batch.pending > batch.count
            self._locations_at_once = max(_FEWEST_LOCATIONS, fewer) if much else min(_MOST_LOCATIONS, more)

    def _admits(self, command: Locate | Fetch, now: float) -> bool:
        read = command.read
        if isinstance(command, Locate):
            refusal = self.admission.refuses_location(now)
        else:
            key = (read.topic, read.partition) if read.stop_at_local else None
            refusal = NO_THREAD if self.flying.exhausted else self.admission.refuses_range(command.range, key, now)
        if refusal is not None:
            if refusal == SLOWER_THAN_BROKER:
                read.leave(refusal)
            else:
                read.refuse(refusal, self.admission.last_failure)
            self._notify(read)
            return False
        if isinstance(command, Fetch):
            self._counters.add("remote-fetch-rate-limit-time-total", self.budget.take(command.range, now))
            command.lease = command.range.lease or Lease(command.range.needs, self._release)
            command.range.lease = None
            self._begin(command, now)
        return True

    def _begin(self, command: Fetch, now: float) -> None:
        wanted = command.range
        if wanted.attempts:
            self._counters.add("remote-fetch-retries-total")
            self._hedging.retried(wanted.size)
        else:
            self._hedging.requested(wanted.size)
        delay = self._hedging.delay(wanted.host, wanted.size)
        late_at = now + min(delay, _LOOK_SECONDS) if self._hedging.enabled else None
        self.flying.begin(command, now, late_at=late_at)

    def _give_up_overdue(self, now: float) -> None:
        """Fails the ranges whose fetcher did not return in time. Their threads and buffers are lost until it does."""
        while (overdue := self.flying.give_up(now)) is not None:
            command, error, others = overdue
            try:
                self._counters.error(error.cause)
                self._failed(command, 0, error, now, others)
            except Exception as defect:
                raise ReadDefectError(command.read, command) from defect

    def _failed(self, command: Fetch, received: int, error: RemoteStorageError, now: float, others: list[Fetch]) -> None:
        """The GET failed. While ``others`` of its range are in flight, these count, and the last of them is late."""
        self.admission.failed(command.range, error, now)
        if not others:
            self._returned(command, received, error)
            return
        self._wasted(command, received)
        self.flying.watch(others[-1], now)

    def _wasted(self, command: Fetch, received: int) -> None:
        """Another GET of the range counts, or the range is not needed any more."""
        self._counters.over_read(received)
        if command.overtaken or command.hedges:
            self._counters.add("remote-fetch-hedges-bytes-total", received)
        command.drop()

    def _returned(self, command: Fetch, received: int, error: RemoteStorageError | None) -> None:
        read = command.read
        read.landed(command, received, error)
        if not read.owns(command.grant):
            self._counters.over_read(command.range.abandon())
        self._to_decode[read] = None
        self._queue.add(read)

    def _happened(self, read: PartitionRead) -> None:
        """An event concerned the read: it gets a turn, and its owner is notified."""
        self._queue.add(read)
        self._notify(read)

    def _notify(self, read: PartitionRead) -> None:
        """Records whether the owner has something to take; it notifies the owner once, until it has taken everything."""
        ready = read.ready
        if ready is None:
            self._ready.discard(read)
        elif read not in self._ready:
            self._ready.add(read)
            self._notices.append(ready)

    def _release(self, lease: Lease) -> None:
        self.budget.memory.give_back(lease.size)
        if lease.buffer is not None:
            self._recycle(lease.buffer)
