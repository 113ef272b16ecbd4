"""Keys and values of an export as typed columns, decoded where a split is written.

All files of a table need the same columns, and a split that is written again needs the same records. So a schema is given and
never inferred, and records that do not parse stop the export or stay in the table: no file of dead letters grows with each
attempt.

References: docs/values.md.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any

import attrs
import pyarrow as pa

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.values.decoder import ValueDecoder

__all__ = ["TypedColumns"]

_ON_ERROR = ("raise", "column")


@attrs.frozen(kw_only=True)
class TypedColumns:
    """The arguments of ValueDecoder of the same names, without ``registry``. It can be pickled.

    Raises as ValueDecoder, and ConfigurationError for a missing schema and for another ``on_error`` than raise and column.
    """

    value_format: str | None = None
    value_schema: Any = None
    key_format: str | None = None
    key_schema: Any = None
    on_error: str = "raise"

    def __attrs_post_init__(self) -> None:
        if self.on_error not in _ON_ERROR:
            raise ConfigurationError(f"on_error of an export must be {' or '.join(_ON_ERROR)}, not {self.on_error!r}")
        for name, kind, schema in (
            ("value", self.value_format, self.value_schema),
            ("key", self.key_format, self.key_schema),
        ):
            if kind in {"json", "avro"} and schema is None:
                raise ConfigurationError(f"{name}_format {kind!r} of an export needs {name}_schema: all files have one schema")
        self._decoder()

    @property
    def decoded(self) -> tuple[str, ...]:
        """The columns that get another type."""
        named = (("value", self.value_format), ("key", self.key_format))
        return tuple(name for name, kind in named if kind is not None)

    @property
    def options(self) -> dict[str, object]:
        """What makes another table, for the job."""
        if not self.decoded:
            return {}
        return attrs.asdict(self, recurse=False)

    def check(self, columns: Sequence[str]) -> None:
        """Raises ConfigurationError for a column that is decoded and not read."""
        for name in self.decoded:
            if name not in columns:
                raise ConfigurationError(f"{name}_format needs the column {name}")

    def of(self, batches: Generator[pa.RecordBatch, None, None]) -> Generator[pa.RecordBatch, None, None]:
        """Yields the batches with typed columns. Closes ``batches``.

        Raises UnreadableRecordError for the first record that does not parse, with ``on_error="raise"``.
        """
        decoder = self._decoder()  # one for each thread
        with closing(batches):
            for records in batches:
                if self.decoded:
                    yield from decoder.decode(records).to_batches()
                else:
                    yield records

    def _decoder(self) -> ValueDecoder:
        return ValueDecoder(**attrs.asdict(self, recurse=False))
