"""A Cluster from a table, for tests of the driver's plans."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.spark.options.source_options import Subscription

__all__ = ["A0", "A1", "FakeCluster"]

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class FakeCluster:
    """Two partitions with the offsets [10, 100) and [20, 200); a timestamp has the offset of the same number, if it exists.

    ``log_starts`` and ``log_ends`` may be set; ``asked`` counts the questions.
    """

    log_starts: Mapping[TopicPartition, int] = {A0: 10, A1: 20}
    log_ends: Mapping[TopicPartition, int] = {A0: 100, A1: 200}

    def __init__(self) -> None:
        self.asked = 0
        self.closed = False

    def partitions(self, subscription: Subscription) -> list[TopicPartition]:
        self.asked += 1
        return sorted(self.log_ends)

    def starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        self.asked += 1
        return {partition: self.log_starts[partition] for partition in partitions}

    def ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        self.asked += 1
        return {partition: self.log_ends[partition] for partition in partitions}

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.asked += 1
        return {partition: time if time < self.log_ends[partition] else -1 for partition, time in timestamps.items()}

    def close(self) -> None:
        self.closed = True
