"""Avro with the id of its schema in front, as Confluent's serialisers write it.

======  ====  =====  ======================================
offset  size  type   field
======  ====  =====  ======================================
0       1     int8   magic byte: 0
1       4     int32  id of the schema in the Schema Registry
5             bytes  the value, in Avro's binary encoding
======  ====  =====  ======================================

A column may have several schemas. Each value is decoded by its schema; a field that its schema does not have is null.

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

__all__ = ["RegistryClient", "RegistryFormat", "registry_client", "widened"]

_HEADER = struct.Struct(">bi")
_DEFAULTS = {"timeout": 10, "max.retries": 2}


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
    """Decodes columns; it requests each schema once."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._parsers: dict[int, Parse] = {}

    def decode(self, column: pa.Array) -> Parsed:
        """Decodes a column of bytes; nulls stay null.

        A value with a wrong header, or whose schema the registry does not have or Arrow cannot represent, does not parse.
        Raises the client's error if the registry does not answer, and ValueError if schemas give the same field
        incompatible types.
        """
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
            # binary_slice() without an end fails if the result is short: "Negative buffer resize".
            values = pc.binary_replace_slice(column.take(rows), 0, _HEADER.size, b"")
            parsed = parse_each(values, parse)
            errors |= {rows[row].as_py(): reason for row, reason in parsed.errors.items()}
            parts.append((rows, parsed.values))
        return Parsed(_together(parts, len(column)), errors)

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
        return avro_parser(schema.schema_str, self._references(schema))

    def _references(self, schema: Any) -> list[str]:
        """Returns the schemas that a schema refers to, in order of dependency."""
        found: dict[str, None] = {}
        for reference in schema.references or ():
            referred = self._client.get_version(reference.subject, reference.version).schema
            found |= dict.fromkeys([*self._references(referred), referred.schema_str])
        return list(found)


def _together(parts: list[tuple[pa.Array, pa.Array]], length: int) -> pa.Array:
    if not parts:
        return pa.nulls(length)
    kind = (
        pa.unify_schemas([pa.schema([("v", values.type)]) for _, values in parts], promote_options="permissive").field(0).type
    )
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
