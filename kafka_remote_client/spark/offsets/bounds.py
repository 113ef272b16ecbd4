"""Turns the bounds of the options into an offset for each partition.

References: Spark's KafkaOffsetReaderAdmin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.spark.offsets import json_offsets
from kafka_remote_client.spark.offsets.admin_cluster import Cluster
from kafka_remote_client.spark.offsets.json_offsets import (
    EARLIEST,
    LATEST,
    GlobalTimestamp,
    NoMatch,
    OffsetBound,
    OffsetName,
    SpecificOffsets,
)

__all__ = ["BoundResolver"]


class BoundResolver:
    """Offsets for bounds of those partitions. ``log_starts`` and ``log_ends`` stand for earliest and latest."""

    def __init__(
        self,
        cluster: Cluster,
        partitions: Sequence[TopicPartition],
        log_starts: Mapping[TopicPartition, int],
        log_ends: Mapping[TopicPartition, int],
    ) -> None:
        self._cluster = cluster
        self._partitions = partitions
        self._log_starts = log_starts
        self._log_ends = log_ends

    def resolve(self, option: str, bound: OffsetBound, no_match: NoMatch) -> dict[TopicPartition, int]:
        """An offset for each partition.

        Raises ConfigurationError for offsets or timestamps that do not fit the partitions, LocationError.
        """
        named = self._named(option, bound, no_match)
        return {partition: self._number(partition, offset) for partition, offset in named.items()}

    def _named(self, option: str, bound: OffsetBound, no_match: NoMatch) -> Mapping[TopicPartition, int]:
        if isinstance(bound, OffsetName):
            return dict.fromkeys(self._partitions, bound.offset)
        if isinstance(bound, SpecificOffsets):
            return json_offsets.per_partition(
                option, json_offsets.with_topics(option, bound, self._partitions), self._partitions
            )
        if isinstance(bound, GlobalTimestamp):
            times = dict.fromkeys(self._partitions, bound.timestamp)
        else:
            times = json_offsets.per_partition(option, bound.timestamps, self._partitions)
        # A record that was written after the request for the ends is past the end of this query.
        found = {
            partition: min(offset, self._log_ends[partition]) for partition, offset in self._cluster.at_times(times).items()
        }
        return json_offsets.after_lookup(option, times, found, no_match)

    def _number(self, partition: TopicPartition, offset: int) -> int:
        if offset == EARLIEST:
            return self._log_starts[partition]
        return self._log_ends[partition] if offset == LATEST else offset
