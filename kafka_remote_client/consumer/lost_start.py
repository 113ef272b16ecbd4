"""Assigns a partition again whose start librdkafka has lost: every seek fails with ``_STATE``, and no record arrives.

A start is a message to librdkafka's main thread. A pause or seek that another thread makes while that message is being sent has
a newer version and arrives first. The start then counts as outdated, and nothing sends it again.

Only an assignment sends a start. An eager group refuses incremental calls, so there all partitions are assigned again, each at
its exact position. ``assign()`` is not a rebalance: the join state and the generation stay, and a running revocation is
called back as before. It waits while librdkafka looks up the position of a partition that has delivered
nothing: a second look-up of "the end" gives a later offset, and the records in between would never arrive. A partition at
its end reports the end again.

References: ``rd_kafka_toppar_op_fetch_start``, ``rd_kafka_toppar_op_serve`` ("outdated op FETCH_START"),
``rd_kafka_assignment_serve_pending``, ``rd_kafka_cgrp_handle_assign_op``, ``rd_kafka_cgrp_assign``.
"""

from __future__ import annotations

import logging

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from kafka_remote_client.clock import Clock
from kafka_remote_client.consumer.inner_consumer import InnerConsumer
from kafka_remote_client.consumer.message_positions import epoch_of
from kafka_remote_client.consumer.partition_flow import PartitionFlow, topic_partition
from kafka_remote_client.consumer.subscription_state import SubscriptionState

__all__ = ["LostStarts"]

_log = logging.getLogger(__name__)

_START_SECONDS = 1.0
"""How long librdkafka may take to start an assigned partition before it is assigned again."""


class LostStarts:
    """See the module. Not thread-safe: only the application's calls use it."""

    def __init__(self, flows: SubscriptionState, clock: Clock) -> None:
        self._flows = flows
        self._clock = clock

    def refused(self, inner: InnerConsumer, flow: PartitionFlow) -> None:
        """librdkafka rejects a seek of the partition. After a second of this the partition is assigned again."""
        now = self._clock.monotonic()
        if flow.refused_at is None:
            flow.refused_at = now
        if now - flow.refused_at < _START_SECONDS:
            return
        flow.refused_at = now
        _log.warning("librdkafka has not started %s-%d after %g s: assigning it again", *flow.key, _START_SECONDS)
        try:
            self._assign_again(inner, flow)
        except KafkaException as error:
            _log.warning("assigning %s-%d again failed: %s", *flow.key, error)

    def _assign_again(self, inner: InnerConsumer, flow: PartitionFlow) -> None:
        inner.resume([flow.bare])  # not after the start, which it could outdate again
        self._flows.parked.discard(flow.key)
        assigned = [flow]
        try:
            inner.incremental_unassign([flow.bare])
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise
            assigned = list(self._flows)
            if not self._assign_all(inner, flow):
                return
        else:
            inner.incremental_assign([flow.here])
        stored = [other.stores(other.stored) for other in assigned if other.stored is not None]
        if stored:
            inner.store_offsets(offsets=stored)
        flow.moved = False

    def _assign_all(self, inner: InnerConsumer, lost: PartitionFlow) -> bool:
        """Assigns all partitions of an eager group at their positions. Returns whether all positions are known."""
        delivered = [flow for flow in self._flows if flow.delivered_by_broker]
        for tp in inner.position([flow.bare for flow in delivered]):
            flow = self._flows.get(tp.topic, tp.partition)
            if flow is not None and tp.offset >= 0:
                flow.next_offset, flow.leader_epoch = tp.offset, epoch_of(tp.leader_epoch)
        unknown = [flow for flow in delivered if flow.next_offset < 0 and flow.next_offset != OFFSET_BEGINNING]
        if unknown:
            _log.warning("%s-%d waits until the offset of %s-%d is known", *lost.key, *unknown[0].key)
            return False
        inner.assign([flow.here if flow is lost or flow.delivered_by_broker else _parked(flow) for flow in self._flows])
        return True


def _parked(flow: PartitionFlow) -> TopicPartition:
    """Returns a position for a partition that is paused and sought before its resume: a number, so that no look-up runs."""
    start = flow.inner_start
    return start if start.offset >= 0 else topic_partition(flow.topic, flow.partition, 0, flow.leader_epoch)
