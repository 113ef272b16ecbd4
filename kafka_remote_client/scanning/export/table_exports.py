"""The exports of a :class:`~kafka_remote_client.scanning.table_scan.TableScan`: ``to_parquet``, ``to_iceberg``, ``to_delta``.

::

    arguments  ->  Export (what, from where, to where)  ->  run, with the commit of the format  ->  ExportResult

References: docs/tables.md, "Export".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from kafka_remote_client.scanning.progress_bar import export_bar

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from kafka_remote_client.scanning.broker_part import BrokerAddress
    from kafka_remote_client.scanning.export.result import ExportResult
    from kafka_remote_client.scanning.export.run import Commit, Export, ExportProgress, WriteSplits
    from kafka_remote_client.scanning.export.typed_columns import ExportArguments
    from kafka_remote_client.scanning.scan import Scan
    from kafka_remote_client.scanning.tier_address import TierAddress

__all__ = ["TableExports"]

# ruff: noqa: PLC0415 - the modules that write are for those who write; pyiceberg, deltalake and PySpark are extras


class TableExports:
    """The half of ``TableScan`` that writes. The fields are those of ``TableScan``."""

    __slots__ = ()

    if TYPE_CHECKING:
        scan: Scan
        address: TierAddress
        threads: int | None
        brokers: BrokerAddress | None
        progress: bool

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
        ``<topic>-value`` at the job's first run. ``on_error``: "raise"; "column" to keep what does not parse as bytes beside
        the reason; "dead_letters" to write such records to files below ``_dead_letters`` instead.

        Raises ConfigurationError for a limit, for a job that was begun with other arguments, and where another job has some of
        its offsets; ExportError where it cannot write; UnreadableRecordError; and what reading raises. Nothing is visible then.
        """
        from kafka_remote_client.scanning.export.parquet import PublishFiles
        from kafka_remote_client.scanning.export.run import Export
        from kafka_remote_client.scanning.export.target import target_of
        from kafka_remote_client.scanning.export.typed_columns import split_arguments

        export = Export.of(self, target_of(path, filesystem), job, *split_arguments(arguments, "parquet"))
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
        from kafka_remote_client.scanning.export.iceberg import IcebergCommit
        from kafka_remote_client.scanning.export.iceberg_table import known_job, open_table, target_of_table
        from kafka_remote_client.scanning.export.run import Export
        from kafka_remote_client.scanning.export.target import target_of
        from kafka_remote_client.scanning.export.typed_columns import split_arguments

        writing, typed = split_arguments(arguments, "iceberg")
        if typed.unresolved:
            typed = typed.resolved(self.scan.topics, known_job(catalog, table, filesystem, job))
        export = Export.of(self, target_of("."), job, writing, typed)  # the table will say where its files are
        opened = open_table(catalog, table, typed.schema(self.scan.columns), writing.by, export.check)
        export = Export.of(self, target_of_table(opened, filesystem), job, writing, typed)
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
        from kafka_remote_client.scanning.export.delta import DeltaCommit, open_table
        from kafka_remote_client.scanning.export.run import Export
        from kafka_remote_client.scanning.export.target import target_of
        from kafka_remote_client.scanning.export.typed_columns import split_arguments

        export = Export.of(self, target_of(path, filesystem), job, *split_arguments(arguments, "delta"))
        table = open_table(path, export.typed.schema(self.scan.columns), export.writing.by, storage_options, export.check)
        return self._run(export, DeltaCommit(table), progress, spark)

    def _run(
        self, export: Export, commit: Commit, progress: Callable[[ExportProgress], None] | None, spark: Any
    ) -> ExportResult:
        write: WriteSplits | None = None
        if spark is not None:
            from kafka_remote_client.scanning.export.spark_tasks import write_in_tasks

            write = partial(write_in_tasks, export, spark)
        if progress is not None or not self.progress:
            return export.run(commit, progress, write)
        with export_bar(self.scan.description) as bar:
            return export.run(commit, bar, write)
