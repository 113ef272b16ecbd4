"""Exports a scan to an Iceberg table. A commit adds files by the statistics in their records and opens no data file.

::

    split writer  ->  file, Parquet metadata in its record  ->  DataFile  ->  fast append of 5,000 splits, with job, sequence

References: Iceberg's table specification; pyiceberg (``fast_append``, ``data_file_statistics_from_parquet_metadata``).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO

import pyarrow.parquet as pq

from kafka_remote_client.errors import ExportError, missing_extra
from kafka_remote_client.scanning.export.commits import JOB, SEQUENCE, commit_pieces
from kafka_remote_client.scanning.export.iceberg_table import export_errors, partitions_of
from kafka_remote_client.scanning.export.job import ExportJob
from kafka_remote_client.scanning.export.written_files import WrittenFile, WrittenSplit

try:
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
    from pyiceberg.io.pyarrow import (
        MetricModeTypes,
        MetricsMode,
        StatisticsCollector,
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.table import Table, TableProperties
    from pyiceberg.types import DateType, TimestampType, TimestamptzType
except ModuleNotFoundError as error:
    raise missing_extra("an export to Iceberg", error, "iceberg") from None

__all__ = ["IcebergCommit"]

_BEFORE_A_REPEATED_COMMIT = "_validate_concurrency"
"""pyiceberg 0.12 reads the table again after a conflict, calls this method, and repeats the commit on top of the other one."""


class IcebergCommit:
    """A :class:`~kafka_remote_client.scanning.export.run.Commit` that makes snapshots.

    The summary of each names the job and the number of the commit.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    def has(self, job: str) -> bool:
        """Whether the table has a commit of the job."""
        return bool(self._committed(job))

    def __call__(self, job: ExportJob, written: Sequence[WrittenSplit]) -> None:
        """Commits what is not committed yet. Raises ExportError after five conflicts, or if catalog or store refuse."""
        name = ".".join(self._table.name())
        with export_errors(f"commit to {name}"):
            commit_pieces(
                written,
                committed=partial(self._committed, job.name),
                commit=partial(self._commit, job.name),
                conflicts=(CommitFailedException, CommitStateUnknownException),
                table=name,
            )

    def _committed(self, job: str) -> set[int]:
        self._table.refresh()
        return self._known(job)

    def _known(self, job: str) -> set[int]:
        """The commits of a job in the table as it was read last."""
        summaries = [snapshot.summary.additional_properties for snapshot in self._table.snapshots() if snapshot.summary]
        return {int(summary[SEQUENCE]) for summary in summaries if summary.get(JOB) == job}

    def _commit(self, job: str, number: int, files: list[WrittenFile]) -> None:
        with (
            self._table.transaction() as transaction,
            transaction.update_snapshot({JOB: job, SEQUENCE: str(number)}).fast_append() as append,
        ):
            setattr(append, _BEFORE_A_REPEATED_COMMIT, partial(self._check_new, job, number))
            for data_file in self._data_files(files):
                append.append_data_file(data_file)

    def _check_new(self, job: str, number: int) -> None:
        """Raises CommitFailedException if another process has made a commit of the job."""
        if number in self._known(job):
            raise CommitFailedException(f"another process has made commit {number} of export job {job}")

    def _data_files(self, files: Iterable[WrittenFile]) -> Iterable[DataFile]:
        table = self._table
        schema, spec = table.schema(), table.spec()
        # Partition values come from statistics, so these columns need them, whatever the table's properties say.
        full = {f"{TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX}.{column}": "full" for column, _ in partitions_of(table)}
        collected, paths = compute_statistics_plan(schema, {**table.properties, **full}), parquet_path_to_id_mapping(schema)
        for file in files:
            if file.footer is None:
                raise ExportError(f"cannot commit {file.path}: its record has no Parquet metadata")
            metadata = pq.read_metadata(BytesIO(base64.b64decode(file.footer)))
            try:
                statistics = data_file_statistics_from_parquet_metadata(metadata, collected, paths)
            except OverflowError:  # for pyiceberg a bound is a datetime, and those have the years 1 to 9999
                statistics = data_file_statistics_from_parquet_metadata(metadata, _without_times(collected), paths)
            yield DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"{table.location().rstrip('/')}/{file.path}",
                file_format=FileFormat.PARQUET,
                partition=statistics.partition(spec, schema),
                file_size_in_bytes=file.size_in_bytes,
                sort_order_id=None,
                spec_id=table.metadata.default_spec_id,
                equality_ids=None,
                key_metadata=None,
                **statistics.to_serialized_dict(),
            )


def _without_times(collected: Mapping[int, StatisticsCollector]) -> dict[int, StatisticsCollector]:
    """The plan without the bounds of times and dates. Queries then read the file, whatever time they ask for."""
    counts = MetricsMode(MetricModeTypes.COUNTS)
    times = DateType, TimestampType, TimestamptzType
    return {
        field: replace(one, mode=counts) if isinstance(one.iceberg_type, times) else one for field, one in collected.items()
    }
