"""The plan of a batch query: bounds to offsets, offsets to splits.

References: Spark's KafkaOffsetReaderAdmin (getOffsetRangesFromUnresolvedOffsets).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafka_remote_client.spark import offsets
from kafka_remote_client.spark.cluster import Cluster
from kafka_remote_client.spark.data_loss import DataLoss
from kafka_remote_client.spark.offsets import (
    EARLIEST,
    LATEST,
    GlobalTimestamp,
    NoMatch,
    OffsetBound,
    OffsetName,
    SpecificOffsets,
    TopicPartition,
)
from kafka_remote_client.spark.options import SourceOptions
from kafka_remote_client.spark.planning import OffsetRange, Split, plan_splits

__all__ = ["batch_ranges", "plan_batch"]


def plan_batch(
    options: SourceOptions, cluster: Cluster, learn: Callable[[Sequence[OffsetRange]], Sequence[OffsetRange]]
) -> list[Split]:
    """The splits of a batch query. ``learn`` adds the segments that are known to ranges.

    Raises ConfigurationError for offsets or timestamps that do not fit the partitions, DataLossError, LocationError.
    """
    return plan_splits(
        learn(batch_ranges(options, cluster)),
        split_bytes=options.split_bytes,
        min_partitions=options.min_partitions,
        max_records=options.max_records,
    )


def batch_ranges(options: SourceOptions, cluster: Cluster) -> list[OffsetRange]:
    """What is to be read of each partition, all of it in the log. Raises as :func:`plan_batch`."""
    partitions = cluster.partitions(options.subscription)
    log_starts, log_ends = cluster.starts(partitions), cluster.ends(partitions)
    resolve = _Resolver(cluster, partitions, log_starts, log_ends)
    starts = resolve.bound(options.start_option, options.start, options.no_match)
    ends = resolve.bound(options.end_option, options.end, NoMatch.LATEST)
    loss = DataLoss(options.fail_on_data_loss)
    return [
        OffsetRange(
            partition, *loss.bounded(partition, starts[partition], ends[partition], log_starts[partition], log_ends[partition])
        )
        for partition in partitions
    ]


class _Resolver:
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

    def bound(self, option: str, bound: OffsetBound, no_match: NoMatch) -> dict[TopicPartition, int]:
        named = self._named(option, bound, no_match)
        return {partition: self._number(partition, offset) for partition, offset in named.items()}

    def _named(self, option: str, bound: OffsetBound, no_match: NoMatch) -> Mapping[TopicPartition, int]:
        if isinstance(bound, OffsetName):
            return dict.fromkeys(self._partitions, bound.offset)
        if isinstance(bound, SpecificOffsets):
            return offsets.per_partition(option, bound.offsets, self._partitions)
        if isinstance(bound, GlobalTimestamp):
            times = dict.fromkeys(self._partitions, bound.timestamp)
        else:
            times = offsets.per_partition(option, bound.timestamps, self._partitions)
        return offsets.after_lookup(option, times, self._cluster.at_times(times), no_match)

    def _number(self, partition: TopicPartition, offset: int) -> int:
        if offset == EARLIEST:
            return self._log_starts[partition]
        return self._log_ends[partition] if offset == LATEST else offset
