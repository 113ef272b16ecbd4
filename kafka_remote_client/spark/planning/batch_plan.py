"""The plan of a batch query: from bounds to offsets and from offsets to splits; and the requests of any plan to the tier.

References: Spark's KafkaOffsetReaderAdmin (getOffsetRangesFromUnresolvedOffsets).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

import attrs

from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.errors import DirectFetchError, LocationError, LocationNotGrantedError
from kafka_remote_client.fallback import OnFallback, TierUnavailableError
from kafka_remote_client.fetch.assemble import DirectFetchOffError
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.scanning.split_window import split_window
from kafka_remote_client.scanning.splits import OffsetRange, Split, plan_splits
from kafka_remote_client.spark.offsets.admin_cluster import Cluster
from kafka_remote_client.spark.offsets.bounds import BoundResolver
from kafka_remote_client.spark.offsets.data_loss import DataLoss
from kafka_remote_client.spark.offsets.json_offsets import NoMatch, check_order
from kafka_remote_client.spark.options.source_options import SourceOptions
from kafka_remote_client.spark.planning.asked_requests import AskedRequests, ask_requests
from kafka_remote_client.spark.planning.filters import ALL_ROWS, Narrowing
from kafka_remote_client.spark.planning.preflight import preflight, unanswered
from kafka_remote_client.spark.planning.segment_probes import TierOffsets, with_segments
from kafka_remote_client.spark.reading.broker_limit import with_broker_shares
from kafka_remote_client.spark.reading.task_engine import TaskEngines, worker_engines
from kafka_remote_client.spark.reading.tier_health import TierHealth, worker_tier_health

__all__ = ["batch_ranges", "learn_requests", "learn_segments", "narrowed_ranges", "plan_batch", "splits_as_asked"]

_log = logging.getLogger(__name__)


def plan_batch(
    options: SourceOptions,
    cluster: Cluster,
    learn: Callable[[Sequence[OffsetRange]], Sequence[OffsetRange]],
    narrowing: Narrowing = ALL_ROWS,
) -> list[Split]:
    """Returns the splits of a batch query. ``learn`` adds known segments to ranges. ``narrowing``: the result of filters.

    Raises ConfigurationError for offsets or timestamps that do not fit the partitions, DataLossError, LocationError.
    """
    ranges = learn(narrowed_ranges(batch_ranges(options, cluster), cluster, narrowing))
    return splits_as_asked(options, narrowing.without_segments(ranges))


def splits_as_asked(options: SourceOptions, ranges: Iterable[OffsetRange]) -> list[Split]:
    """The ranges cut as the options say. Raises BrokerBytesError where more than ``remote.maxBrokerBytes`` is not tiered."""
    splits = plan_splits(
        ranges,
        split_bytes=options.split_bytes,
        min_partitions=options.min_partitions,
        max_records=options.max_records,
    )
    return with_broker_shares(splits, options.max_broker_bytes)


def narrowed_ranges(ranges: Sequence[OffsetRange], cluster: Cluster, narrowing: Narrowing) -> Sequence[OffsetRange]:
    """Returns the ranges after the filters. The ends of logs are fixed by now, so later records change nothing."""
    left = narrowing.ranges(ranges)
    if narrowing.youngest is None or not left:
        return left
    return narrowing.from_times(left, cluster.at_times({found.topic_partition: narrowing.youngest for found in left}))


def batch_ranges(options: SourceOptions, cluster: Cluster) -> list[OffsetRange]:
    """Returns the range to read of each partition, within the log. Raises as :func:`plan_batch`."""
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
    options: SourceOptions,
    ranges: Sequence[OffsetRange],
    *,
    split_bytes: int | None = None,
    reads: bool = True,
    again: bool = True,
    engines: TaskEngines = worker_engines,
    health: TierHealth = worker_tier_health,
    clock: Clock | None = None,
) -> Sequence[OffsetRange]:
    """Returns the ranges with the segments that the location source knows; unchanged without direct fetch.

    ``reads``: tasks will read them. Then the tier is tried first (:mod:`~kafka_remote_client.spark.planning.preflight`), unless
    it worked recently and ``again`` is false. If it fails, the ranges are returned with the reason and without segments.
    ``split_bytes``: the distance between requests, if it differs from the options.

    A failure is one WARNING. The next micro-batches of a stream (``again`` is false) repeat it as INFO until the tier is tried
    again (:mod:`~kafka_remote_client.spark.reading.tier_health`).

    Raises TierUnavailableError where the tier cannot be read and ``remote.onFallback`` is ``fail``.
    """
    if not options.remote.enabled or not any(found.start < found.end for found in ranges):
        return ranges
    fails = reads and options.on_fallback is OnFallback.FAIL
    known = None if fails else health.failure(options)
    if known is not None:
        return _without_tier(ranges, LocationError(known), level=logging.WARNING if again else logging.INFO)
    failure: DirectFetchError | None
    try:
        with engines.lend(options) as engine:
            assert engine is not None  # fetch.remote.enabled is true
            asked = _Asked(engine, options, clock or SystemClock())
            offsets = asked.offsets(ranges)
            failure = unanswered(offsets)
            if failure is None and reads and (again or not health.worked_lately(options)):
                failure = asked.failure(ranges, offsets)
            refused = isinstance(failure, LocationNotGrantedError) and not fails  # tasks may be granted other segments
            if failure is None or refused:
                health.worked(options)
                return asked.segments(ranges, offsets, split_bytes or options.split_bytes)
    except DirectFetchOffError as error:
        failure = error
    health.failed(options, str(failure))
    if fails:
        raise TierUnavailableError(f"cannot read from the tier: {failure}; remote.onFallback=broker reads from the brokers")
    return _without_tier(ranges, failure, level=logging.WARNING)


def learn_requests(
    options: SourceOptions,
    splits: Sequence[Split],
    *,
    budget: int,
    engines: TaskEngines = worker_engines,
    clock: Clock | None = None,
) -> Sequence[AskedRequests]:
    """Returns the GETs of the tasks of these splits, as far as ``budget`` location requests show them; never raises.

    Nothing where there is no direct fetch, or where the driver found that the tier cannot be read.
    """
    if not options.remote.enabled or not splits or any(split.tier_failure is not None for split in splits):
        return ()
    try:
        with engines.lend(options) as engine:
            assert engine is not None  # fetch.remote.enabled is true
            return ask_requests(
                engine.source,
                splits,
                isolation_level=options.client.isolation_level,
                window=split_window(options.remote),
                clock=clock or SystemClock(),
                timeout=options.remote.location_timeout_ms / 1000,
                budget=budget,
            )
    except DirectFetchOffError:
        return ()


@attrs.frozen
class _Asked:
    """The questions of a plan to one engine."""

    engine: FetchEngine
    options: SourceOptions
    clock: Clock

    @property
    def _timeout(self) -> float:
        return self.options.remote.location_timeout_ms / 1000

    def offsets(self, ranges: Sequence[OffsetRange]) -> TierOffsets:
        wanted = [found.topic_partition for found in ranges if found.start < found.end]
        return self.engine.source.offsets_of(wanted, Deadline(self.clock, self._timeout))

    def failure(self, ranges: Sequence[OffsetRange], offsets: TierOffsets) -> DirectFetchError | None:
        return preflight(self.engine.source, self.engine.fetcher, ranges, offsets, clock=self.clock, timeout=self._timeout)

    def segments(self, ranges: Sequence[OffsetRange], offsets: TierOffsets, split_bytes: int) -> Sequence[OffsetRange]:
        return with_segments(
            self.engine.source, ranges, split_bytes=split_bytes, clock=self.clock, timeout=self._timeout, offsets=offsets
        )


def _without_tier(ranges: Sequence[OffsetRange], failure: DirectFetchError, *, level: int) -> Sequence[OffsetRange]:
    """Logs at ``level`` why the tier is not read. Returns the ranges with the reason."""
    _log.log(level, "the brokers serve tiered records of this query, because the tier cannot be read: %s", failure)
    return [attrs.evolve(found, tier_failure=str(failure)) for found in ranges]
