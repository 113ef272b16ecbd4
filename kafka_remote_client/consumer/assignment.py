"""Which partitions are assigned, and where: assignments, rebalances, seeks, pauses and resumes, told to both tiers.

Each call settles and seals what was handed out of partitions whose place may be lost (deliveries.py). Then it tells the inner
consumer, which refuses what confluent_kafka refuses. Then the flows follow (partition_flow.py), and their routes are chosen
(routing.py). While a partition is read directly the inner consumer's partition
is paused and only keeps the group, commits and callbacks going.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

import attrs
import confluent_kafka
from confluent_kafka import OFFSET_INVALID, OFFSET_STORED, KafkaException, TopicPartition

from kafka_remote_client.consumer.arguments import are_partitions, invalid, may_be_assigned
from kafka_remote_client.consumer.committed_offsets import CommittedOffsets
from kafka_remote_client.consumer.deliveries import Deliveries
from kafka_remote_client.consumer.inner_consumer import InnerConsumer
from kafka_remote_client.consumer.messages import epoch_of
from kafka_remote_client.consumer.partition_flow import PartitionFlow, topic_partition
from kafka_remote_client.consumer.route_state import Route, RouteEvent
from kafka_remote_client.consumer.routing import Routing
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.consumer.tier_log import TierLogs
from kafka_remote_client.model import UNKNOWN_EPOCH

__all__ = ["Assignment", "RebalanceCallback"]

RebalanceCallback = Callable[[confluent_kafka.Consumer, list[TopicPartition]], None]


@attrs.define(eq=False, slots=False)
class Assignment:
    """See the module. Methods of confluent_kafka's names do what those do. Only calls inside the gate use it.

    ``incremental``: whether rebalances come as increments.
    """

    _inner: InnerConsumer
    _flows: SubscriptionState
    _tiers: TierLogs
    _routing: Routing
    _commits: CommittedOffsets
    _deliveries: Deliveries
    _incremental: bool
    _assigned_by_user: bool = attrs.field(default=False, init=False)
    in_group: bool = attrs.field(default=False, init=False)
    """Whether the application has subscribed."""

    # -- rebalances --------------------------------------------------------------------------------------------------------

    def assigning(self, callback: RebalanceCallback | None) -> RebalanceCallback:
        """What librdkafka calls in place of the application's ``on_assign``."""
        return self._deliveries.held.wrapped(partial(self._on_assign, callback))

    def _on_assign(
        self, callback: RebalanceCallback | None, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]
    ) -> None:
        self._assigned_by_user = False
        try:
            if callback is not None:
                callback(consumer, partitions)
        finally:
            if not self._assigned_by_user:
                (self.incremental_assign if self._incremental else self.assign)(partitions)

    def revoking(self, callback: RebalanceCallback | None, *, lost: bool = False) -> RebalanceCallback:
        """What librdkafka calls in place of the application's ``on_revoke``, or ``on_lost``."""
        return self._deliveries.held.wrapped(partial(self._on_revoke, callback, lost))

    def _on_revoke(
        self,
        callback: RebalanceCallback | None,
        lost: bool,
        consumer: confluent_kafka.Consumer,
        partitions: list[TopicPartition],
    ) -> None:
        # What was not handed out never will be. The flows stay until the callback is done, for it may ask for positions.
        revoked = self._flows.of(partitions)
        self._deliveries.seal(revoked)
        for flow in revoked:
            flow.detach()
            self._deliveries.take_back(flow)
        try:
            if callback is not None:
                callback(consumer, partitions)
        finally:
            self._commits.give_up([] if lost else revoked)
            self.forget((tp.topic, tp.partition) for tp in partitions)

    # -- assignments -------------------------------------------------------------------------------------------------------

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user = True
        self._deliveries.settle()
        if not are_partitions(partitions):
            self._inner.assign(partitions)  # raises
        self._deliveries.seal(self._flows)
        self._commits.give_up(self._flows)
        try:
            if not may_be_assigned(partitions):
                self._inner.assign(partitions)  # raises
            flows = self._resolve(partitions)
            self._routing.assign(self._inner.assign, flows)
        except KafkaException:
            # rd_kafka_cgrp_assign() gives the old assignment up before it looks at the new one.
            assigned = {(tp.topic, tp.partition) for tp in self._inner.assignment()}
            self.forget(flow.key for flow in self._flows if flow.key not in assigned)
            raise
        self.forget(flow.key for flow in self._flows)
        self._adopt(flows)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user = True
        if not are_partitions(partitions) or self._flows.of(partitions) or not may_be_assigned(partitions):
            self._inner.incremental_assign(partitions)  # raises
        flows = self._resolve(partitions)
        self._routing.assign(self._inner.incremental_assign, flows)
        self._adopt(flows)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user = True
        self._deliveries.seal(self._flows)
        if are_partitions(partitions):
            self._commits.give_up(self._flows.of(partitions))
        self._inner.incremental_unassign(partitions)
        self.forget((tp.topic, tp.partition) for tp in partitions)

    def unassign(self) -> None:
        self._assigned_by_user = True
        self._deliveries.seal(self._flows)
        self._commits.give_up(self._flows)
        self._inner.unassign()
        self.forget(flow.key for flow in self._flows)

    def _resolve(self, partitions: list[TopicPartition]) -> list[PartitionFlow]:
        """Flows with the offsets given. Never waits: unknown starts are asked for once they are assigned."""
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
        self._commits.begin_again(partitions, in_group=self.in_group)
        if not self._deliveries.closing:  # else no question is answered, nor is anything delivered
            self._make_known([] if self._deliveries.serves_callbacks else flows)
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
        self._inner.assignment()  # raises where the consumer is closed, as the call does that this is a part of
        for topic in {flow.topic for flow in flows} - {flow.topic for flow in flows if flow.leader_epoch != UNKNOWN_EPOCH}:
            with suppress(KafkaException):
                self._inner.list_topics(topic, timeout=0)

    def assigned(self) -> list[TopicPartition]:
        """The assigned partitions and the offsets that they were assigned with."""
        answered = self._inner.assignment()
        for index, tp in enumerate(answered):
            flow = self._flows.get(tp.topic, tp.partition)
            if flow is not None:
                answered[index] = topic_partition(tp.topic, tp.partition, flow.assigned_at, flow.assigned_epoch)
        return answered

    def forget(self, keys: Iterable[tuple[str, int]]) -> None:
        """Partitions are not assigned any more."""
        for flow in self._flows.remove(keys):
            self._commits.forget(flow)
            self._deliveries.take_back(flow)
            self._tiers.leave(flow.key)

    # -- position and flow control -----------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition) -> None:
        flow = self._flows.get(partition.topic, partition.partition) if isinstance(partition, TopicPartition) else None
        if flow is None:
            self._inner.seek(partition)
            return
        if partition.offset == OFFSET_STORED:  # librdkafka refuses it and drops what it has fetched, which then never comes
            raise invalid(f"Failed to seek to offset {OFFSET_STORED}: Local: Invalid argument or configuration")
        self._deliveries.settle()
        target = PartitionFlow(partition.topic, partition.partition, partition.offset, epoch_of(partition.leader_epoch))
        target.offsets, target.unknown_until = flow.bounds, flow.unknown_until
        self._routing.begin([target], assigned=False)
        self._deliveries.seal([flow])
        # A logical offset is looked up. A resume or another seek meanwhile makes librdkafka look it up once more, half a second
        # later, wherever the partition is by then: the records from there to the logical place would never come.
        looked_up = target.next_offset < 0 and not target.held and not flow.paused
        (self._inner.resume if looked_up else self._inner.pause)([partition])
        try:
            self._inner.seek(target.inner_start)
        except KafkaException:
            if flow.delivered_by_broker and not flow.paused:
                self._inner.resume([partition])
            elif looked_up:
                self._inner.pause([partition])
            raise
        flow.detach()
        self._deliveries.take_back(flow)
        flow.sought(target)
        self._flows.advanced.discard(flow)
        self._routing.sought(flow, resumed=looked_up)

    def pause(self, partitions: list[TopicPartition]) -> None:
        self._inner.pause(partitions)
        for tp in partitions:
            flow = self._flows.set_paused((tp.topic, tp.partition), True)
            if flow is not None:
                flow.detach()
                self._deliveries.take_back(flow)

    def resume(self, partitions: list[TopicPartition]) -> None:
        if not are_partitions(partitions):
            self._inner.resume(partitions)  # raises
        inner = []
        for tp in partitions:
            known = self._flows.get(tp.topic, tp.partition)
            was_paused = known is not None and known.paused
            flow = self._flows.set_paused((tp.topic, tp.partition), False)
            if flow is None:
                self._flows.parked.discard((tp.topic, tp.partition))
                inner.append(tp)
            elif flow.delivered_by_broker:
                inner.append(tp)
            elif flow.route is Route.BROKER:
                self._routing.go_broker(flow, RouteEvent.RESUMED)
            elif was_paused and flow.route is Route.REMOTE:
                self._routing.go_remote(flow, RouteEvent.RESUMED)
        self._inner.resume(inner)
