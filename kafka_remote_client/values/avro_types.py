"""Maps Avro schemas to Arrow types. Pure: it reads no values.

========================================  ========================================================================
Avro                                      Arrow
========================================  ========================================================================
null, boolean, int, long, float, double   null, bool, int32, int64, float, double
bytes, string, fixed                      binary, string, binary of that size
record, array, map, enum                  struct, list, map with string keys, string
a union of null and one type, either way  that type
date, time-millis, time-micros            date32, time32 (ms), time64 (us)
timestamp-millis, -micros, -nanos         timestamp with UTC; ``local-timestamp-*`` without a time zone
decimal                                   decimal128, decimal256 where the precision is above 38
any other logical type (uuid, duration)   as without it
========================================  ========================================================================

All fields may be null, because a record that did not parse is null. Not supported: unions of several types, types that contain
themselves, and arrays whose items take no bytes, because a few bytes could claim any number of them.

References: the Avro specification 1.12, "Schema Declaration", "Names", "Logical Types".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import attrs
import pyarrow as pa

from kafka_remote_client.errors import UnsupportedFormatError

__all__ = ["AvroType", "avro_type"]

_Json: TypeAlias = Any

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    **{
        ("long", f"{local}timestamp-{name}"): pa.timestamp(unit, None if local else "UTC")
        for local in ("", "local-")
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
_MAX_128, _MAX_256 = 38, 76


@attrs.frozen
class AvroType:
    """A type in four forms with the same encoding.

    ``arrow``: the column's type. ``physical``: the same without logical types except decimals. ``schema``: an Avro schema of
    that. ``wide``: that with long instead of int, ``None`` if it has bytes, fixed or decimals. ``width``: whether a value
    takes at least one byte.
    """

    arrow: pa.DataType
    physical: pa.DataType
    schema: _Json
    wide: _Json | None
    width: bool = True


def avro_type(schema: _Json, references: Iterable[_Json] = ()) -> AvroType:
    """Returns the type of a schema in JSON. ``references``: schemas that it refers to by name, in order of dependency.

    Raises UnsupportedFormatError for types that this module does not support, and ValueError for an invalid schema.
    """
    names = _Names()
    for reference in references:
        names.type_of(reference, "")
    names.written.clear()
    return names.type_of(schema, "")


class _Names:
    """Named types as they are declared. ``written``: those that the new schema has declared so far."""

    def __init__(self) -> None:
        self._declared: dict[str, tuple[_Json, str] | None] = {}
        self.written: dict[str, AvroType] = {}

    def type_of(self, schema: _Json, namespace: str) -> AvroType:
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if isinstance(schema, str):
            return self._named_or_primitive(schema, namespace)
        if not isinstance(schema, Mapping) or "type" not in schema:
            raise ValueError(f"unknown Avro type: {schema!r}")
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._declaration(schema, namespace)
        if kind == "array":
            items = self.type_of(schema["items"], namespace)
            if not items.width:
                raise UnsupportedFormatError("an Avro array of items that take no bytes is not supported")
            return _around(pa.list_, items, lambda inner: {"type": "array", "items": inner})
        if kind == "map":
            values = self.type_of(schema["values"], namespace)
            return _around(lambda inner: pa.map_(pa.string(), inner), values, lambda inner: {"type": "map", "values": inner})
        if isinstance(kind, str) and kind in _PRIMITIVES:
            return _primitive(kind, schema)
        return self.type_of(kind, namespace)

    def _named_or_primitive(self, name: str, namespace: str) -> AvroType:
        if name in _PRIMITIVES:
            return _primitive(name, {})
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full in self.written:
            known = self.written[full]
            return attrs.evolve(known, schema=full, wide=None if known.wide is None else full)
        declared = self._declared.get(full)
        if declared is not None:
            return self._declaration(*declared)
        if full in self._declared:
            raise UnsupportedFormatError(f"the Avro type {full} contains itself, which Arrow cannot represent")
        raise ValueError(f"unknown Avro type {full}")

    def _declaration(self, schema: Mapping[str, _Json], namespace: str) -> AvroType:
        name = str(schema["name"])
        if "." not in name:
            namespace = schema.get("namespace", namespace)
            name = f"{namespace}.{name}" if namespace else name
        namespace = name.rpartition(".")[0]
        self._declared[name] = None
        kind = schema["type"]
        if kind == "enum":
            written = {"type": "enum", "name": name, "symbols": schema["symbols"]}
            made = AvroType(pa.string(), pa.string(), written, written)
        elif kind == "fixed":
            made = _fixed(name, schema)
        else:
            fields = [(str(field["name"]), self.type_of(field["type"], namespace)) for field in schema["fields"]]
            made = _record(name, fields)
        self._declared[name] = schema, namespace
        self.written[name] = made
        return made

    def _union(self, branches: list[_Json], namespace: str) -> AvroType:
        others = [branch for branch in branches if branch not in ("null", {"type": "null"})]
        if len(others) != 1 or len(branches) > len(others) + 1:
            raise UnsupportedFormatError("an Avro union of several types is not supported; only one of null and one type is")
        inner = self.type_of(others[0], namespace)

        def around(schema: _Json) -> _Json:
            return [schema if branch is others[0] else "null" for branch in branches]

        wide = None if inner.wide is None or len(branches) == 1 else around(inner.wide)
        return AvroType(inner.arrow, inner.physical, around(inner.schema), wide)


def _primitive(kind: str, schema: Mapping[str, _Json]) -> AvroType:
    physical = _PRIMITIVES[kind]
    logical = schema.get("logicalType")
    if kind == "bytes":
        decimal = _decimal(schema)
        if decimal is not None:
            return AvroType(decimal, decimal, dict(schema), None)
        return AvroType(physical, physical, kind, None)
    arrow = _LOGICAL.get((kind, logical), physical) if isinstance(logical, str) else physical
    return AvroType(arrow, physical, kind, "long" if kind == "int" else kind, width=kind != "null")


def _fixed(name: str, schema: Mapping[str, _Json]) -> AvroType:
    size = int(schema["size"])
    decimal = _decimal(schema)
    written = {"type": "fixed", "name": name, "size": size}
    if decimal is not None:
        logical = {key: schema[key] for key in ("logicalType", "precision", "scale") if key in schema}
        return AvroType(decimal, decimal, {**written, **logical}, None, width=size > 0)
    kind = pa.binary(size)
    return AvroType(kind, kind, written, None, width=size > 0)


def _decimal(schema: Mapping[str, _Json]) -> pa.DataType | None:
    if schema.get("logicalType") != "decimal":
        return None
    precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
    if not (0 < precision <= _MAX_256 and 0 <= scale <= precision):
        raise UnsupportedFormatError(f"an Avro decimal of precision {precision} and scale {scale} is not supported")
    return pa.decimal128(precision, scale) if precision <= _MAX_128 else pa.decimal256(precision, scale)


def _record(name: str, fields: list[tuple[str, AvroType]]) -> AvroType:
    def written(schemas: list[_Json]) -> _Json:
        told = [{"name": field, "type": schema} for (field, _), schema in zip(fields, schemas, strict=True)]
        return {"type": "record", "name": name, "fields": told}

    wide = [made.wide for _, made in fields]
    return AvroType(
        pa.struct([(field, made.arrow) for field, made in fields]),
        pa.struct([(field, made.physical) for field, made in fields]),
        written([made.schema for _, made in fields]),
        None if None in wide or not fields else written(wide),
        width=any(made.width for _, made in fields),
    )


def _around(arrow: Any, inner: AvroType, written: Any) -> AvroType:
    return AvroType(
        arrow(inner.arrow),
        arrow(inner.physical),
        written(inner.schema),
        None if inner.wide is None else written(inner.wide),
    )
