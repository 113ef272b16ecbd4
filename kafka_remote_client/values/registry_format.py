"""Avro with the id of its schema in front, as Confluent's serialisers write it.

======  ====  =====  ======================================
offset  size  type   field
======  ====  =====  ======================================
0       1     int8   magic byte: 0
1       4     int32  id of the schema in the Schema Registry
5             bytes  the value, in Avro's binary encoding
======  ====  =====  ======================================

A column may have several schemas. Each value is decoded by its schema; a field that its schema does not have is null. A column
of a given type has only the fields of that type, and a value whose schema has another type for one of them does not parse.

References: Confluent's "Formats, Serializers, and Deserializers", section "Wire format".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from kafka_remote_client.errors import UnsupportedFormatError
from kafka_remote_client.values.avro_format import avro_parser
from kafka_remote_client.values.isolating import Parse, Parsed, parse_each

__all__ = ["RegistryClient", "RegistryFormat", "promotes", "references_of", "registry_client", "widened"]

_HEADER = struct.Struct(">bi")
_DEFAULTS = {"timeout": 10, "max.retries": 2}
_PROMOTIONS = (pa.int32(), pa.int64(), pa.float32(), pa.float64())
"""Each to all that follow."""


class RegistryClient(Protocol):
    """The used part of ``confluent_kafka.schema_registry.SchemaRegistryClient``."""

    def get_schema(self, schema_id: int) -> Any:
        """The schema of an id."""

    def get_version(self, subject_name: str, version: int) -> Any:
        """A version of a subject, for schemas that refer to others."""


def registry_client(registry: str | Mapping[str, Any] | RegistryClient) -> RegistryClient:
    """Returns the client of a URL, or of its settings (by default 10 s for each request and two retries).

    It returns a given client unchanged. Raises ImportError without ``confluent-kafka[schemaregistry]`` (extra ``avro``).
    """
    if not isinstance(registry, (str, Mapping)):
        return registry
    from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415 - an extra

    settings = {"url": registry} if isinstance(registry, str) else registry
    client: RegistryClient = SchemaRegistryClient({**_DEFAULTS, **settings})
    return client


class RegistryFormat:
    """Decodes columns; it requests each schema once. ``kind``: the column's type; ``None`` = the types of all schemas."""

    def __init__(self, client: RegistryClient, kind: pa.DataType | None = None) -> None:
        self._client = client
        self._kind = kind
        self._parsers: dict[int, Parse] = {}

    def decode(self, column: pa.Array) -> Parsed:
        """Decodes a column of bytes; nulls stay null.

        A value with a wrong header, or whose schema the registry does not have or Arrow cannot represent, does not parse.
        Raises the client's error if the registry does not answer, and ValueError if schemas give the same field
        incompatible types.
        """
        header = _common_header(column)
        if header is not None:
            return self._of_one_schema(column, header)
        headers = pc.binary_slice(column, 0, _HEADER.size).dictionary_encode()
        errors: dict[int, str] = {}
        parts: list[tuple[pa.Array, pa.Array]] = []
        for number, header in enumerate(headers.dictionary.to_pylist()):
            rows = pc.indices_nonzero(pc.equal(headers.indices, number))
            try:
                parse = self._parser(header)
            except UnsupportedFormatError as error:
                errors |= dict.fromkeys(rows.to_pylist(), str(error))
                continue
            parsed = parse_each(column.take(rows), parse)
            errors |= {rows[row].as_py(): reason for row, reason in parsed.errors.items()}
            parts.append((rows, parsed.values))
        return Parsed(_together(parts, len(column), self._kind), errors)

    def _of_one_schema(self, column: pa.Array, header: bytes) -> Parsed:
        """Decodes a column without nulls whose values all begin with ``header``."""
        try:
            parse = self._parser(header)
        except UnsupportedFormatError as error:
            return Parsed(pa.nulls(len(column), self._kind), dict.fromkeys(range(len(column)), str(error)))
        return parse_each(column, parse)

    def _parser(self, header: bytes) -> Parse:
        if len(header) < _HEADER.size:
            raise UnsupportedFormatError("the value is too short for a schema id")
        magic, schema_id = _HEADER.unpack(header)
        if magic:
            raise UnsupportedFormatError(f"the value begins with byte {magic}, not with 0 and a schema id")
        if schema_id not in self._parsers:
            self._parsers[schema_id] = self._asked(schema_id)
        return self._parsers[schema_id]

    def _asked(self, schema_id: int) -> Parse:
        try:
            schema = self._client.get_schema(schema_id)
        except Exception as error:
            if getattr(error, "http_status_code", None) != 404:
                raise
            raise UnsupportedFormatError(f"the registry has no schema {schema_id}") from None
        if schema.schema_type != "AVRO":
            raise UnsupportedFormatError(f"schema {schema_id} is {schema.schema_type}, not AVRO")
        parse = avro_parser(schema.schema_str, references_of(self._client, schema), skipped=_HEADER.size)
        return self._kept(parse, schema_id)

    def _kept(self, parse: Parse, schema_id: int) -> Parse:
        kind = self._kind
        if kind is None:
            return parse
        given = parse(pa.nulls(0, pa.binary())).type
        if not promotes(given, kind):
            raise UnsupportedFormatError(f"schema {schema_id} has the type {given}, which does not become the column's {kind}")
        return lambda column: widened(parse(column), kind)


