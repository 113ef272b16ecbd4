"""Options of ``export`` and ``dump`` for the format of keys and values: schemas are files in Avro's language.

::

    --value-format avro --value-schema order.avsc     the writer's schema
    --value-format json --value-schema order.avsc     the Arrow type of that schema is what values are read as
    --value-format avro --schema-registry schema.registry.url=http://…     values begin with the id of their schema

References: docs/values.md; the Avro specification 1.12, "Schema Declaration".
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from kafka_remote_client.cli.given_settings import parse_settings, read_text
from kafka_remote_client.errors import ConfigurationError, UnsupportedFormatError
from kafka_remote_client.parsing import parse_json

__all__ = [
    "ColumnFormat",
    "KeyFormat",
    "KeySchema",
    "OnError",
    "OnErrorPolicy",
    "SchemaRegistry",
    "ValueFormat",
    "ValueSchema",
    "typed_arguments",
]


class ColumnFormat(StrEnum):
    """``--value-format``, ``--key-format``."""

    JSON = "json"
    AVRO = "avro"
    STRING = "string"


class OnErrorPolicy(StrEnum):
    """``--on-error``."""

    RAISE = "raise"
    COLUMN = "column"
    DEAD_LETTERS = "dead_letters"


_FILE = "FILE"
ValueFormat = Annotated[ColumnFormat | None, typer.Option("--value-format", help="Write values as a typed column.")]
ValueSchema = Annotated[
    str | None, typer.Option("--value-schema", help="File with the Avro schema of JSON or Avro values.", metavar=_FILE)
]
KeyFormat = Annotated[ColumnFormat | None, typer.Option("--key-format", help="Write keys as a typed column.")]
KeySchema = Annotated[
    str | None, typer.Option("--key-schema", help="File with the Avro schema of JSON or Avro keys.", metavar=_FILE)
]
SchemaRegistry = Annotated[
    list[str] | None,
    typer.Option(
        "--schema-registry",
        help="Setting of the Schema Registry of Avro keys and values, schema.registry.url at least; repeatable.",
        metavar="KEY=VALUE|@FILE",
    ),
]
OnError = Annotated[
    OnErrorPolicy,
    typer.Option("--on-error", help="What happens to a record that does not parse: end the export, or keep it apart."),
]


def typed_arguments(
    value_format: ColumnFormat | None,
    value_schema: str | None,
    key_format: ColumnFormat | None,
    key_schema: str | None,
    schema_registry: list[str] | None,
    on_error: OnErrorPolicy,
) -> dict[str, Any]:
    """The arguments of ``to_parquet``. Raises ConfigurationError for a schema that cannot be read, or that has no format."""
    found: dict[str, Any] = {"on_error": on_error.value}
    if schema_registry:
        found["registry"] = parse_settings(schema_registry, "--schema-registry")
    for name, kind, path in (("value", value_format, value_schema), ("key", key_format, key_schema)):
        if path is not None and kind not in {ColumnFormat.JSON, ColumnFormat.AVRO}:
            raise ConfigurationError(f"--{name}-schema needs --{name}-format json or avro")
        found[f"{name}_format"] = None if kind is None else kind.value
        found[f"{name}_schema"] = None if path is None else _schema(path, kind is ColumnFormat.JSON)
    return found


def _schema(path: str, as_type: bool) -> Any:
    from kafka_remote_client.values.avro_types import avro_type  # noqa: PLC0415 - needs an extra

    text = read_text(path)
    try:
        made = avro_type(parse_json(text))
    except (ValueError, KeyError, TypeError, UnsupportedFormatError) as error:
        raise ConfigurationError(f"{path} is not a valid Avro schema: {error}") from None
    return made.arrow if as_type else text
