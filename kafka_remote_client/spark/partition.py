"""A split as Spark carries it from the driver to a task."""

from __future__ import annotations

from kafka_remote_client.spark.offsets import TopicPartition
from kafka_remote_client.spark.planning import Split
from kafka_remote_client.spark.pyspark_api import InputPartition

__all__ = ["KafkaRemotePartition"]


class KafkaRemotePartition(InputPartition):
    """One split: a partition's name, two offsets, a size. No location."""

    def __init__(self, split: Split) -> None:
        super().__init__((*split.topic_partition, split.start, split.end, split.size_in_bytes))

    @property
    def split(self) -> Split:
        """What a task reads."""
        topic, partition, start, end, size = self.value
        return Split(TopicPartition(topic, partition), start, end, size)
