"""A fetch engine of a simulated world: the real scheduler, with workers that take virtual time instead of threads.

The workers take one command each, execute it for some virtual time, and report its event. The rule of FetchEngine decides when
an idle worker looks for work.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import attrs

from kafka_remote_client.errors import Action, RemoteStorageUnavailableError
from kafka_remote_client.fetch.commands import LocationBatch, Passed, Work
from kafka_remote_client.fetch.engine import decode_range
from kafka_remote_client.fetch.fetch_budget import FetchBudget
from kafka_remote_client.fetch.grant_read import GrantRead, RangeRead
from kafka_remote_client.fetch.locate import Located
from kafka_remote_client.fetch.partition_read import Decode, Fetch, Locate, PartitionRead
from kafka_remote_client.fetch.scheduler import LOCATION_BATCHES, Scheduler
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import SegmentLocation
from tests.simulation.buffers import Buffers
from tests.simulation.judge import ViolationError
from tests.simulation.location_faults import RefusedRange
from tests.simulation.scenario import OVERDUE_SECONDS
from tests.simulation.store import Outcome
from tests.simulation.store_judge import StoreJudge

if TYPE_CHECKING:
    from tests.simulation.clients import Client
    from tests.simulation.known_locations import NearClient
    from tests.simulation.world import World

__all__ = ["Engine", "Owner"]

_TICK_SECONDS = 0.25
_MOST_IN_VAIN = 3
_MOST_GRANTS = 4
_SEES_OVERTAKEN = 0.5
"""The share of workers with all bytes of a range that see that another one was faster. The others report the range."""


class _NoFetcher:
    """Decoding needs none."""


class Owner(Protocol):
    """What an engine tells the owner of its reads."""

    def notified(self, read: PartitionRead) -> None:
        """The read has something."""

    def passed_markers(self, read: PartitionRead) -> None:
        """The read has passed markers or aborted records."""

    def located(self, command: Locate, offset: int) -> None:
        """A location request was for this offset."""


@attrs.define(eq=False)
class _Get:
    """A GET in flight: what the store decided, when it began, and its buffer from the first byte on."""

    command: Fetch
    outcome: Outcome
    began: float
    buffer: bytearray | None = None


class Engine:
    """See the module."""

    def __init__(self, world: World, owner: Owner, client: Client | NearClient) -> None:
        """``client``: requests the locations."""
        self._world = world
        self._owner = owner
        self._client = client
        self._scenario, self._clock, self._chance, self._seen = world.scenario, world.clock, world.chance, world.seen
        self.buffers = Buffers()
        config = world.scenario.config
        self.metrics = FetchMetrics(world.clock)
        self._scheduler = Scheduler(config, FetchBudget(config), self.metrics, self.buffers.give_back)
        faults = world.scenario.hung, world.scenario.throttled
        self.asked = StoreJudge(config, knows_breaker=not any(faults))
        self.closed = False
        self._busy = 0
        self._asked = self._touched = True
        self._works = False
        """Whether there was work after the last look. It changes only with the scheduler."""
        self.look_at = 0.0
        """When an idle worker looks for work without an event; infinite: never."""
        self._gets: dict[Fetch, _Get] = {}
        self._locating = 0
        self._decoding: set[PartitionRead] = set()
        self._located_for: Counter[PartitionRead] = Counter()
        self._relocating: set[PartitionRead] = set()
        self._cut: set[RangeRead] = set()
        self._in_vain: Counter[PartitionRead] = Counter()
        self._begun: dict[PartitionRead, list[GrantRead]] = {}
        """The grants of each read of which a range was requested, and that are not read to their ends."""

    @property
    def scheduler(self) -> Scheduler:
        """For the owner of the reads, who changes something."""
        self._touched = True
        return self._scheduler

    @property
    def is_idle(self) -> bool:
        """Whether no worker does anything."""
        return not (self._gets or self._busy)

    def look(self) -> None:
        """An idle worker looks for work."""
        self._asked = True
        self.settle()

    def settle(self) -> None:
        """Called after each event of the world. Does nothing if nothing has happened here."""
        if self._touched or self._asked or self._works or self.look_at <= self._clock.now:
            self._touched = False
            self._notify()
            self._dispatch()

    def stopping(self, read: PartitionRead) -> None:
        """A read is stopped: notes what is under way for it."""
        self._begun.pop(read, None)
        if any(get.command.read is read for get in self._gets.values()):
            self._seen.saw("stopped-in-flight")
        if read in self._decoding:
            self._seen.saw("stopped-decoding")
        if self._located_for[read]:
            self._seen.saw("stopped-locating")

    def judge_end(self) -> None:
        """All reads were stopped, and no worker is busy. Raises ViolationError for memory that is held."""
        held, outstanding = self._scheduler.budget.memory.held, self.buffers.outstanding
        if held or outstanding:
            raise ViolationError("J7", f"at the end {held} bytes are held, and {outstanding} buffers did not come back")
        if self._scheduler.stuck:
            raise ViolationError("J8", f"at the end {self._scheduler.stuck} workers count as stuck, and none is busy")

    def _notify(self) -> None:
        for notice in self._scheduler.notices():
            if isinstance(notice, Passed):
                self._owner.passed_markers(notice.read)
            else:
                self._owner.notified(notice.read)

    # -- workers ---------------------------------------------------------------------------------------------------------

    @property
    def _has_idle(self) -> bool:
        """Whether a worker has nothing to do: there is one more for each that hangs, up to twice as many."""
        most = self._scenario.in_flight
        idle = most + LOCATION_BATCHES - self._busy
        return idle > 0 or idle + min(self._scheduler.stuck, most) > 0

    def _dispatch(self) -> None:
        """Idle workers take commands as those of the engine do: one that has finished always asks, others when told to."""
        while self._is_due and self._has_idle:
            self._asked = False
            command = self._scheduler.next_command(self._clock.now)
            self._notify()
            if command is None:
                break
            self._busy += 1
            self._carry_out(command)
        self._asked, self._works = False, self._scheduler.has_work
        patience = self._scheduler.patience(self._clock.now, _TICK_SECONDS) if self._has_idle else None
        self.look_at = math.inf if patience is None else self._clock.now + max(patience, 1e-6)

    @property
    def _is_due(self) -> bool:
        return self._asked or self.look_at <= self._clock.now or self._scheduler.has_work

    def _carry_out(self, command: Work) -> None:
        if isinstance(command, LocationBatch):
            self._locate(command)
        elif isinstance(command, Fetch):
            self._get(command)
        else:
            if command.read in self._decoding:
                raise ViolationError("J8", f"{command.read.name}: two of its ranges are decoded at once")
            self._decoding.add(command.read)
            self._world.after(
                self._chance.expovariate(1 / self._scenario.decode_seconds), partial(self._decoded, command, self._clock.now)
            )

    def _free(self) -> None:
        self._busy -= 1
        self._asked = True

    # -- locations -------------------------------------------------------------------------------------------------------

    def _locate(self, batch: LocationBatch) -> None:
        self._world.tell(
            "requests %d locations, the first for %s at offset %d",
            len(batch.locates),
            batch.locates[0].read.name,
            batch.locates[0].offset,
        )
        if len({locate.read for locate in batch.locates}) > 1:
            self._seen.saw("locations-together")
        if any(locate.ahead for locate in batch.locates):
            self._seen.saw("location-ahead")
        if self._locating:
            self._seen.saw("two-batches")
        self._locating += 1
        if self._locating > LOCATION_BATCHES:
            raise ViolationError("J8", f"{self._locating} location requests are in flight")
        for locate_one in batch.locates:
            self._located_for[locate_one.read] += 1
            self.asked.asks(locate_one, self._clock.now)
            if locate_one.read in self._relocating and not locate_one.ahead:
                self._relocating.discard(locate_one.read)
                self._seen.saw("relocated")
        self._client.locate(batch, partial(self._located, batch))

    def _located(self, batch: LocationBatch, found: list[Located]) -> None:
        self._locating -= 1
        for command, one in zip(batch.locates, found, strict=True):
            self._located_for[command.read] -= 1
            self._world.tell("%s at offset %d: %s", command.read.name, command.offset, type(one.answer).__name__)
            if command.renews is not None:
                self._seen.saw("url-renewed")
            self._judge_location(command, one)
            self.asked.located(command, one.answer, self._clock.now)
            self._owner.located(command, one.offset)
            self._scheduler.located(command, one.answer, one.offset, one.offsets, self._clock.now)
        self._free()

    def _judge_location(self, command: Locate, found: Located) -> None:
        if not isinstance(found.answer, SegmentLocation):
            return
        read = command.read
        local = self._world.brokers.partitions[read.partition].offsets.earliest_local
        if self._scenario.settled and read.stop_at_local and found.answer.fetch_offset >= local:
            raise ViolationError(
                "J19", f"{read.name}: reads on at {found.answer.fetch_offset}, the local log begins at {local}"
            )
        if command.ahead:
            return
        self._in_vain[command.read] += 1
        if self._in_vain[command.read] > _MOST_IN_VAIN:
            raise ViolationError("J9", f"{command.read.name}: {_MOST_IN_VAIN} locations gave nothing")

    # -- GETs ------------------------------------------------------------------------------------------------------------

    def _get(self, command: Fetch) -> None:
        self._judge_get(command)
        wanted = command.range.granted.range
        kind = "hedge" if command.hedges else "GET"
        self._world.tell(
            "%s: %s of bytes %s of the segment at %d",
            command.read.name,
            kind,
            wanted,
            command.grant.location.metadata.start_offset,
        )
        if command.range.attempts > 1:
            self._seen.saw("retried")
        outcome = self._world.store.answer(command, self._clock.now)
        get = self._gets[command] = _Get(command, outcome, self._clock.now)
        self._world.after(outcome.first, partial(self._first_byte, get))

    def _judge_get(self, command: Fetch) -> None:
        granted = command.range.granted
        if isinstance(granted, RefusedRange):
            raise ViolationError("J10", f"{command.read.name}: a GET uses a location that had to be refused")
        memory, lease = self._scheduler.budget.memory, command.lease
        assert lease is not None
        first = command.range.attempts == 1 or command.hedges  # a repeated GET has its memory from before
        if first and memory.held > memory.limit:
            if memory.held != lease.size:
                raise ViolationError("J7", f"a GET takes {lease.size} bytes, {memory.held} of {memory.limit} are held then")
            self._seen.saw("larger-than-memory")
        elif memory.held + lease.size > memory.limit:
            self._seen.saw("memory-short")
        now = self._clock.now
        wanted = [get for get in self._gets.values() if not get.command.overtaken and now - get.began <= OVERDUE_SECONDS]
        if len(wanted) + 1 > self._scenario.in_flight:
            raise ViolationError("J8", f"{len(wanted) + 1} GETs are in flight, {self._scenario.in_flight} are allowed")
        read = command.read
        self._begun[read] = grants = [one for one in self._begun.get(read, ()) if read.owns(one)]
        if command.grant not in grants:
            grants.append(command.grant)
        if len(grants) > _MOST_GRANTS:
            raise ViolationError("J8", f"{read.name}: {len(grants)} grants are read at once")
        self.asked.sends(command, now)

    def _first_byte(self, get: _Get) -> None:
        command, outcome = get.command, get.outcome
        if command.overtaken:
            self._returned(get, partial(self._scheduler.overtaken, command, 0))
            return
        command.answered_at = self._clock.now
        if outcome.error is None or outcome.received:
            if command.lease is None:  # given up before the first byte
                self._seen.saw("overdue-returned")
                error = RemoteStorageUnavailableError("no buffer")
                self._returned(get, partial(self._scheduler.failed, command, 0, error, self._clock.now))
                return
            get.buffer = command.lease.buffer = self.buffers.take(command.range.size)
        self._world.after(outcome.last - outcome.first, partial(self._last_byte, get))

    def _last_byte(self, get: _Get) -> None:
        command, outcome, now = get.command, get.outcome, self._clock.now
        if get.buffer is not None:
            get.buffer[: outcome.received] = outcome.data
            self.buffers.written(get.buffer)
            if command.lease is None or command.lease.buffer is not get.buffer:
                self._seen.saw("overdue-wrote")
                self.buffers.lost(get.buffer)
        sees_it = command.overtaken and (
            outcome.error is not None or get.buffer is None or self._chance.random() < _SEES_OVERTAKEN
        )
        if sees_it:
            part = outcome.received if get.buffer is not None else 0
            event = partial(self._scheduler.overtaken, command, part)
        elif outcome.error is None:
            event = partial(self._scheduler.landed, command, now - get.began, now)
        else:
            event = partial(self._scheduler.failed, command, outcome.received, outcome.error, now)
        self._returned(get, event)

    def _returned(self, get: _Get, event: Callable[[], None]) -> None:
        command, error = get.command, get.outcome.error
        del self._gets[command]
        self._world.tell(
            "%s: bytes %s %s", command.read.name, command.range.granted.range, "arrived" if error is None else error.cause
        )
        self._note(get)
        self.asked.returned(command, error, get.began, self._clock.now, self._scheduler.in_flight)
        event()
        self._free()

    def _note(self, get: _Get) -> None:
        """Counts what this return shows."""
        command, others = get.command, [one for one in self._gets.values() if one.command.range is get.command.range]
        racing = [one for one in others if not one.command.overtaken]
        if command.overtaken:
            return
        if get.outcome.error is not None and get.outcome.received:
            self._cut.add(command.range)
        elif get.outcome.error is None and command.range in self._cut:
            self._seen.saw("cut-then-whole")
        if get.outcome.error is not None and get.outcome.error.action is Action.RELOCATE:
            self._relocating.add(command.read)
        if get.outcome.error is None and racing:
            self._seen.saw("hedge-won" if command.hedges else "hedge-lost")
            if command.hedges and any(one.buffer is not None for one in racing):
                self._seen.saw("hedge-won-late")
        if get.outcome.error is not None and racing:
            self._seen.saw("hedge-failed")
        if self._clock.now - get.began > OVERDUE_SECONDS:
            self._seen.saw("overdue-returned")
        head = command.grant.head
        if head is not None and head is not command.range:
            self._seen.saw("out-of-order")
        if isinstance(get.outcome.error, RemoteStorageUnavailableError) and getattr(get.outcome.error, "retry_after", None):
            self._seen.saw("retry-after")

    def _judge_damage(self, command: Decode) -> None:
        if self._scenario.settled and command.grant not in self._world.store.damaged:
            raise ViolationError("J18", f"{command.read.name}: bytes {command.range.granted.range} look damaged, and are not")

    # -- decoding --------------------------------------------------------------------------------------------------------

    def _decoded(self, command: Decode, began: float) -> None:
        self._decoding.discard(command.read)
        corrupt = command.range.corrupt
        blocks, error = decode_range(_NoFetcher(), command.grant, command.range, self.metrics, borrow=command.read.borrow)
        self._world.tell(
            "%s: bytes %s gave %d records%s",
            command.read.name,
            command.range.granted.range,
            sum(map(len, blocks)),
            "" if error is None else f" and {error.cause}",
        )
        if not any(map(len, blocks)):
            self._seen.saw("nothing-visible")
        if command.grant.carried:
            self._seen.saw("range-cuts-batch")
        if error is not None:
            self._judge_damage(command)
            self.asked.damaged(command.range)
        if error is not None and corrupt:
            self._seen.saw("damaged-twice")
        if error is None and corrupt:
            self._seen.saw("damaged-then-good")
        if error is None and command.range.error is None:
            del self._in_vain[command.read]
        now = self._clock.now
        self._scheduler.decoded(command, blocks, error, began=began, now=now, jitter=self._chance.random())
        self._free()
