"""Planted bugs that group programs must find: wrong product functions that affect the state after a rebalance."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import TopicPartition

from tests.state_machine.bugs import Bug

__all__ = ["BUGS"]

_CONSUMER = "kafka_remote_client.consumer."


def _moved(partition: TopicPartition, by: int) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition, max(0, partition.offset + by))


def _shifts_starts(by: int) -> Callable[[Any], Callable[..., Any]]:
    def make(starts: Any) -> Callable[..., Any]:
        def shifted_starts(self: Any, partitions: Iterable[TopicPartition], seconds: float) -> dict[tuple[str, int], Any]:
            found = starts(self, partitions, seconds)
            return {key: start if start is None or start.offset < 0 else _moved(start, by) for key, start in found.items()}

        return shifted_starts

    return make


def _stores_ahead(stores: Any) -> Callable[..., Any]:
    return lambda self, place: stores(self, _moved(place, 1))


def _keeps_queued_records(_: Any) -> Callable[..., Any]:
    return lambda self, flow: None


BUGS = (
    Bug("a partition starts one record late", _CONSUMER + "committed_offsets:CommittedOffsets.starts", _shifts_starts(1)),
    Bug("a partition starts one record early", _CONSUMER + "committed_offsets:CommittedOffsets.starts", _shifts_starts(-1)),
    Bug("stored offsets are one record ahead", _CONSUMER + "partition_flow:PartitionFlow.stores", _stores_ahead),
    Bug(
        "queued records survive a rebalance",
        _CONSUMER + "deliveries:Deliveries.take_back",
        _keeps_queued_records,
    ),
)
