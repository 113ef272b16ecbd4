"""The applications of a simulated world with consumers: the real DirectConsumer over models of its threads and of librdkafka.

Each application calls one method of its consumer in each turn, mostly poll or consume. Some consumers are members of one group.
Others have assigned themselves partitions, seek, and share the group's committed offsets. An application may close or crash;
then a new one starts. All calls are recorded. What a call delivers is judged when it returns (delivery_judge.py), and the end
of the world compares the whole history with the log, by the invariants I1 to I12.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    KafkaException,
    Message,
    TopicPartition,
)

from kafka_remote_client.consumer.direct_consumer import DirectConsumer
from kafka_remote_client.model import IsolationLevel
from tests.simulation.clients import Client
from tests.simulation.consumer_engine import ConsumerEngine
from tests.simulation.coordinator import Coordinator, Rebalance
from tests.simulation.delivery_judge import DeliveryJudge
from tests.simulation.history_judge import HistoryJudge
from tests.simulation.inner_model import InnerModel
from tests.simulation.judge import ViolationError
from tests.simulation.replaced_log_judge import ReplacedLogJudge
from tests.support.group_judgement import shared_badly
from tests.support.history import History, Moved, Outcome, Produced, Record, Revoked
from tests.support.invariants.checker import INVARIANTS, violations
from tests.support.invariants.oracle import Oracle
from tests.support.invariants.violation import Violation
from tests.support.recorder import RecordedConsumer

if TYPE_CHECKING:
    from tests.simulation.topic_logs import LedPartition
    from tests.simulation.world import World

__all__ = ["Members"]

_JOIN_SECONDS = 0.5
"""The mean time after which members join that are not the first one."""
_RESTART_SECONDS, _REJOIN_SECONDS = 0.5, 1.5
_STORE_SECONDS, _DUE_SECONDS = 0.01, 0.1
"""How often the thread of the delivery queue stores offsets, and asks for a poll of librdkafka."""
_QUIET_SECONDS = 35.0
"""A world ends when no record has come for so long."""
_OF_ONE_LOG = INVARIANTS.keys() - {"I10", "I11"}
"""The invariants that know one log for each partition. replaced_log_judge.py has their rules where it is replaced."""
_LONGEST_WAIT_SECONDS = 30.0
"""The limit of I9: longer than all time-outs and pauses before the broker takes over."""


class _NoThread:
    """The thread of a delivery queue does its work between the application's calls: see ``_Application.tick``."""

    def join(self) -> None:
        """There is nothing to wait for."""


class SimulatedConsumer(DirectConsumer, InnerModel):
    """The real direct consumer. Its base class, and so the consumer inside, is the model of librdkafka."""

    engine: ConsumerEngine

    @classmethod
    def made(
        cls, world: World, coordinator: Coordinator, name: str, principal: str, settings: dict[str, Any]
    ) -> SimulatedConsumer:
        """Does what the constructor of Consumer does."""
        consumer = cls.__new__(cls)
        consumer.engine = engine = ConsumerEngine(world, Client(world, principal))
        config, clock = world.scenario.config, world.clock
        composed = consumer._direct_compose(engine, config, settings, dict(settings), clock, engine.metrics)
        consumer._direct_deliveries.queue._thread = _NoThread()
        consumer.begin(world, coordinator, composed, name, principal)
        return consumer

    def _rebalance(self, event: Rebalance, numbers: list[int]) -> None:
        saw, kept = self._world.seen.saw, self._toppars.keys() - set(numbers)
        if event is Rebalance.ASSIGN:
            if numbers and kept:
                saw("assigned-more")
        elif self.engine.ready_partitions & set(numbers):
            saw("revoked-with-records")
        if event is Rebalance.REVOKE and self.engine.ready_partitions & kept:
            saw("kept-with-records")
        super()._rebalance(event, numbers)


