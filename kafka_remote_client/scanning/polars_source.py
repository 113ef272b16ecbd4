"""A scan as a Polars ``LazyFrame``, with columns, predicate and row limit pushed down.

::

    LazyFrame  --(columns, expression, rows)-->  frames_of  -->  Scan  -->  record batches  -->  expression  -->  frames
                                                  the part that Scan supports                    all of it

Polars passes columns, an expression, and a number of rows. The part that a scan supports is pushed down: ``&``
and ``|`` of comparisons of one column with a value. Polars still evaluates the whole expression for every row, so a part
that is not pushed down costs time and changes no row.

References: Polars' IO plugins (``polars.io.plugins.register_io_source``, which Polars calls unstable), ``Expr.meta.serialize``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl
from polars.io.plugins import register_io_source

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.scanning.predicate import And, Operator, Or, Predicate, column

if TYPE_CHECKING:
    from kafka_remote_client.scanning.table_scan import TableScan

__all__ = ["lazy_frame", "predicate_of"]

_OPERATORS = {
    "Eq": Operator.EQUAL,
    "NotEq": Operator.NOT_EQUAL,
    "Lt": Operator.LESS,
    "LtEq": Operator.LESS_EQUAL,
    "Gt": Operator.GREATER,
    "GtEq": Operator.GREATER_EQUAL,
}
_MIRRORED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}
_IN_A_SECOND = {"Milliseconds": 1_000, "Microseconds": 1_000_000, "Nanoseconds": 1_000_000_000}
_INTEGERS = {"Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def lazy_frame(table: TableScan) -> pl.LazyFrame:
    """Returns a lazy frame, which reads nothing until ``collect``."""
    empty = pl.from_arrow(table.schema.empty_table())
    assert isinstance(empty, pl.DataFrame)  # it has columns
    return register_io_source(partial(_frames, table), schema=empty.schema)


def _frames(
    table: TableScan,
    names: Sequence[str] | None,
    expression: pl.Expr | None,
    rows: int | None,
    batch_size: int | None,  # noqa: ARG001 - a hint, and batches are those of the tier
) -> Iterator[pl.DataFrame]:
    """Yields frames for Polars: the columns ``names``, the rows that match ``expression``, ``rows`` in total."""
    wanted = list(table.scan.columns if names is None else names)
    needed = set(wanted) | set(() if expression is None else expression.meta.root_names())
    # A record batch without a column would have no rows.
    reading = table.select(*[name for name in table.scan.columns if name in needed] or [table.scan.columns[0]])
    if expression is not None:
        # A limit of the scan is applied first, so its predicate must not change.
        pushed = predicate_of(expression) if table.scan.limit is None else None
        reading = reading if pushed is None else reading.where(pushed)
    elif rows is not None:
        reading = reading.head(rows)
    for records in reading.batches():
        frame = pl.DataFrame(records)
        if expression is not None:
            frame = frame.filter(expression)
        if rows is not None:
            frame = frame.head(rows)
            rows -= frame.height
        yield frame.select(wanted)
        if rows == 0:
            return


def predicate_of(expression: pl.Expr) -> Predicate | None:
    """Returns a predicate that is true for every row for which the expression is; ``None`` if there is none."""
    return _pushed(json.loads(expression.meta.serialize(format="json")))


def _pushed(node: Any) -> Predicate | None:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And", "right": right}}:
            parts = [part for part in (_pushed(left), _pushed(right)) if part is not None]
            return And(tuple(parts)) if len(parts) == 2 else next(iter(parts), None)
        case {"BinaryExpr": {"left": left, "op": "Or", "right": right}}:
            parts = [part for part in (_pushed(left), _pushed(right)) if part is not None]
            return Or(tuple(parts)) if len(parts) == 2 else None
        case {
            "Function": {
                "input": [{"Column": name}, {"Literal": least}, {"Literal": most}],
                "function": {"Boolean": {"IsBetween": _}},
            }
        }:
            parts = [part for part in (_compared(name, "GtEq", least), _compared(name, "LtEq", most)) if part is not None]
            return And(tuple(parts)) if parts else None
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(how), "right": {"Literal": literal}}}:
            return _compared(name, how, literal)
        case {"BinaryExpr": {"left": {"Literal": literal}, "op": str(how), "right": {"Column": str(name)}}}:
            return _compared(name, _MIRRORED.get(how, how), literal)
        case _:
            return None


def _compared(name: str, how: str, literal: Mapping[str, Any]) -> Predicate | None:
    value = _value(literal)
    if how not in _OPERATORS or value is None:
        return None
    if name == "timestamp" and not isinstance(value, datetime):  # a number: of Polars' microseconds, not of milliseconds
        return None
    try:
        return column(name).compared(_OPERATORS[how], value)
    except ConfigurationError:  # of another kind than the column: Polars evaluates it
        return None


def _value(literal: Mapping[str, Any]) -> object:
    """Returns ``None`` for an expression without a counterpart."""
    match literal:
        case {"Dyn": {"Int": int(value)}}:
            return value
        case {"Scalar": {"Binary": [*content]}}:
            return bytes(content)
        case {"Scalar": {"String": str(text)}}:
            return text
        case {"Scalar": {"Datetime": [int(value), str(unit), {"inner": "UTC"}]}} if value * 1_000_000 % _IN_A_SECOND[unit] == 0:
            return _EPOCH + timedelta(microseconds=value * 1_000_000 // _IN_A_SECOND[unit])
        case {"Scalar": scalar} if isinstance(scalar, dict) and scalar.keys() <= _INTEGERS:
            return next(iter(scalar.values()))
        case _:
            return None
