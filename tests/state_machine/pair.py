"""Two consumers that get the same commands: the consumer under test, and the plain one, which is the model.

No comparison depends on time. Each consumer has its own deliveries of each partition since its last start offset was set, and
both sequences equal the log from there on; one may be longer. Calls that depend on all deliveries (a commit of stored offsets,
closing a consumer) run when both have delivered the same and are directly before the next record, or at the end of the
partition: :meth:`Pair.quiet`. So results, errors, positions and committed offsets are exactly equal under any load. Between a
record and a following marker neither is quiet: the call that passes the marker depends on what the broker has sent by then
(``rd_kafka_q_serve_rkmessages`` serves what is queued).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeAlias

import attrs
import confluent_kafka
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from kafka_remote_client.clock import Deadline, SystemClock
from tests.state_machine.world import PATIENCE_SECONDS, World
from tests.support.history import History, Key, Place, Record, Sought
from tests.support.invariants.checker import check
from tests.support.invariants.oracle import Oracle
from tests.support.recorder import RecordedConsumer, recorded

__all__ = ["OFFSET_TAIL", "Options", "Pair", "Take", "by_arrow", "by_consume", "by_poll", "tp"]

_WAIT_SECONDS = 0.05

OFFSET_TAIL = -2000
"""librdkafka's RD_KAFKA_OFFSET_TAIL_BASE: ``OFFSET_TAIL - n`` is ``n`` records before the end."""

Take: TypeAlias = Callable[[RecordedConsumer, int], Sequence[Message]]
"""Gets a consumer and the number of messages to take; returns the messages."""


@attrs.frozen
class Options:
    """The configuration of both consumers."""

    isolation: str
    reset: str
    stores: bool
    commits: bool
    announces_ends: bool

    def settings(self) -> dict[str, Any]:
        """Settings of both consumers. They commit stored offsets on close and on giving up partitions, not periodically."""
        return {
            "isolation_level": self.isolation,
            "auto_offset_reset": self.reset,
            "enable_auto_offset_store": self.stores,
            "enable_auto_commit": self.commits,
            "auto_commit_interval_ms": 3_600_000,
            "enable_partition_eof": self.announces_ends,
        }


@attrs.define
class Reading:
    """A partition as one consumer reads it since its start offset was last set.

    ``start``: None while only the broker knows it. ``came``: how many records were delivered. ``end_reported_at``: its value
    when the end was last reported. ``looked_up``: whether librdkafka asks the broker for the start; see :meth:`Pair.find`.
    ``fails``: the reset policy "error" applies: one error and nothing else is delivered; ``error`` is its name after that.
    ``passed``: the position of both at the end.
    """

    start: int | None
    looked_up: bool = False
    came: int = 0
    end_reported_at: int | None = None
    last: Message | None = None
    fails: bool = False
    error: str | None = None
    passed: int | None = None

    @property
    def found(self) -> bool:
        """Whether the look-up of the start has certainly ended."""
        return not self.looked_up or self.came > 0 or self.end_reported_at is not None or self.error is not None

    @property
    def position(self) -> int:
        offset = None if self.last is None else self.last.offset()
        return OFFSET_INVALID if offset is None else offset + 1


class Side:
    """One of the two consumers."""

    def __init__(self, name: str, consumer: RecordedConsumer) -> None:
        self.name = name
        self.consumer = consumer
        self.readings: dict[Key, Reading] = {}


def tp(key: Key, offset: int = OFFSET_INVALID) -> TopicPartition:
    """Returns confluent_kafka's TopicPartition."""
    return TopicPartition(*key, offset)


def by_poll(consumer: RecordedConsumer, wanted: int) -> Sequence[Message]:
    """Takes the next message with poll()."""
    message = consumer.poll(_WAIT_SECONDS)
    return () if message is None else (message,)


def by_consume(consumer: RecordedConsumer, wanted: int) -> Sequence[Message]:
    """Takes the messages of one consume() call."""
    return consumer.consume(wanted, _WAIT_SECONDS)


def by_arrow(consumer: RecordedConsumer, wanted: int) -> Sequence[Message]:
    """The same, with consume_arrow() for the consumer under test."""
    return consumer.consume_arrow(wanted, _WAIT_SECONDS)


