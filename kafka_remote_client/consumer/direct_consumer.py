"""The consumer with direct fetch on: old records from the store, new ones from the broker, one sequence.

Each assigned partition is on one route at a time (routing.py). While it is read directly the inner consumer's partition is
paused and only keeps the group, commits and callbacks going. Every call that delivers also polls the inner consumer, because
only that counts for ``max.poll.interval.ms`` and serves callbacks.

Records are gathered from both tiers into one list and handed out when the call returns. A callback that runs in between may
seek, pause or revoke; what was gathered of that partition is then taken back. What is left in the list when a callback raises
belongs to the next call, and so does what poll() gathers ahead.

``enable.auto.offset.store`` is always false inside, because librdkafka refuses ``store_offsets`` otherwise; where the
application left it on, offsets are stored here when they are handed out.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, OFFSET_STORED, KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.consumer.assemble import InnerBehaviour
from kafka_remote_client.consumer.consumer import Consumer
from kafka_remote_client.consumer.partition_flow import PartitionFlow, Route
from kafka_remote_client.consumer.routing import InnerConsumer, Routing
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET

__all__ = ["DirectConsumer"]

_log = logging.getLogger(__name__)

_AHEAD = 500
_MOST_MESSAGES = 1_000_000
_RECHECK_EVERY = 64
_WAKE_SECONDS = 0.01
_INNER_SECONDS = 0.1
"""How long an inner call may last before routes are looked at again: a callback in it may have changed them."""
_COMMITTED_SECONDS = 5.0

RebalanceCallback = Callable[[confluent_kafka.Consumer, list[TopicPartition]], None]


class DirectConsumer(Consumer):
    """See the module. What ``Consumer(config)`` becomes when ``fetch.remote.enabled`` is true."""

    def _start_direct(self, *parts: Any) -> None:
        engine: FetchEngine
        remote: RemoteFetchConfig
        clock: Clock
        engine, remote, inner, clock = parts
        behaviour = InnerBehaviour.of(inner)
        self._clock = clock
        self._engine = engine
        self._behaviour = behaviour
        self._stores_offsets = behaviour.stores_offsets is True
        self._flows = SubscriptionState()
        self._gathered: list[Message] = []
        self._broker_turn = False
        self._polls = 0
        self._broker_records = 0
        self._broker_bytes = 0
        self._assigned_by_user = False
        self._routing = Routing(
            InnerConsumer(super().pause, super().resume, super().seek, super().position),
            engine,
            self._flows,
            remote,
            isolation_level=behaviour.isolation_level,
            clock=clock,
            metrics=self._metrics,
        )
        stores = {} if behaviour.stores_offsets is None else {"enable.auto.offset.store": False}
        super(Consumer, self).__init__({**inner, **stores})
        weakref.finalize(self, engine.close)  # for an application that drops its consumer without closing it

    def metrics(self) -> dict[str, float | int | dict[str, int]]:
        self._metrics.set_total("broker-fetch-records-total", self._broker_records)
        self._metrics.set_total("broker-fetch-record-bytes-total", self._broker_bytes)
        return super().metrics()

    # -- subscription and assignment ---------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: list[str],
        on_assign: RebalanceCallback | None = None,
        on_revoke: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """As confluent_kafka's; the callbacks get this consumer."""
        for name, callback in (("on_assign", on_assign), ("on_revoke", on_revoke), ("on_lost", on_lost)):
            if callback is not None and not callable(callback):
                raise TypeError(f"{name} expects a callable")
        super().subscribe(
            topics,
            on_assign=self._assigning(on_assign),
            on_revoke=self._revoking(on_revoke),
            on_lost=self._revoking(on_lost or on_revoke),
        )

    def _assigning(self, callback: RebalanceCallback | None) -> RebalanceCallback:
        def on_assign(_: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
            self._assigned_by_user = False
            try:
                if callback is not None:
                    callback(self, partitions)
            finally:
                if not self._assigned_by_user:
                    assign = DirectConsumer.incremental_assign if self._behaviour.incremental else DirectConsumer.assign
                    assign(self, partitions)

        return on_assign

    def _revoking(self, callback: RebalanceCallback | None) -> RebalanceCallback:
        def on_revoke(_: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
            # What was not handed out never will be. The flows stay until the callback is done, for it may ask for positions.
            for tp in partitions:
                flow = self._flows.get(tp.topic, tp.partition)
                if flow is not None:
                    flow.detach()
                    self._take_back(flow)
            try:
                if callback is not None:
                    callback(self, partitions)
            finally:
                self._forget((tp.topic, tp.partition) for tp in partitions)

        return on_revoke

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user = True
        if not _are_partitions(partitions):
            super().assign(partitions)  # raises
        flows = self._resolve(partitions)
        super().assign([flow.inner_start for flow in flows])
        self._forget(flow.key for flow in self._flows)
        for flow in flows:
            self._routing.adopt(flow)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user = True
        if not _are_partitions(partitions):
            super().incremental_assign(partitions)  # raises
        flows = self._resolve(partitions)
        super().incremental_assign([flow.inner_start for flow in flows])
        for flow in flows:
            self._routing.adopt(flow)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user = True
        super().incremental_unassign(partitions)
        self._forget((tp.topic, tp.partition) for tp in partitions)

    def unassign(self) -> None:
        self._assigned_by_user = True
        super().unassign()
        self._forget(flow.key for flow in self._flows)

    def _resolve(self, partitions: list[TopicPartition]) -> list[PartitionFlow]:
        """Flows with their start: the offset given, else the committed one, else what ``auto.offset.reset`` says."""
        asked = [TopicPartition(tp.topic, tp.partition) for tp in partitions if tp.offset in (OFFSET_INVALID, OFFSET_STORED)]
        stored = self._committed_starts(asked) if asked else {}
        starts = [stored.get((tp.topic, tp.partition), tp) for tp in partitions]
        flows = [PartitionFlow(start.topic, start.partition, start.offset, _epoch(start.leader_epoch)) for start in starts]
        for flow, given in zip(flows, partitions, strict=True):
            flow.assigned_at = given.offset
        self._routing.learn_offsets(flows)
        return flows

    def assignment(self) -> list[TopicPartition]:
        answered = super().assignment()
        for tp in answered:
            flow = self._flows.get(tp.topic, tp.partition)
            if flow is not None:
                tp.offset = flow.assigned_at
        return answered

    def _committed_starts(self, asked: list[TopicPartition]) -> dict[tuple[str, int], TopicPartition]:
        """Committed offsets; where there is none and the policy is "earliest", the beginning. Empty when nobody answers."""
        try:
            committed = self.committed(asked, timeout=_COMMITTED_SECONDS)
        except KafkaException as error:
            _log.warning("committed offsets are unknown, so the broker path starts: %s", error)
            return {}
        found = {}
        for tp in committed:
            if tp.error is None and tp.offset >= 0:
                found[tp.topic, tp.partition] = tp
            elif tp.error is None and self._behaviour.resets_to_earliest:
                found[tp.topic, tp.partition] = TopicPartition(tp.topic, tp.partition, OFFSET_BEGINNING)
        return found

    def _forget(self, keys: Iterable[tuple[str, int]]) -> None:
        for flow in self._flows.remove(keys):
            self._take_back(flow)

    def _take_back(self, flow: PartitionFlow) -> None:
        """Takes what was gathered of a partition out of the list; the first of it has to come again."""
        if any(message.error() is None for message in self._gathered):
            mine = [message for message in self._gathered if _key(message) == flow.key]
            if mine:
                self._gathered[:] = [message for message in self._gathered if _key(message) != flow.key]
                flow.take_back(min((_offset(message) for message in mine if message.error() is None), default=flow.next_offset))
                self._flows.reroute()
        self._flows.advanced.discard(flow)

    # -- delivery ----------------------------------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> Message | None:
        """As confluent_kafka's, from both tiers in turn."""
        self._polls += 1
        if self._polls % _RECHECK_EVERY == 0:
            self._routing.recheck()
        # A message without a value is falsy, so only None means that there is none.
        message = self._poll_both() if self._gathered or self._flows.any_remote else None
        if message is not None:
            return message
        deadline = None if timeout < 0 else Deadline(self._clock, timeout)
        left = _INNER_SECONDS if deadline is None else min(timeout, _INNER_SECONDS)
        while True:
            if self._flows.any_remote:
                self._engine.wait(min(left, _WAKE_SECONDS))
                message = self._poll_both()
            else:
                message = self._poll_broker(left)
            if message is not None or (deadline is not None and deadline.expired()):
                return message
            self._routing.recheck()
            left = _INNER_SECONDS if deadline is None else min(deadline.remaining(), _INNER_SECONDS)

    def _poll_both(self) -> Message | None:
        """What is there at once, the tiers in turn."""
        self._broker_turn = not self._broker_turn
        if self._broker_turn:
            message = self._poll_broker(0)
            return self._poll_remote() if message is None else message
        message = self._poll_remote()
        return self._poll_broker(0) if message is None else message

    def _poll_broker(self, timeout: float) -> Message | None:
        message = super().poll(timeout)
        if message is None or (self._flows.redirected and not self._speaks_for_the_broker(message)):
            return None
        if message.error() is None:
            self._broker_records += 1
            self._broker_bytes += len(message)
            if self._stores_offsets:
                super().store_offsets(message=message)
        return message

    def _poll_remote(self) -> Message | None:
        if not self._gathered:
            taken = self._routing.take(_AHEAD)
            if taken is None:
                return None
            self._gathered = taken
        message = self._gathered.pop(0)
        self._note_handed_out(message)
        if self._stores_offsets and message.error() is None:
            super().store_offsets(message=message)
        return message

    def _note_handed_out(self, message: Message) -> None:
        flow = self._flows.get(*_key(message))
        if flow is not None and message.error() is None:
            flow.position, flow.position_epoch = _offset(message) + 1, _epoch(message.leader_epoch())

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """As confluent_kafka's: waits for ``num_messages`` until ``timeout`` seconds are over."""
        if not 0 < num_messages <= _MOST_MESSAGES:
            return super().consume(num_messages, 0)
        deadline = None if timeout < 0 else Deadline(self._clock, timeout)
        left = _INNER_SECONDS if deadline is None else min(timeout, _INNER_SECONDS)
        while True:
            self._routing.recheck()
            if self._flows.any_remote:
                self._gather_both(num_messages)
            else:
                self._gather_broker(num_messages, left)
            if len(self._gathered) >= num_messages or (deadline is not None and deadline.expired()):
                return self._hand_out(num_messages)
            left = _INNER_SECONDS if deadline is None else min(deadline.remaining(), _INNER_SECONDS)
            if self._flows.any_remote:
                self._engine.wait(min(left, _WAKE_SECONDS))

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
        arrived = super().consume(room, seconds)
        count = len(arrived)
        if count and self._flows.redirected:
            arrived = [message for message in arrived if self._speaks_for_the_broker(message)]
        if arrived:
            self._count(arrived)
            if self._gathered:
                self._gathered += arrived
            else:
                self._gathered = arrived
        return count

    def _count(self, arrived: list[Message]) -> None:
        """Counts records and bytes. To look at each message for an error costs as much as half of the delivery."""
        if self._behaviour.announces_ends or arrived[-1].error() is not None:
            arrived = [message for message in arrived if message.error() is None]
        self._broker_records += len(arrived)
        self._broker_bytes += sum(map(len, arrived))

    def _speaks_for_the_broker(self, message: Message) -> bool:
        """Whether a record or the end of a partition counts: not while the partition's next record comes from elsewhere."""
        topic, partition = message.topic(), message.partition()
        flow = None if topic is None or partition is None else self._flows.get(topic, partition)
        if flow is None or (flow.route is Route.BROKER and not flow.moved):
            return True
        error = message.error()
        return error is not None and error.code() != KafkaError._PARTITION_EOF  # noqa: SLF001 - a public constant

    def _hand_out(self, limit: int) -> list[Message]:
        """The first ``limit`` of what was gathered; positions and stored offsets follow it."""
        batch = self._gathered
        if len(batch) > limit:
            batch, self._gathered = batch[:limit], batch[limit:]
            reached = self._reached_in(batch)
        else:
            self._gathered = []
            reached = self._reached() if batch else []
        if self._stores_offsets and reached:
            super().store_offsets(offsets=reached)
        return batch

    def _reached(self) -> list[TopicPartition]:
        """The places that all partitions are at when everything gathered is handed out."""
        flows, self._flows.advanced = self._flows.advanced, set()
        for flow in flows:
            flow.handed_out()
        reached = [flow.handed for flow in flows]
        by_broker = self._flows.by_broker
        return reached + [tp for tp in super().position(by_broker) if tp.offset >= 0] if by_broker else reached

    def _reached_in(self, batch: list[Message]) -> list[TopicPartition]:
        """The places after the last record of each partition in ``batch``."""
        for message in batch:
            self._note_handed_out(message)
        flows = {key: self._flows.get(*key) for key in map(_key, batch)}
        return [flow.handed for flow in flows.values() if flow is not None and flow.position >= 0]

    # -- position and flow control -----------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition) -> None:
        flow = self._flows.get(partition.topic, partition.partition) if isinstance(partition, TopicPartition) else None
        if flow is None:
            super().seek(partition)
            return
        target = PartitionFlow(partition.topic, partition.partition, partition.offset, _epoch(partition.leader_epoch))
        target.offsets = flow.offsets
        if not target.below_local:  # the local log's start never moves back, so what was below it still is
            self._routing.learn_offsets([target])
        super().pause([partition])
        try:
            super().seek(target.here)
        except KafkaException:
            if flow.route is Route.BROKER and not flow.moved and not flow.paused:
                super().resume([partition])
            raise
        flow.detach()
        self._take_back(flow)
        flow.sought(target)
        if flow.below_local:
            self._routing.go_remote(flow)
        else:
            self._flows.parked.discard(flow.key)
            if not flow.paused:
                super().resume([partition])
                super().seek(flow.here)
        self._flows.reroute()

    def pause(self, partitions: list[TopicPartition]) -> None:
        super().pause(partitions)
        for tp in partitions:
            flow = self._flows.set_paused((tp.topic, tp.partition), True)
            if flow is not None:
                flow.detach()
                self._take_back(flow)

    def resume(self, partitions: list[TopicPartition]) -> None:
        if not _are_partitions(partitions):
            super().resume(partitions)  # raises
        inner = []
        for tp in partitions:
            known = self._flows.get(tp.topic, tp.partition)
            was_paused = known is not None and known.paused
            flow = self._flows.set_paused((tp.topic, tp.partition), False)
            if flow is None or (flow.route is Route.BROKER and not flow.moved):
                inner.append(tp)
            elif flow.route is Route.BROKER:
                self._routing.go_broker(flow)
            elif was_paused:
                self._routing.go_remote(flow)
        super().resume(inner)

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        answered = super().position(partitions)
        waiting = {_key(message): _offset(message) for message in reversed(self._gathered) if message.error() is None}
        for index, tp in enumerate(answered):
            flow = self._flows.get(tp.topic, tp.partition)
            if flow is None or tp.error is not None:
                continue
            if flow.route is Route.REMOTE or flow.moved or tp.offset < 0:
                answered[index] = flow.handed
            elif flow.key in waiting:
                tp.offset = waiting[flow.key]
        return answered

    def get_watermark_offsets(self, partition: TopicPartition, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """As confluent_kafka's; the cached ones of a partition that is read directly are those that were last learnt."""
        cached = kwargs.get("cached", args[1] if len(args) > 1 else False)
        flow = self._flows.get(partition.topic, partition.partition) if isinstance(partition, TopicPartition) else None
        if cached and flow is not None and flow.route is Route.REMOTE and flow.offsets.log_start != UNKNOWN_OFFSET:
            return flow.offsets.log_start, flow.offsets.high_watermark
        return super().get_watermark_offsets(partition, *args, **kwargs)

    # -- offsets and the end -----------------------------------------------------------------------------------------------

    def store_offsets(self, *args: Any, **kwargs: Any) -> None:
        """As confluent_kafka's: refused while ``enable.auto.offset.store`` is on."""
        if self._stores_offsets:
            code = KafkaError._INVALID_ARG  # noqa: SLF001 - a public constant with a private-looking name
            raise KafkaException(KafkaError(code, "StoreOffsets failed: enable.auto.offset.store is true"))
        super().store_offsets(*args, **kwargs)

    def close(self) -> None:
        """As confluent_kafka's; then all of direct fetch is stopped as well."""
        try:
            super().close()
        finally:
            self._forget(flow.key for flow in self._flows)
            self._engine.close()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _are_partitions(partitions: object) -> bool:
    return isinstance(partitions, list) and all(isinstance(tp, TopicPartition) for tp in partitions)


def _key(message: Message) -> tuple[str, int]:
    """Topic and partition; an error need not have them."""
    topic, partition = message.topic(), message.partition()
    return topic or "", UNKNOWN_OFFSET if partition is None else partition


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _epoch(leader_epoch: int | None) -> int:
    return UNKNOWN_EPOCH if leader_epoch is None else leader_epoch
