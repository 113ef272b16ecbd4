"""The half of the direct consumer that decides what is delivered from where: assignment, routes, positions, stored offsets.

Each assigned partition is on one route at a time (routing.py). While it is read directly the inner consumer's partition is
paused and only keeps the group, commits and callbacks going. ``enable.auto.offset.store`` is always false inside, because
librdkafka refuses ``store_offsets`` otherwise; where the application left it on, offsets are stored when they are handed out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any

import confluent_kafka
from confluent_kafka import OFFSET_INVALID, OFFSET_STORED, KafkaException, Message, TopicPartition

from kafka_remote_client.clock import Clock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.consumer.arguments import are_partitions, both, invalid
from kafka_remote_client.consumer.assemble import InnerBehaviour
from kafka_remote_client.consumer.call_gate import Gate, gated
from kafka_remote_client.consumer.committed_offsets import CommittedOffsets, InnerOffsets
from kafka_remote_client.consumer.consumer import Consumer
from kafka_remote_client.consumer.dropped import close_when_dropped, inner_call, weak_method
from kafka_remote_client.consumer.forked import refuse_after_fork
from kafka_remote_client.consumer.handed_out import HandedOut
from kafka_remote_client.consumer.messages import epoch_of, key_of, offset_of
from kafka_remote_client.consumer.partition_flow import PartitionFlow, Route, topic_partition
from kafka_remote_client.consumer.passed_markers import PassedMarkers
from kafka_remote_client.consumer.routing import InnerConsumer, Routing
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.consumer.tier_log import TierLogs
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET

__all__ = ["AssignedConsumer", "RebalanceCallback"]

RebalanceCallback = Callable[[confluent_kafka.Consumer, list[TopicPartition]], None]


class AssignedConsumer(Consumer):
    """See the module. It gathers nothing itself: what delivers builds on it."""

    def _start_direct(self, *parts: Any) -> None:
        engine: FetchEngine
        remote: RemoteFetchConfig
        clock: Clock
        engine, remote, inner, clock = parts
        self._behaviour = behaviour = InnerBehaviour.of(inner)
        self._gate: Gate = threading.RLock()
        self._closing = self._serves_callbacks = self._assigned_by_user = self._in_group = False
        self._clock = clock
        self._settings = inner
        self._engine = engine
        self._stores_offsets = behaviour.stores_offsets is True
        self._flows = SubscriptionState()
        self._tiers = TierLogs()
        self._gathered: list[Message] = []
        inner_calls = partial(inner_call, self, AssignedConsumer)
        self._commits = CommittedOffsets(
            InnerOffsets(*map(inner_calls, ("committed", "commit", "store_offsets"))),
            self._flows,
            clock,
            stores=self._stores_offsets,
            commits=behaviour.commits,
        )
        self._handed_out = HandedOut(self._commits.store_last if self._stores_offsets else None)
        store_passed = self._commits.store_passed if self._stores_offsets else None
        self._passed_markers = PassedMarkers(self._flows, self._handed_out, inner_calls("position"), store_passed)
        placing = ("pause", "resume", "seek", "position", "incremental_unassign", "incremental_assign", "store_offsets")
        self._routing = Routing(
            InnerConsumer(*map(inner_calls, placing)),
            engine,
            self._flows,
            remote,
            isolation_level=behaviour.isolation_level,
            clock=clock,
            metrics=self._metrics,
        )
        stores = {} if behaviour.stores_offsets is None else {"enable.auto.offset.store": False}
        super(Consumer, self).__init__({**inner, **stores})
        refuse_after_fork(self, close_when_dropped(self, engine).detach)

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
        self._in_group = True
        super().subscribe(
            topics,
            on_assign=self._assigning(on_assign),
            on_revoke=self._revoking(on_revoke),
            on_lost=self._revoking(on_lost or on_revoke, lost=True),
        )

    def unsubscribe(self) -> None:
        super().unsubscribe()
        self._in_group = False

    def _assigning(self, callback: RebalanceCallback | None) -> RebalanceCallback:
        return partial(weak_method(self._on_assign), callback)

    def _on_assign(self, callback: RebalanceCallback | None, _: object, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user = False
        try:
            if callback is not None:
                callback(self, partitions)
        finally:
            if not self._assigned_by_user:
                incremental = self._behaviour.incremental
                (AssignedConsumer.incremental_assign if incremental else AssignedConsumer.assign)(self, partitions)

    def _revoking(self, callback: RebalanceCallback | None, *, lost: bool = False) -> RebalanceCallback:
        return partial(weak_method(self._on_revoke), callback, lost=lost)

    def _on_revoke(self, callback: RebalanceCallback | None, _: Any, partitions: list[TopicPartition], *, lost: bool) -> None:
        # What was not handed out never will be. The flows stay until the callback is done, for it may ask for positions.
        revoked = self._flows.of(partitions)
        self._seal(revoked)
        for flow in revoked:
            flow.detach()
            self._take_back(flow)
        try:
            if callback is not None:
                callback(self, partitions)
        finally:
            self._commits.give_up([] if lost else revoked)
            self._forget((tp.topic, tp.partition) for tp in partitions)

    @gated
    def assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user = True
        self._settle()
        if not are_partitions(partitions):
            super().assign(partitions)  # raises
        self._seal(self._flows)
        self._commits.give_up(self._flows)
        flows = self._resolve(partitions)
        self._routing.assign(super().assign, flows)
        self._forget(flow.key for flow in self._flows)
        self._adopt(flows)

    @gated
    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user = True
        if not are_partitions(partitions):
            super().incremental_assign(partitions)  # raises
        flows = self._resolve(partitions)
        self._routing.assign(super().incremental_assign, flows)
        self._adopt(flows)

    @gated
    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user = True
        self._seal(self._flows)
        if are_partitions(partitions):
            self._commits.give_up(self._flows.of(partitions))
        super().incremental_unassign(partitions)
        self._forget((tp.topic, tp.partition) for tp in partitions)

    @gated
    def unassign(self) -> None:
        self._assigned_by_user = True
        self._seal(self._flows)
        self._commits.give_up(self._flows)
        super().unassign()
        self._forget(flow.key for flow in self._flows)

    def _resolve(self, partitions: list[TopicPartition]) -> list[PartitionFlow]:
        """Flows with the offsets given. Waits for nobody: what is not known of a start is asked once it is assigned."""
        flows = [
            PartitionFlow(given.topic, given.partition, given.offset, epoch_of(given.leader_epoch), self._tiers)
            for given in partitions
        ]
        for flow in flows:
            if flow.next_offset == OFFSET_INVALID:
                flow.assigned_at = OFFSET_STORED  # as librdkafka's says it
            before = self._flows.get(*flow.key)
            if before is not None:
                flow.offsets = before.bounds
        self._commits.begin_anew(partitions, in_group=self._in_group)
        if not self._closing:  # else no question is answered, nor is anything delivered
            self._make_known([] if self._serves_callbacks else flows)
            self._routing.begin(flows, assigned=True)
        return flows

    def _adopt(self, flows: list[PartitionFlow]) -> None:
        for flow in flows:
            self._commits.adopt(flow)
            self._routing.adopt(flow)

    def _make_known(self, flows: list[PartitionFlow]) -> None:
        """Has librdkafka look for leaders while the tiers are asked: for those of a new topic it may look a second later.

        Not where a start has an epoch: librdkafka compares it with the log's only if it hears of the topic by the assignment.
        Nor in a callback: list_topics() there makes confluent_kafka abort the process at the next callback of the same call.
        """
        super().assignment()  # raises where the consumer is closed, as the call does that this is a part of
        for topic in {flow.topic for flow in flows} - {flow.topic for flow in flows if flow.leader_epoch != UNKNOWN_EPOCH}:
            with suppress(KafkaException):
                super().list_topics(topic, timeout=0)

    @gated
    def assignment(self) -> list[TopicPartition]:
        answered = super().assignment()
        for index, tp in enumerate(answered):
            flow = self._flows.get(tp.topic, tp.partition)
            if flow is not None:
                answered[index] = topic_partition(tp.topic, tp.partition, flow.assigned_at, flow.assigned_epoch)
        return answered

    def _seal(self, flows: Iterable[PartitionFlow]) -> None:
        """Settles, and notes what was handed out of partitions whose place may be lost."""
        self._settle()
        sealed = list(flows)
        self._passed_markers.before_loss(sealed, self._gathered)
        for flow in sealed:
            self._tiers.seal(flow.key, flow.position)

    def _forget(self, keys: Iterable[tuple[str, int]]) -> None:
        for flow in self._flows.remove(keys):
            self._commits.forget(flow)
            self._take_back(flow)
            self._tiers.leave(flow.key)

    def _take_back(self, flow: PartitionFlow) -> None:
        """Takes what was gathered of a partition out of the list; the first of it has to come again."""
        self._settle()
        mine = [message for message in self._gathered if key_of(message) == flow.key]
        if mine:
            self._gathered[:] = [message for message in self._gathered if key_of(message) != flow.key]
            records = [offset_of(message) for message in mine if message.error() is None]
            if records:
                flow.take_back(min(records))
                self._flows.advanced.discard(flow)
                self._flows.reroute()

    def _settle(self) -> None:
        """Before anything that could tell: what poll() handed out counts, and what waits behind it is gathered again."""
        lasts, waiting = self._handed_out.settle()
        for last in lasts:
            self._note_handed_out(last)
        self._gathered[:0] = waiting

    def _note_handed_out(self, message: Message) -> None:
        flow = self._flows.get(*key_of(message))
        if flow is not None and message.error() is None:
            flow.handed_out_to(message)

    # -- position and flow control -----------------------------------------------------------------------------------------

    @gated
    def seek(self, partition: TopicPartition) -> None:
        flow = self._flows.get(partition.topic, partition.partition) if isinstance(partition, TopicPartition) else None
        if flow is None:
            super().seek(partition)
            return
        if partition.offset == OFFSET_STORED:  # librdkafka refuses it and drops what it has fetched, which then never comes
            raise invalid(f"Failed to seek to offset {OFFSET_STORED}: Local: Invalid argument or configuration")
        self._settle()
        target = PartitionFlow(partition.topic, partition.partition, partition.offset, epoch_of(partition.leader_epoch))
        target.offsets, target.unknown_until = flow.bounds, flow.unknown_until
        self._routing.begin([target], assigned=False)
        self._seal([flow])
        # A logical offset is looked up. A resume or another seek meanwhile makes librdkafka look it up once more, half a second
        # later, wherever the partition is by then: the records from there to the logical place would never come.
        looked_up = target.next_offset < 0 and not target.held and not flow.paused
        (super().resume if looked_up else super().pause)([partition])
        try:
            super().seek(target.inner_start)
        except KafkaException:
            if flow.route is Route.BROKER and not flow.moved and not flow.paused:
                super().resume([partition])
            elif looked_up:
                super().pause([partition])
            raise
        flow.detach()
        self._take_back(flow)
        flow.sought(target)
        self._flows.advanced.discard(flow)
        if not flow.route.decided:
            self._flows.parked.add(flow.key)
        elif flow.below_local:
            self._routing.go_remote(flow)
        else:
            self._flows.parked.discard(flow.key)
            if not flow.paused and not looked_up:
                self._routing.resume_inner(flow)
        self._flows.reroute()

    @gated
    def pause(self, partitions: list[TopicPartition]) -> None:
        super().pause(partitions)
        for tp in partitions:
            flow = self._flows.set_paused((tp.topic, tp.partition), True)
            if flow is not None:
                flow.detach()
                self._take_back(flow)

    @gated
    def resume(self, partitions: list[TopicPartition]) -> None:
        if not are_partitions(partitions):
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
            elif was_paused and flow.route is Route.REMOTE:
                self._routing.go_remote(flow)
        super().resume(inner)

    @gated
    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        answered = super().position(partitions)
        gathered = {key_of(message) for message in self._gathered if message.error() is None} if self._gathered else ()
        for index, tp in enumerate(answered):
            flow = self._flows.get(tp.topic, tp.partition)
            if flow is None or tp.error is not None:
                continue
            # Not settled: what poll() gathered ahead would be gathered anew for each position.
            last, waits = self._handed_out.stand(flow.key)
            if last is not None:
                flow.handed_out_to(last)
            if waits or not flow.delivered_by_broker or tp.offset < 0 or flow.key in gathered:
                answered[index] = flow.handed
        return answered

    @gated
    def get_watermark_offsets(self, partition: TopicPartition, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """As confluent_kafka's; the cached ones of a partition that is read directly are those that were last learnt."""
        cached = kwargs.get("cached", args[1] if len(args) > 1 else False)
        flow = self._flows.get(partition.topic, partition.partition) if isinstance(partition, TopicPartition) else None
        if cached and flow is not None and flow.route is Route.REMOTE and flow.bounds.log_start != UNKNOWN_OFFSET:
            return flow.bounds.log_start, flow.bounds.high_watermark
        return super().get_watermark_offsets(partition, *args, **kwargs)

    # -- offsets and the end -----------------------------------------------------------------------------------------------

    @gated
    def set_sasl_credentials(self, username: str, password: str) -> None:
        """As confluent_kafka's; connections that ask for locations use them from their next authentication on."""
        super().set_sasl_credentials(username, password)
        self._settings |= {"sasl.username": username, "sasl.password": password}

    @gated
    def commit(self, *args: Any, **kwargs: Any) -> Any:
        self._handed_out.store()
        message, offsets = both("message", "offsets", args, kwargs)
        if message is None and offsets is None:  # confluent_kafka's values refuse to be compared
            self._passed_markers.before_commit(self._gathered)
        return self._commits.commit(args, kwargs)

    @gated
    def store_offsets(self, *args: Any, **kwargs: Any) -> None:
        """As confluent_kafka's: refused while ``enable.auto.offset.store`` is on, unless the arguments are none."""
        self._commits.store_offsets(args, kwargs)

    def close(self) -> None:
        """As confluent_kafka's; then all of direct fetch is stopped as well. Another thread's call that waits ends first."""
        self._closing = True
        with self._gate:
            self._handed_out.store()
            try:
                self._close_inner()
            finally:
                self._forget(flow.key for flow in self._flows)
                self._gathered.clear()
                self._handed_out.close()
                self._engine.close()

    def _close_inner(self) -> None:
        try:
            self._seal(self._flows)
            self._passed_markers.before_close(self._gathered)
            if not self._in_group:
                self._commits.give_up(self._flows)
        finally:
            super().close()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
