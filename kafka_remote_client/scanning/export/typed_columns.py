"""Keys and values of an export as typed columns, decoded where a split is written.

All files of a table need the same columns, and a split that is written again needs the same records. So a schema is given and
never inferred: with a Schema Registry it is one of its ids, which the job remembers. Records that do not parse stop the export,
stay in the table, or go to files that are staged and published with those of the table (dead_letters.py).

References: docs/values.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, TypedDict

import attrs
import pyarrow as pa

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.records.arrow import schema_of
from kafka_remote_client.registry import MissingExtraError
from kafka_remote_client.scanning.export.job import ExportJob
from kafka_remote_client.scanning.export.schema_registry import ExportRegistry, registry_of
from kafka_remote_client.scanning.export.split_writer import ParquetWriting, WritingArguments
from kafka_remote_client.scanning.export.table_types import TableFormat, table_type
from kafka_remote_client.values.decoder import ValueDecoder

__all__ = ["ExportArguments", "TypedArguments", "TypedColumns", "asked_of"]

_DEAD_LETTERS = "dead_letters"
_ON_ERROR = ("raise", "column", _DEAD_LETTERS)
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
    """How files are written, and what becomes of keys and values."""


@attrs.frozen(kw_only=True)
class TypedColumns:
    """The arguments of ValueDecoder of the same names, for a table of ``format``. It can be pickled.

    ``registry``: its URL or settings. Avro keys and values begin with an id then, and ``value_schema`` and ``key_schema`` say
    what columns they become: an id of the registry, or an Avro schema. :meth:`resolved` gives what is ``None``.

    Raises as ValueDecoder, and ConfigurationError for a missing schema, for one that the format or JSON cannot have, and for
    another ``on_error`` than raise, column and dead_letters.
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
        # What cannot be decoded at all, as a map from JSON, fails here and not in the first split.
        json = {name for name, (kind, _) in self._columns.items() if kind == "json"}
        probe = {name: pa.array([b"null" if name in json else None], pa.binary()) for name in self.decoded}
        try:
            self._decoder("column").decode(pa.table(probe))
        except pa.ArrowNotImplementedError as error:
            raise ConfigurationError(f"a schema for JSON has a type that JSON cannot have: {error}") from None

    @property
    def decoded(self) -> tuple[str, ...]:
        """The columns that get another type."""
        return tuple(name for name, (kind, _) in self._columns.items() if kind is not None)

    @property
    def unresolved(self) -> tuple[str, ...]:
        """The columns whose schema is the registry's newest one at the first run of a job."""
        return tuple(name for name in self._by_registry if self._columns[name][1] is None)

    def resolved(self, topics: Sequence[str], known: ExportJob | None) -> TypedColumns:
        """The same with all schemas: those that the job began with, or the newest ones of ``<topic>-value``, ``<topic>-key``.

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
        """What makes another table, for the job. No setting of the registry is among them: ids name the schemas."""
        return {} if not self.decoded else {name: value for name, value in self._arguments.items() if name != "registry"}

    def check(self, columns: Sequence[str]) -> None:
        """Raises ConfigurationError for a column that is decoded and not read."""
        for name in self.decoded:
            if name not in columns:
                raise ConfigurationError(f"{name}_format needs the column {name}")

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """The columns of the table, where these are read. Raises as :meth:`check`."""
        self.check(columns)
        return self._decoder("column" if self.on_error == "column" else "raise").decode(schema_of(columns).empty_table()).schema

    def read(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The columns to read for these: also the place of a record, by which one that does not parse is found."""
        more = _PLACE if self.decoded else ()
        return (*columns, *(name for name in more if name not in columns))

    def of(
        self,
        batches: Generator[pa.RecordBatch, None, None],
        columns: Sequence[str],
        rejected: Callable[[pa.Table], None],
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yields the batches, which have the columns of :meth:`read`, as :meth:`schema` says. Closes ``batches``.

        ``rejected`` gets records that do not parse, with ``on_error="dead_letters"``: as bytes, with all columns that are read
        and with ``key_error`` and ``value_error``. Raises UnreadableRecordError for the first of them, with "raise".
        """
        with closing(batches):
            if not self.decoded:
                yield from batches
                return
            decoder = self._decoder(rejected if self.on_error == _DEAD_LETTERS else self.on_error)  # one for each thread
            names = self.schema(columns).names
            for records in batches:
                yield from decoder.decode(records).select(names).to_batches()

    @property
    def _arguments(self) -> dict[str, Any]:
        return attrs.asdict(self, recurse=False, filter=lambda field, _: field.name != "format")

    @property
    def _columns(self) -> dict[str, tuple[str | None, Any]]:
        return {"value": (self.value_format, self.value_schema), "key": (self.key_format, self.key_schema)}

    @property
    def _by_registry(self) -> tuple[str, ...]:
        """The columns whose values begin with the id of a schema."""
        return tuple(name for name, (kind, _) in self._columns.items() if kind == "avro" and self.registry is not None)

    def _decoder(self, on_error: str | Callable[[pa.Table], None]) -> ValueDecoder:
        given = self._arguments | {"on_error": on_error}
        if self.registry is not None:
            given |= {f"{name}_schema": self.registry.type_of(self._columns[name][1]) for name in self._by_registry}
        return ValueDecoder(**given, column_type=partial(table_type, format=self.format))


def asked_of(arguments: ExportArguments, format: TableFormat) -> tuple[ParquetWriting, TypedColumns]:  # noqa: A002 - its name
    """How a table of this format is written, and its typed columns. Raises as both."""
    names = TypedArguments.__annotations__
    given: dict[str, Any] = dict(arguments)
    typed = {name: value for name, value in given.items() if name in names}
    writing = {name: value for name, value in given.items() if name not in names}
    try:
        return ParquetWriting(**writing, format=format), TypedColumns(**typed, format=format)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"Avro columns need {error.name}: pip install 'kafka-remote-client[avro]'") from None
