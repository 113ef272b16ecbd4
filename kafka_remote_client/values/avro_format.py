"""Avro's binary encoding, without a container, into Arrow.

pyruhvro decodes a whole column, if it is installed and the schema has no type for which it panics (bytes, fixed, decimals). Its
schema has long instead of int, which has the same encoding, because it truncates an int that is too long for 32 bits without an
error. fastavro reads everything else, value by value. Both decode the same bytes to the same column. Bytes after a value are
ignored, as in Confluent's deserialisers.

References: the Avro specification 1.12, "Binary Encoding"; docs/decisions/0011-avro-decoder.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from io import BytesIO
from itertools import pairwise
from typing import Any

import fastavro
import pyarrow as pa

from kafka_remote_client.errors import UnsupportedFormatError
from kafka_remote_client.parsing import parse_json
from kafka_remote_client.values.avro_types import AvroType, avro_type
from kafka_remote_client.values.isolating import Parse

__all__ = ["avro_parser"]

try:
    import pyruhvro
except ImportError:
    pyruhvro = None

_FIELD = "v"


def avro_parser(schema: str, references: Iterable[str] = (), *, skipped: int = 0, compiled: bool = True) -> Parse:
    """Returns a parser of values that were written with ``schema``, which is JSON and refers to ``references`` by name.

    ``skipped``: the number of bytes before the encoding of each value. ``compiled``: whether pyruhvro may be used. Raises
    UnsupportedFormatError for an invalid schema, or one that Arrow cannot represent (avro_types.py).
    """
    try:
        made = avro_type(parse_json(schema), map(parse_json, references))
        parsed = fastavro.parse_schema(made.schema)
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise UnsupportedFormatError(f"not a valid Avro schema: {error}") from error
    if compiled and pyruhvro is not None and made.wide is not None:
        return _compiled(made, skipped)
    return _by_value(made, parsed, skipped)


def _compiled(made: AvroType, skipped: int) -> Parse:
    # pyruhvro reads only records, and a record around the value takes no bytes.
    whole = json.dumps({"type": "record", "name": "kafka_remote_value", "fields": [{"name": _FIELD, "type": made.wide}]})

    def parse(column: pa.Array) -> pa.Array:
        if not len(column):
            return pa.nulls(0, made.arrow)
        try:
            batch = pyruhvro.deserialize_array(_encoded(column, skipped), whole)
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # a panic, which no module exports and which is not an Exception
                raise
            raise ValueError(f"the Avro decoder failed: {error}") from None
        values = batch[_FIELD]
        values.validate(full=True)  # pyruhvro does not check UTF-8
        return values.cast(made.physical).cast(made.arrow)

    return parse


def _by_value(made: AvroType, schema: Any, skipped: int) -> Parse:
    def parse(column: pa.Array) -> pa.Array:
        values = [_value(value, schema) for value in _encoded(column, skipped)]
        return pa.array(values, made.physical).cast(made.arrow)

    return parse


def _encoded(column: pa.Array, skipped: int) -> list[bytes]:
    """The values of a column without nulls, without their first bytes. ``to_pylist`` would make a scalar of each first."""
    if not len(column):
        return []
    _, ends, data = column.buffers()
    bounds = memoryview(ends).cast("i")[column.offset : column.offset + len(column) + 1].tolist()
    first = bounds[0]
    content = b"" if data is None else data.slice(first, bounds[-1] - first).to_pybytes()
    return [content[start - first + skipped : end - first] for start, end in pairwise(bounds)]


def _value(data: bytes, schema: Any) -> Any:
    try:
        return fastavro.schemaless_reader(BytesIO(data), schema, None)
    except Exception as error:  # noqa: BLE001 - what fastavro raises for bytes that it cannot read is not said anywhere
        raise ValueError(f"{type(error).__name__}: {error}") from None
