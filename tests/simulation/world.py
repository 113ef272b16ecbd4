"""A world in virtual time: the real client and shim, with models of threads, sockets, store, librdkafka and applications.

::

    part                                | real or model
    Scheduler, PartitionRead, policy,   | real
    plan, hedging, budget, decoder      |
    FetchEngine: threads, clock, locks  | model (engine.py)
    store                               | model with faults (store.py)
    reads without a consumer            | model: takes blocks, holds them, seeks, continues at the broker (application.py)
    DirectConsumer with its parts       | real: routes, hand-overs, deliveries, committed offsets, rebalances
    librdkafka, the group's coordinator | models (inner_model.py, coordinator.py)
    application of a consumer           | model: all calls at random, crash and restart (members.py); its history is judged by
                                        | the invariants I1 to I12 (tests/support/invariants)
    grants, look-ups, follower,         | real, in virtual time (shim.py): GrantingBroker, resolver, lineage, indexes, signed
    location source                     | URLs, RemoteLogMetadataFollower, BrokerLocationSource with its leaders (clients.py),
                                        | whose answers have faults (location_faults.py)
    both of these in settled worlds     | model: known_locations.py, so that most events are those of reads
    logs, tier                          | ``tiered_cluster`` and ``tiered_kafka`` (brokers.py), judged by produced_log.py

All that is random comes from the scenario's seed, so a scenario always runs in the same way. The judge looks after each event.
"""

from __future__ import annotations

import gc
import logging
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafka_remote_client.location import leaders
from kafka_remote_client.remote_log import follower
from tests.simulation.brokers import Brokers
from tests.simulation.clients import Clients
from tests.simulation.engine import Engine
from tests.simulation.judge import ViolationError
from tests.simulation.known_locations import KnownLocations
from tests.simulation.members import Members
from tests.simulation.occurrences import Occurrences
from tests.simulation.scenario import Scenario
from tests.simulation.shim import Shim
from tests.simulation.store import Store
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.virtual_threads import VirtualClock, VirtualThreads
from tests.support.event_queue import EventQueue

__all__ = ["World", "garbage_kept"]

