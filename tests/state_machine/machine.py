"""The consumer's API as a state machine: each rule runs one command on the consumer under test and on the plain one.

Rules draw offsets as a percentage of the log, and partitions independently of earlier results. So the same random numbers
always give the same commands.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, ClassVar
from uuid import uuid4

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
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.state_machine.pair import OFFSET_TAIL, Options, Pair, by_arrow, by_consume, by_poll, tp
from tests.state_machine.world import FAULTS, ISOLATION, KEYS, PATIENCE_SECONDS, World
from tests.support.history import Key
from tests.support.offsets_at_times import offsets_for_times
from tests.support.recorder import RecordedConsumer
from tests.support.waiting import wait_until

__all__ = ["ConsumerMachine"]

_BEYOND = 1_000_000
_REFUSED = -1
_PERCENT = 100
_INVALID_OFFSET = -500
_BELOW = -7_000
"""An offset below the log start."""

_GAP = -8_000
"""``_GAP - percent``: the first offset from that percentage of the log on without a record (a marker, an aborted record)."""

partitions = st.sampled_from(KEYS)
some_partitions = st.lists(partitions, min_size=1, max_size=3, unique=True)
shares = st.integers(0, _PERCENT)
gaps = st.integers(_GAP - _PERCENT, _GAP)
tails = st.integers(OFFSET_TAIL - 40, OFFSET_TAIL)
logical = (OFFSET_BEGINNING, OFFSET_END, _BEYOND, _BELOW)
starts = st.one_of(shares, shares, gaps, tails, st.sampled_from((*logical, OFFSET_STORED, OFFSET_INVALID)))
places = st.one_of(shares, shares, gaps, tails, st.sampled_from(logical))
WRONG = ("twice", "assigned", "no place")
counts = st.integers(1, 30)
few = st.integers(0, 12)
faults = st.sampled_from((*FAULTS, "expired", "shim-down"))


class ConsumerMachine(RuleBasedStateMachine):
    """The runner sets ``world``. ``steps`` counts commands, ``from_store`` records that were read
    directly, over all runs in this process.

    ``failures``: the differences that were found; :func:`run` makes the list. ``commit_seconds``: how long commits that were
    not waited for may take, before they are not equal. ``delivery_seconds``: how long records may take to come.
    """

    world: ClassVar[World]
    commit_seconds: ClassVar[float] = PATIENCE_SECONDS
    delivery_seconds: ClassVar[float] = PATIENCE_SECONDS
    failures: ClassVar[list[AssertionError]]
    steps: ClassVar[int] = 0
    from_store: ClassVar[int] = 0

    pair: Pair

    # No seek to OFFSET_INVALID: it follows the reset policy and not the committed offset. tests/parity covers it.
    @initialize(
        isolation=st.sampled_from(ISOLATION),
        reset=st.sampled_from(("earliest", "earliest", "latest", "error")),
        stores=st.booleans(),
        commits=st.booleans(),
        announces_ends=st.sampled_from((True, True, True, False)),
        at=st.lists(st.tuples(partitions, shares), min_size=1, max_size=3, unique_by=lambda place: place[0]),
        then=few,
    )
    def open(
        self,
        isolation: str,
        reset: str,
        stores: bool,
        commits: bool,
        announces_ends: bool,
        at: list[tuple[Key, int]],
        then: int,
    ) -> None:
        self.world.heal()
        options = Options(isolation, reset, stores, commits, announces_ends)
        self.pair = Pair(self.world, options, f"machine-{uuid4()}", self.delivery_seconds)
        self.assign(at, then)

    def teardown(self) -> None:
        if not hasattr(self, "pair"):
            return
        failed = sys.exception()  # report this error, not one of the teardown
        self.world.heal()
        try:
            self.pair.close(settled=failed is None)
            if failed is None:
                self.pair.judge()
        except AssertionError as error:
            failed = error
            raise
        finally:
            ConsumerMachine.from_store += self.pair.from_store
            if isinstance(failed, AssertionError):
                self.failures.append(failed)

    def _offset(self, key: Key, place: int) -> int:
        """The offset at a percentage of the log; other values are returned unchanged."""
        start, end = self.world.starts[key], self.pair.end(key)
        if 0 <= place <= _PERCENT:
            return start + (end - start) * place // _PERCENT
        if place == _BELOW:
            return start // 2
        if _GAP - _PERCENT <= place <= _GAP:
            records = {record.offset for record in self.pair.truth[key]}
            from_there = range(start + (end - start) * (_GAP - place) // _PERCENT, end)
            return next((offset for offset in from_there if offset not in records), end)
        return place

    # -- deliveries --------------------------------------------------------------------------------------------------------

    @rule(count=counts)
    def poll(self, count: int) -> None:
        self._step()
        self.pair.deliver(count, by_poll)

    @rule(count=counts)
    def consume(self, count: int) -> None:
        self._step()
        self.pair.deliver(count, by_consume)

    @rule(count=counts)
    def consume_arrow(self, count: int) -> None:
        self._step()
        self.pair.deliver(count, by_arrow)

    @rule(count=st.integers(0, 20))
    def consume_at_once(self, count: int) -> None:
        self._step()
        self.pair.call_without_waiting(lambda consumer: consumer.consume(count, 0))

    @rule()
    def poll_at_once(self) -> None:
        self._step()

        def polled(consumer: Any) -> Any:
            message = consumer.poll(0)
            return () if message is None else (message,)

        self.pair.call_without_waiting(polled)

    @rule()
    def read_to_the_ends(self) -> None:
        self._step()
        self.pair.deliver(_BEYOND, by_poll)
        for key in set(self.pair.assigned) - self.pair.paused:
            assert self.pair.is_caught_up(key)

    # -- where to read -----------------------------------------------------------------------------------------------------

    @rule(at=st.lists(st.tuples(partitions, starts), max_size=3, unique_by=lambda place: place[0]), then=few)
    def assign(self, at: list[tuple[Key, int]], then: int) -> None:
        self._step()
        self.pair.find()
        self.pair.settle()
        where = [(key, self._offset(key, place)) for key, place in at]
        self.pair.set_starts(lambda consumer, starts: consumer.assign(starts), where, alone=True)
        self._see_assignment()
        self.pair.deliver(then, by_poll)

    @rule(at=st.lists(st.tuples(partitions, starts), min_size=1, max_size=2, unique_by=lambda place: place[0]))
    def incremental_assign(self, at: list[tuple[Key, int]]) -> None:
        self._step()
        self.pair.find()
        where = [(key, self._offset(key, place)) for key, place in at]
        self.pair.set_starts(lambda consumer, starts: consumer.incremental_assign(starts), where)
        self._see_assignment()

    @rule(
        at=st.lists(st.tuples(partitions, places), min_size=1, max_size=3, unique_by=lambda place: place[0]),
        wrong=st.sampled_from(WRONG),
        incremental=st.booleans(),
    )
    def assign_what_is_refused(self, at: list[tuple[Key, int]], wrong: str, incremental: bool) -> None:
        """A duplicate partition, one that is already assigned, or an invalid offset."""
        self._step()
        self.pair.find()
        self.pair.settle()
        starts = [tp(key, self._offset(key, place)) for key, place in at]
        assigned = sorted(self.pair.assigned)
        if wrong == "assigned" and incremental and assigned:
            starts.append(tp(assigned[0], 0))
        elif wrong == "no place":
            starts[0] = tp(at[0][0], _INVALID_OFFSET)
        else:
            starts.append(tp(at[0][0], 0))
        if incremental:
            self.pair.refused(lambda consumer: consumer.incremental_assign(starts), alone=False)
        else:
            self.pair.refused(lambda consumer: consumer.assign(starts), alone=True)
        self._see_assignment()

    @rule(keys=some_partitions)
    def incremental_unassign(self, keys: list[Key]) -> None:
        self._step()
        self.pair.find()
        self.pair.settle()
        self.pair.give_up(lambda consumer: consumer.incremental_unassign([tp(key) for key in keys]), keys)
        self._see_assignment()

    @rule()
    def unassign(self) -> None:
        self._step()
        self.pair.find()
        self.pair.settle()
        self.pair.give_up(lambda consumer: consumer.unassign(), list(self.pair.assigned))
        self._see_assignment()

    @rule(key=partitions, place=places, then=few)
    def seek(self, key: Key, place: int, then: int) -> None:
        self._step()
        self.pair.find()
        self.pair.settle()
        offset = self._offset(key, place)
        if key in self.pair.assigned:
            self._seek(key, offset)
        else:
            self.pair.both(lambda consumer: consumer.seek(tp(key, offset)))
        self.pair.deliver(then, by_poll)

    @rule(number=st.integers(0, 2), place=shares, then=few)
    def seek_what_is_assigned(self, number: int, place: int, then: int) -> None:
        self._step()
        self.pair.find()
        self.pair.settle()
        for key in sorted(self.pair.assigned)[number : number + 1]:
            self._seek(key, self._offset(key, place))
        self.pair.deliver(then, by_consume)

    @rule(keys=some_partitions)
    def pause(self, keys: list[Key]) -> None:
        self._step()
        self.pair.find()
        self.pair.settle()
        # librdkafka also pauses unassigned partitions of a topic that it knows, and a query of cached watermarks makes a topic
        # known. The consumer under test keeps pauses only of topics with an assigned partition.
        known = self.pair.known & set(keys)
        self.pair.both(lambda consumer: consumer.pause([tp(key) for key in keys if key in known]))
        self.pair.paused |= known

    @rule(keys=some_partitions, then=few)
    def resume(self, keys: list[Key], then: int) -> None:
        self._step()
        self.pair.find()
        self.pair.resume(keys)
        self.pair.deliver(then, by_poll)

    @rule(then=few)
    def resume_everything(self, then: int) -> None:
        self.resume(list(KEYS), then)

    # -- offsets -----------------------------------------------------------------------------------------------------------

    @rule(quiet=st.booleans())
    def position(self, quiet: bool) -> None:
        self._step()
        if quiet:
            self.pair.quiet()
        for side in self.pair.sides:
            for answered in side.consumer.position([tp(key) for key in sorted(side.readings)]):
                key = answered.topic, answered.partition
                reading = side.readings[key]
                assert answered.error is None
                assert self.pair.is_possible_position(key, reading, answered.offset), f"{side.name}: {answered}, {reading}"
        self._see_positions()

    def _see_positions(self) -> None:
        """While both consumers are idle, positions and lag are equal and agree with the log."""
        quiet = [key for key in sorted(self.pair.assigned) if self.pair.is_quiet(key)]
        positions = self.pair.both(lambda consumer: consumer.position([tp(key) for key in quiet]))
        for key, (*_, offset, _, _) in zip(quiet, positions, strict=True):
            assert offset == self.pair.exact_position(key, self.pair.plain.readings[key]), f"{key} has position {offset}"
        for key in quiet[:1]:
            self.pair.both(lambda consumer, key=key: _lag(consumer, key))

    @rule(asynchronous=st.booleans())
    def commit(self, asynchronous: bool) -> None:
        self._step()
        self.pair.settle()
        self.pair.both(lambda consumer: consumer.commit(asynchronous=asynchronous))
        self._see_committed()

    @rule(at=st.lists(st.tuples(partitions, shares), min_size=1, max_size=2), asynchronous=st.booleans())
    def commit_offsets(self, at: list[tuple[Key, int]], asynchronous: bool) -> None:
        self._step()
        where = [tp(key, self._offset(key, place)) for key, place in at]
        self.pair.both(lambda consumer: consumer.commit(offsets=where, asynchronous=asynchronous))
        self._see_committed()

    @rule(number=st.integers(0, 2), asynchronous=st.booleans())
    def commit_message(self, number: int, asynchronous: bool) -> None:
        self._step()
        messages = self._last_messages(number)
        if messages:
            self.pair.both(lambda consumer: consumer.commit(message=messages[consumer.name], asynchronous=asynchronous))
        self._see_committed()

    @rule(at=st.lists(st.tuples(partitions, shares), min_size=1, max_size=2))
    def store_offsets(self, at: list[tuple[Key, int]]) -> None:
        self._step()
        where = [tp(key, self._offset(key, place)) for key, place in at]
        self.pair.both(lambda consumer: consumer.store_offsets(offsets=where))

    @rule(number=st.integers(0, 2))
    def store_message(self, number: int) -> None:
        self._step()
        messages = self._last_messages(number)
        if messages:
            self.pair.both(lambda consumer: consumer.store_offsets(message=messages[consumer.name]))

    @rule(key=partitions)
    def watermarks(self, key: Key) -> None:
        self._step()
        low, high = self.pair.both(lambda consumer: consumer.get_watermark_offsets(tp(key), timeout=PATIENCE_SECONDS))
        for side in self.pair.sides:
            cached = side.consumer.get_watermark_offsets(tp(key), cached=True)
            # rd_kafka_fetch_reply_handle_partition() caches the watermarks of an error response: -1 for both.
            assert cached[0] in {low, OFFSET_INVALID, _REFUSED}, f"{side.name}: {cached}, {(low, high)}"
            # A queried high watermark follows the isolation level, the one of rd_kafka_fetch_reply_handle_partition() does not.
            kept = cached[1] in (OFFSET_INVALID, _REFUSED) or low <= cached[1] <= self.world.ends[key]
            assert kept, f"{side.name}: {cached}, {(low, high)}"

    @rule(key=partitions, place=shares, later=st.integers(-1, 1))
    def offsets_for_times(self, key: Key, place: int, later: int) -> None:
        self._step()
        found = self.pair.truth[key]
        record = found[min(len(found) - 1, len(found) * place // _PERCENT)] if found else None
        time = later + (1 if record is None or record.timestamp is None else record.timestamp[1])
        self.pair.both(lambda consumer: offsets_for_times(consumer, [tp(key, max(0, time))]))

    def _last_messages(self, number: int) -> dict[str, Message]:
        """Returns, by consumer name, the last record of a partition where both delivered the same; empty without one."""
        same = [key for key in sorted(self.pair.assigned) if self.pair.is_caught_up(key)]
        return {
            side.consumer.name: last
            for key in same[number : number + 1]
            for side in self.pair.sides
            if (last := side.readings[key].last) is not None
        }

    def _see_committed(self) -> None:
        """Both groups have committed the same offsets. Asynchronous commits may arrive after the query, so it is repeated."""

        def same() -> bool:
            ours, plain = self.pair.each(lambda consumer: consumer.committed([tp(key) for key in KEYS], PATIENCE_SECONDS))
            seen[:] = ours, plain
            return bool(ours == plain)

        seen: list[Any] = []
        with suppress(TimeoutError):
            wait_until(same, "equal commits", seconds=self.commit_seconds, pause=0.01)
        assert same(), f"ours: {seen[0]}, plain: {seen[1]}"
        # Until an asynchronous commit is answered, librdkafka commits the same offsets again. Answers arrive in order.
        again = [TopicPartition(topic, number, offset) for topic, number, offset, *_ in seen[1] if offset >= 0][:1]
        if again:
            self.pair.both(lambda consumer: consumer.inner.commit(offsets=again, asynchronous=False))

    def _see_assignment(self) -> None:
        self.pair.both(lambda consumer: consumer.assignment())

    # -- the world ---------------------------------------------------------------------------------------------------------

    @rule(key=partitions, count=st.integers(1, 5), commit=st.sampled_from((None, None, True, False)))
    def produce(self, key: Key, count: int, commit: bool | None) -> None:
        self._step()
        self.pair.find()  # OFFSET_TAIL counts from the end at the time of the look-up
        self.world.produce(key, count, commit)

    @rule()
    def archive(self) -> None:
        self._step()
        self.world.archive()

    @rule(name=faults)
    def fault(self, name: str) -> None:
        self._step()
        self.world.fault(name)

    @rule()
    def heal(self) -> None:
        self._step()
        self.world.heal()

    @rule()
    def reopen(self) -> None:
        self._step()
        self.pair.close()
        self.pair.both(lambda consumer: consumer.position([tp(KEYS[0])]))
        self.pair.open()
        self._see_committed()

    def _seek(self, key: Key, offset: int) -> None:
        """Seeks. A partition accepts it after its start was looked up, and may refuse it after an error of the reset policy."""
        ended = any(side.readings[key].error is not None for side in self.pair.sides)

        def seek(consumer: RecordedConsumer, starts: list[TopicPartition]) -> None:
            def sought() -> bool:
                try:
                    consumer.seek(starts[0])
                except KafkaException as error:
                    if ended or error.args[0].code() != KafkaError._STATE:
                        raise
                    return False
                return True

            wait_until(sought, "a partition that takes a seek", pause=0.01)

        self.pair.set_starts(seek, [(key, offset)])

    def _step(self) -> None:
        ConsumerMachine.steps += 1


def _lag(consumer: RecordedConsumer, key: Key) -> int:
    _, high = consumer.get_watermark_offsets(tp(key), timeout=PATIENCE_SECONDS)
    (at,) = consumer.position([tp(key)])
    return int(high - at.offset) if at.offset >= 0 else OFFSET_INVALID
