"""Bugs that the state machine has to find: each a wrong function in the product's place."""

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
    """``make`` gets what is at ``place`` and gives what is to be there (``tests.support.planting``). ``seed`` is of the run."""

    name: str
    place: str
    make: Callable[[Any], Callable[..., Any]]
    seed: int = 1


def _hands_over(shift: int) -> Callable[[Any], Callable[..., Any]]:
    def make(go_broker: Any) -> Callable[..., Any]:
        def going(self: Any, flow: Any, event: Any) -> None:
            if flow.next_offset > 0:
                flow.next_offset += shift
            go_broker(self, flow, event)

        return going

    return make


def _seeks_one_late(seek: Any) -> Callable[..., Any]:
    def seeking(self: Any, partition: TopicPartition) -> None:
        late = partition.offset + 1 if partition.offset >= 0 else partition.offset
        seek(self, TopicPartition(partition.topic, partition.partition, late))

    return seeking


def _pauses_inside_only(_: Any) -> Callable[..., Any]:
    return confluent_kafka.Consumer.pause


def _one_too_far(handed: Any) -> Callable[..., Any]:
    def positions(self: Any) -> TopicPartition:
        told = handed(self)
        return told if told.offset < 0 else TopicPartition(told.topic, told.partition, told.offset + 1)

    return positions


def _commits_ahead(commit: Any) -> Callable[..., Any]:
    """One record more is committed than was handed out: how much is gathered ahead, of which route, is a matter of time."""

    def committing(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._deliveries._stores and not kwargs.get("offsets") and not kwargs.get("message"):
            self._deliveries.settle()
            ahead = [TopicPartition(*flow.key, flow.position + 1) for flow in self._flows if flow.position >= 0]
            confluent_kafka.Consumer.store_offsets(self, offsets=ahead)
        return commit(self, *args, **kwargs)

    return committing


def _keeps_what_was_gathered(_: Any) -> Callable[..., Any]:
    return lambda self, flow: None


def _forgets(_: Any) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: None


BUGS = (
    Bug("a hand-over repeats a record", _CONSUMER + "routing:Routing.go_broker", _hands_over(-1)),
    Bug("a hand-over leaves a record out", _CONSUMER + "routing:Routing.go_broker", _hands_over(1)),
    Bug("a seek is one record late", _CONSUMER + "direct_consumer:DirectConsumer.seek", _seeks_one_late),
    Bug(
        "a pause is told to librdkafka only",
        _CONSUMER + "direct_consumer:DirectConsumer.pause",
        _pauses_inside_only,
        seed=2,
    ),
    Bug("positions are one too far", _CONSUMER + "partition_flow:PartitionFlow.handed", _one_too_far),
    Bug("what is stored is ahead of what was delivered", _CONSUMER + "direct_consumer:DirectConsumer.commit", _commits_ahead),
    Bug(
        "what was gathered outlives a seek",
        _CONSUMER + "deliveries:Deliveries.take_back",
        _keeps_what_was_gathered,
    ),
    Bug("markers are never passed", _CONSUMER + "passed_markers:PassedMarkers._pass", _forgets),
    Bug("what is handed out is not stored", _CONSUMER + "delivery_queue:DeliveryQueue.store", _forgets),
)