_STANDSTILL_SECONDS = 200.0
_MOST_EVENTS = 200_000
"""Of a world; one with consumers has some thousand. Then it is told as a failure, because a bug keeps it from its end."""
_MOST_LOOKS = 10_000
"""In a row. An engine that is idle looks four times a second."""
_LEVELS = {"kafka_remote_client": logging.CRITICAL, "kafka_remote_client.consumer.routing": logging.INFO}
"""Of loggers. The recorder of histories needs the lines of the second one."""


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Collects no cycles during a world: it ends before its garbage matters, and collections take a tenth of its time.

    Who runs many worlds keeps it around all of them, and collects the youngest generation after each: a world that is over.
    Otherwise the first collection looks at a world that is still in use, and the next one at all that the process has.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class World:
    """One run of a scenario. ``story``: what happened, as (time, text with places, values)."""

    def __init__(self, scenario: Scenario, seen: Occurrences | None = None) -> None:
        self.scenario = scenario
        self.seen = Occurrences() if seen is None else seen
        self.clock = VirtualClock(0.0)
        self.chance = random.Random(scenario.seed)
        self.events = 0
        self.story: list[tuple[float, str, tuple[object, ...]]] = []
        self.progressed_at = 0.0
        self._looks = 0
        """How often idle workers have looked for work since the last event."""
        self.threads = self.clock.threads = VirtualThreads(self)
        self.loop = VirtualLoop(self)
        self.engines: list[Engine] = []
        self._queue: EventQueue[Callable[[], None]] = EventQueue()
        self._turns: EventQueue[Callable[[], None]] = EventQueue()
        self.brokers = Brokers(self)
        self.shim = Shim(self, self.brokers)
        self.known = KnownLocations(self)
        self.store = Store(scenario, self.known if scenario.settled else self.brokers, self.chance, self.seen)
        self._applications: Clients | Members = Members(self) if scenario.consumers else Clients(self)

    def run(self) -> int:
        """Runs the scenario. Returns the number of events. Raises ViolationError."""
        with garbage_kept(), self._without_threads():
            try:
                self._run()
            finally:
                self.threads.close()
                self.loop.close()
        return self.events

    @contextmanager
    def _without_threads(self) -> Iterator[None]:
        """The product's own threads and librdkafka are replaced, and its warnings about failures are not shown."""
        places = (leaders, "side_by_side"), (follower, "Consumer")
        before = [getattr(module, name) for module, name in places]
        levels = [(log, log.level) for log in map(logging.getLogger, _LEVELS)]
        for log, _ in levels:
            log.setLevel(_LEVELS[log.name])
        new = (self.threads.side_by_side, self.shim.metadata_consumer)
        try:
            for (module, name), one in zip(places, new, strict=True):
                setattr(module, name, one)
            yield
        finally:
            for log, level in levels:
                log.setLevel(level)
            for (module, name), one in zip(places, before, strict=True):
                setattr(module, name, one)

    def _run(self) -> None:
        if not self.scenario.settled:
            self.shim.start()
        self.brokers.start()
        self._applications.start()
        self._settle()
        while self.events < self.scenario.steps:
            self._step()
        while not self._applications.stop():
            self._step()
        self.shim.stop()
        while not all(engine.is_idle for engine in self.engines):
            self._step()
        for engine in self.engines:
            engine.judge_end()
        self._applications.judge_end()

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        """``event`` happens in so many seconds."""
        self._queue.add(self.clock.now + seconds, event)

    def turn(self, seconds: float, event: Callable[[], None]) -> None:
        """It is an application's turn in so many seconds, or later: not during a call of another one that waits."""
        self._turns.add(self.clock.now + seconds, event)

    def some(self, mean: float) -> float:
        """A random time with that mean."""
        return self.chance.expovariate(1 / mean)

    def happens(self, share: float) -> bool:
        """Whether something happens that does in that share of the cases."""
        return share > 0 and self.chance.random() < share

    def wait(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Waits inside an application's call: at most ``seconds``, or until a condition holds. Returns whether it holds."""
        end = self.clock.now + seconds
        self._settle()
        while until is None or not until():
            if min(self._queue.next_at, self._first_look) > end:
                self.clock.now = max(end, self.clock.now)
                return False
            self._step(machines=True)
        return True

    def tell(self, text: str, *values: object) -> None:
        """Adds a line to the story."""
        self.story.append((self.clock.now, text, values))

    def progress(self) -> None:
        """An application got something."""
        self.progressed_at = self.clock.now

    def retire(self) -> None:
        """Judges the engines that were closed and have become idle, and forgets them."""
        for engine in [one for one in self.engines if one.closed and one.is_idle]:
            engine.judge_end()
            self.engines.remove(engine)

    @property
    def _first_look(self) -> float:
        first = math.inf
        for engine in self.engines:
            if engine.look_at < first:
                first = engine.look_at
        return first

    def _step(self, *, machines: bool = False) -> None:
        """The next event happens; ``machines``: no application gets its turn."""
        look = self._first_look
        queue = self._queue if machines or self._queue.next_at <= self._turns.next_at else self._turns
        if look < queue.next_at:
            self._looks += 1
            if self._looks > _MOST_LOOKS:
                raise ViolationError("J9", f"idle workers look for work {_MOST_LOOKS} times in a row")
            self.clock.now = max(self.clock.now, look)
            next(engine for engine in self.engines if engine.look_at == look).look()
        else:
            at, event = queue.pop()
            self.clock.now = max(self.clock.now, at)
            self.events += 1
            if self.events > _MOST_EVENTS:
                raise ViolationError("J9", f"the world does not end within {_MOST_EVENTS} events")
            self._looks = 0
            event()
            self._settle()
        if self.clock.now - self.progressed_at > _STANDSTILL_SECONDS:
            raise ViolationError("J9", f"nothing was delivered for {_STANDSTILL_SECONDS:.0f} seconds")

    def _settle(self) -> None:
        self.loop.run()
        for engine in self.engines:
            engine.settle()