class Pair:
    """Both consumers of one run of the machine. ``patience``: seconds that a delivery may take."""

    def __init__(self, world: World, options: Options, group: str, patience: float) -> None:
        self.world = world
        self.options = options
        self.history = History()
        self.from_store = 0
        """How many records ours read directly."""
        self.paused: set[Key] = set()
        self.known: set[Key] = set()
        """What was assigned since the consumers were opened: it keeps its pause, assigned or not."""
        self.tailed: set[Key] = set()
        self._group = group
        self._patience = patience
        self._opened = 0
        self.open()

    def open(self) -> None:
        """Opens both consumers again, each in its own group."""
        self._opened += 1
        settings = self.options.settings()

        def made(name: str, make: Callable[[dict[str, Any]], confluent_kafka.Consumer], history: History) -> Side:
            config = self.world.settings(**settings, group_id=f"{self._group}-{name}")
            return Side(name, recorded(make, config, history, f"{name}-{self._opened}"))

        self.ours, self.plain = (
            made("ours", self.world.consumer, self.history),
            made("plain", confluent_kafka.Consumer, History()),
        )
        self.sides = (self.ours, self.plain)
        # librdkafka starts up to a second late to read a topic that it does not know.
        for side in self.sides:
            side.consumer.inner.list_topics(timeout=PATIENCE_SECONDS)
        self.paused.clear()
        self.known.clear()
        self.tailed.clear()

    def close(self, *, settled: bool = True) -> None:
        """Closes both consumers."""
        if settled:
            self.settle()
            if self.options.stores and self.options.commits and self.world.marked & set(self.assigned):
                # rd_kafka_consumer_close() serves queued operations (rd_kafka_op_handle_std). So it commits past markers after
                # undelivered records, unless its main thread has committed before. The consumer under test does not.
                self.give_up(lambda consumer: consumer.unassign(), list(self.assigned))
        self.from_store += self.ours.consumer.inner.metrics()["remote-fetch-records-total"]
        for side in self.sides:
            side.consumer.close()
            side.readings.clear()

    def judge(self) -> None:
        """Checks the history of the consumer under test against the invariants.

        Without those about positions, commits and errors: these are the model's own, answer by answer, and here the application
        commits what it was never given.
        """
        read = {key: found for key, found in self.truth.items() if found}
        oracle = Oracle(read, {key: self.end(key) for key in read})
        check(self.history, oracle, without=("I8", "I10"))

    @property
    def assigned(self) -> Collection[Key]:
        return self.plain.readings.keys()

    @property
    def truth(self) -> dict[Key, list[Record]]:
        return self.world.truth[self.options.isolation]

    # -- commands ----------------------------------------------------------------------------------------------------------

    def both(self, call: Callable[[RecordedConsumer], Any]) -> Any:
        """Calls both and asserts that they return or raise the same. Returns the model's outcome."""
        ours, plain = self.each(call)
        assert ours == plain, f"ours: {ours}, plain: {plain}"
        return plain

    def each(self, call: Callable[[RecordedConsumer], Any]) -> tuple[Any, Any]:
        """The outcomes of the consumer under test and of the model: what they return or raise."""
        return self._outcome(call, self.ours.consumer), self._outcome(call, self.plain.consumer)

    def set_starts(
        self,
        call: Callable[[RecordedConsumer, list[TopicPartition]], Any],
        places: Sequence[tuple[Key, int]],
        *,
        alone: bool = False,
    ) -> None:
        """Makes a call that sets the start offsets of partitions. ``alone``: all other partitions are given up."""
        where = {key: self._numeric_start(key, offset) for key, offset in places}
        starts = {key: self._reading(key, offset) for key, offset in where.items()}
        for key, reading in starts.items():
            if reading.looked_up and (key in self.paused or not self.options.announces_ends):
                # Nothing would show the end of the look-up: see find().
                reading.looked_up = False
                reading.fails = False
                where[key] = reading.start = self.end(key) if reading.start is None else reading.start
        if _raised(self.both(lambda consumer: call(consumer, [tp(*place) for place in where.items()]))):
            return
        for key, offset in where.items():
            if offset in (OFFSET_INVALID, OFFSET_STORED):  # includes offsets that are committed as partitions are given up
                starts[key] = self._reading(key, offset)
        self.tailed |= {key for key, offset in where.items() if offset <= OFFSET_TAIL}
        for side in self.sides:
            if alone:
                side.readings.clear()
            side.readings |= {key: attrs.evolve(reading) for key, reading in starts.items()}
        self.known |= starts.keys()
        for key, offset in where.items():
            if (
                offset > self.end(key) or 0 <= offset < self.world.starts[key]
            ):  # the history records the result of the reset policy
                at = OFFSET_BEGINNING if self.options.reset == "earliest" else OFFSET_END
                self.history.add(Sought, self.ours.consumer.name, place=Place(*key, at))
            elif offset <= OFFSET_TAIL or (offset in (OFFSET_INVALID, OFFSET_STORED) and not starts[key].looked_up):
                self.history.add(Sought, self.ours.consumer.name, place=Place(*key, int(starts[key].start or 0)))
        for side in self.sides:
            self._take(side, by_poll, partial(_searching, side))

    def refused(self, call: Callable[[RecordedConsumer], Any], *, alone: bool) -> None:
        """Makes an assignment that both refuse. ``alone``: the previous assignment is given up anyway."""
        assert _raised(self.both(call)), "librdkafka accepts this list"
        if alone:  # rd_kafka_cgrp_assign() clears the assignment first
            for side in self.sides:
                side.readings.clear()

    def _numeric_start(self, key: Key, offset: int) -> int:
        """The same place as a number, where librdkafka mistakes it.

        ``rd_kafka_toppar_next_offset_handle`` moves the start back once more by the count of the last tail that was looked up,
        where ``rd_kafka_offset_reset`` takes the log's start from the last fetch and not from the broker. That lies below the
        log's start; the policy "earliest" leads back to it. ``test_plain_consumer.py`` has the plain consumer do it.
        """
        mistaken = offset == OFFSET_BEGINNING and key in self.tailed and self.options.reset != "earliest"
        return self.world.starts[key] if mistaken else offset

    def find(self) -> None:
        """Each delivers until something has come of every partition whose start is looked up.

        For before a seek, a pause, an assignment: one that comes sooner librdkafka follows at first, and half a second later it
        looks the start up once more and goes on from there.
        """
        for side in self.sides:
            self._take(side, by_poll, partial(self._unfound, side))

    def _unfound(self, side: Side) -> int:
        return sum(not reading.found for key, reading in side.readings.items() if key not in self.paused)

    def resume(self, keys: Collection[Key]) -> None:
        """Resumes partitions of both, paused or not."""
        self.both(lambda consumer: consumer.resume([tp(key) for key in keys]))
        self.paused.difference_update(keys)

    def give_up(self, call: Callable[[RecordedConsumer], Any], keys: Collection[Key]) -> None:
        """Makes a call that gives up partitions."""
        if not _raised(self.both(call)):
            for side in self.sides:
                for key in keys:
                    side.readings.pop(key, None)

    def _reading(self, key: Key, offset: int) -> Reading:
        if offset in (OFFSET_INVALID, OFFSET_STORED):
            ((_, _, offset, _, _),) = self.both(lambda consumer: consumer.inner.committed([tp(key)], PATIENCE_SECONDS))
        start, end = self.world.starts[key], self.end(key)
        if offset == OFFSET_BEGINNING:
            return Reading(start, looked_up=True)
        if offset <= OFFSET_TAIL:
            return Reading(max(start, end - (OFFSET_TAIL - offset)), looked_up=True)
        if start <= offset <= end:
            return Reading(offset)
        if offset == OFFSET_END or self.options.reset == "latest":
            return Reading(None, looked_up=True)
        if self.options.reset == "error":
            return Reading(None, looked_up=True, fails=True)
        return Reading(start, looked_up=True)

    # -- deliveries --------------------------------------------------------------------------------------------------------

    def deliver(self, count: int, take: Take) -> None:
        """Both deliver ``count`` messages, or all that are left."""
        for side in self.sides:
            least = max(0, self.pending(side) - count)
            self._take(side, take, partial(self.pending, side, least))

    def call_without_waiting(self, take: Callable[[RecordedConsumer], Sequence[Message]]) -> None:
        """Makes a call that does not wait."""
        for side in self.sides:
            self._note(side, take(side.consumer))

    def settle(self) -> None:
        """Call it before automatically stored offsets are committed, or become final."""
        if self.options.stores:
            self.quiet()

    def quiet(self) -> None:
        """Each delivers until both have delivered the same and no marker lies between that and the next record, or the end."""
        self.catch_up()
        while unquiet := [key for key in self.assigned if key not in self.paused and not self.is_quiet(key)]:
            key = unquiet[0]
            reading = self.plain.readings[key]
            ended, wanted = not self._rest(key, reading), reading.came + 1
            for side in self.sides:
                passes = partial(self._passes_end, side, key) if ended else partial(_to_come, side.readings[key], wanted)
                self._take(side, by_poll, passes)
                side.readings[key].passed = self.end(key) if ended else None
            self.catch_up()

    def _passes_end(self, side: Side, key: Key) -> int:
        (at,) = side.consumer.inner.position([tp(key)])
        return int(at.offset != self.end(key))

    def is_quiet(self, key: Key) -> bool:
        """Whether both are at the same offset of a partition, directly before the next record or at the end."""
        reading = self.plain.readings[key]
        if not self.is_caught_up(key):
            return False
        if reading.start is None:
            return not reading.looked_up or reading.error is not None
        rest = self._rest(key, reading)
        current = reading.start if reading.came == 0 else reading.position
        return (rest[0].offset if rest else self.end(key)) == current or (not rest and reading.passed == self.end(key))

    def exact_position(self, key: Key, reading: Reading) -> int:
        """The exact position where the partition is quiet."""
        return reading.position if reading.passed != self.end(key) else reading.passed

    def is_possible_position(self, key: Key, reading: Reading, position: int) -> bool:
        """Whether ``position`` differs from the last record by markers and aborted records only."""
        if position == reading.position or reading.start is None:
            return position == reading.position
        rest = self._rest(key, reading)
        current = reading.start if reading.came == 0 else reading.position
        return current < position <= (rest[0].offset if rest else self.end(key))

    def end(self, key: Key) -> int:
        """The end offset of a partition at this isolation level."""
        return self.world.end(key, self.options.isolation)

    def catch_up(self) -> None:
        """Each delivers until both have delivered the same."""
        while any(self._behind(one, other) for one, other in (self.sides, self.sides[::-1])):
            for one, other in (self.sides, self.sides[::-1]):
                self._take(one, by_poll, partial(self._behind, one, other))

    def is_caught_up(self, key: Key) -> bool:
        ours, plain = self.ours.readings[key], self.plain.readings[key]
        return (ours.came, ours.error) == (plain.came, plain.error)

    def _behind(self, one: Side, other: Side) -> int:
        active = one.readings.keys() - self.paused
        return sum(
            max(0, other.readings[key].came - one.readings[key].came)
            + (other.readings[key].error is not None and one.readings[key].error is None)
            for key in active
        )

    def pending(self, side: Side, least: int = 0) -> int:
        """How many messages have to be delivered until at most ``least`` are left."""
        return sum(self._pending(key, reading) for key, reading in side.readings.items() if key not in self.paused) - least

    def _pending(self, key: Key, reading: Reading) -> int:
        if reading.fails:
            return int(reading.error is None)
        left = 0 if reading.start is None else len(self._rest(key, reading))
        return left + (self.options.announces_ends and reading.end_reported_at != reading.came + left)

    def _rest(self, key: Key, reading: Reading) -> list[Record]:
        assert reading.start is not None
        truth = self.truth[key]
        return truth[bisect_left(truth, reading.start, key=lambda record: record.offset) + reading.came :]

    def _take(self, side: Side, take: Take, wanted: Callable[[], int]) -> None:
        deadline = Deadline(SystemClock(), self._patience)
        while (count := wanted()) > 0:
            assert not deadline.expired(), f"{side.name} still waits for {count} messages: {side.readings}"
            self._note(side, take(side.consumer, count))

    def _note(self, side: Side, messages: Sequence[Message]) -> None:
        for message in messages:
            key = str(message.topic()), int(message.partition() or 0)
            shown = f"{side.name}: {key} {message.offset()} {message.error()}"
            reading = side.readings.get(key)
            assert reading is not None, f"{shown} is of a partition that is not assigned"
            assert key not in self.paused, f"{shown} is delivered while paused"
            error = message.error()
            if error is None:
                assert reading.start is not None, f"{shown} is at or after the end"
                rest = self._rest(key, reading)
                assert rest, f"{shown} is delivered after the end"
                record = Record.of(message)
                assert record == rest[0], f"{side.name}: {record} is delivered in place of {rest[0]}"
                reading.came += 1
                reading.last = message
            elif reading.fails:
                assert reading.error is None, f"{shown} is delivered twice"
                reading.error = error.name()
            else:
                assert error.code() == KafkaError._PARTITION_EOF, f"{shown} is not an error of the model"
                self._note_end(key, reading, message.offset(), shown)

    def _note_end(self, key: Key, reading: Reading, offset: int | None, shown: str) -> None:
        """Checks a reported end. It may have been reported before more records were produced."""
        assert offset in (*self.world.all_ends[key], self.end(key)), f"{shown} was never the end"
        if reading.start is None:
            reading.start = offset
        rest = self._rest(key, reading)
        assert not rest or rest[0].offset >= offset, f"{shown}: the end is reported before all records"
        if offset == self.end(key):
            reading.end_reported_at = reading.came

    # -- what can be compared ----------------------------------------------------------------------------------------------

    def _outcome(self, call: Callable[[RecordedConsumer], Any], consumer: RecordedConsumer) -> Any:
        """What a call returns or raises."""
        try:
            return self._comparable(call(consumer))
        except KafkaException as error:
            return "raised", type(error).__name__, error.args[0].name()
        except (RuntimeError, ValueError, TypeError) as error:
            return "raised", type(error).__name__, str(error)

    def _comparable(self, value: Any) -> Any:
        if isinstance(value, TopicPartition):
            return value.topic, value.partition, value.offset, value.leader_epoch, value.error and value.error.name()
        return [*map(self._comparable, value)] if isinstance(value, list) else value


def _to_come(reading: Reading, wanted: int) -> int:
    return wanted - reading.came


def _raised(outcome: Any) -> bool:
    return isinstance(outcome, tuple) and outcome[:1] == ("raised",)


def _searching(side: Side) -> int:
    """How many partitions still look up their start."""
    return sum(reading.start is None and reading.error is None for reading in side.readings.values())
