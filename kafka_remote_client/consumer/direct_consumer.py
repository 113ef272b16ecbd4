"""The consumer with direct fetch on: old records from the store, new ones from the broker, one sequence.

Every call that delivers also polls the inner consumer, because only that counts for ``max.poll.interval.ms`` and serves
callbacks. Records are gathered from both tiers into one list and handed out when the call returns. A callback that runs in
between may seek, pause or revoke; what was gathered of that partition is then taken back. What a callback raises is held until
the inner call has given its records (held_exceptions.py), and what is left in the list then belongs to the next call. What
poll() gathers ahead, from either tier, waits in handed_out.py: nearly all of its calls take the next message of that and do
nothing else.

What is stored and where the inner consumer stands is its own affair here, so those calls go past AssignedConsumer's overrides,
which are for the application.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_STORED, KafkaException, Message, TopicPartition

from kafka_remote_client.clock import Deadline
from kafka_remote_client.consumer.arguments import number, seconds
from kafka_remote_client.consumer.assigned_consumer import AssignedConsumer, RebalanceCallback
from kafka_remote_client.consumer.call_gate import gated
from kafka_remote_client.consumer.held_exceptions import HeldExceptions
from kafka_remote_client.consumer.messages import key_of
from kafka_remote_client.consumer.partition_flow import PartitionFlow, Route
from kafka_remote_client.consumer.tiered_consumer import TieredConsumer
from kafka_remote_client.records import poll

__all__ = ["DirectConsumer"]

_AHEAD = 500
_AHEAD_BYTES = 4 * 1024 * 1024
_SAMPLE = 8
"""How many messages poll() gathers at most, of how many bytes of values, as some of the last ones tell."""

_MOST_MESSAGES = 1_000_000
_WAKE_SECONDS = 0.01
_LEAST_SECONDS = 0.001
_INNER_SECONDS = 0.1
"""How long an inner call may last before routes are looked at again: a callback in it may have changed them."""


class DirectConsumer(TieredConsumer):
    """See the module. What ``Consumer(config)`` becomes when ``fetch.remote.enabled`` is true."""

    def _start_direct(self, *parts: Any) -> None:
        self._broker_turn = False
        self._serve_at = 0.0
        self._of_one_partition = False
        self._ahead = _AHEAD // _SAMPLE
        self._broker_records = 0
        self._held = HeldExceptions()
        _, _, inner, _ = parts
        self._held.wrap(inner)
        super()._start_direct(*parts)

    def metrics(self) -> dict[str, float | int | dict[str, int]]:
        self._metrics.set_total("broker-fetch-records-total", self._broker_records)
        return super().metrics()

    poll = poll

    def _poll_slowly(self, timeout: float) -> Message | None:
        """What poll() does where nothing waits, or the inner consumer: gathers a slice and gives its first message."""
        with self._gate:
            if self._handed_out.due:
                self._serve_at = 0.0
            self._begin_delivery()
            self._of_one_partition = False
            deadline = None if timeout < 0 else Deadline(self._clock, timeout)
            left = 0.0
            while True:
                self._decide_starts(_left(deadline) if left else 0.0)
                self._recheck()
                self._gather_slice(left)
                message = self._begin_slice() if self._gathered else None
                if message is not None or self._ends(deadline):
                    return message
                left = _patience(deadline)

    def _begin_delivery(self) -> None:
        self._settle()
        self._passed_markers.delivery_begins(self._gathered)

    def _begin_slice(self) -> Message | None:
        messages, self._gathered = self._gathered, []
        if self._tiers.unplaced:
            self._place(messages)
        largest = max(map(len, messages[:: len(messages) // _SAMPLE + 1]))
        self._ahead = max(1, min(2 * self._ahead, _AHEAD, _AHEAD_BYTES // (largest + 1)))
        return self._handed_out.hand_out(messages, of_one_partition=self._of_one_partition or len(self._flows) == 1)

    def _gather_slice(self, seconds: float) -> None:
        """Gathers what poll() hands out next, unless something waits; serves the inner consumer ten times a second."""
        if seconds and self._flows.any_remote:
            self._engine.wait(min(seconds, _WAKE_SECONDS))
        now = self._clock.monotonic()
        serves = now >= self._serve_at
        if self._gathered:
            if serves:
                self._serve_at = now + _INNER_SECONDS
                self._gather_broker(len(self._gathered) + 1, 0)
        elif self._flows.any_remote:
            self._gather_in_turn(now, serves=serves)
        else:
            self._gather_broker(1 if seconds else self._ahead, seconds)

    def _gather_in_turn(self, now: float, *, serves: bool) -> None:
        """What is there at once: the tiers in turn, or where the broker delivers nothing, its callbacks now and then."""
        asks_broker = self._broker_turn or serves
        if asks_broker:
            self._broker_turn = False
            self._serve_at = now + _INNER_SECONDS
            self._gather_broker(self._ahead if self._flows.by_broker else 1, 0)
            if self._gathered:
                return
        self._broker_turn = bool(self._flows.by_broker)
        taken = self._routing.take(self._ahead)
        if taken is not None:
            self._gathered, self._of_one_partition = taken, True
        elif not asks_broker:
            self._gather_broker(self._ahead, 0)

    @gated
    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """As confluent_kafka's: waits for ``num_messages`` until ``timeout`` seconds are over."""
        num_messages, timeout = number(num_messages), seconds(timeout)
        if not 0 < num_messages <= _MOST_MESSAGES:
            return super().consume(num_messages, 0)
        self._begin_delivery()
        self._of_one_partition = False
        deadline = None if timeout < 0 else Deadline(self._clock, timeout)
        left = _INNER_SECONDS if deadline is None else min(timeout, _INNER_SECONDS)
        while True:
            self._decide_starts(_left(deadline))
            self._recheck()
            if self._flows.any_remote:
                self._gather_both(num_messages)
            else:
                self._gather_broker(num_messages, left)
            if len(self._gathered) >= num_messages or self._ends(deadline):
                return self._hand_out(num_messages)
            left = _patience(deadline)
            if self._flows.any_remote:
                self._engine.wait(min(left, _WAKE_SECONDS))

    def _decide_starts(self, seconds: float) -> None:
        """Learns what is still asked about where partitions begin; waits for committed offsets, about ``seconds`` at most."""
        undecided = self._flows.undecided
        if not undecided or self._closing:
            return
        asked = [flow.bare for flow in undecided if flow.route is Route.AWAITS_COMMITTED]
        for key, start in (self._commits.starts(asked, seconds) if asked else {}).items():
            flow = self._flows.get(*key)
            if flow is not None and start is None:
                self._begin_inside(flow)
            elif flow is not None and start is not None:
                self._commits.adopt(flow)
                self._routing.started_at(flow, self._start_of(start))
        self._routing.decide()

    def _start_of(self, committed: TopicPartition) -> TopicPartition:
        """Where nothing is committed and the policy is "earliest", the beginning; else the broker path applies the policy."""
        if committed.offset >= 0 or not self._behaviour.resets_to_earliest:
            return committed
        return TopicPartition(committed.topic, committed.partition, OFFSET_BEGINNING)

    def _begin_inside(self, flow: PartitionFlow) -> None:
        """The coordinator refuses to tell a committed offset: the inner consumer asks it as well, and tells the application."""
        with suppress(KafkaException):  # increments are not for an eager group, which a refusal ends soon
            super(AssignedConsumer, self).incremental_unassign([flow.bare])
            super(AssignedConsumer, self).incremental_assign([TopicPartition(flow.topic, flow.partition, OFFSET_STORED)])
            self._routing.begun_inside(flow)

    def _ends(self, deadline: Deadline | None) -> bool:
        """Whether a call that waits returns with what it has. Raises where it has no end but another thread closes."""
        if deadline is None and self._closing:
            raise RuntimeError("Consumer closed")
        return deadline is not None and (self._closing or deadline.expired())

    def _gather_both(self, wanted: int) -> None:
        """What is there at once: up to half from the broker, then from the tier, then what the broker has for the rest."""
        self._broker_turn = not self._broker_turn
        room = wanted - len(self._gathered)
        # Where enough waits already the inner consumer is still polled; what it gives then waits for the next call.
        share = (room + self._broker_turn) // 2 if room > 0 else 1
        more = self._gather_broker(len(self._gathered) + share, 0) == share
        while (room := wanted - len(self._gathered)) > 0:
            taken = self._routing.take(room)
            if taken is None:
                break
            self._gathered += taken
        if more:
            self._gather_broker(wanted, 0)

    def _gather_broker(self, wanted: int, seconds: float) -> int:
        """Gathers from the inner consumer until ``wanted`` are gathered; how many messages it gave."""
        room = wanted - len(self._gathered)
        if room <= 0:
            return 0
        self._serves_callbacks = self._passed_markers.unseen = True
        try:
            arrived = super().consume(room, seconds)
        finally:
            self._serves_callbacks = False
        count = len(arrived)
        if count and self._flows.redirected:
            arrived = [heeded for message in arrived if (heeded := self._heeded(message)) is not None]
        if arrived:
            self._count(arrived)
            if self._gathered:
                self._gathered += arrived
            else:
                self._gathered = arrived
        self._held.come_out()
        return count

    def _assigning(self, callback: RebalanceCallback | None) -> RebalanceCallback:
        return self._held.wrapped(super()._assigning(callback))

    def _revoking(self, callback: RebalanceCallback | None, *, lost: bool = False) -> RebalanceCallback:
        return self._held.wrapped(super()._revoking(callback, lost=lost))

    def _close_inner(self) -> None:
        super()._close_inner()
        self._held.come_out()

    def _count(self, arrived: list[Message]) -> None:
        """Counts records. To look at each message for an error costs as much as half of the delivery."""
        if self._behaviour.announces_ends or arrived[-1].error() is not None:
            self._broker_records += sum(message.error() is None for message in arrived)
        else:
            self._broker_records += len(arrived)

    def _heeded(self, message: Message) -> Message | None:
        """What counts of a message of the inner consumer: see :meth:`Routing.heeded`."""
        topic, partition = message.topic(), message.partition()
        flow = None if topic is None or partition is None else self._flows.get(topic, partition)
        return message if flow is None else self._routing.heeded(flow, message)

    def _hand_out(self, limit: int) -> list[Message]:
        """The first ``limit`` of what was gathered; positions and stored offsets follow it."""
        batch = self._gathered
        if len(batch) > limit:
            batch, self._gathered = batch[:limit], batch[limit:]
            reached = self._reached_in(batch)
        else:
            self._gathered = []
            reached = self._reached(batch) if batch else []
        if self._tiers.unplaced:
            self._place(batch)
        if reached:
            with suppress(KafkaException):  # all were lost meanwhile, and lost partitions store nothing
                super(AssignedConsumer, self).store_offsets(offsets=reached)
        return batch

    def _reached(self, batch: list[Message]) -> list[TopicPartition]:
        """Moves positions to where everything gathered, ``batch``, is handed out; gives what is to be stored."""
        flows, self._flows.advanced = self._flows.advanced, set()
        for flow in flows:
            flow.handed_out()
        stores = self._stores_offsets
        reached = [flow.stores(flow.handed) for flow in flows] if stores else []
        for tp in super(AssignedConsumer, self).position(self._flows.delivered_in(batch)):
            known = self._flows.get(tp.topic, tp.partition)
            if known is not None and tp.offset >= 0:
                known.stands_at(tp)
                if stores:
                    reached.append(known.stores(tp))
        return reached

    def _reached_in(self, batch: list[Message]) -> list[TopicPartition]:
        """Moves positions past the last record of each partition in ``batch``; gives what is to be stored."""
        for message in batch:
            self._note_handed_out(message)
        flows = {key: self._flows.get(*key) for key in map(key_of, batch)} if self._stores_offsets else {}
        return [flow.stores(flow.handed) for flow in flows.values() if flow is not None and flow.position >= 0]


def _left(deadline: Deadline | None) -> float:
    return math.inf if deadline is None else deadline.remaining()


def _patience(deadline: Deadline | None) -> float:
    """How long the next inner call may last: not less than the millisecond in which librdkafka counts, or it would not wait."""
    return _INNER_SECONDS if deadline is None else min(max(deadline.remaining(), _LEAST_SECONDS), _INNER_SECONDS)
