"""Exports a scan to a Delta table. A commit adds files by the statistics in their records and opens no data file.

::

    split writer  ->  file, statistics in its record  ->  add action  ->  commit of 5,000 splits; its application
                                                                         transaction has job and sequence

References: Delta's protocol, "Add File", "Transaction Identifiers"; deltalake (``create_write_transaction``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import pyarrow as pa

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError, ExportError, missing_extra
from kafka_remote_client.scanning.export.commits import JOB, SEQUENCE, commit_pieces, one_line
from kafka_remote_client.scanning.export.job import ExportJob
from kafka_remote_client.scanning.export.row_groups import PartitionBy
from kafka_remote_client.scanning.export.written_files import WrittenFile, WrittenSplit

try:
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction
    from deltalake.exceptions import CommitFailedError, DeltaError
    from deltalake.transaction import AddAction, RemoveAction
except ModuleNotFoundError as error:
    raise missing_extra("an export to Delta", error, "delta") from None

__all__ = ["DeltaCommit", "open_table"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def open_table(
    where: str | os.PathLike[str],
    schema: pa.Schema,
    by: Sequence[PartitionBy],
    storage_options: Mapping[str, str] | None,
    check: Callable[[], None] = lambda: None,
) -> DeltaTable:
    """Opens the table, or creates it. ``storage_options``: those of deltalake. ``check`` is called before a table is created.

    Raises its errors; ConfigurationError for a table with other columns or partitions, partitions by time, and a location that
    deltalake cannot reach.
    """
    if set(by) - {PartitionBy.TOPIC}:
        raise ConfigurationError("partition_by must be topic for a Delta table")
    if by and "topic" not in schema.names:
        raise ConfigurationError("partition_by needs the column topic")
    name, options, partitions = os.fspath(where), dict(storage_options or {}), [one.value for one in by]
    try:
        if not DeltaTable.is_deltatable(name, options):
            check()
        table = DeltaTable.create(name, schema, mode="ignore", partition_by=partitions, storage_options=options)
    except (DeltaError, OSError) as error:
        raise ConfigurationError(f"cannot open the Delta table {name}: {one_line(error)}") from error
    if table.schema() != Schema.from_arrow(schema):
        raise ConfigurationError(f"the Delta table {name} has columns that differ from the scan's: {table.schema()}")
    known = table.metadata().partition_columns
    if known != partitions:
        raise ConfigurationError(f"the Delta table {name} has partitions {known}, which differ from partition_by")
    return table


class DeltaCommit:
    """A :class:`~kafka_remote_client.scanning.export.run.Commit` that appends entries to the Delta log."""

    def __init__(self, table: DeltaTable) -> None:
        self._table = table

    def has(self, job: str) -> bool:
        """Whether the table has a commit of the job."""
        return bool(self._committed(job))

    def __call__(self, job: ExportJob, written: Sequence[WrittenSplit]) -> None:
        """Commits what is not committed yet. Raises ExportError after five conflicts, or if the store refuses."""
        try:
            commit_pieces(
                written,
                committed=partial(self._committed, job.name),
                commit=partial(self._commit, job.name),
                conflicts=(CommitFailedError,),
                table=self._table.table_uri,
            )
        except (DeltaError, OSError) as error:
            raise ExportError(f"cannot commit to {self._table.table_uri}: {one_line(error)}") from error

    def _committed(self, job: str) -> set[int]:
        self._table.update_incremental()
        last = self._table.transaction_version(_application(job))
        return set() if last is None else set(range(last + 1))

    def _commit(self, job: str, number: int, files: list[WrittenFile]) -> None:
        now = SystemClock().time_ms()
        properties = CommitProperties(
            custom_metadata={JOB: job, SEQUENCE: str(number)},
            max_commit_retries=0,  # deltalake's retry does not check whether the first attempt succeeded
            app_transactions=[Transaction(_application(job), number, now)],
        )
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size_in_bytes, _partition(file), now, True, _statistics(file)) for file in files
        ]
        self._table.create_write_transaction(
            actions,
            mode="append",
            schema=self._table.schema(),
            partition_by=self._table.metadata().partition_columns,
            commit_properties=properties,
        )


def _application(job: str) -> str:
    return f"kafka-remote-export/{job}"


def _partition(file: WrittenFile) -> dict[str, str | None]:
    return dict(file.partition)


def _statistics(file: WrittenFile) -> str:
    """The statistics as JSON. Timestamps have whole milliseconds, so the bounds are exact."""
    bounds = {"offset": (file.first_offset, file.last_offset), "timestamp": (_time(file.oldest), _time(file.youngest))}
    known = {name: pair for name, pair in bounds.items() if None not in pair}
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": {name: low for name, (low, _) in known.items()},
            "maxValues": {name: high for name, (_, high) in known.items()},
            "nullCount": dict.fromkeys(known, 0),
        }
    )


def _time(milliseconds: int | None) -> str | None:
    """An ISO 8601 timestamp; ``None`` if there is none, or beyond Python's dates: then the file has no bounds of timestamps."""
    try:
        found = None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    return None if found is None else found.strftime("%Y-%m-%dT%H:%M:%S.") + f"{found.microsecond // 1000:03d}Z"
