"""``ValueDecoder``: replaces the bytes of keys and values in a table by typed columns, with a policy for errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from kafka_remote_client.errors import ConfigurationError, UnreadableRecordError
from kafka_remote_client.values.dead_letters import append_dead_letters
from kafka_remote_client.values.isolating import Parse, Parsed, parse_each
from kafka_remote_client.values.json_format import json_parser
from kafka_remote_client.values.scalars import binary_scalar

__all__ = ["FORMATS", "ValueDecoder"]

FORMATS = ("json", "avro", "string")

_Decode = Callable[[pa.Array], Parsed]
_RAISE, _COLUMN = "raise", "column"


@attrs.frozen(kw_only=True)
class ValueDecoder:
    """Decodes tables with the columns of ``consume_arrow`` or of Spark's Kafka source; may be used by one thread at a time.

    Keys and values may be of any Arrow type of bytes.

    ``value_format``, ``key_format``: "json", "avro", "string", or ``None`` to leave the bytes. ``value_schema``,
    ``key_schema``: of JSON a ``pyarrow.Schema`` or type, ``None`` to infer one from each table; of Avro the writer's schema as
    JSON, ``None`` if values begin with an id of the ``registry``, which is a URL, settings of confluent_kafka's
    ``SchemaRegistryClient``, or such a client. A schema in JSON overrides the registry. A ``pyarrow.Schema`` or type is that of
    the column: values begin with an id, and other fields are ignored.

    ``on_error``: "raise"; "column", which adds ``value_error`` (the reason, null for a parsed value) and ``value_bytes``
    (the unparsed bytes), or the same for keys; or a path of a file, to which the decoder moves records that do not parse
    from the table; or a function that gets these records before ``decode`` returns: as they were, with the reasons in
    ``key_error`` and ``value_error``.

    ``column_type``: the type of a column, by the type that its schema gives; ``None`` = the same. A value that does not fit
    into it does not parse. Columns without a schema keep their type.

    Raises ConfigurationError for inconsistent arguments, UnsupportedFormatError for an Avro schema that Arrow cannot
    represent, and ImportError if an extra is missing.
    """

    value_format: str | None = None
    key_format: str | None = None
    value_schema: Any = None
    key_schema: Any = None
    registry: Any = attrs.field(default=None, repr=False)
    on_error: str | Path | Callable[[pa.Table], None] = _RAISE
    column_type: Callable[[pa.DataType], pa.DataType] | None = attrs.field(default=None, repr=False)
    _decoders: dict[str, _Decode] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        asked = {
            "key": (self.key_format, self.key_schema),
            "value": (self.value_format, self.value_schema),
        }
        for name, (kind, schema) in asked.items():
            if schema is not None and kind in {None, "string"}:
                raise ConfigurationError(f"{name}_schema needs {name}_format json or avro")
        decoders = {name: self._decoder(name, *one) for name, one in asked.items() if one[0] is not None}
        object.__setattr__(self, "_decoders", decoders)

    def _decoder(self, column: str, kind: str | None, schema: Any) -> _Decode:
        schema = pa.struct(list(schema)) if isinstance(schema, pa.Schema) else schema
        if kind == "string":
            return self._of(lambda texts: texts.cast(pa.string()))
        if kind == "json":
            parse = json_parser(schema)
            if schema is not None:
                _check_json(parse, column)
            return self._of(parse, inferred=schema is None)
        if kind == "protobuf":
            raise ConfigurationError(
                f"{column}_format 'protobuf' is not supported; leave it out to keep the bytes, and parse them yourself"
            )
        if kind != "avro":
            raise ConfigurationError(f"{column}_format {kind!r} is not one of {', '.join(FORMATS)}")
        # fastavro is an extra
        from kafka_remote_client.values.avro_format import avro_parser  # noqa: PLC0415
        from kafka_remote_client.values.registry_format import RegistryFormat, registry_client  # noqa: PLC0415

        typed = isinstance(schema, pa.DataType)
        if schema is not None and not typed:
            return self._of(avro_parser(schema))
        if self.registry is None:
            wanted = "a registry" if typed else f"{column}_schema or a registry"
            raise ConfigurationError(f"{column}_format 'avro' needs {wanted}")
        kept = self.column_type(schema) if typed and self.column_type is not None else schema
        return RegistryFormat(registry_client(self.registry), kept).decode

    def _of(self, parse: Parse, *, inferred: bool = False) -> _Decode:
        if self.column_type is None or inferred:
            return lambda column: parse_each(column, parse)
        kept = self.column_type(parse(pa.nulls(0, pa.binary())).type)
        return lambda column: parse_each(column, lambda values: parse(values).cast(kept))

    def decode(self, records: pa.Table | pa.RecordBatch) -> pa.Table:
        """Returns ``records`` with typed columns, in the same order. ``records`` does not change.

        Raises UnreadableRecordError, with topic, partition and offset if the table has them, for the first record that does
        not parse (with ``on_error="raise"``), ValueError if values have no common type, KeyError if a column
        is missing, and OSError if the file of dead letters cannot be written.
        """
        table = _with_binary(
            pa.Table.from_batches([records]) if isinstance(records, pa.RecordBatch) else records, self._decoders
        )
        parsed = {name: decode(_whole(table[name])) for name, decode in self._decoders.items()}
        errors: dict[int, dict[str, str]] = defaultdict(dict)
        for name, one in parsed.items():
            for row, reason in one.errors.items():
                errors[row][name] = reason
        if errors and self.on_error == _RAISE:
            raise _unreadable(table, min(errors), errors[min(errors)])
        decoded = table
        for name, one in parsed.items():
            decoded = decoded.set_column(decoded.column_names.index(name), name, one.values)
            if self.on_error == _COLUMN:
                decoded = _with_errors(decoded, name, table[name], one.errors)
        if errors and self.on_error != _COLUMN:
            if callable(self.on_error):
                self.on_error(_rejected(table, errors, list(parsed)))
            else:
                append_dead_letters(Path(self.on_error), table, errors)
            decoded = decoded.filter(pa.array([row not in errors for row in range(len(table))]))
        return decoded


def _check_json(parse: Parse, column: str) -> None:
    """Raises ConfigurationError for a schema with a type that the parser does not have, such as a map."""
    try:
        parse_each(pc.coalesce(pa.nulls(1, pa.binary()), binary_scalar(b"null")), parse)
    except pa.ArrowNotImplementedError as error:
        raise ConfigurationError(f"{column}_schema has a type that JSON cannot have: {error}") from None


def _with_binary(table: pa.Table, names: Iterable[str]) -> pa.Table:
    """The table with these columns as ``pa.binary()``: other libraries make other kinds, such as Polars large binary."""
    for name in names:
        if table[name].type != pa.binary():
            table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.binary()))
    return table


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _with_errors(table: pa.Table, name: str, raw: pa.ChunkedArray, errors: Mapping[int, str]) -> pa.Table:
    reasons, unparsed = pa.nulls(len(table), pa.string()), pa.nulls(len(table), raw.type)
    if errors:
        reasons = pa.array([errors.get(row) for row in range(len(table))], pa.string())
        unparsed = pc.if_else(reasons.is_valid(), raw, pa.scalar(None, raw.type))
    return table.append_column(f"{name}_error", reasons).append_column(f"{name}_bytes", unparsed)


def _rejected(table: pa.Table, errors: Mapping[int, Mapping[str, str]], decoded: Sequence[str]) -> pa.Table:
    rows = sorted(errors)
    found = table.take(rows)
    for name in decoded:
        found = found.append_column(f"{name}_error", pa.array([errors[row].get(name) for row in rows], pa.string()))
    return found


def _unreadable(table: pa.Table, row: int, reasons: Mapping[str, str]) -> UnreadableRecordError:
    column, reason = next(iter(reasons.items()))
    place = {name: table[name][row].as_py() for name in ("topic", "partition", "offset") if name in table.column_names}
    where = f"record {row} of the table"
    if len(place) == 3:
        where = "{topic}-{partition} at offset {offset}".format(**place)
    return UnreadableRecordError(f"the {column} of {where} does not parse: {reason}").with_context(**place)
