"""A world in virtual time: the real scheduler of the fetch engine, with a model of workers, store, peer and application.

::

    part                                | real or model
    Scheduler, PartitionRead, policy,   | real
    plan, hedging, budget, decoder      |
    FetchEngine: threads, clock, locks  | model: workers that take one command, execute it for some virtual time, and
                                        | report its event; the same rule decides when an idle worker looks for work
    store, peer                         | model with faults (store.py, tier.py)
    application                         | model: takes blocks, holds them, seeks, continues at the broker (application.py)
    log                                 | model (model_log.py), by which judge.py judges

All that is random comes from the scenario's seed, so a scenario always runs in the same way. The judge looks after each event.
"""

from __future__ import annotations

import gc
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import attrs

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import Action, RemoteStorageUnavailableError
from kafka_remote_client.fetch.commands import LocationBatch, Passed, Work
from kafka_remote_client.fetch.engine import decode_range
from kafka_remote_client.fetch.fetch_budget import FetchBudget
from kafka_remote_client.fetch.grant_read import RangeRead
from kafka_remote_client.fetch.locate import Located, locate
from kafka_remote_client.fetch.partition_read import Decode, Fetch, Locate, PartitionRead
from kafka_remote_client.fetch.scheduler import LOCATION_BATCHES, Scheduler
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import SegmentLocation
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT
from tests.simulation.application import Application
from tests.simulation.buffers import Buffers
from tests.simulation.judge import ViolationError
from tests.simulation.occurrences import Occurrences
from tests.simulation.scenario import LOCATION_SECONDS, OVERDUE_SECONDS, Scenario
from tests.simulation.store import Outcome, Store
from tests.simulation.store_judge import StoreJudge
from tests.simulation.tier import SignedRange, Tier
from tests.support.event_queue import EventQueue
from tests.support.locations import ManualClock

__all__ = ["World"]

_TICK_SECONDS = 0.25
_STANDSTILL_SECONDS = 200.0
_MOST_IN_VAIN = 3
_DECODE_SECONDS = 0.0005
_MOST_GRANTS = 4


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Collects no cycles during a world: it ends before its garbage matters, and collections take a tenth of its time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class _NoFetcher:
    """Decoding needs none."""


@attrs.define(eq=False)
class _Get:
    """A GET in flight: what the store decided, when it began, and its buffer from the first byte on."""

    command: Fetch
    outcome: Outcome
    began: float
    buffer: bytearray | None = None