def references_of(client: RegistryClient, schema: Any) -> list[str]:
    """Returns the schemas that a schema of a registry refers to, in order of dependency."""
    found: dict[str, None] = {}
    for reference in schema.references or ():
        referred = client.get_version(reference.subject, reference.version).schema
        found |= dict.fromkeys([*references_of(client, referred), referred.schema_str])
    return list(found)


def promotes(given: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of a type become ``kind`` as Avro's schema resolution does it, with any fields of structs.

    References: the Avro specification 1.12, "Schema Resolution".
    """
    if given == kind or pa.types.is_null(given):
        return True
    if pa.types.is_struct(given) and pa.types.is_struct(kind):
        names = {given.field(index).name for index in range(given.num_fields)}
        wanted = [kind.field(index) for index in range(kind.num_fields)]
        return all(promotes(given.field(one.name).type, one.type) for one in wanted if one.name in names)
    if pa.types.is_list(given) and pa.types.is_list(kind):
        return promotes(given.value_type, kind.value_type)
    if pa.types.is_map(given) and pa.types.is_map(kind):
        return promotes(given.item_type, kind.item_type)
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(kind):
        return bool(given.tz == kind.tz)
    if pa.types.is_time(given) and pa.types.is_time(kind):
        return True
    if given in _PROMOTIONS and kind in _PROMOTIONS:
        return _PROMOTIONS.index(given) <= _PROMOTIONS.index(kind)
    return bool(pa.types.is_binary(kind) and (pa.types.is_string(given) or pa.types.is_fixed_size_binary(given)))


def _common_header(column: pa.Array) -> bytes | None:
    """The header with which all values of a column begin; ``None`` if they differ, or if the column has nulls or no value."""
    if column.null_count or not len(column):
        return None
    header: bytes = column[0].as_py()[: _HEADER.size]
    alike = len(header) == _HEADER.size and pc.all(pc.starts_with(column, header)).as_py()
    return header if alike else None


def _together(parts: list[tuple[pa.Array, pa.Array]], length: int, kind: pa.DataType | None) -> pa.Array:
    if not parts:
        return pa.nulls(length, kind)
    if kind is None:
        schemas = [pa.schema([("v", values.type)]) for _, values in parts]
        kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    values = pa.concat_arrays([widened(values, kind) for _, values in parts])
    rows = pa.concat_arrays([rows for rows, _ in parts])
    return values.take(pc.index_in(pa.array(range(length), rows.type), value_set=rows))


def widened(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns ``values`` with the type ``kind``; missing fields are null."""
    if values.type == kind:
        return values
    if not pa.types.is_struct(kind) or not pa.types.is_struct(values.type):
        return values.cast(kind)
    present = {values.type.field(index).name for index in range(values.type.num_fields)}
    fields = [kind.field(index) for index in range(kind.num_fields)]
    columns = [
        widened(values.field(one.name), one.type) if one.name in present else pa.nulls(len(values), one.type) for one in fields
    ]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=values.is_null())
