"""The plan of a batch query: bounds to offsets, offsets to splits.

References: Spark's KafkaOffsetReaderAdmin (getOffsetRangesFromUnresolvedOffsets).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.spark.bounds import BoundResolver
from kafka_remote_client.spark.cluster import Cluster
from kafka_remote_client.spark.data_loss import DataLoss
from kafka_remote_client.spark.filters import ALL_ROWS, Narrowing
from kafka_remote_client.spark.offsets import NoMatch, check_order
from kafka_remote_client.spark.options import SourceOptions
from kafka_remote_client.spark.planning import OffsetRange, Split, plan_splits
from kafka_remote_client.spark.segment_probes import with_segments
from kafka_remote_client.spark.task_engine import engine_for

__all__ = ["batch_ranges", "learn_segments", "plan_batch", "splits_as_asked"]


def plan_batch(
    options: SourceOptions,
    cluster: Cluster,
    learn: Callable[[Sequence[OffsetRange]], Sequence[OffsetRange]],
    narrowing: Narrowing = ALL_ROWS,
) -> list[Split]:
    """The splits of a batch query. ``learn`` adds the segments that are known to ranges. ``narrowing``: what filters leave.

    Raises ConfigurationError for offsets or timestamps that do not fit the partitions, DataLossError, LocationError.
    """
    ranges = learn(_narrowed(batch_ranges(options, cluster), cluster, narrowing))
    return splits_as_asked(options, narrowing.without_segments(ranges))


def splits_as_asked(options: SourceOptions, ranges: Iterable[OffsetRange]) -> list[Split]:
    """The ranges cut as the options say."""
    return plan_splits(
        ranges,
        split_bytes=options.split_bytes,
        min_partitions=options.min_partitions,
        max_records=options.max_records,
    )


def _narrowed(ranges: Sequence[OffsetRange], cluster: Cluster, narrowing: Narrowing) -> Sequence[OffsetRange]:
    """The ranges that filters leave. Where logs end is known by now, so what is written from now on changes nothing."""
    left = narrowing.ranges(ranges)
    if narrowing.youngest is None or not left:
        return left
    return narrowing.from_times(left, cluster.at_times({found.topic_partition: narrowing.youngest for found in left}))


def batch_ranges(options: SourceOptions, cluster: Cluster) -> list[OffsetRange]:
    """What is to be read of each partition, all of it in the log. Raises as :func:`plan_batch`."""
    partitions = cluster.partitions(options.subscription)
    log_starts, log_ends = cluster.starts(partitions), cluster.ends(partitions)
    resolver = BoundResolver(cluster, partitions, log_starts, log_ends)
    starts = resolver.resolve(options.start_option, options.start, options.no_match)
    ends = resolver.resolve(options.end_option, options.end, NoMatch.LATEST)
    check_order(options.start_option, starts, options.end_option, ends)
    loss = DataLoss(options.fail_on_data_loss)
    return [
        OffsetRange(
            partition, *loss.bounded(partition, starts[partition], ends[partition], log_starts[partition], log_ends[partition])
        )
        for partition in partitions
    ]


def learn_segments(
    options: SourceOptions, ranges: Sequence[OffsetRange], *, split_bytes: int | None = None
) -> Sequence[OffsetRange]:
    """The ranges with the segments that the location source tells of; as they are where there is no direct fetch.

    ``split_bytes``: how far apart to ask, if not as the options say.
    """
    clock = SystemClock()
    engine = engine_for(options, clock)
    if engine is None:
        return ranges
    try:
        apart, timeout = split_bytes or options.split_bytes, options.remote.location_timeout_ms / 1000
        return with_segments(engine.source, ranges, split_bytes=apart, clock=clock, timeout=timeout)
    finally:
        engine.close()
