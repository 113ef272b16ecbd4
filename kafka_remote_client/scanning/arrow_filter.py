"""Evaluates a predicate for the records of a record batch.

References: :mod:`~kafka_remote_client.scanning.predicate`; Arrow's compute functions, of which the Kleene ones follow SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafka_remote_client.records.arrow import SPARK_KAFKA_SCHEMA
from kafka_remote_client.scanning.predicate import And, Comparison, HeaderIs, IsIn, IsNull, Not, Operator, Or, Predicate, Scalar

__all__ = ["mask_of"]

_COMPARE = {
    Operator.EQUAL: pc.equal,
    Operator.NOT_EQUAL: pc.not_equal,
    Operator.LESS: pc.less,
    Operator.LESS_EQUAL: pc.less_equal,
    Operator.GREATER: pc.greater,
    Operator.GREATER_EQUAL: pc.greater_equal,
}


def mask_of(predicate: Predicate, records: pa.RecordBatch) -> pa.BooleanArray:
    """Returns for each record whether the predicate is true; null as in SQL. ``records`` have the predicate's columns."""
    match predicate:
        case And(parts):
            return reduce(pc.and_kleene, [mask_of(part, records) for part in parts])
        case Or(parts):
            return reduce(pc.or_kleene, [mask_of(part, records) for part in parts])
        case Not(part):
            return pc.invert(mask_of(part, records))
        case Comparison(name, how, value):
            return _compared(records.column(name), how, value)
        case IsIn(name, values):
            return _is_in(records.column(name), values)
        case IsNull(name):
            return pc.is_null(records.column(name))
        case HeaderIs(name, values):
            return _has_header(records.column("headers"), name, values)
        case _:
            raise TypeError(f"unknown predicate: {predicate!r}")


def _compared(column: pa.Array, how: Operator, value: Scalar) -> pa.BooleanArray:
    # The comparison also works for a number that the column cannot hold.
    if column.type == pa.int32():
        column = column.cast(pa.int64())
    return _COMPARE[how](column, _scalar(value, column.type))


def _is_in(column: pa.Array, values: Sequence[Scalar]) -> pa.BooleanArray:
    if not values:  # false for null, too
        return pa.array([False] * len(column))
    kind = pa.int64() if column.type == pa.int32() else column.type
    found = pc.is_in(column.cast(kind), value_set=pa.array(values, kind))
    return pc.if_else(pc.is_valid(column), found, pa.scalar(None, pa.bool_())) if column.null_count else found


def _scalar(value: Scalar, kind: pa.DataType) -> Any:
    return pa.scalar(value, kind)


def _has_header(lists: pa.ListArray, name: str, values: Sequence[bytes] | None) -> pa.BooleanArray:
    headers = pc.list_flatten(lists)
    found = pc.equal(pc.struct_field(headers, "key"), name)
    if values is not None:
        contents = pc.struct_field(headers, "value")
        found = pc.and_(found, pc.is_in(contents, value_set=pa.array(values, _VALUE)))
    records = pc.filter(pc.list_parent_indices(lists), found)
    return pc.is_in(pa.array(range(len(lists)), records.type), value_set=records)


_VALUE = SPARK_KAFKA_SCHEMA.field("headers").type.value_type.field("value").type
