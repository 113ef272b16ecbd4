"""Layouts of messages as text that is also their codec.

::

    name TYPE          a field of a wire type: bool, int8, int16, int32, int64, uuid, string or bytes; string? and bytes? may be
                       null; records? are bytes? that are read as a view of the message
    name [a T | b T]   an array of structures; name? [...] may be null
    name [T]           an array of one wire type
    3+ name TYPE       a field from version 3 on; 1-3 name TYPE: from version 1 to 3

A name may stand in a structure twice, for different versions. A ``string`` of ``None`` is written as the empty string.

A structure is an attrs class or NamedTuple with these fields, or, where none is named, a dictionary. A field that a version
does not have, or that a dictionary leaves out, has its default: that of the class; in a dictionary 0, False, the empty string
or array, null where it may be. A class with a field ``tags`` keeps tagged fields (KIP-482) raw and writes them back. For any
other structure they are skipped, and none are written.

References: https://kafka.apache.org/protocol#protocol_messages, Kafka's message definitions (``*Request.json``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol.api_keys import Api
from kafka_remote_client.wire import NO_TAGS, ZERO_UUID, Buffer, Reader, Writer

__all__ = ["MessageLayout", "Structure", "parse_layout"]

_T = TypeVar("_T")
_Read: TypeAlias = Callable[[Reader], Any]
_Write: TypeAlias = Callable[[Writer, Any], None]

_LAST = 1 << 15
_TOKEN = re.compile(r"\d+\+|\d+-\d+|\w+\??|[\[\]|]")
_VERSIONS = re.compile(r"(\d+)(?:\+|-(\d+))")
_READ: Mapping[str, _Read] = {
    "bool": Reader.boolean,
    "int8": Reader.int8,
    "int16": Reader.int16,
    "int32": Reader.int32,
    "int64": Reader.int64,
    "uuid": Reader.uuid,
    "string": Reader.string,
    "string?": Reader.nullable_string,
    "bytes": Reader.bytes_,
    "bytes?": Reader.nullable_bytes,
    "records?": Reader.nullable_view,
}
_WRITE: Mapping[str, _Write] = {
    "bool": Writer.boolean,
    "int8": Writer.int8,
    "int16": Writer.int16,
    "int32": Writer.int32,
    "int64": Writer.int64,
    "uuid": Writer.uuid,
    "string": lambda writer, value: writer.string(value or ""),
    "string?": Writer.nullable_string,
    "bytes": Writer.bytes_,
    "bytes?": Writer.nullable_bytes,
    "records?": Writer.nullable_bytes,
}
_DEFAULT: Mapping[str, Any] = {"bool": False, "uuid": ZERO_UUID, "string": "", "string?": None, "bytes": b"", "bytes?": None}


@attrs.frozen
class _Field:
    """``kind``: a wire type, or a structure. ``array``: how an array of it is read and written. ``versions``: inclusive."""

    name: str
    kind: str | Structure
    array: tuple[Callable[..., Any], Callable[..., None]] | None
    versions: tuple[int, int]

    def is_in(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def default(self) -> Any:
        return () if self.array is not None else _DEFAULT.get(str(self.kind), 0)

    def reading(self, version: int) -> _Read:
        read = _READ[self.kind] if isinstance(self.kind, str) else self.kind.reading(version)
        if self.array is None:
            return read
        read_array, _ = self.array
        return lambda reader: read_array(reader, partial(read, reader))

    def writing(self, version: int) -> _Write:
        write = _WRITE[self.kind] if isinstance(self.kind, str) else self.kind.writing(version)
        if self.array is None:
            return write
        _, write_array = self.array
        return lambda writer, items: write_array(writer, items, partial(write, writer))


@attrs.frozen
class Structure:
    """``make``: the class of the values; ``None`` = dictionaries."""

    fields: tuple[_Field, ...]
    make: Callable[..., Any] | None
    tagged: bool
    _readers: dict[int, _Read] = attrs.field(factory=dict, init=False, repr=False)
    _writers: dict[int, _Write] = attrs.field(factory=dict, init=False, repr=False)

    def reading(self, version: int) -> _Read:
        """What reads a value of that version. Raises ProtocolError for bytes that do not follow the layout."""
        if version not in self._readers:
            self._readers[version] = self._reader(version)
        return self._readers[version]

    def writing(self, version: int) -> _Write:
        """What writes a value of that version. Raises ProtocolError for a value that its type cannot hold."""
        if version not in self._writers:
            self._writers[version] = self._writer(version)
        return self._writers[version]

    def _reader(self, version: int) -> _Read:
        steps = [(field.name, field.reading(version)) for field in self.fields if field.is_in(version)]
        if self.tagged:
            steps.append(("tags", Reader.tagged_fields))
        tagged, make = self.tagged, self.make

        def read(reader: Reader) -> Any:
            values = {name: step(reader) for name, step in steps}
            if not tagged:
                reader.tagged_fields()
            return {**self._defaults(), **values} if make is None else make(**values)

        return read

    def _writer(self, version: int) -> _Write:
        steps = [(field.name, field.writing(version)) for field in self.fields if field.is_in(version)]
        if self.tagged:
            steps.append(("tags", Writer.tagged_fields))
        tagged, make = self.tagged, self.make

        def write(writer: Writer, value: Any) -> None:
            fields = self._completed(value) if make is None else value
            for name, step in steps:
                step(writer, getattr(fields, name))
            if not tagged:
                writer.tagged_fields(NO_TAGS)

        return write

    def _defaults(self) -> dict[str, Any]:
        return {field.name: field.default() for field in self.fields}

    def _completed(self, value: Mapping[str, Any]) -> SimpleNamespace:
        completed = {**self._defaults(), **value}
        unknown = completed.keys() - {field.name for field in self.fields}
        if unknown:
            raise ProtocolError(f"no field of the response: {', '.join(sorted(unknown))}")
        return SimpleNamespace(**completed)


def parse_layout(text: str, make: Callable[..., Any] | None = None, **classes: Callable[..., Any]) -> Structure:
    """The structure that the text lays out. ``classes``: those of the structures in arrays, by the name of the array."""
    tokens = iter([*_TOKEN.findall(text), "]"])
    fields, end = _read_fields(tokens, classes)
    assert end == "]"
    assert next(tokens, None) is None, text
    return _structure(fields, make)


def _structure(fields: Iterable[_Field], make: Callable[..., Any] | None) -> Structure:
    known = getattr(make, "__annotations__", {})
    structure = Structure(tuple(fields), make, "tags" in known)
    assert make is None or all(field.name in known for field in structure.fields), f"not the fields of {make}"
    return structure


def _read_fields(tokens: Iterator[str], classes: Mapping[str, Callable[..., Any]]) -> tuple[list[_Field], str]:
    """The fields up to the bracket that closes them, and what follows the last one."""
    fields: list[_Field] = []
    word = next(tokens)
    while word != "]":
        if word == "|":
            word = next(tokens)
        versions = (0, _LAST)
        if (found := _VERSIONS.fullmatch(word)) is not None:
            versions = (int(found[1]), int(found[2] or _LAST))
            word = next(tokens)
        name, kind = word.removesuffix("?"), next(tokens)
        if kind == "[":
            array = (Reader.nullable_array, Writer.nullable_array) if word.endswith("?") else (Reader.array, Writer.array)
            fields.append(_Field(name, _read_array(tokens, name, classes), array, versions))
        else:
            fields.append(_Field(name, kind, None, versions))
        word = next(tokens)
    return fields, word


def _read_array(tokens: Iterator[str], name: str, classes: Mapping[str, Callable[..., Any]]) -> str | Structure:
    first = next(tokens)
    if first in _READ:
        assert next(tokens) == "]"
        return first
    fields, _ = _read_fields(chain([first], tokens), classes)
    return _structure(fields, classes.get(name))


class MessageLayout(Generic[_T]):
    """One direction of an API: the body of each version that this package speaks."""

    def __init__(self, api: Api, make: type[_T], text: str, **classes: Callable[..., Any]) -> None:
        self._api = api
        self._structure = parse_layout(text, make, **classes)

    def encode(self, value: _T, version: int) -> bytes:
        """The body. Raises ProtocolError for a version that the API does not have, or tagged fields in a classic one."""
        writer = self._api.writer(version)
        self._structure.writing(version)(writer, value)
        return writer.getvalue()

    def decode(self, data: Buffer, version: int) -> _T:
        """The inverse of :meth:`encode`. Raises ProtocolError."""
        value, reader = self.decode_front(data, version)
        reader.expect_end()
        return value

    def decode_front(self, data: Buffer, version: int) -> tuple[_T, Reader]:
        """The same, for a message that bytes may follow, and the reader of those."""
        reader = self._api.reader(data, version)
        value: _T = self._structure.reading(version)(reader)
        return value, reader
