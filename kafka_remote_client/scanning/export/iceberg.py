"""Exports a scan to an Iceberg table. A commit adds files by the statistics in their records and opens no data file.

::

    split writer  ->  file, Parquet metadata in its record  ->  DataFile  ->  fast append of 5,000 splits, with job, sequence

References: Iceberg's table specification; pyiceberg (``fast_append``, ``data_file_statistics_from_parquet_metadata``).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_remote_client.errors import ConfigurationError, DirectFetchError, ExportError, missing_extra
from kafka_remote_client.scanning.export.commits import JOB, SEQUENCE, commit_pieces
from kafka_remote_client.scanning.export.job import ExportJob
from kafka_remote_client.scanning.export.ledger import ExportLedger
from kafka_remote_client.scanning.export.row_groups import PartitionBy
from kafka_remote_client.scanning.export.target import ExportTarget, target_of
from kafka_remote_client.scanning.export.written_files import WrittenFile, WrittenSplit

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
        pyarrow_to_schema,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table, TableProperties
    from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, Transform
except ModuleNotFoundError as error:
    raise missing_extra("an export to Iceberg", error, "iceberg") from None

__all__ = ["IcebergCommit", "open_table", "target_of_table"]

_PARTITIONS: dict[PartitionBy, tuple[str, Transform[Any, Any]]] = {
    PartitionBy.TOPIC: ("topic", IdentityTransform()),
    PartitionBy.DAY: ("timestamp", DayTransform()),
    PartitionBy.HOUR: ("timestamp", HourTransform()),
}

_BEFORE_A_REPEATED_COMMIT = "_validate_concurrency"
"""pyiceberg 0.12 reads the table again after a conflict, calls this method, and repeats the commit on top of the other one."""


def open_table(catalog: Catalog | str, identifier: str, schema: pa.Schema, by: Sequence[PartitionBy]) -> Table:
    """Opens the table, or creates it. ``catalog``: a pyiceberg catalog, or the name of one in pyiceberg's configuration.

    Raises ConfigurationError for a table with other columns or partitions, a partition whose column is not read, and a catalog
    that is not configured; ExportError if the catalog or the store refuses.
    """
    missing = [column for column, _ in (_PARTITIONS[one] for one in by) if column not in schema.names]
    if missing:
        raise ConfigurationError(f"partition_by needs the column {missing[0]}")
    if not identifier.rpartition(".")[0]:
        raise ConfigurationError(f"the table name {identifier!r} must have the form NAMESPACE.TABLE")
    found = _catalog(catalog)
    with _export_errors(f"open table {identifier}"):
        return _opened(found, identifier, schema, by)


def _catalog(given: Catalog | str) -> Catalog:
    try:
        return load_catalog(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ConfigurationError(f"pyiceberg's configuration has no catalog {given}: {error}") from None


def _opened(found: Catalog, identifier: str, schema: pa.Schema, by: Sequence[PartitionBy]) -> Table:
    try:
        table = found.load_table(identifier)
    except NoSuchTableError:
        found.create_namespace_if_not_exists(identifier.rpartition(".")[0])
        table = found.create_table(identifier, schema)
    _check_columns(table, identifier, schema)
    wanted = [_PARTITIONS[one] for one in by]
    if _partitions(table) != wanted and table.current_snapshot() is None and table.spec().is_unpartitioned():
        with table.update_spec() as update:
            for one, (column, transform) in zip(by, wanted, strict=True):
                update.add_field(column, transform, column if column == one.value else one.value)
        table = found.load_table(identifier)
    if _partitions(table) != wanted:
        raise ConfigurationError(
            f"table {identifier} has partitions that differ from partition_by: {table.spec()}; "
            "give the same ones, or choose another table"
        )
    if TableProperties.DEFAULT_NAME_MAPPING not in table.properties:
        # These files have no field ids, so readers find columns by name.
        with table.transaction() as change:
            change.set_properties({TableProperties.DEFAULT_NAME_MAPPING: table.schema().name_mapping.model_dump_json()})
    return table


def known_job(catalog: Catalog | str, identifier: str, filesystem: pa.fs.FileSystem | None, job: str) -> ExportJob | None:
    """The job as its first run recorded it; ``None`` if there was no run, or no table. Raises as :func:`open_table`."""
    with _export_errors(f"open table {identifier}"):
        try:
            table = _catalog(catalog).load_table(identifier)
        except NoSuchTableError:
            return None
    return ExportLedger(target_of_table(table, filesystem), job).known_job()


def target_of_table(table: Table, filesystem: pa.fs.FileSystem | None) -> ExportTarget:
    """The location of the table's files. Its path is not decoded, as in pyiceberg: ``%20`` in it is not a space."""
    parts = urlsplit(table.location())
    if filesystem is not None:
        return target_of(f"{parts.netloc}{parts.path}", filesystem)
    if parts.scheme in ("", "file"):
        return target_of(parts.path if parts.scheme else table.location())
    store = target_of(f"{parts.scheme}://{parts.netloc}")
    return target_of(f"{store.root}{parts.path}", store.filesystem)


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
        with _export_errors(f"commit to {name}"):
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
        full = {f"{TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX}.{column}": "full" for column, _ in _partitions(table)}
        collected, paths = compute_statistics_plan(schema, {**table.properties, **full}), parquet_path_to_id_mapping(schema)
        for file in files:
            if file.footer is None:
                raise ExportError(f"cannot commit {file.path}: its record has no Parquet metadata")
            metadata = pq.read_metadata(BytesIO(base64.b64decode(file.footer)))
            statistics = data_file_statistics_from_parquet_metadata(metadata, collected, paths)
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


@contextmanager
def _export_errors(what: str) -> Iterator[None]:
    """Raises ExportError for any error of a catalog or a store: each has exceptions of its own."""
    try:
        yield
    except (ConfigurationError, DirectFetchError):
        raise
    except Exception as error:
        raise ExportError(f"cannot {what}: {str(error).partition(chr(10))[0] or type(error).__name__}") from error


def _partitions(table: Table) -> list[tuple[str, Transform[Any, Any]]]:
    spec: PartitionSpec = table.spec()
    return [(table.schema().find_column_name(field.source_id) or "", field.transform) for field in spec.fields]


def _check_columns(table: Table, identifier: str, schema: pa.Schema) -> None:
    known = table.schema()
    try:
        written = pyarrow_to_schema(schema, known.name_mapping)
    except ValueError as error:
        raise ConfigurationError(f"table {identifier} does not have the scan's columns: {error}") from None
    for field in written.fields:
        other = known.find_field(field.field_id)
        if other.field_type != field.field_type:
            raise ConfigurationError(
                f"column {field.name} of table {identifier} has type {other.field_type}, the scan's has {field.field_type}"
            )
    missing = [field.name for field in known.fields if field.required and field.name not in schema.names]
    if missing:
        raise ConfigurationError(f"table {identifier} requires columns that the scan does not have: {', '.join(missing)}")
