"""A tier as a table: ``scan("s3://bucket/tier", "orders", since="2026-01-01").to_arrow()``.

::

    scan(...)   ->  TableScan (a value: what, and where)  ->  open()  ->  OpenScan: plan, splits, record blocks, Arrow
                       .select .where .head                   |
                       .to_arrow, Arrow stream  <-------------+

The scan opens, lists and reads nothing before the caller requests records, and each request reads again.

References: docs/tables.md; Arrow's PyCapsule interface (``__arrow_c_stream__``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack
from uuid import UUID

import attrs
import pyarrow as pa

from kafka_remote_client import arguments
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.fallback import OnFallback
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.records.arrow import schema_of
from kafka_remote_client.scanning.broker_part import BrokerAddress, check_brokers
from kafka_remote_client.scanning.open_scan import OpenScan
from kafka_remote_client.scanning.predicate import And, Predicate
from kafka_remote_client.scanning.progress_bar import PassedOffsets, export_bar, terminal_bar
from kafka_remote_client.scanning.scan import OffsetBound, Scan
from kafka_remote_client.scanning.scan_plan import ScanPlan
from kafka_remote_client.scanning.tier_address import TierAddress
from kafka_remote_client.settings import default_of

if TYPE_CHECKING:
    import polars as pl
    from pyiceberg.catalog import Catalog

    from kafka_remote_client.scanning.export.result import ExportResult
    from kafka_remote_client.scanning.export.run import Commit, Export, ExportProgress, WriteSplits
    from kafka_remote_client.scanning.export.split_writer import ParquetWriting
    from kafka_remote_client.scanning.export.target import ExportTarget
    from kafka_remote_client.scanning.export.typed_columns import ExportArguments, TypedColumns

__all__ = ["TableScan", "scan"]


def _threads(value: int | None) -> int | None:
    return None if value is None else arguments.whole(value, "threads", 1)


@attrs.frozen
class TableScan:
    """A read (``scan``), the address of its tier (``address``), and of its brokers, if it may read there. It can be pickled.

    ``threads``: number of partitions that are read at the same time; ``None``: the number of cores, at most 8. ``progress``:
    whether reads without a limit, and exports, show a progress bar in a terminal or a notebook.

    Reading raises ConfigurationError for a missing store, topic or partition, TierUnavailableError or BrokerReadError if
    something cannot be read to its end, and the store's errors. It never returns a part of a table as the whole.
    """

    scan: Scan
    address: TierAddress
    threads: int | None = attrs.field(default=None, converter=_threads)
    brokers: BrokerAddress | None = None
    progress: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_brokers(self.scan, self.brokers)

    def select(self, *columns: str) -> TableScan:
        """Returns a scan of only these columns, in this order. Raises ConfigurationError for unknown ones."""
        return self._with(columns=columns)

    def where(self, predicate: Predicate) -> TableScan:
        """Returns a scan of the records for which this predicate is also true."""
        known = self.scan.predicate
        return self._with(predicate=predicate if known is None else And((known, predicate)))

    def head(self, limit: int) -> TableScan:
        """Returns a scan of at most that many records. A lower limit stays."""
        wanted = arguments.whole(limit, "limit", 0)
        return self._with(limit=wanted if self.scan.limit is None else min(wanted, self.scan.limit))

    @property
    def schema(self) -> pa.Schema:
        """The schema of the records: the selected columns of Spark's Kafka source."""
        return schema_of(self.scan.columns)

    def open(self) -> OpenScan:
        """Opens the tier for a read split by split. It reads no records."""
        return self._opened(None)

    def plan(self) -> ScanPlan:
        """Returns the plan: splits with ids, GETs and bytes. It reads only metadata."""
        with self.open() as opened:
            return opened.plan

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Yields the records as they arrive: those of one partition in the order of their offsets, partitions mixed."""
        bar = terminal_bar(self._description) if self.progress and self.scan.limit is None else None
        if bar is None:
            with self.open() as opened:
                yield from opened.stream()
            return
        passed = PassedOffsets(bar)
        with closing(bar), self._opened(passed) as opened:
            passed.total = sum(split.end - split.start for split in opened.plan.splits)
            yield from opened.stream()

    def to_reader(self) -> pa.RecordBatchReader:
        """Returns the records as a stream for pyarrow's functions. It reads nothing before the first batch."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Implements Arrow's stream interface, with which DuckDB, pandas, Polars and others read the records as they arrive."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """Returns all records, in memory."""
        return self.to_reader().read_all()

    def to_pandas(self, **options: Any) -> Any:
        """Returns all records as a ``pandas.DataFrame``; ``options``: those of ``pyarrow.Table.to_pandas``. Needs pandas."""
        return self.to_arrow().to_pandas(**options)

    def count(self) -> int:
        """Returns the number of records, by batch headers if possible; see :meth:`OpenScan.count`."""
        with self.open() as opened:
            return opened.count()

    def to_polars(self) -> pl.LazyFrame:
        """Returns the records as a ``polars.LazyFrame``. Its ``collect`` reads only what the query needs.

        Raises ImportError without Polars (extra ``polars``).
        """
        from kafka_remote_client.scanning.polars_source import lazy_frame  # noqa: PLC0415 - Polars is an extra

        return lazy_frame(self)

    def to_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        job: str = "export",
        filesystem: Any = None,
        spark: Any = None,
        progress: Callable[[ExportProgress], None] | None = None,
        **arguments: Unpack[ExportArguments],
    ) -> ExportResult:
        """Writes all records as Parquet files below a folder, exactly once: a run that was killed goes on when it is repeated.

        ``path``: a folder or a URL that pyarrow knows (``s3://bucket/prefix``), or a path of ``filesystem``, a
        ``pyarrow.fs.FileSystem``. ``job``: names what is written once; each further piece of a table needs a name of its own.
        ``spark``: a ``SparkSession``, classic or Connect, whose executors write the splits. ``progress``: called now and then.

        ``arguments``: ``partition_by``: "topic", "day" or "hour", or "topic" and one of these. ``row_group_bytes``: before
        compression; so much is held for each thread. ``file_bytes``: of a file. ``compression``: zstd, snappy, gzip, lz4, none.

        ``value_format``, ``value_schema``, ``key_format``, ``key_schema``: of ``kafka_remote_client.values.ValueDecoder``, for
        values and keys as typed columns. JSON and Avro need a schema. ``registry``: URL or settings of a Schema Registry; Avro
        values begin with an id then, and ``value_schema`` is the id or the Avro schema of the column, by default the newest of
        ``<topic>-value`` at the job's first run. ``on_error``: "raise"; "column" to keep what does not
        parse as bytes beside the reason; "dead_letters" to write such records to files below ``_dead_letters`` instead.

        Raises ConfigurationError where the job was begun with other arguments, where another job has some of its offsets, and
        for a limit; ExportError where the folder cannot be written; UnreadableRecordError for a key or value that does not
        parse; and what reading raises. Nothing is visible then.
        """
        # Beside Arrow, the parts that write are for those who write
        from kafka_remote_client.scanning.export.parquet import PublishFiles  # noqa: PLC0415
        from kafka_remote_client.scanning.export.table_types import TableFormat  # noqa: PLC0415
        from kafka_remote_client.scanning.export.target import target_of  # noqa: PLC0415
        from kafka_remote_client.scanning.export.typed_columns import split_arguments  # noqa: PLC0415

        export = self._export(target_of(path, filesystem), job, *split_arguments(arguments, TableFormat.PARQUET))
        return self._run(export, PublishFiles(export), progress, spark)

    def to_iceberg(
        self,
        catalog: Catalog | str,
        table: str,
        *,
        job: str = "export",
        filesystem: Any = None,
        spark: Any = None,
        progress: Callable[[ExportProgress], None] | None = None,
        **arguments: Unpack[ExportArguments],
    ) -> ExportResult:
        """Appends all records to an Iceberg table, exactly once, in commits of 5,000 splits at most (extra ``iceberg``).

        ``catalog``: one of pyiceberg, or the name of one that its configuration has. ``table``: "namespace.name"; it is created
        where there is none. ``filesystem``: a ``pyarrow.fs.FileSystem`` with the bucket of the table's location. All else is as
        of :meth:`to_parquet`, and so are the errors; ConfigurationError also for a table with other columns or partitions.
        """
        # pyiceberg is an extra
        from kafka_remote_client.scanning.export.iceberg import IcebergCommit, known_job, open_table, target_of_table  # noqa: PLC0415
        from kafka_remote_client.scanning.export.table_types import TableFormat  # noqa: PLC0415
        from kafka_remote_client.scanning.export.typed_columns import split_arguments  # noqa: PLC0415

        writing, typed = split_arguments(arguments, TableFormat.ICEBERG)
        if typed.unresolved:
            typed = typed.resolved(self.scan.topics, known_job(catalog, table, filesystem, job))
        opened = open_table(catalog, table, typed.schema(self.scan.columns), writing.by)
        export = self._export(target_of_table(opened, filesystem), job, writing, typed)
        return self._run(export, IcebergCommit(opened), progress, spark)

    def to_delta(
        self,
        path: str | os.PathLike[str],
        *,
        job: str = "export",
        filesystem: Any = None,
        spark: Any = None,
        storage_options: Mapping[str, str] | None = None,
        progress: Callable[[ExportProgress], None] | None = None,
        **arguments: Unpack[ExportArguments],
    ) -> ExportResult:
        """Appends all records to a Delta table, exactly once, in commits of 5,000 splits at most (extra ``delta``).

        ``path``: a folder or a URL that deltalake and pyarrow know; the table is created where there is none. ``partition_by``:
        "topic" or nothing. ``storage_options``: deltalake's, and ``filesystem`` pyarrow's way to the same place. All else is as
        of :meth:`to_parquet`, and so are the errors; ConfigurationError also for a table with other columns or partitions.
        """
        from kafka_remote_client.scanning.export.delta import DeltaCommit, open_table  # noqa: PLC0415 - an extra
        from kafka_remote_client.scanning.export.table_types import TableFormat  # noqa: PLC0415
        from kafka_remote_client.scanning.export.target import target_of  # noqa: PLC0415
        from kafka_remote_client.scanning.export.typed_columns import split_arguments  # noqa: PLC0415

        export = self._export(target_of(path, filesystem), job, *split_arguments(arguments, TableFormat.DELTA))
        writing, typed = export.writing, export.typed
        commit = DeltaCommit(open_table(path, typed.schema(self.scan.columns), writing.by, storage_options))
        return self._run(export, commit, progress, spark)

    def _export(self, target: ExportTarget, job: str, writing: ParquetWriting, typed: TypedColumns) -> Export:
        from kafka_remote_client.scanning.export.ledger import ExportLedger  # noqa: PLC0415 - as above
        from kafka_remote_client.scanning.export.run import Export  # noqa: PLC0415

        if typed.unresolved:
            typed = typed.resolved(self.scan.topics, ExportLedger(target, job).known_job())
        threads: dict[str, Any] = {} if self.threads is None else {"threads": self.threads}
        return Export(
            scan=self.scan,
            address=self.address,
            brokers=self.brokers,
            target=target,
            job=job,
            writing=writing,
            typed=typed,
            **threads,
        )

    def _run(
        self, export: Export, commit: Commit, progress: Callable[[ExportProgress], None] | None, spark: Any
    ) -> ExportResult:
        write = _writers(export, spark)
        if progress is not None or not self.progress:
            return export.run(commit, progress, write)
        with export_bar(self._description) as bar:
            return export.run(commit, bar, write)

    @property
    def _description(self) -> str:
        return self.scan.topic_pattern or ", ".join(self.scan.topics)

    def _opened(self, passed: PassedOffsets | None) -> OpenScan:
        topics = self.scan.topics
        tier = self.address.open(topics[0] if len(topics) == 1 else None)
        return OpenScan(self.scan, tier, brokers=self.brokers, threads=self.threads, passed=passed)

    def _with(self, **changes: Any) -> TableScan:
        return attrs.evolve(self, scan=attrs.evolve(self.scan, **changes))


def _writers(export: Export, spark: Any) -> WriteSplits | None:
    if spark is None:
        return None
    from kafka_remote_client.scanning.export.spark_tasks import write_in_tasks  # noqa: PLC0415 - for Spark's users

    return partial(write_in_tasks, export, spark)


def scan(
    store_url: str,
    topics: str | Iterable[str] = (),
    *,
    topic_pattern: str | None = None,
    partitions: Iterable[int] | None = None,
    start_offset: OffsetBound | None = None,
    end_offset: OffsetBound | None = None,
    since: object = None,
    until: object = None,
    columns: Iterable[str] | None = None,
    where: Predicate | None = None,
    limit: int | None = None,
    isolation_level: IsolationLevel | str = IsolationLevel.READ_COMMITTED,
    out_of_order: timedelta | None = None,
    live: bool = False,
    on_fallback: OnFallback | str = OnFallback.FAIL,
    broker: Mapping[str, object] | None = None,
    layout: str = default_of("remote.storage.store.layout"),
    key_prefix: str = "",
    encryption_keys: Mapping[str, str] | None = None,
    store_options: Mapping[str, object] | None = None,
    topic_id: UUID | None = None,
    config: RemoteFetchConfig | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> TableScan:
    """Returns the records of topics as a table: ``scan("s3://bucket/tier", "orders", since="2026-01-01").to_arrow()``.

    The fields of :class:`~kafka_remote_client.scanning.scan.Scan` choose the records. ``since`` and ``until`` are milliseconds,
    a ``datetime`` with a time zone, a ``date``, or a time in ISO 8601 (UTC by default): since <= timestamp < until.

    ``live``: also the records that are not tiered yet, up to the high watermark, or the last stable offset under
    read_committed, at the time of the plan. ``on_fallback``: ``"fail"``, or ``"broker"`` to read from the brokers what the tier
    cannot give. Both need ``broker``: librdkafka's settings for a connection, ``bootstrap.servers`` at least.

    ``progress``: whether reads and exports show a progress bar in a terminal or a notebook (needs the extra ``cli``).

    The other arguments are those of :func:`~kafka_remote_client.fetch.tier_reader.open_tier`. The call opens nothing.

    Raises ConfigurationError for invalid arguments.
    """
    wanted = Scan(
        topics=topics,
        topic_pattern=topic_pattern,
        partitions=partitions,
        start_offset=start_offset,
        end_offset=end_offset,
        since=since,
        until=until,
        columns=columns,
        predicate=where,
        limit=limit,
        isolation_level=isolation_level,
        out_of_order=out_of_order,
        live=live,
        on_fallback=on_fallback,
    )
    address = TierAddress(
        store_url,
        layout=layout,
        key_prefix=key_prefix,
        encryption_keys=encryption_keys or {},
        store_options=store_options or {},
        topic_id=topic_id,
        config=config,
    )
    return TableScan(wanted, address, threads, None if broker is None else BrokerAddress(broker), progress=progress)
