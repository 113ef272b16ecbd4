r"""JSON by ``pyarrow.json``, which reads a stream of objects and knows nothing of where a record ends.

Each value is set into an object of its own, so that a column becomes one text::

    {"v":[<value>]}\n{"v":[<value>]}\n ...

A value that is cut, or holds two documents, cannot take part of its neighbour: the reader is at the top level wherever an
object of ours begins, or fails. So each value gives at least one row, and as many rows as values means one of each. A list
that has not exactly one item means a value that is empty or holds several.

Without a schema the reader makes a type of whatever it finds, and a type that is nested very deeply overflows its stack. So
the depth is bounded here before that.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from kafka_remote_client.values.isolating import Parse

__all__ = ["MAX_DEPTH", "json_parser"]

MAX_DEPTH = 100
"""Of what is read without a schema."""

_FIELD = "v"
_BEFORE, _AFTER, _NOTHING = pa.scalar(b'{"v":['), pa.scalar(b"]}\n"), pa.scalar(b"")
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def json_parser(kind: pa.DataType | None = None) -> Parse:
    """Makes a parser that gives values of type ``kind``; fields that it does not have are passed over.

    ``None``: the type that the values of a column have together, in which a text that looks like a time is a timestamp. Raises
    ValueError, when called, for what is not one JSON document or has another type.
    """
    options = pyarrow.json.ParseOptions(
        explicit_schema=None if kind is None else pa.schema([(_FIELD, pa.list_(kind))]),
        newlines_in_values=True,
        unexpected_field_behavior="infer" if kind is None else "ignore",
    )

    def parse(column: pa.Array) -> pa.Array:
        if not len(column):
            return pa.array([], pa.null() if kind is None else kind)
        if kind is None:
            _check_depth(column)
        text = pc.binary_join_element_wise(_BEFORE, column, _AFTER, _NOTHING)
        size = pc.sum(pc.binary_length(text)).as_py()
        table = pyarrow.json.read_json(
            pa.BufferReader(text.buffers()[2].slice(0, size)),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=size + 1),
            parse_options=options,
        )
        if table.column_names != [_FIELD] or len(table) != len(column):
            raise ValueError("not one JSON document")
        lists = table[_FIELD].combine_chunks()
        if not pc.all(pc.equal(pc.list_value_length(lists), 1)).as_py():
            raise ValueError("not one JSON document")
        values = lists.flatten()
        values.validate(full=True)  # texts that are not UTF-8 are taken as they are
        return values

    return parse


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
