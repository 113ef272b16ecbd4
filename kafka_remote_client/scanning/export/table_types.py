"""The types of typed columns in a table, which has fewer of them than Arrow. Pure.

==================================  ======================  ======================
Arrow                               Iceberg                 Delta
==================================  ======================  ======================
bool, int32, int64, float, double   the same                the same
int8, int16, uint8, uint16          int32                   int32
uint32, float16                     int64, float            int64, float
timestamp (s, ms, us), UTC or none  timestamp (us)          timestamp (us)
time32, time64 (us)                 time64 (us)             none
date32, date64                      date32                  date32
decimal of at most 38 digits        the same                the same
string, binary, fixed binary        the same                string, binary, binary
struct, list, map                   of such types           of such types
==================================  ======================  ======================

Files of Iceberg and Delta have exactly the type that the table's metadata names: readers compare statistics as this type.
Parquet alone keeps all other types of Arrow too. Nowhere is a struct without fields, which Parquet cannot store.

References: Iceberg's table specification, "Primitive Types"; Delta's protocol, "Primitive Types".
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

from kafka_remote_client.errors import ConfigurationError

__all__ = ["TableFormat", "table_type"]

_MICROSECONDS = pa.time64("us")
_MOST_DIGITS = 38
_STORED = {
    **{kind: kind for kind in (pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32())},
    **dict.fromkeys((pa.int8(), pa.int16(), pa.uint8(), pa.uint16()), pa.int32()),
    **dict.fromkeys((pa.string(), pa.large_string()), pa.string()),
    **dict.fromkeys((pa.binary(), pa.large_binary()), pa.binary()),
    **dict.fromkeys((pa.time32("s"), pa.time32("ms"), _MICROSECONDS), _MICROSECONDS),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}


class TableFormat(StrEnum):
    """Whose files they are. Those of Iceberg keep all columns and give their Parquet metadata to the commit."""

    PARQUET = "parquet"
    ICEBERG = "iceberg"
    DELTA = "delta"

    @property
    def in_place(self) -> bool:
        """Whether files stay where they are written, as the table's metadata says which of them count."""
        return self is not TableFormat.PARQUET


def table_type(kind: pa.DataType, format: TableFormat) -> pa.DataType:  # noqa: A002 - the name that users give
    """The type of a table's column for values of type ``kind``. All parts of it may be null.

    Raises ConfigurationError for a type that tables of this format do not have.
    """
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([(field.name, table_type(field.type, format)) for field in fields])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", table_type(kind.value_type, format)))
    if pa.types.is_map(kind):
        return pa.map_(table_type(kind.key_type, format), table_type(kind.item_type, format))
    found = None if pa.types.is_struct(kind) else kind if format is TableFormat.PARQUET else _stored(kind, format)
    if found is None:
        raise ConfigurationError(f"a table of format {format} cannot have values of type {kind}; choose another schema")
    return found


def _stored(kind: pa.DataType, format: TableFormat) -> pa.DataType | None:  # noqa: A002 - as above
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz) if kind.unit != "ns" and kind.tz in (None, "UTC") else None
    if pa.types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= _MOST_DIGITS else None
    if pa.types.is_fixed_size_binary(kind):
        return kind if format is TableFormat.ICEBERG else pa.binary()
    if pa.types.is_time(kind) and format is TableFormat.DELTA:
        return None
    return _STORED.get(kind)
