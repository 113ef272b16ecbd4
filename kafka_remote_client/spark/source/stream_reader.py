"""``readStream``: micro-batches by offsets in Spark's own JSON of Kafka offsets, so that a checkpoint fits both sources.

Spark keeps one reader on the driver for a query; tasks get a copy made from the options. PySpark 4.0 and 4.1 ask for the
latest offset before the initial one and know no limits; 4.2 hands a start and a limit to ``latestOffset``. A restarted query
first plans the empty range at its checkpoint, which makes no request.

References: Spark's KafkaMicroBatchStream; PySpark's DataSourceStreamReader.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.spark.offsets.admin_cluster import AdminCluster, Cluster
from kafka_remote_client.spark.offsets.bounds import BoundResolver
from kafka_remote_client.spark.offsets.data_loss import DataLoss, DataLossError
from kafka_remote_client.spark.offsets.json_offsets import format_offsets, parse_offsets
from kafka_remote_client.spark.options.source_options import SourceOptions, parse_options
from kafka_remote_client.spark.planning.batch_plan import learn_segments, splits_as_asked
from kafka_remote_client.spark.planning.known_segments import KnownSegments
from kafka_remote_client.spark.planning.micro_batch import (
    available,
    batch_end,
    batch_end_by_bytes,
    delay_seconds,
    stream_ranges,
)
from kafka_remote_client.spark.reading.broker_consumers import worker_consumers
from kafka_remote_client.spark.reading.split_reader import SplitReader
from kafka_remote_client.spark.reading.task_engine import worker_engines
from kafka_remote_client.spark.source import pyspark_api
from kafka_remote_client.spark.source.input_partition import KafkaRemotePartition
from kafka_remote_client.spark.source.pyspark_api import DataSourceStreamReader, SupportsTriggerAvailableNow

__all__ = ["KafkaRemoteStreamReader", "LimitedStreamReader", "stream_reader"]

_log = logging.getLogger(__name__)

_LIMITS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger", "maxTriggerDelay")

Offsets = dict[TopicPartition, int]


def stream_reader(options: Mapping[str, str]) -> KafkaRemoteStreamReader:
    """Returns the reader for this PySpark. Raises ConfigurationError for unsupported limits, and for invalid options."""
    if pyspark_api.READ_LIMITS is not None:
        return LimitedStreamReader(options)
    folded = {name.lower() for name in options}
    given = [name for name in _LIMITS if name.lower() in folded]
    if given:
        raise ConfigurationError(f"PySpark 4.2 is the oldest version that supports {', '.join(given)}")
    return KafkaRemoteStreamReader(options)


def _as_json(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(format_offsets(offsets))
    return found


def _from_json(offsets: Mapping[str, Any]) -> Offsets:
    return parse_offsets("the checkpoint's offset", json.dumps(offsets))


class KafkaRemoteStreamReader(DataSourceStreamReader):
    """Plans micro-batches on the driver, and reads their splits in tasks. Pickled with the options and nothing else."""

    def __init__(
        self,
        options: Mapping[str, str],
        *,
        clock: Clock | None = None,
        make_cluster: Callable[[SourceOptions, Clock], Cluster] = AdminCluster,
    ) -> None:
        self._given = dict(options)
        self._options = parse_options(options, streaming=True)
        self._clock = clock or SystemClock()
        self._make_cluster = make_cluster
        self._cluster: Cluster | None = None
        self._first_ends: Offsets | None = None
        self._reached: Mapping[str, Any] = {}
        """The position of the query, as far as this reader knows it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._given,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    # -- the driver --------------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """Where a new query begins. Raises ConfigurationError, LocationError."""
        for warning in self._options.warnings:
            _log.warning("%s", warning)
        ends = self._known_ends()
        partitions = sorted(ends)
        resolver = BoundResolver(self._asked(), partitions, self._asked().starts(partitions), ends)
        self._reached = _as_json(resolver.resolve(self._options.start_option, self._options.start, self._options.no_match))
        return dict(self._reached)

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """The end of the log, which is where the next micro-batch ends. Raises LocationError."""
        return self._end_after(self._reached, self._ends())

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[KafkaRemotePartition]:
        """The splits of a micro-batch. Raises DataLossError, if that is to fail, LocationError."""
        self._reached = end
        if start == end:
            return []
        begin, until = _from_json(start), _from_json(end)
        new = sorted(until.keys() - begin.keys())
        log_starts = self._asked().starts(new) if new else {}
        options = self._options
        ranges = stream_ranges(begin, until, log_starts, DataLoss(options.fail_on_data_loss))
        return [KafkaRemotePartition(split) for split in splits_as_asked(options, learn_segments(options, ranges, again=False))]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Nothing is committed: the checkpoint holds the offsets."""

    def stop(self) -> None:
        """Releases connections, also those of this process that no task has."""
        worker_engines.close()
        worker_consumers.close()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    # -- tasks -------------------------------------------------------------------------------------------------------------

    def read(self, partition: KafkaRemotePartition) -> Iterator[pa.RecordBatch]:
        """The records of one split."""
        return SplitReader(self._options).read(partition.split)

    # -- both kinds --------------------------------------------------------------------------------------------------------

    def _asked(self) -> Cluster:
        if self._cluster is None:
            self._cluster = self._make_cluster(self._options, self._clock)
        return self._cluster

    def _ends(self) -> Offsets:
        cluster = self._asked()
        ends = dict(cluster.ends(cluster.partitions(self._options.subscription)))
        if self._first_ends is None:
            self._first_ends = ends
        return ends

    @staticmethod
    def _end_after(start: Mapping[str, Any], ends: Offsets) -> dict[str, Any]:
        """Returns ``ends``, or ``start`` if no partition is left, because a checkpoint without offsets would start again."""
        return _as_json(ends) if ends else dict(start)

    def _known_ends(self) -> Offsets:
        """The latest offset reported before, so that a query that begins at the latest does not begin after it."""
        return self._first_ends or self._ends()


class LimitedStreamReader(KafkaRemoteStreamReader, SupportsTriggerAvailableNow):
    """The same for PySpark ≥ 4.2: limits, and an end that is fixed when a query of Trigger.AvailableNow begins."""

    def __init__(self, options: Mapping[str, str], **components: Any) -> None:
        """``components``: as for :class:`KafkaRemoteStreamReader`."""
        super().__init__(options, **components)
        self._delay = delay_seconds("maxTriggerDelay", self._options.max_trigger_delay)
        self._target: Offsets | None = None
        self._segments = KnownSegments(partial(learn_segments, self._options, again=False))
        self._last_batch_at: float | None = None

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - PySpark's name
        """Returns the limit of the options. PySpark has no limit that combines both, so this class applies the minimum."""
        limits = pyspark_api.READ_LIMITS
        if self._options.max_offsets_per_trigger is not None:
            return limits.ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return limits.ReadMinRows(self._options.min_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return limits.ReadMaxBytes(self._options.max_bytes_per_trigger)
        return limits.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - PySpark's name
        """Fixes the end. Raises LocationError."""
        self._target = self._ends()

    def latestOffset(self, start: Mapping[str, Any], limit: Any) -> dict[str, Any]:  # type: ignore[override] # noqa: N802 - PySpark 4.2's own
        """Where the next micro-batch ends; ``start`` itself to wait for more. Raises LocationError, ConfigurationError."""
        ends = self._ends() if self._target is None else self._target
        if not ends or isinstance(limit, pyspark_api.READ_LIMITS.ReadAllAvailable):
            return self._end_after(start, ends)
        begin = _from_json(start)
        new = sorted(ends.keys() - begin.keys())
        known = {**begin, **(self._asked().starts(new) if new else {})}
        if self._waits(available(known, ends)):
            return dict(start)
        self._last_batch_at = self._clock.monotonic()
        return _as_json(self._limited(known, ends))

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[KafkaRemotePartition]:
        """The splits of a micro-batch. Raises DataLossError, whatever ``failOnDataLoss`` says, where the end that was fixed
        for Trigger.AvailableNow can no longer be reached; otherwise as without a limit.
        """
        if self._target is not None and start != end:
            self._check_target(self._target, self._ends(), _from_json(end))
        return super().partitions(start, end)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """The end of the log, for the progress of a query. Raises LocationError."""
        return _as_json(self._ends())

    @staticmethod
    def _check_target(target: Offsets, ends: Offsets, end: Offsets) -> None:
        what = "the end that Trigger.AvailableNow began with cannot be reached"
        gone = sorted(target.keys() - ends.keys())
        if gone:
            raise DataLossError(f"{what}: partitions were deleted: {', '.join(map(str, gone))}")
        for partition, until in sorted(end.items()):
            if ends.get(partition, until) < until:
                raise DataLossError(f"{what}: {partition} ends at {ends[partition]}, before {until}")

    def _limited(self, start: Offsets, ends: Offsets) -> Offsets:
        found = batch_end(start, ends, self._options.max_offsets_per_trigger)
        most = self._options.max_bytes_per_trigger
        return found if most is None else {**found, **batch_end_by_bytes(self._segments.ranges(start, found, most), most)}

    def _waits(self, found: int) -> bool:
        """Whether there is too little for a batch yet. The first batch never waits, nor does a query that ends by itself."""
        least = self._options.min_offsets_per_trigger
        if least is None or found >= least or self._target is not None or self._last_batch_at is None:
            return False
        return self._clock.monotonic() - self._last_batch_at < self._delay
