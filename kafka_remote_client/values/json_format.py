r"""JSON by ``pyarrow.json``, which reads a stream of objects and does not know where a record ends.

Each value becomes a separate object, so that a column becomes one text::

    {"v":[<value>]}\n{"v":[<value>]}\n ...

A value that is truncated, or has two documents, cannot use bytes of its neighbour: at the start of each of our objects the
reader is at the top level, or it fails. So each value gives at least one row, and equal numbers of rows and values mean one
row each. A list without exactly one item means a value that is empty or has several documents. One that ends our list and
begins another, ``1],"w":[2``, seems to have a field that is ignored. Such values are read again in an object, where they fail.

Without a schema the reader infers a type, and a deeply nested type overflows its stack. So this module limits the depth
first.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from kafka_remote_client.values.isolating import Parse
from kafka_remote_client.values.scalars import binary_scalar, int_scalar

__all__ = ["MAX_DEPTH", "json_parser"]

MAX_DEPTH = 100
"""The deepest nesting that is read without a schema."""

_FIELD = "v"
_BEFORE, _AFTER, _NOTHING = (binary_scalar(text) for text in (b'{"v":[', b"]}\n", b""))
_IN_OBJECT, _AFTER_OBJECT = (binary_scalar(text) for text in (b'{"v":{"w":', b"}}\n"))
_ANY_OBJECT = pyarrow.json.ParseOptions(
    explicit_schema=pa.schema([(_FIELD, pa.struct([]))]), newlines_in_values=True, unexpected_field_behavior="ignore"
)
_TWO_LISTS = r"(?s)\]\s*,.*:\s*\["
"""In each value that ends our list and begins another one."""
_ONE = int_scalar(1)
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def json_parser(kind: pa.DataType | None = None) -> Parse:
    """Returns a parser that returns values of type ``kind`` and ignores other fields.

    ``None``: the common type of a column's values, in which a text that looks like a time is a timestamp. Raises
    ValueError, when called, for a value that is not one JSON document or has another type.
    """
    options = pyarrow.json.ParseOptions(
        explicit_schema=None if kind is None else pa.schema([(_FIELD, pa.list_(kind))]),
        newlines_in_values=True,
        unexpected_field_behavior="infer" if kind is None else "ignore",
    )

    def parse(column: pa.Array) -> pa.Array:
        if not len(column):
            return pa.nulls(0, pa.null() if kind is None else kind)
        if kind is None:
            _check_depth(column)
        table = _read(pc.binary_join_element_wise(_BEFORE, column, _AFTER, _NOTHING), options)
        if table.column_names != [_FIELD] or len(table) != len(column):
            raise ValueError("not one JSON document")
        lists = table[_FIELD].combine_chunks()
        if not pc.all(pc.equal(pc.list_value_length(lists), _ONE)).as_py():
            raise ValueError("not one JSON document")
        values = lists.flatten()
        values.validate(full=True)  # pyarrow.json does not check UTF-8
        doubtful = column.filter(pc.match_substring_regex(column, _TWO_LISTS)) if kind is not None else ()
        if len(doubtful):
            _read(pc.binary_join_element_wise(_IN_OBJECT, doubtful, _AFTER_OBJECT, _NOTHING), _ANY_OBJECT)
        return values

    return parse


def _read(text: pa.Array, options: pyarrow.json.ParseOptions) -> pa.Table:
    size = pc.sum(pc.binary_length(text)).as_py()
    return pyarrow.json.read_json(
        pa.BufferReader(text.buffers()[2].slice(0, size)),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=size + 1),
        parse_options=options,
    )


def _check_depth(column: pa.Array) -> None:
    brackets = pc.add(pc.count_substring(column, "["), pc.count_substring(column, "{"))
    for value in column.filter(pc.greater(brackets, MAX_DEPTH)):
        if _depth(value.as_py()) > MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH}; give a schema")


def _depth(document: bytes) -> int:
    depth = deepest = 0
    for bracket in _STRINGS.sub(b"", document).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest
