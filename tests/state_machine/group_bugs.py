"""Bugs that programs of groups have to find: wrong functions in the product's place, each about what a rebalance leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import TopicPartition

from tests.state_machine.bugs import Bug

__all__ = ["BUGS"]

_CONSUMER = "kafka_remote_client.consumer."


def _moved(partition: TopicPartition, by: int) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition, max(0, partition.offset + by))


def _begins(by: int) -> Callable[[Any], Callable[..., Any]]:
    def make(starts: Any) -> Callable[..., Any]:
        def beginning(self: Any, partitions: Iterable[TopicPartition], seconds: float) -> dict[tuple[str, int], Any]:
            found = starts(self, partitions, seconds)
            return {key: start if start is None or start.offset < 0 else _moved(start, by) for key, start in found.items()}

        return beginning

    return make


def _stores_ahead(stores: Any) -> Callable[..., Any]:
    return lambda self, place: stores(self, _moved(place, 1))


def _keeps_what_was_gathered(_: Any) -> Callable[..., Any]:
    return lambda self, flow: None


BUGS = (
    Bug("a partition begins a record late", _CONSUMER + "committed_offsets:CommittedOffsets.starts", _begins(1)),
    Bug("a partition begins a record early", _CONSUMER + "committed_offsets:CommittedOffsets.starts", _begins(-1)),
    Bug("what is stored is a record ahead", _CONSUMER + "partition_flow:PartitionFlow.stores", _stores_ahead),
    Bug(
        "what was gathered outlives a rebalance",
        _CONSUMER + "deliveries:Deliveries.take_back",
        _keeps_what_was_gathered,
    ),
)
