"""A split as Spark carries it from the driver to a task."""

from __future__ import annotations

from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.reading.split_rows import row_of_split, split_of_row
from kafka_remote_client.spark.source.pyspark_api import InputPartition

__all__ = ["KafkaRemotePartition"]


class KafkaRemotePartition(InputPartition):
    """One split: a partition's name, two offsets, a size, and the driver's facts about the tier. No location."""

    def __init__(self, split: Split) -> None:
        super().__init__(row_of_split(split))

    @property
    def split(self) -> Split:
        """What a task reads."""
        return split_of_row(self.value)
