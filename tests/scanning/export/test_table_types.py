"""The types of typed columns in each table format, compared with the format's own library."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import Schema
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids, schema_to_pyarrow

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.scanning.export.table_types import TableFormat, table_type

UTC_MS, UTC_US = pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")
SIMPLE = [
    pa.bool_(),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.decimal128(38, 2), pa.decimal128(5, 0)),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(4)),
    *(pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("us"), UTC_MS, UTC_US),
]
TYPES = st.recursive(
    st.sampled_from(SIMPLE),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda kind: pa.list_(kind, 3)),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([pa.field(f"f{n}", kind, n > 0) for n, kind in enumerate(kinds)])
        ),
    ),
    max_leaves=6,
)


def plain(kind: pa.DataType) -> str:
    """The type without details that readers ignore: large offsets, names of items, and field ids."""
    return str(kind).replace("large_", "").replace("item:", "element:")


@given(TYPES)
def test_each_table_format_keeps_the_exact_type(kind: pa.DataType) -> None:
    iceberg = pa.schema([("a", table_type(kind, TableFormat.ICEBERG))])
    made = schema_to_pyarrow(_pyarrow_to_schema_without_ids(iceberg), include_field_ids=False)
    assert plain(made.field("a").type) == plain(iceberg.field("a").type)
    delta = pa.schema([("a", table_type(kind, TableFormat.DELTA))])
    assert plain(pa.schema(Schema.from_arrow(delta).to_arrow()).field("a").type) == plain(delta.field("a").type)


@given(TYPES)
def test_null_columns_of_any_type_can_be_written(kind: pa.DataType) -> None:
    for form in TableFormat:
        kept = table_type(kind, form)
        assert table_type(kept, form) == kept
        assert pa.nulls(3, kind).cast(kept).null_count == 3


def test_times_become_microseconds_and_keep_their_zone() -> None:
    assert table_type(UTC_MS, TableFormat.ICEBERG) == table_type(UTC_MS, TableFormat.DELTA) == UTC_US
    assert table_type(UTC_MS, TableFormat.PARQUET) == UTC_MS
    assert table_type(pa.timestamp("ms"), TableFormat.DELTA) == pa.timestamp("us")
    assert table_type(pa.time32("ms"), TableFormat.ICEBERG) == pa.time64("us")


def test_every_part_of_a_column_may_be_null() -> None:
    strict = pa.struct([pa.field("n", pa.int64(), nullable=False)])
    for form in TableFormat:
        assert table_type(strict, form).field(0).nullable


@pytest.mark.parametrize(
    ("kind", "formats"),
    [
        (pa.timestamp("ns", "UTC"), "iceberg delta"),
        (pa.timestamp("us", "Europe/Berlin"), "iceberg delta"),
        (pa.time64("us"), "delta"),
        (pa.uint64(), "iceberg delta"),
        (pa.null(), "iceberg delta"),
        (pa.decimal256(50, 2), "iceberg delta"),
        (pa.struct([]), "parquet iceberg delta"),
        (pa.list_(pa.struct([])), "parquet iceberg delta"),
    ],
)
def test_types_that_a_format_does_not_have_are_refused(kind: pa.DataType, formats: str) -> None:
    for form in TableFormat:
        if form in formats.split():
            with pytest.raises(ConfigurationError, match=f"a table of format {form} cannot have values of type"):
                table_type(kind, form)
        else:
            table_type(kind, form)
