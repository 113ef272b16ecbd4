"""Starts partitions in the inner consumer, of which it must not fetch some, and has to look up the start of others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from confluent_kafka import OFFSET_END, KafkaException, TopicPartition

from kafka_remote_client.consumer.inner_consumer import InnerConsumer
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.subscription_state import SubscriptionState

__all__ = ["assign_inner", "ends_of"]

_log = logging.getLogger(__name__)

_END_SECONDS = 0.25
"""How long to wait for the ends of logs. It blocks the application's call."""


def assign_inner(
    inner: InnerConsumer,
    known: SubscriptionState,
    inner_assign: Callable[[list[TopicPartition]], None],
    assigned: list[PartitionFlow],
) -> None:
    """Assigns partitions by ``inner_assign``, a call of ``inner``, each at its start. Raises what that raises.

    Partitions that it must not fetch are paused first. If they were paused later, librdkafka might already wait for a fetch
    of one of them, up to ``fetch.wait.max.ms``, and other partitions of that broker wait with it.

    One whose place is looked up is resumed before that: a resume meanwhile would make librdkafka look it up once more, and
    the records between the two places would never come.
    """
    looked_up = [flow.bare for flow in assigned if not flow.held and flow.next_offset < 0 and known.is_only_parked(flow.key)]
    held = [flow.bare for flow in assigned if flow.held and not known.is_paused(flow.key)]
    if looked_up:
        inner.resume(looked_up)
    if held:
        inner.position(held)  # librdkafka pauses only partitions that it has heard of, and hears of them by this
        inner.pause(held)
    try:
        inner_assign([flow.inner_start for flow in assigned])
    except KafkaException:
        if looked_up:
            inner.pause(looked_up)
        if held:
            inner.resume(held)
        raise
    known.parked.difference_update((tp.topic, tp.partition) for tp in looked_up)


def ends_of(inner: InnerConsumer, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Returns where the logs of partitions end for the isolation level, without those whose leader did not answer in time.

    It is a ListOffsets request, in which "the end" takes the place of a timestamp.
    """
    try:
        answered = inner.offsets_for_times([TopicPartition(*key, OFFSET_END) for key in partitions], timeout=_END_SECONDS)
    except KafkaException as error:
        _log.debug("cannot get the ends of logs: %s", error)
        return {}
    return {(tp.topic, tp.partition): tp.offset for tp in answered if tp.error is None and tp.offset >= 0}