def _records(partition: LedPartition, level: IsolationLevel) -> Iterator[Record]:
    for offset, entry in partition.log.readable(level, 0, partition.log.end):
        if entry.value is not None:
            stamp = TIMESTAMP_CREATE_TIME, entry.time_ms
            yield Record("orders", partition.number, offset, stamp, entry.epoch, None, entry.value, None)


@attrs.define(eq=False)
class _Application:
    """One process. ``paused``: the partitions that it has paused."""

    slot: int
    consumer: RecordedConsumer
    ticked_at: float
    due_at: float
    paused: set[int] = attrs.field(factory=set)
    ended: bool = False

    @property
    def direct(self) -> SimulatedConsumer:
        direct: SimulatedConsumer = self.consumer.inner
        return direct

    def tick(self, now: float) -> None:
        """What the thread of the delivery queue did since the last call."""
        queue = self.direct._direct_deliveries.queue
        if now - self.ticked_at >= _STORE_SECONDS:
            queue.store()
            self.ticked_at = now
        if now >= self.due_at:
            queue.due = True
            self.due_at = now + _DUE_SECONDS


class Members:
    """All applications of a world. Its methods have the same names as those of application.py."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance
        self._history = History(now=world.clock.monotonic)
        self._group = Coordinator(world, cooperative=world.scenario.cooperative)
        self._groups: defaultdict[int, Coordinator] = defaultdict(partial(Coordinator, world))
        """The groups of consumers that assign themselves partitions, by slot."""
        self._applications: list[_Application] = []
        self._started = 0
        self._draining = False
        self._delivered_at = 0.0
        self._noted: Counter[int] = Counter()
        """Up to where the records of each partition are in the history."""
        self._starts: Counter[int] = Counter()
        chance = world.chance
        self._level = chance.choice((IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED))
        self._settings = {
            "isolation.level": self._level.name.lower(),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": world.scenario.grouped or chance.random() < 0.5,
            "enable.auto.offset.store": True,
            "enable.partition.eof": chance.random() < 0.3,
            "auto.commit.interval.ms": chance.choice((50, 1_000, 5_000)),
            "partition.assignment.strategy": "cooperative-sticky" if world.scenario.cooperative else "range",
        }
        partitions = world.brokers.partitions
        self._deliveries: HistoryJudge = (
            ReplacedLogJudge(partitions, self._level, world.seen)
            if world.scenario.replaces_logs
            else DeliveryJudge(partitions, self._level)
        )
        self._calls: tuple[Callable[[_Application], None], ...] = (
            self._pause,
            self._resume,
            self._commit,
            self._position,
            self._switch,
            *(() if world.scenario.grouped else (self._seek, self._seek, self._assign)),
        )

    # -- the run -----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts all applications."""
        self._world.brokers.changed = self._log_changed
        self._world.brokers.deleted = self._deleted
        self._log_changed()
        for slot in range(self._world.scenario.consumers):
            if slot and self._world.scenario.grouped:
                self._world.turn(self._world.some(_JOIN_SECONDS), partial(self._start, slot))
            else:
                self._start(slot)

    def stop(self) -> bool:
        """Lets all consumers read to the end, then closes them. Returns whether that is done."""
        if not self._draining:
            self._draining = True
            self._delivered_at = self._world.clock.now
            self._world.brokers.calm()
            for application in self._running:
                self._resume_all(application)
        if self._world.clock.now - self._delivered_at < _QUIET_SECONDS:
            return False
        self._deliveries.judge_ends()
        for application in self._running:
            self._close(application)
        return True

    def judge_end(self) -> None:
        """Compares the whole history with the log. Raises ViolationError."""
        partitions = self._world.brokers.partitions
        if self._world.scenario.replaces_logs:
            self._raise(violations(self._history, Oracle({}), without=_OF_ONE_LOG))
            return
        records = {("orders", one.number): _records(one, self._level) for one in partitions}
        oracle = Oracle(records, {("orders", one.number): one.log.end for one in partitions})
        self._raise(violations(self._history, oracle, seconds=_LONGEST_WAIT_SECONDS))
        if self._world.scenario.grouped:
            wrong = shared_badly(self._history, oracle, {application.consumer.name for application in self._applications})
            if wrong:
                raise ViolationError("group", "\n".join(wrong[:10]))

    @staticmethod
    def _raise(found: list[Violation]) -> None:
        if found:
            raise ViolationError(found[0].invariant, "\n".join(map(str, found[:10])))

    @property
    def _running(self) -> list[_Application]:
        return [application for application in self._applications if not application.ended]

    def _start(self, slot: int) -> None:
        world = self._world
        world.retire()
        self._started += 1
        self._delivered_at = world.clock.now
        name = f"consumer {slot}.{self._started}"
        world.tell("%s starts", name)
        group = self._group if world.scenario.grouped else self._groups[slot]
        settings = {**self._settings, "group.id": "members" if world.scenario.grouped else f"slot {slot}"}
        made = partial(SimulatedConsumer.made, world, group, name, f"client {slot}")
        consumer = RecordedConsumer(made, settings, self._history, name)
        application = _Application(slot, consumer, world.clock.now, world.clock.now)
        self._applications.append(application)
        if world.scenario.grouped:
            consumer.subscribe(["orders"])
        else:
            consumer.assign(self._some_partitions())
        self._next(application)

    def _some_partitions(self) -> list[TopicPartition]:
        partitions = self._world.brokers.partitions
        chosen = self._chance.sample(partitions, self._chance.randint(1, len(partitions)))
        return [TopicPartition("orders", one.number, self._start_offset(one)) for one in chosen]

    def _start_offset(self, partition: LedPartition) -> int:
        logical = (OFFSET_BEGINNING, OFFSET_STORED, OFFSET_INVALID, OFFSET_END)
        return self._chance.choice(logical) if self._chance.random() < 0.5 else self._anywhere(partition)

    def _anywhere(self, partition: LedPartition) -> int:
        return self._chance.randint(partition.log_start, max(partition.log_start, partition.log.end - 1))

    # -- turns -------------------------------------------------------------------------------------------------------------

    def _next(self, application: _Application) -> None:
        self._world.turn(self._world.some(self._world.scenario.takes_seconds), partial(self._turn, application))

    def _turn(self, application: _Application) -> None:
        world = self._world
        if application.ended:
            return
        world.progress()
        application.tick(world.clock.now)
        if not self._draining and world.happens(world.scenario.crashes):
            (self._crash if self._chance.random() < 0.5 else self._close)(application)
            pause = _REJOIN_SECONDS if world.scenario.grouped else _RESTART_SECONDS
            world.turn(world.some(pause), partial(self._start, application.slot))
            return
        if not self._draining and world.happens(world.scenario.calls):
            try:
                self._chance.choice(self._calls)(application)
            except KafkaException as error:
                world.tell("%s: the call fails: %s", application.consumer.name, error)
        else:
            self._poll(application)
        self._deliveries.judge(self._history.events)
        self._next(application)

    def _poll(self, application: _Application) -> None:
        consumer, chance = application.consumer, self._chance
        timeout = chance.choice((0.0, 0.0, 0.05, 0.2))
        messages: list[Message]
        if self._draining:
            messages = consumer.consume(500, 0.2)
        elif chance.random() < 0.5:
            messages = [one for _ in range(chance.randint(1, 40)) if (one := consumer.poll(timeout)) is not None]
        else:
            messages = consumer.consume(chance.choice((1, 20, 200)), timeout)
        records = [message for message in messages if message.error() is None]
        if records:
            self._delivered_at = self._world.clock.now
            self._world.tell("%s gets %d records, the last at offset %d", consumer.name, len(records), records[-1].offset())

    # -- other calls -------------------------------------------------------------------------------------------------------

    def _one(self, application: _Application) -> LedPartition | None:
        assigned = application.direct.assignment()
        return self._world.brokers.partitions[self._chance.choice(assigned).partition] if assigned else None

    def _pause(self, application: _Application) -> None:
        partition = self._one(application)
        if partition is not None:
            self._world.tell("%s pauses orders-%d", application.consumer.name, partition.number)
            application.consumer.pause([TopicPartition("orders", partition.number)])
            application.paused.add(partition.number)

    def _resume(self, application: _Application) -> None:
        if application.paused:
            self._world.tell("%s resumes all", application.consumer.name)
            self._resume_all(application)

    def _resume_all(self, application: _Application) -> None:
        application.consumer.resume([TopicPartition("orders", number) for number in sorted(application.paused)])
        application.paused.clear()
        application.direct.set_remote_fetch(True)

    def _commit(self, application: _Application) -> None:
        synchronous = self._chance.random() < 0.5
        self._world.tell("%s commits, %s", application.consumer.name, "and waits" if synchronous else "asynchronously")
        application.consumer.commit(asynchronous=not synchronous)

    def _position(self, application: _Application) -> None:
        application.consumer.position(application.direct.assignment())

    def _switch(self, application: _Application) -> None:
        enabled = self._chance.random() < 0.5
        self._world.tell("%s turns direct fetch %s", application.consumer.name, "on" if enabled else "off")
        application.direct.set_remote_fetch(enabled)

    def _seek(self, application: _Application) -> None:
        partition = self._one(application)
        if partition is not None:
            offset = self._chance.choice((OFFSET_BEGINNING, *[self._anywhere(partition)] * 3))
            self._world.tell("%s seeks orders-%d to %d", application.consumer.name, partition.number, offset)
            application.consumer.seek(TopicPartition("orders", partition.number, offset))

    def _assign(self, application: _Application) -> None:
        partitions = self._some_partitions()
        places = [(one.partition, one.offset) for one in partitions]
        self._world.tell("%s assigns itself %s", application.consumer.name, places)
        application.consumer.unassign()  # commits, so that the recorder gets the committed offset that reading begins at
        application.consumer.assign(partitions)

    def _close(self, application: _Application) -> None:
        self._world.tell("%s closes", application.consumer.name)
        application.ended = True
        application.consumer.close()

    def _crash(self, application: _Application) -> None:
        self._world.seen.saw("crashed")
        self._world.tell("%s crashes", application.consumer.name)
        application.ended = True
        direct = application.direct
        direct.engine.close()
        keys = tuple(("orders", tp.partition) for tp in direct.assignment())
        InnerModel.crash(direct)
        self._group.crashed(application.consumer.name)
        self._history.add(Revoked, application.consumer.name, keys=keys, lost=True)

    # -- the log -----------------------------------------------------------------------------------------------------------

    def _deleted(self) -> None:
        self._group.forget()
        for group in self._groups.values():
            group.forget()

    def _log_changed(self) -> None:
        """Notes what can be read from now on, and where the logs begin. Waiting fetches are answered."""
        if not self._world.scenario.replaces_logs:
            self._note_logs()
        for application in self._running:
            application.direct.log_changed()

    def _note_logs(self) -> None:
        for partition in self._world.brokers.partitions:
            start, log = self._noted[partition.number], partition.log
            end = self._noted[partition.number] = log.stable_end(self._level)
            visible = {record.offset for record in log.records(self._level, start, end)}
            for offset, entry in log.readable(IsolationLevel.READ_UNCOMMITTED, start, end):
                if entry.value is not None:
                    self._history.add(
                        Produced,
                        topic="orders",
                        partition=partition.number,
                        offset=offset,
                        key=None,
                        value=entry.value,
                        outcome=Outcome.PLAIN if offset in visible else Outcome.ABORTED,
                    )
            if partition.log_start > self._starts[partition.number]:
                self._starts[partition.number] = partition.log_start
                self._history.add(Moved, key=("orders", partition.number), log_start=partition.log_start)
