"""The lines of ``kafka-remote dump``, one for each record.

::

    --output json   an object with all fields; bytes without a format are base64
    --output text   orders-0 TAB 10 TAB 2023-11-14T22:13:20.034Z TAB key TAB value TAB header=value ...

    format    a key or value in JSON                                in text
    none      base64                                                UTF-8; other bytes as \\xNN
    string    a string                                              the same
    json      as it is                                              the same
    avro      an object; bytes are base64, times ISO 8601           the same

In text, null is "-", and characters that cannot be printed are escaped: a value cannot control the terminal. JSON is exact.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, NoReturn, TypeAlias

import attrs

from kafka_remote_client.cli.given_settings import is_utf_8, read_text
from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.cli.typed_options import ColumnFormat
from kafka_remote_client.errors import ConfigurationError, UnreadableRecordError, missing_extra
from kafka_remote_client.model import TopicIdPartition
from kafka_remote_client.parsing import parse_json
from kafka_remote_client.records.columns import NO_TIMESTAMP, Row

__all__ = ["DumpOnError", "Dumped", "LineFormat", "line_format"]

Dumped: TypeAlias = tuple[TopicIdPartition, Row]
"""A record and its partition."""
_TIMESTAMP_TYPES = {-1: "NotAvailable", 0: "CreateTime", 1: "LogAppendTime"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Read: TypeAlias = Callable[[bytes], Any]
"""A key or value as what JSON can hold. Raises ValueError for bytes that do not parse."""


class DumpOnError(StrEnum):
    """``--on-error``."""

    RAISE = "raise"
    COLUMN = "column"


@attrs.frozen
class LineFormat:
    """Makes a line of a record. ``readers``: by "key" and "value", if they have a format.

    ``keeps_errors``: a value that does not parse is null, and the line has the reason and the bytes.
    """

    output: OutputFormat
    readers: Mapping[str, _Read] = attrs.field(factory=dict)
    keeps_errors: bool = False

    def line(self, dumped: Dumped) -> str:
        """The line, without its end. Raises UnreadableRecordError, unless errors are kept."""
        tip, (offset, timestamp, timestamp_type, leader_epoch, key, value, headers) = dumped
        columns = {name: self._column(tip, offset, name, data) for name, data in (("key", key), ("value", value))}
        if self.output is OutputFormat.TEXT:
            shown = [_shown(columns[name][name], columns[name].get(f"{name}_error")) for name in columns]
            shown += [f"{_printable(name)}={_shown(content)}" for name, content in headers]
            return "\t".join((f"{tip.topic}-{tip.partition}", str(offset), _time(timestamp), *shown))
        record = {
            "topic": tip.topic,
            "partition": tip.partition,
            "offset": offset,
            "timestamp": timestamp,
            "timestamp_type": _TIMESTAMP_TYPES[timestamp_type],
            "leader_epoch": leader_epoch,
            **{name: _base64(content) for column in columns.values() for name, content in column.items()},
            "headers": [[name, _base64(content)] for name, content in headers],
        }
        return _json(record)

    def _column(self, tip: TopicIdPartition, offset: int, name: str, data: bytes | None) -> dict[str, Any]:
        read = self.readers.get(name)
        if read is None:
            return {name: data}
        errors = {f"{name}_error": None, f"{name}_bytes": None} if self.keeps_errors else {}
        try:
            return {name: None if data is None else read(data), **errors}
        except ConfigurationError:  # a ValueError too, and not about this value
            raise
        except ValueError as error:
            if self.keeps_errors:
                return {name: None, f"{name}_error": str(error), f"{name}_bytes": data}
            place = {"topic": tip.topic, "partition": tip.partition, "offset": offset}
            text = f"the {name} of {tip.topic}-{tip.partition} at offset {offset} does not parse: {error}"
            raise UnreadableRecordError(text).with_context(**place) from None


def line_format(
    output: OutputFormat,
    formats: Mapping[str, ColumnFormat | None],
    schemas: Mapping[str, str | None],
    registry: Mapping[str, str],
    on_error: DumpOnError,
) -> LineFormat:
    """``formats`` and files of ``schemas`` are by "key" and "value"; ``registry``: settings, empty for none.

    Raises ConfigurationError for arguments that do not go together and for a schema that cannot be used, MissingExtraError
    without pyarrow or fastavro.
    """
    readers: dict[str, _Read] = {}
    for name, kind in formats.items():
        path = schemas[name]
        if path is not None and kind is not ColumnFormat.AVRO:
            raise ConfigurationError(f"--{name}-schema needs --{name}-format avro")
        match kind:
            case ColumnFormat.STRING:
                readers[name] = _text
            case ColumnFormat.JSON:
                readers[name] = _document
            case ColumnFormat.AVRO:
                readers[name] = _avro(name, path, registry)
    return LineFormat(output, readers, on_error is DumpOnError.COLUMN)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: byte {error.start}") from None


def _document(data: bytes) -> Any:
    return parse_json(_text(data), parse_constant=_no_constant)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _avro(name: str, path: str | None, registry: Mapping[str, str]) -> _Read:
    if path is None and not registry:
        raise ConfigurationError(f"--{name}-format avro needs --{name}-schema or --schema-registry")
    schema = None if path is None else read_text(path)
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra

        from kafka_remote_client.scanning.export.schema_registry import registry_of  # noqa: PLC0415 - as above
        from kafka_remote_client.values import ValueDecoder  # noqa: PLC0415 - as above

        client = registry_of(registry or None)
        decoder = ValueDecoder(value_format="avro", value_schema=schema, registry=client, on_error="column")
    except ModuleNotFoundError as error:
        raise missing_extra(f"--{name}-format avro", error, "avro") from None
    return partial(_avro_value, pa, decoder)


def _avro_value(pa: Any, decoder: Any, data: bytes) -> Any:
    """Decodes one value at a time: a table of several schemas would have the fields of all of them."""
    (row,) = decoder.decode(pa.table({"value": pa.array([data], pa.binary())})).to_pylist()
    if row["value_error"] is not None:
        raise ValueError(row["value_error"])
    return _plain(row["value"])


def _plain(value: Any) -> Any:
    """An Arrow value as what JSON can hold."""
    match value:
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case bytes():
            return _base64(value)
        case datetime() | date() | time():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)  # a decimal


def _base64(data: Any) -> Any:
    return base64.b64encode(data).decode("ascii") if isinstance(data, bytes) else data


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # JSON may escape half of a surrogate pair, which UTF-8 cannot hold.
    return text if is_utf_8(text) else json.dumps(value, separators=(",", ":"))


def _shown(value: Any, error: str | None = None) -> str:
    if error is not None:
        return f"({_printable(error)})"
    if value is None:
        return "-"
    if isinstance(value, bytes):
        return _printable(value.decode("utf-8", "backslashreplace"))
    return _printable(value if isinstance(value, str) else _json(value))


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def _time(milliseconds: int) -> str:
    if milliseconds == NO_TIMESTAMP:
        return "-"
    try:
        return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return f"@{milliseconds}"
