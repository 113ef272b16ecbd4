"""The assigned partitions and their positions: applies assignments, rebalances, seeks, pauses and resumes to both tiers.

Each call settles and seals the delivered records of partitions whose position may be lost (deliveries.py). Then it calls the
inner consumer, which rejects invalid arguments. Then it updates the flows (partition_flow.py), and chooses their routes
(routing.py). While a partition is read directly the inner consumer's partition
is paused and only keeps the group, commits and callbacks going.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import attrs
import confluent_kafka
from confluent_kafka import OFFSET_INVALID, OFFSET_STORED, KafkaError, KafkaException, TopicPartition

from kafka_remote_client.consumer.call_arguments import are_partitions, invalid, may_be_assigned
from kafka_remote_client.consumer.committed_offsets import CommittedOffsets
from kafka_remote_client.consumer.deliveries import Deliveries
from kafka_remote_client.consumer.inner_consumer import InnerConsumer
from kafka_remote_client.consumer.inner_start import assign_inner
from kafka_remote_client.consumer.message_positions import epoch_of
from kafka_remote_client.consumer.partition_flow import PartitionFlow, topic_partition, with_metadata
from kafka_remote_client.consumer.route_state import Route, RouteEvent
from kafka_remote_client.consumer.routing import Routing
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.consumer.tier_log import TierLogs
from kafka_remote_client.model import UNKNOWN_EPOCH

__all__ = ["Assignment", "RebalanceCallback"]

RebalanceCallback = Callable[[confluent_kafka.Consumer, list[TopicPartition]], None]


@attrs.define(eq=False, slots=False)
class Assignment:
    """See the module. Methods with confluent_kafka's names do the same as those. Only calls inside the gate use it.

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
        """Returns the callback that replaces the application's ``on_assign``."""
        return self._deliveries.held.wrapped(partial(self._on_assign, callback))

    def _on_assign(
        self, callback: RebalanceCallback | None, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]
    ) -> None:
        self._assigned_by_user = False
        # The callback may change its list. Without an assignment of its own, confluent_kafka assigns what librdkafka named.
        named = [topic_partition(tp.topic, tp.partition, tp.offset, epoch_of(tp.leader_epoch)) for tp in partitions]
        try:
            if callback is not None:
                callback(consumer, partitions)
        finally:
            if not self._assigned_by_user:
                (self.incremental_assign if self._incremental else self.assign)(named)

    def revoking(self, callback: RebalanceCallback | None, *, lost: bool = False) -> RebalanceCallback:
        """Returns the callback that replaces the application's ``on_revoke``, or ``on_lost``."""
        return self._deliveries.held.wrapped(partial(self._on_revoke, callback, lost))

    def _on_revoke(
        self,
        callback: RebalanceCallback | None,
        lost: bool,
        consumer: confluent_kafka.Consumer,
        partitions: list[TopicPartition],
    ) -> None:
        # Gathered records are dropped. The flows stay until the callback returns, because it may ask for positions.
        self._assigned_by_user = False
        named = [(tp.topic, tp.partition) for tp in partitions]  # the callback may change its list
        revoked = self._flows.of(partitions)
        self._deliveries.seal(revoked)
        for flow in revoked:
            flow.revoked = True
            flow.detach()
            self._deliveries.take_back(flow)
        try:
            if callback is not None:
                callback(consumer, partitions)
        finally:
            self._commits.give_up([] if lost else revoked)
            self._deliveries.forget(named)
            if not self._incremental and not self._assigned_by_user:
                # confluent_kafka then gives up all partitions, also those that the application added.
                self._deliveries.seal(self._flows)
                self._commits.give_up([] if lost else self._flows)
                self._deliveries.forget(flow.key for flow in self._flows)

    # -- assignments -------------------------------------------------------------------------------------------------------

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user |= are_partitions(partitions)  # what is no list of partitions does not count as an assignment
        self._deliveries.settle()
        if not are_partitions(partitions):
            self._inner.assign(partitions)  # raises
        self._deliveries.seal(self._flows)
        self._commits.give_up(self._flows)
        try:
            if not may_be_assigned(partitions):
                self._inner.assign(partitions)  # raises
            flows = self._resolve(partitions)
            assign_inner(self._inner, self._flows, self._inner.assign, flows)
        except KafkaException:
            # rd_kafka_cgrp_assign() gives up the old assignment before it checks the new one.
            self._deliveries.forget(flow.key for flow in self._flows.beside(self._inner.assignment()))
            raise
        self._deliveries.forget(flow.key for flow in self._flows)
        self._adopt(flows)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user |= are_partitions(partitions)
        if not are_partitions(partitions) or self._flows.of(partitions) or not may_be_assigned(partitions):
            self._inner.incremental_assign(partitions)  # raises
        flows = self._resolve(partitions)
        assign_inner(self._inner, self._flows, self._inner.incremental_assign, flows)
        self._adopt(flows)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user |= are_partitions(partitions)
        self._deliveries.seal(self._flows)
        if are_partitions(partitions):
            self._commits.give_up(self._flows.of(partitions))
        self._inner.incremental_unassign(partitions)
        self._deliveries.forget((tp.topic, tp.partition) for tp in partitions)

    def unassign(self) -> None:
        self._assigned_by_user = True
        self._deliveries.seal(self._flows)
        self._commits.give_up(self._flows)
        self._inner.unassign()
        self._deliveries.forget(flow.key for flow in self._flows)

    def _resolve(self, partitions: list[TopicPartition]) -> list[PartitionFlow]:
        """Returns flows with the given offsets. Never waits: unknown starts are looked up after the assignment."""
        flows = [
            PartitionFlow(given.topic, given.partition, given.offset, epoch_of(given.leader_epoch), self._tiers)
            for given in partitions
        ]
        for flow, given in zip(flows, partitions, strict=True):
            flow.assigned_metadata = given.metadata
            if flow.next_offset == OFFSET_INVALID:
                flow.assigned_at = OFFSET_STORED  # librdkafka's error text
            before = self._flows.get(*flow.key)
            if before is not None:
                flow.offsets = before.bounds
        self._commits.begin_again(partitions, in_group=self.in_group)
        if not self._deliveries.closing:  # otherwise no answer arrives and no record is delivered
            self._make_known([] if self._deliveries.serves_callbacks else flows)
            self._routing.begin(flows, assigned=True)
        return flows

    def _adopt(self, flows: list[PartitionFlow]) -> None:
        for flow in flows:
            self._commits.adopt(flow)
            self._routing.adopt(flow)

    def _make_known(self, flows: list[PartitionFlow]) -> None:
        """Makes librdkafka look for leaders during the look-up of the tiers. For a new topic it may otherwise wait a second.

        Not where a start has an epoch: librdkafka compares it with the log's only if it hears of the topic by the assignment.
        Nor in a callback: list_topics() there makes confluent_kafka abort the process at the next callback of the same call.
        """
        self._inner.assignment()  # raises if the consumer is closed, as the application's call does
        for topic in {flow.topic for flow in flows} - {flow.topic for flow in flows if flow.leader_epoch != UNKNOWN_EPOCH}:
            with suppress(KafkaException):
                self._inner.list_topics(topic, timeout=0)

    def assigned(self) -> list[TopicPartition]:
        """The assigned partitions and the offsets that they were assigned with."""
        answered = self._inner.assignment()
        for index, tp in enumerate(answered):
            flow = self._flows.get(tp.topic, tp.partition)
            if flow is not None:
                assigned = topic_partition(tp.topic, tp.partition, flow.assigned_at, flow.assigned_epoch)
                answered[index] = with_metadata(assigned, flow.assigned_metadata)
        return answered

    # -- position and flow control -----------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition) -> None:
        flow = self._flows.get(partition.topic, partition.partition) if isinstance(partition, TopicPartition) else None
        if flow is None:
            self._inner.seek(partition)
            return
        if partition.offset == OFFSET_STORED:  # librdkafka rejects it, but drops the fetched records
            raise invalid(f"Failed to seek to offset {OFFSET_STORED}: Local: Invalid argument or configuration")
        self._deliveries.settle()
        target = PartitionFlow(partition.topic, partition.partition, partition.offset, epoch_of(partition.leader_epoch))
        target.offsets, target.unknown_until = flow.bounds, flow.unknown_until
        self._routing.begin([target], assigned=False)
        self._deliveries.seal([flow])
        # librdkafka looks up a logical offset. A resume or another seek during that makes it look up again, half a second
        # later, wherever the partition is then: the records from there to the logical offset would never be delivered. But
        # where the inner consumer waits at offset 0, a resume may make it fetch there (PartitionFlow.is_sought_first).
        at_zero = flow.route.awaits and target.is_sought_first
        looked_up = target.next_offset < 0 and not target.held and not flow.paused and not at_zero
        (self._inner.resume if looked_up else self._inner.pause)([partition])
        try:
            self._inner.seek(target.inner_start)
        except KafkaException as failure:
            if flow.delivered_by_broker and not flow.paused:
                self._inner.resume([partition])
            elif looked_up:
                self._inner.pause([partition])
            error = failure.args[0]
            said = error.str().replace(f"offset {target.inner_start.offset}:", f"offset {partition.offset}:", 1)
            raise KafkaException(KafkaError(error.code(), said)) from None
        flow.detach()
        self._deliveries.take_back(flow)
        flow.sought(target)
        self._flows.advanced.discard(flow)
        self._routing.sought(flow, resumed=looked_up)

    def pause(self, partitions: list[TopicPartition]) -> None:
        self._inner.pause(partitions)
        for tp in partitions:
            flow = self._flows.get(tp.topic, tp.partition)
            if flow is not None or self._is_known(tp):
                self._flows.set_paused((tp.topic, tp.partition), True)
            if flow is not None:
                flow.detach()
                self._deliveries.take_back(flow)

    def _is_known(self, unassigned: TopicPartition) -> bool:
        """Whether librdkafka knows the partition, so that it has paused it. Other calls than an assignment make one known.

        Only the error of a call tells. It stores nothing, because the partition is not assigned (``rd_kafka_offset_store0``).
        """
        try:
            self._inner.store_offsets(offsets=[TopicPartition(unassigned.topic, unassigned.partition, 0)])
        except KafkaException as error:
            return bool(error.args[0].code() != KafkaError._UNKNOWN_PARTITION)
        return True

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
