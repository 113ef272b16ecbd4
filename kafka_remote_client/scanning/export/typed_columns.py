"""Keys and values of an export as typed columns: decoded by the thread or task that writes a split.

All files of a table need the same columns, and a split that is written twice needs the same records both times. So the schema
is given and never inferred. With a Schema Registry it is a schema id, which the job keeps. A record that does not parse stops
the export, stays in the table with an error column, or goes to dead letter files (``dead_letters``).

References: docs/values.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, TypedDict

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from kafka_remote_client.errors import ConfigurationError, missing_extra
from kafka_remote_client.records.arrow import schema_of
from kafka_remote_client.scanning.export.job import ExportJob
from kafka_remote_client.scanning.export.schema_registry import ExportRegistry, registry_of
from kafka_remote_client.scanning.export.split_writer import ParquetWriting, WritingArguments
from kafka_remote_client.scanning.export.table_types import TableFormat, table_type
from kafka_remote_client.values.decoder import ValueDecoder
from kafka_remote_client.values.scalars import binary_scalar

__all__ = ["ExportArguments", "TypedArguments", "TypedColumns", "split_arguments"]

_DEAD_LETTERS = "dead_letters"
_ON_ERROR = ("raise", "column", _DEAD_LETTERS)
_PIECE_BYTES = 1 << 20
_PLACE = ("topic", "partition", "offset")


class TypedArguments(TypedDict, total=False):
    """The fields of :class:`TypedColumns` that users give."""

    value_format: str | None
    value_schema: Any
    key_format: str | None
    key_schema: Any
    registry: str | Mapping[str, Any] | None
    on_error: str


class ExportArguments(WritingArguments, TypedArguments, total=False):
    """The fields of ParquetWriting and TypedColumns together."""


@attrs.frozen(kw_only=True)
class TypedColumns:
    """The arguments of ValueDecoder of the same names, for a table of ``format``. Can be pickled.

    ``registry``: URL or settings of a Schema Registry. Avro keys and values then begin with a schema id. ``value_schema`` and
    ``key_schema`` say which columns they become: a schema id of the registry, or an Avro schema. :meth:`resolved` fills in
    schemas that are ``None``.

    Raises as ValueDecoder, and ConfigurationError for a missing schema, a schema that the table format or JSON cannot express,
    and an ``on_error`` other than raise, column and dead_letters.
    """

    value_format: str | None = None
    value_schema: Any = None
    key_format: str | None = None
    key_schema: Any = None
    registry: ExportRegistry | None = attrs.field(default=None, converter=registry_of, repr=False)
    on_error: str = "raise"
    format: TableFormat = TableFormat.PARQUET

    def __attrs_post_init__(self) -> None:
        if self.on_error not in _ON_ERROR:
            raise ConfigurationError(
                f"on_error of an export must be {', '.join(_ON_ERROR[:-1])} or {_DEAD_LETTERS}, not {self.on_error!r}"
            )
        for name, (kind, schema) in self._columns.items():
            if schema is None and (kind == "json" or (kind == "avro" and self.registry is None)):
                raise ConfigurationError(f"{name}_format {kind!r} of an export needs {name}_schema: all files have one schema")
        if self.registry is not None and not self._by_registry:
            raise ConfigurationError("a registry needs value_format or key_format avro")
        if self.unresolved:
            return
        # A type that cannot be decoded at all fails here and not in the first split.
        json = {name for name, (kind, _) in self._columns.items() if kind == "json"}
        null = pa.nulls(1, pa.binary())
        probe = {name: pc.coalesce(null, binary_scalar(b"null")) if name in json else null for name in self.decoded}
        self._decoder("column").decode(pa.table(probe))

    @property
    def decoded(self) -> tuple[str, ...]:
        """The columns to decode."""
        return tuple(name for name, (kind, _) in self._columns.items() if kind is not None)

    @property
    def unresolved(self) -> tuple[str, ...]:
        """The columns without a schema: the first run of a job takes the newest one of the registry."""
        return tuple(name for name in self._by_registry if self._columns[name][1] is None)

    def resolved(self, topics: Sequence[str], known: ExportJob | None) -> TypedColumns:
        """Returns a copy with all schemas, those of the job ``known`` or the newest of ``<topic>-value`` and ``<topic>-key``.

        Raises ConfigurationError for several topics, and for a topic without a schema.
        """
        found: dict[str, Any] = {}
        began: Mapping[str, str] = {} if known is None else known.options
        for name in self.unresolved:
            option = began.get(f"{name}_schema")
            if option is not None and began.get(f"{name}_format") == "avro":
                found[f"{name}_schema"] = int(option) if option.isdecimal() else option
                continue
            if len(topics) != 1 or self.registry is None:
                raise ConfigurationError(f"an export of several topics needs {name}_schema: all files have one schema")
            found[f"{name}_schema"] = self.registry.newest(f"{topics[0]}-{name}")
        return attrs.evolve(self, **found) if found else self

    @property
    def options(self) -> dict[str, object]:
        """The options that a job keeps, without the registry: ids name the schemas. Other values would write another table."""
        return {} if not self.decoded else {name: value for name, value in self._arguments.items() if name != "registry"}

    def check(self, columns: Sequence[str]) -> None:
        """Raises ConfigurationError for a column to decode that is not read."""
        for name in self.decoded:
            if name not in columns:
                raise ConfigurationError(f"{name}_format needs the column {name}")

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """The schema of the table if ``columns`` are read. Raises as :meth:`check`."""
        self.check(columns)
        decoder = self._decoder("column" if self.on_error == "column" else "raise")
        return decoder.decode(pa.Table.from_batches([], schema_of(columns))).schema

    def read(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The columns to read: also topic, partition and offset, which errors about a record name."""
        more = _PLACE if self.decoded else ()
        return (*columns, *(name for name in more if name not in columns))

    def of(
        self,
        batches: Generator[pa.RecordBatch, None, None],
        columns: Sequence[str],
        rejected: Callable[[pa.Table], None],
    ) -> Generator[pa.RecordBatch, None, None]:
        """Decodes batches with the columns of :meth:`read`; yields batches of :meth:`schema`. Closes ``batches``.

        With ``on_error="dead_letters"``, ``rejected`` gets the records that do not parse: keys and values as bytes, all columns
        that are read, ``key_error`` and ``value_error``. With "raise", the first such record raises UnreadableRecordError.
        """
        with closing(batches):
            if not self.decoded:
                yield from batches
                return
            decoder = self._decoder(rejected if self.on_error == _DEAD_LETTERS else self.on_error)  # one for each thread
            names = self.schema(columns).names
            for records in batches:
                for piece in _pieces(records):
                    yield from decoder.decode(piece).select(names).to_batches()

    @property
    def _arguments(self) -> dict[str, Any]:
        return attrs.asdict(self, recurse=False, filter=lambda field, _: field.name != "format")

    @property
    def _columns(self) -> dict[str, tuple[str | None, Any]]:
        return {"value": (self.value_format, self.value_schema), "key": (self.key_format, self.key_schema)}

    @property
    def _by_registry(self) -> tuple[str, ...]:
        """The columns whose values begin with a schema id."""
        return tuple(name for name, (kind, _) in self._columns.items() if kind == "avro" and self.registry is not None)

    def _decoder(self, on_error: str | Callable[[pa.Table], None]) -> ValueDecoder:
        given = self._arguments | {"on_error": on_error}
        if self.registry is not None:
            given |= {f"{name}_schema": self.registry.type_of(self._columns[name][1]) for name in self._by_registry}
        return ValueDecoder(**given, column_type=partial(table_type, format=self.format))


def _pieces(records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields the records in parts of about 1 MiB, which a core's cache holds while they are decoded."""
    rows = max(1, len(records) * _PIECE_BYTES // max(1, records.nbytes))
    for start in range(0, len(records), rows):
        yield records.slice(start, rows)


def split_arguments(arguments: ExportArguments, table_format: str) -> tuple[ParquetWriting, TypedColumns]:
    """Splits the arguments of an export to ``table_format`` into those of both classes. Raises as they do."""
    kind = TableFormat(table_format)
    names = TypedArguments.__annotations__
    given: dict[str, Any] = dict(arguments)
    typed = {name: value for name, value in given.items() if name in names}
    writing = {name: value for name, value in given.items() if name not in names}
    try:
        return ParquetWriting(**writing, format=kind), TypedColumns(**typed, format=kind)
    except ModuleNotFoundError as error:
        raise missing_extra("an Avro column", error, "avro") from None
