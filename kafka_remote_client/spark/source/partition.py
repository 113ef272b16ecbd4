"""A split as Spark carries it from the driver to a task."""

from __future__ import annotations

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.source.pyspark_api import InputPartition

__all__ = ["KafkaRemotePartition"]


class KafkaRemotePartition(InputPartition):
    """One split: a partition's name, two offsets, a size, and the driver's facts about the tier. No location."""

    def __init__(self, split: Split) -> None:
        told = (split.tiered_end, split.tier_failure, split.max_broker_bytes)
        super().__init__((*split.topic_partition, split.start, split.end, split.size_in_bytes, *told))

    @property
    def split(self) -> Split:
        """What a task reads."""
        topic, partition, *more = self.value
        return Split(TopicPartition(topic, partition), *more)
