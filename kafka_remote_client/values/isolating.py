"""Finds the values that do not parse in a column.

Parsers accept or reject a whole column. So a rejected column is halved until one value is left.
The good values are then parsed again together, so that the column has one type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import attrs
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Parse", "Parsed", "parse_each"]

Parse: TypeAlias = Callable[[pa.Array], pa.Array]
"""Turns a column of bytes without nulls into a column of the same length. Raises ValueError if any value does not parse."""


@attrs.frozen
class Parsed:
    """A column as long as the parsed one. ``errors``: why a value did not parse, by its row; the row is null."""

    values: pa.Array
    errors: Mapping[int, str] = attrs.field(factory=dict)


def parse_each(column: pa.Array, parse: Parse) -> Parsed:
    """Parses a column of bytes; nulls stay null.

    Raises ValueError if each value parses, but all together do not, because they have no common type.
    """
    rows = pc.indices_nonzero(column.is_valid())
    values = column if not column.null_count else column.take(rows)
    try:
        return Parsed(_placed(parse(values), rows, len(column)))
    except ValueError as error:
        refused = dict(_refused(values, 0, parse, error))
    if not refused:
        parse(values)  # raises
    bad = pa.array([row in refused for row in range(len(values))])
    good = pc.invert(bad)
    errors = {rows[row].as_py(): reason for row, reason in refused.items()}
    return Parsed(_placed(parse(values.filter(good)), rows.filter(good), len(column)), errors)


def _refused(values: pa.Array, start: int, parse: Parse, error: ValueError) -> Iterator[tuple[int, str]]:
    """Yields the rows of a rejected column, from ``start`` on, that do not parse alone."""
    if len(values) == 1:
        yield start, str(error)
        return
    middle = len(values) // 2
    for part, at in ((values.slice(0, middle), start), (values.slice(middle), start + middle)):
        try:
            parse(part)
        except ValueError as found:
            yield from _refused(part, at, parse, found)


def _placed(values: pa.Array, rows: pa.Array, length: int) -> pa.Array:
    """Returns a column with ``values`` at their rows, and null in the other rows."""
    if len(values) == length:
        return values
    return values.take(pc.index_in(pa.array(range(length), rows.type), value_set=rows))
