"""The Iceberg table of an export: opened or made, with the columns and partitions of the scan, and the place of its files.

References: Iceberg's table specification, "Column Projection"; pyiceberg.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from kafka_remote_client.errors import ConfigurationError, DirectFetchError, ExportError, missing_extra
from kafka_remote_client.scanning.export.job import ExportJob
from kafka_remote_client.scanning.export.ledger import ExportLedger
from kafka_remote_client.scanning.export.row_groups import PartitionBy
from kafka_remote_client.scanning.export.target import ExportTarget, target_of

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.io.pyarrow import pyarrow_to_schema
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table, TableProperties
    from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, Transform
except ModuleNotFoundError as error:
    raise missing_extra("an export to Iceberg", error, "iceberg") from None

__all__ = ["export_errors", "known_job", "open_table", "partitions_of", "target_of_table"]

_PARTITIONS: dict[PartitionBy, tuple[str, Transform[Any, Any]]] = {
    PartitionBy.TOPIC: ("topic", IdentityTransform()),
    PartitionBy.DAY: ("timestamp", DayTransform()),
    PartitionBy.HOUR: ("timestamp", HourTransform()),
}


def open_table(
    catalog: Catalog | str,
    identifier: str,
    schema: pa.Schema,
    by: Sequence[PartitionBy],
    check: Callable[[], None] = lambda: None,
) -> Table:
    """Opens the table, or creates it. ``catalog``: a pyiceberg catalog, or the name of one in pyiceberg's configuration.

    ``check`` is called before a table is created.

    Raises the errors of ``check``; ConfigurationError for a table with other columns or partitions, a partition whose column is
    not read, and a catalog that is not configured; ExportError if the catalog or the store refuses.
    """
    missing = [column for column, _ in (_PARTITIONS[one] for one in by) if column not in schema.names]
    if missing:
        raise ConfigurationError(f"partition_by needs the column {missing[0]}")
    if not identifier.rpartition(".")[0]:
        raise ConfigurationError(f"the table name {identifier!r} must have the form NAMESPACE.TABLE")
    found = _catalog(catalog)
    with export_errors(f"open table {identifier}"):
        return _opened(found, identifier, schema, by, check)


def _catalog(given: Catalog | str) -> Catalog:
    try:
        return load_catalog(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ConfigurationError(f"pyiceberg's configuration has no catalog {given}: {error}") from None


def _opened(found: Catalog, identifier: str, schema: pa.Schema, by: Sequence[PartitionBy], check: Callable[[], None]) -> Table:
    try:
        table = found.load_table(identifier)
    except NoSuchTableError:
        check()
        found.create_namespace_if_not_exists(identifier.rpartition(".")[0])
        table = found.create_table_if_not_exists(identifier, schema)  # another run may create it meanwhile
    _check_columns(table, identifier, schema)
    wanted = [_PARTITIONS[one] for one in by]
    if partitions_of(table) != wanted and table.current_snapshot() is None and table.spec().is_unpartitioned():
        with table.update_spec() as update:
            for one, (column, transform) in zip(by, wanted, strict=True):
                update.add_field(column, transform, column if column == one.value else one.value)
        table = found.load_table(identifier)
    if partitions_of(table) != wanted:
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
    with export_errors(f"open table {identifier}"):
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


def partitions_of(table: Table) -> list[tuple[str, Transform[Any, Any]]]:
    """The columns by which a table is partitioned, and how."""
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


@contextmanager
def export_errors(what: str) -> Iterator[None]:
    """Raises ExportError for any error of a catalog or a store: each has exceptions of its own."""
    try:
        yield
    except (ConfigurationError, DirectFetchError):
        raise
    except Exception as error:
        raise ExportError(f"cannot {what}: {str(error).partition(chr(10))[0] or type(error).__name__}") from error
