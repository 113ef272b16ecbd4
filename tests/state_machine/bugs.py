"""Planted bugs that the state machine must find: each replaces one function of the product by a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import confluent_kafka
from confluent_kafka import TopicPartition

__all__ = ["BUGS", "Bug"]

_CONSUMER = "kafka_remote_client.consumer."


@attrs.frozen
class Bug:
    """``make`` gets the function at ``place`` and returns its replacement; see ``tests.support.planting``."""

    name: str
    place: str
    make: Callable[[Any], Callable[..., Any]]
    seed: int = 1


def _shifts_hand_over(shift: int) -> Callable[[Any], Callable[..., Any]]:
    def make(go_broker: Any) -> Callable[..., Any]:
        def shifted_go_broker(self: Any, flow: Any, event: Any) -> None:
            if flow.next_offset > 0:
                flow.next_offset += shift
            go_broker(self, flow, event)

        return shifted_go_broker

    return make


def _seeks_one_late(seek: Any) -> Callable[..., Any]:
    def seeking(self: Any, partition: TopicPartition) -> None:
        late = partition.offset + 1 if partition.offset >= 0 else partition.offset
        seek(self, TopicPartition(partition.topic, partition.partition, late))

    return seeking


def _pauses_librdkafka_only(_: Any) -> Callable[..., Any]:
    return confluent_kafka.Consumer.pause


def _advances_positions(handed: Any) -> Callable[..., Any]:
    def positions(self: Any) -> TopicPartition:
        found = handed(self)
        return found if found.offset < 0 else TopicPartition(found.topic, found.partition, found.offset + 1)

    return positions


def _commits_ahead(commit: Any) -> Callable[..., Any]:
    """Commits one record more than was delivered. It does not commit the queued records: their number depends on timing."""

    def committing(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._direct_deliveries._stores and not kwargs.get("offsets") and not kwargs.get("message"):
            self._direct_deliveries.settle()
            ahead = [TopicPartition(*flow.key, flow.position + 1) for flow in self._direct_flows if flow.position >= 0]
            confluent_kafka.Consumer.store_offsets(self, offsets=ahead)
        return commit(self, *args, **kwargs)

    return committing


def _keeps_queued_records(_: Any) -> Callable[..., Any]:
    return lambda self, flow: None


def _does_nothing(_: Any) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: None


BUGS = (
    Bug("a hand-over repeats a record", _CONSUMER + "routing:Routing.go_broker", _shifts_hand_over(-1)),
    Bug("a hand-over skips a record", _CONSUMER + "routing:Routing.go_broker", _shifts_hand_over(1)),
    Bug("a seek is one record late", _CONSUMER + "direct_consumer:DirectConsumer.seek", _seeks_one_late),
    Bug(
        "a pause reaches librdkafka only",
        _CONSUMER + "direct_consumer:DirectConsumer.pause",
        _pauses_librdkafka_only,
        seed=2,
    ),
    Bug("positions are one record ahead", _CONSUMER + "partition_flow:PartitionFlow.handed", _advances_positions),
    Bug("commits are ahead of deliveries", _CONSUMER + "direct_consumer:DirectConsumer.commit", _commits_ahead),
    Bug(
        "queued records survive a seek",
        _CONSUMER + "deliveries:Deliveries.take_back",
        _keeps_queued_records,
    ),
    Bug("markers are never passed", _CONSUMER + "passed_markers:PassedMarkers._pass", _does_nothing),
    Bug("offsets of delivered records are not stored", _CONSUMER + "delivery_queue:DeliveryQueue.store", _does_nothing),
)