class World:
    """One run of a scenario. ``story``: what happened, as (time, text with places, values)."""

    def __init__(self, scenario: Scenario, seen: Occurrences | None = None) -> None:
        self.scenario = scenario
        self.seen = Occurrences() if seen is None else seen
        self.clock = ManualClock(0.0)
        self.chance = random.Random(scenario.seed)
        self.events = 0
        self.story: list[tuple[float, str, tuple[object, ...]]] = []
        self.progressed_at = 0.0
        self.buffers = Buffers()
        self.tier = Tier(scenario, self.clock, self.chance, self.seen)
        self.metrics = FetchMetrics(self.clock)
        config = scenario.config
        self.scheduler = Scheduler(config, FetchBudget(config), self.metrics, self.buffers.give_back)
        self._store = Store(scenario, self.tier, self.chance, self.seen)
        self.asked = StoreJudge(config)
        self._queue: EventQueue[Callable[[], bool]] = EventQueue()
        self._busy = 0
        self._look_at = 0.0
        self._gets: dict[Fetch, _Get] = {}
        self._locating = 0
        self._decoding: set[PartitionRead] = set()
        self._located_for: Counter[PartitionRead] = Counter()
        self._relocating: set[PartitionRead] = set()
        self._cut: set[RangeRead] = set()
        self._in_vain: Counter[PartitionRead] = Counter()
        self._application = Application(self)

    # -- the run ---------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Runs the scenario. Returns the number of events. Raises ViolationError."""
        with _garbage_kept():
            self._run()
        return self.events

    def _run(self) -> None:
        self._application.start()
        self._dispatch(asked=True)
        while self.events < self.scenario.steps:
            self._step()
        self._application.stop()
        while self._gets or self._busy:
            self._step()
        held, outstanding = self.scheduler.budget.memory.held, self.buffers.outstanding
        if held or outstanding:
            raise ViolationError("J7", f"at the end {held} bytes are held, and {outstanding} buffers did not come back")

    def after(self, seconds: float, event: Callable[[], bool]) -> None:
        """``event`` happens in so many seconds. It returns whether a worker is free because of it."""
        self._queue.add(self.clock.now + seconds, event)

    def tell(self, text: str, *values: object) -> None:
        """Adds a line to the story."""
        self.story.append((self.clock.now, text, values))

    def progress(self) -> None:
        """An application got something."""
        self.progressed_at = self.clock.now

    def stopping(self, read: PartitionRead) -> None:
        """A read is stopped: notes what is under way for it."""
        if any(get.command.read is read for get in self._gets.values()):
            self.seen.saw("stopped-in-flight")
        if read in self._decoding:
            self.seen.saw("stopped-decoding")
        if self._located_for[read]:
            self.seen.saw("stopped-locating")

    def _step(self) -> None:
        at = self._queue.next_at
        if self._look_at < at and self._busy < self._workers:
            if self._look_at == math.inf:
                raise ViolationError("J9", "nothing will ever happen")
            self.clock.now = max(self.clock.now, self._look_at)
            self._dispatch(asked=True)
        elif at == math.inf:
            raise ViolationError("J9", "nothing will ever happen")
        else:
            self.clock.now, event = self._queue.pop()
            self.events += 1
            free = event()
            self._notify()
            self._dispatch(asked=free)
        if self.clock.now - self.progressed_at > _STANDSTILL_SECONDS:
            raise ViolationError("J9", f"nothing was delivered for {_STANDSTILL_SECONDS:.0f} seconds")

    def _notify(self) -> None:
        for notice in self.scheduler.notices():
            if isinstance(notice, Passed):
                self._application.passed(notice.read)
            else:
                self._application.notified(notice.read)

    # -- workers ---------------------------------------------------------------------------------------------------------

    @property
    def _workers(self) -> int:
        most = self.scenario.in_flight
        return most + LOCATION_BATCHES + min(self.scheduler.stuck, most)

    def _dispatch(self, *, asked: bool) -> None:
        """Idle workers take commands as those of the engine do: one that has finished always asks, others when told to."""
        while self._busy < self._workers:
            if not (asked or self.scheduler.has_work or self._look_at <= self.clock.now):
                break
            asked = False
            command = self.scheduler.next_command(self.clock.now)
            self._notify()
            if command is None:
                break
            self._busy += 1
            self._carry_out(command)
        patience = self.scheduler.patience(self.clock.now, _TICK_SECONDS)
        self._look_at = math.inf if patience is None else self.clock.now + max(patience, 1e-6)

    def _carry_out(self, command: Work) -> None:
        if isinstance(command, LocationBatch):
            self._locate(command)
        elif isinstance(command, Fetch):
            self._get(command)
        else:
            if command.read in self._decoding:
                raise ViolationError("J8", f"{command.read.name}: two of its ranges are decoded at once")
            self._decoding.add(command.read)
            self.after(self.chance.expovariate(1 / _DECODE_SECONDS), partial(self._decoded, command, self.clock.now))

    def _free(self) -> bool:
        self._busy -= 1
        return True

    # -- locations -------------------------------------------------------------------------------------------------------

    def _locate(self, batch: LocationBatch) -> None:
        self.tell(
            "requests %d locations, the first for %s at offset %d",
            len(batch.locates),
            batch.locates[0].read.name,
            batch.locates[0].offset,
        )
        if len({locate.read for locate in batch.locates}) > 1:
            self.seen.saw("locations-together")
        if any(locate.ahead for locate in batch.locates):
            self.seen.saw("location-ahead")
        if self._locating:
            self.seen.saw("two-batches")
        self._locating += 1
        if self._locating > LOCATION_BATCHES:
            raise ViolationError("J8", f"{self._locating} location requests are in flight")
        for locate_one in batch.locates:
            self._located_for[locate_one.read] += 1
            self.asked.asks(locate_one, self.clock.now)
            if locate_one.read in self._relocating and not locate_one.ahead:
                self._relocating.discard(locate_one.read)
                self.seen.saw("relocated")
        delay = self.chance.uniform(1.0, 3.0) * self.scenario.latency
        self.after(delay / 2, partial(self._at_peer, batch, delay / 2))

    def _at_peer(self, batch: LocationBatch, back: float) -> bool:
        deadline = Deadline(self.clock, LOCATION_SECONDS)
        found = locate(self.tier, batch.locates, (ORIGINAL_FORMAT,), deadline, self.clock, lambda _partition, _deadline: False)
        self.after(back, partial(self._located, batch, found))
        return False

    def _located(self, batch: LocationBatch, found: list[Located]) -> bool:
        self._locating -= 1
        for command, one in zip(batch.locates, found, strict=True):
            self._located_for[command.read] -= 1
            self.tell("%s at offset %d: %s", command.read.name, command.offset, type(one.answer).__name__)
            if command.renews is not None:
                self.seen.saw("url-renewed")
            self._judge_location(command, one)
            self.asked.located(command, one.answer, self.clock.now)
            self._application.located(command, one.offset)
            self.scheduler.located(command, one.answer, one.offset, one.offsets, self.clock.now)
        return self._free()

    def _judge_location(self, command: Locate, found: Located) -> None:
        if command.ahead or not isinstance(found.answer, SegmentLocation):
            return
        self._in_vain[command.read] += 1
        if self._in_vain[command.read] > _MOST_IN_VAIN:
            raise ViolationError("J9", f"{command.read.name}: {_MOST_IN_VAIN} locations gave nothing")

    # -- GETs ------------------------------------------------------------------------------------------------------------

    def _get(self, command: Fetch) -> None:
        self._judge_get(command)
        wanted = command.range.granted.range
        kind = "hedge" if command.hedges else "GET"
        self.tell(
            "%s: %s of bytes %s of the segment at %d",
            command.read.name,
            kind,
            wanted,
            command.grant.location.metadata.start_offset,
        )
        if command.range.attempts > 1:
            self.seen.saw("retried")
        outcome = self._store.answer(command, self.clock.now)
        get = self._gets[command] = _Get(command, outcome, self.clock.now)
        self.after(outcome.first, partial(self._first_byte, get))

    def _judge_get(self, command: Fetch) -> None:
        granted = command.range.granted
        if isinstance(granted, SignedRange) and granted.refuse:
            raise ViolationError("J10", f"{command.read.name}: a GET uses a location that had to be refused")
        memory, lease = self.scheduler.budget.memory, command.lease
        assert lease is not None
        first = command.range.attempts == 1 or command.hedges  # a repeated GET has its memory from before
        if first and memory.held > memory.limit:
            if memory.held != lease.size:
                raise ViolationError("J7", f"a GET takes {lease.size} bytes, {memory.held} of {memory.limit} are held then")
            self.seen.saw("larger-than-memory")
        elif memory.held + lease.size > memory.limit:
            self.seen.saw("memory-short")
        now = self.clock.now
        wanted = [get for get in self._gets.values() if not get.command.overtaken and now - get.began <= OVERDUE_SECONDS]
        if len(wanted) + 1 > self.scenario.in_flight:
            raise ViolationError("J8", f"{len(wanted) + 1} GETs are in flight, {self.scenario.in_flight} are allowed")
        read = command.read
        grants = {get.command.grant for get in wanted if get.command.read is read and read.owns(get.command.grant)}
        grants.add(command.grant)
        if len(grants) > _MOST_GRANTS:
            raise ViolationError("J8", f"{read.name}: ranges of {len(grants)} grants are in flight")
        self.asked.sends(command, now)

    def _first_byte(self, get: _Get) -> bool:
        command = get.command
        if command.overtaken:
            return self._returned(get, partial(self.scheduler.overtaken, command, 0))
        command.answered_at = self.clock.now
        if get.outcome.error is not None and not get.outcome.received:
            self.after(get.outcome.last - get.outcome.first, partial(self._last_byte, get))
            return False
        if command.lease is None:  # given up before the first byte
            self.seen.saw("overdue-returned")
            error = RemoteStorageUnavailableError("no buffer")
            return self._returned(get, partial(self.scheduler.failed, command, 0, error, self.clock.now))
        get.buffer = command.lease.buffer = self.buffers.take(command.range.size)
        self.after(get.outcome.last - get.outcome.first, partial(self._last_byte, get))
        return False

    def _last_byte(self, get: _Get) -> bool:
        command, outcome, now = get.command, get.outcome, self.clock.now
        if get.buffer is not None:
            get.buffer[: outcome.received] = outcome.data
            self.buffers.written(get.buffer)
            if command.lease is None or command.lease.buffer is not get.buffer:
                self.seen.saw("overdue-wrote")
                self.buffers.lost(get.buffer)
        if command.overtaken:
            part = outcome.received if get.buffer is not None else 0
            return self._returned(get, partial(self.scheduler.overtaken, command, part))
        if outcome.error is None:
            return self._returned(get, partial(self.scheduler.landed, command, now - get.began, now))
        return self._returned(get, partial(self.scheduler.failed, command, outcome.received, outcome.error, now))

    def _returned(self, get: _Get, event: Callable[[], None]) -> bool:
        command, error = get.command, get.outcome.error
        del self._gets[command]
        self.tell(
            "%s: bytes %s %s", command.read.name, command.range.granted.range, "arrived" if error is None else error.cause
        )
        self._note(get)
        self.asked.returned(command, error, get.began, self.clock.now)
        event()
        return self._free()

    def _note(self, get: _Get) -> None:
        """Counts what this return shows."""
        command, others = get.command, [one for one in self._gets.values() if one.command.range is get.command.range]
        racing = [one for one in others if not one.command.overtaken]
        if command.overtaken:
            return
        if get.outcome.error is not None and get.outcome.received:
            self._cut.add(command.range)
        elif get.outcome.error is None and command.range in self._cut:
            self.seen.saw("cut-then-whole")
        if get.outcome.error is not None and get.outcome.error.action is Action.RELOCATE:
            self._relocating.add(command.read)
        if get.outcome.error is None and racing:
            self.seen.saw("hedge-won" if command.hedges else "hedge-lost")
            if command.hedges and any(one.buffer is not None for one in racing):
                self.seen.saw("hedge-won-late")
        if get.outcome.error is not None and racing:
            self.seen.saw("hedge-failed")
        if self.clock.now - get.began > OVERDUE_SECONDS:
            self.seen.saw("overdue-returned")
        head = command.grant.head
        if head is not None and head is not command.range:
            self.seen.saw("out-of-order")
        if isinstance(get.outcome.error, RemoteStorageUnavailableError) and getattr(get.outcome.error, "retry_after", None):
            self.seen.saw("retry-after")

    # -- decoding --------------------------------------------------------------------------------------------------------

    def _decoded(self, command: Decode, began: float) -> bool:
        self._decoding.discard(command.read)
        corrupt = command.range.corrupt
        blocks, error = decode_range(_NoFetcher(), command.grant, command.range, self.metrics, borrow=command.read.borrow)  # type: ignore[arg-type]
        self.tell(
            "%s: bytes %s gave %d records%s",
            command.read.name,
            command.range.granted.range,
            sum(map(len, blocks)),
            "" if error is None else f" and {error.cause}",
        )
        if not any(map(len, blocks)):
            self.seen.saw("nothing-visible")
        if error is not None and corrupt:
            self.seen.saw("damaged-twice")
        if error is None and corrupt:
            self.seen.saw("damaged-then-good")
        if error is None and command.range.error is None:
            del self._in_vain[command.read]
        now = self.clock.now
        self.scheduler.decoded(command, blocks, error, began=began, now=now, jitter=self.chance.random())
        return self._free()
