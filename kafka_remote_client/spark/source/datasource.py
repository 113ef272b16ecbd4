"""``format("kafka-remote")`` for PySpark: the classes that Spark calls, on the driver and in tasks.

::

    driver   KafkaRemoteDataSource ─► KafkaRemoteReader.partitions(): plan ─► KafkaRemotePartition …
                                              │ pickled, with the options and nothing else
    task                              KafkaRemoteReader.read(partition): engine, location source, broker path

References: PySpark's Python Data Source API.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.spark.offsets.admin_cluster import AdminCluster
from kafka_remote_client.spark.options.source_options import SourceOptions, parse_columns, parse_options
from kafka_remote_client.spark.planning.batch_plan import learn_segments, plan_batch
from kafka_remote_client.spark.planning.filters import ALL_ROWS, narrowing_of
from kafka_remote_client.spark.reading.source_columns import column_names, ddl, simple_string
from kafka_remote_client.spark.reading.split_reader import SplitReader
from kafka_remote_client.spark.source import pyspark_api
from kafka_remote_client.spark.source.input_partition import KafkaRemotePartition
from kafka_remote_client.spark.source.limited_stream_reader import stream_reader
from kafka_remote_client.spark.source.pyspark_api import DataSource, DataSourceReader, InputPartition
from kafka_remote_client.spark.source.stream_reader import KafkaRemoteStreamReader

__all__ = ["NAME", "FilteringReader", "KafkaRemoteDataSource", "KafkaRemoteReader"]

_log = logging.getLogger(__name__)

NAME = "kafka-remote"


class KafkaRemoteDataSource(DataSource):
    """Records of Kafka topics, with the schema and the options of Spark's own source; the tiered part comes from the store."""

    @classmethod
    def name(cls) -> str:
        """As in ``spark.read.format(...)``."""
        return NAME

    def schema(self) -> str:
        """The columns of the options."""
        return ddl(parse_columns(self.options))

    def reader(self, schema: Any) -> KafkaRemoteReader:
        """Returns the batch reader. ``schema`` is that of :meth:`schema`; another one is an error, as in Spark's own source."""
        options = _parsed(self.options)
        _check(schema, options)
        if not options.push_filters:
            return KafkaRemoteReader(dict(self.options))
        if not pyspark_api.KNOWS_FILTERS:
            raise ConfigurationError("PySpark 4.1 is the oldest version that supports remote.pushFilters")
        return FilteringReader(dict(self.options))

    def streamReader(self, schema: Any) -> KafkaRemoteStreamReader:  # noqa: N802 - PySpark's name
        """The stream reader; ``schema`` as in :meth:`reader`."""
        _check(schema, _parsed(self.options, streaming=True))
        return stream_reader(dict(self.options))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class KafkaRemoteReader(DataSourceReader):
    """Plans a batch query on the driver, and reads its splits in tasks. Pickled with the options as the user gave them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._narrowing = ALL_ROWS

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def partitions(self) -> Sequence[KafkaRemotePartition]:
        """The splits. Raises as ``plan_batch``."""
        options = parse_options(self._options)
        for warning in options.warnings:
            _log.warning("%s: %s", NAME, warning)
        clock = SystemClock()
        cluster = AdminCluster(options, clock)
        try:
            splits = plan_batch(options, cluster, partial(learn_segments, options), self._narrowing)
            return [KafkaRemotePartition(split) for split in splits]
        finally:
            cluster.close()

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yields the records of one split. If there is nothing to read, Spark still calls this, without a split."""
        if not isinstance(partition, KafkaRemotePartition):
            return iter(())
        return SplitReader(parse_options(self._options)).read(partition.split)


class FilteringReader(KafkaRemoteReader):
    """The same with the hook for filters, for ``remote.pushFilters``: a reader that has it fails where Spark's setting is off.

    Tasks get it without the filters, because their splits already are the result of them.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._options,)

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - PySpark's name
        """Applies the supported filters to the plan, and returns those that Spark must evaluate."""
        self._narrowing, kept = narrowing_of(filters)
        return kept


def _parsed(options: Mapping[str, str], *, streaming: bool = False) -> SourceOptions:
    """As ``parse_options``. Spark keeps the options of a catalog's table, and passes none of them to a Python source."""
    if not options:
        raise ConfigurationError(
            f"{NAME} got no options; Spark passes those of CREATE TABLE to no Python source, so use "
            "CREATE TEMPORARY VIEW, or give them in each query after the table's name: WITH (…)"
        )
    return parse_options(options, streaming=streaming)


def _check(schema: Any, options: SourceOptions) -> None:
    """Raises ConfigurationError for other columns, or other types: Spark would read an offset as a time without an error.

    Also for columns that cannot be null: a key can be, whatever Spark is told, and PySpark 4.3 refuses the batches of a task.
    """
    wanted = list(column_names(options.columns))
    told = schema.simpleString() if hasattr(schema, "simpleString") else None
    if list(getattr(schema, "names", wanted)) != wanted or told not in {None, simple_string(options.columns)}:
        raise ConfigurationError(f"{NAME} has a fixed schema: {ddl(options.columns)}")
    if hasattr(schema, "json") and any(f'"{name}":false' in schema.json() for name in ("nullable", "containsNull")):
        raise ConfigurationError(f"{NAME} has a fixed schema, in which all columns may be null: {ddl(options.columns)}")
