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
from typing import Any

import pyarrow as pa

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.spark.offsets.admin_cluster import AdminCluster, Cluster
from kafka_remote_client.spark.offsets.bounds import BoundResolver
from kafka_remote_client.spark.offsets.data_loss import DataLoss
from kafka_remote_client.spark.offsets.json_offsets import format_offsets, parse_offsets
from kafka_remote_client.spark.options.source_options import SourceOptions, parse_options
from kafka_remote_client.spark.planning.batch_plan import learn_segments, splits_as_asked
from kafka_remote_client.spark.planning.micro_batch import stream_ranges
from kafka_remote_client.spark.reading.broker_consumers import worker_consumers
from kafka_remote_client.spark.reading.split_reader import SplitReader
from kafka_remote_client.spark.reading.task_engine import worker_engines
from kafka_remote_client.spark.source.input_partition import KafkaRemotePartition
from kafka_remote_client.spark.source.pyspark_api import DataSourceStreamReader

__all__ = ["KafkaRemoteStreamReader", "Offsets", "as_json", "from_json"]

_log = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]


def as_json(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """Offsets as Spark keeps them in a checkpoint."""
    found: dict[str, Any] = json.loads(format_offsets(offsets))
    return found


def from_json(offsets: Mapping[str, Any]) -> Offsets:
    """Offsets of a checkpoint."""
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
        self._reached = as_json(resolver.resolve(self._options.start_option, self._options.start, self._options.no_match))
        return dict(self._reached)

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """The end of the log, which is where the next micro-batch ends. Raises LocationError."""
        return self._end_after(self._reached, self._ends())

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[KafkaRemotePartition]:
        """The splits of a micro-batch. Raises DataLossError, if that is to fail, LocationError."""
        self._reached = end
        if start == end:
            return []
        begin, until = from_json(start), from_json(end)
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
        return as_json(ends) if ends else dict(start)

    def _known_ends(self) -> Offsets:
        """The latest offset reported before, so that a query that begins at the latest does not begin after it."""
        return self._first_ends or self._ends()
