"""The messages of Kafka that only a broker has to read, laid out as text that is also their codec.

::

    name TYPE          a field of a wire type: bool, int8, int16, int32, int64, uuid, string, bytes; with ? it may be null
    name [a T | b T]   an array of structures
    name [T]           an array of one wire type
    3+ name TYPE       a field from version 3 on; 1-3 name TYPE: from version 1 to 3

Values are dictionaries by field name. A field that a version does not have, or that a response leaves out, has its default: 0,
False, the empty string or array, null where it may be.

``flexible`` is the first version with compact lengths and tagged fields (KIP-482). Tagged fields are skipped and never written.
Fetch, ListOffsets, Metadata and ApiVersions have codecs of their own (``protocol/``).

References: https://kafka.apache.org/protocol#protocol_messages, Kafka's message definitions (``*Request.json``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, TypeAlias

import attrs

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.wire import NO_TAGS, ZERO_UUID, Buffer, Reader, Writer

__all__ = ["MESSAGES", "Message", "Value"]

Value: TypeAlias = Mapping[str, Any]

_LAST = 1 << 15
_TOKEN = re.compile(r"\d+\+|\d+-\d+|\w+\??|[\[\]|]")
_VERSIONS = re.compile(r"(\d+)(?:\+|-(\d+))")
_READ = {
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
}
_WRITE: Mapping[str, Any] = {
    "bool": Writer.boolean,
    "int8": Writer.int8,
    "int16": Writer.int16,
    "int32": Writer.int32,
    "int64": Writer.int64,
    "uuid": Writer.uuid,
    "string": Writer.string,
    "string?": Writer.nullable_string,
    "bytes": Writer.bytes_,
    "bytes?": Writer.nullable_bytes,
}
_DEFAULT: Mapping[str, Any] = {"bool": False, "uuid": ZERO_UUID, "string": "", "string?": None, "bytes": b"", "bytes?": None}


@attrs.frozen
class _Field:
    """``kind``: a wire type, or the fields of a structure. ``versions``: first and last one, inclusive."""

    name: str
    kind: str | tuple[_Field, ...]
    is_array: bool
    versions: tuple[int, int]

    def default(self) -> Any:
        return () if self.is_array else _DEFAULT.get(str(self.kind), 0)


def _fields(text: str) -> tuple[_Field, ...]:
    tokens = iter([*_TOKEN.findall(text), "]"])
    fields, end = _read_fields(tokens)
    assert end == "]"
    assert next(tokens, None) is None, text
    return fields


def _read_fields(tokens: Iterator[str]) -> tuple[tuple[_Field, ...], str]:
    """The fields up to the bracket that closes them."""
    fields: list[_Field] = []
    word = next(tokens)
    while word != "]":
        if word == "|":
            word = next(tokens)
        versions = (0, _LAST)
        if (found := _VERSIONS.fullmatch(word)) is not None:
            versions = (int(found[1]), int(found[2] or _LAST))
            word = next(tokens)
        name, kind = word, next(tokens)
        if kind == "[":
            inner, word = _read_array(tokens)
            fields.append(_Field(name, inner, True, versions))
            word = next(tokens)
            continue
        fields.append(_Field(name, kind, False, versions))
        word = next(tokens)
    return tuple(fields), word


def _read_array(tokens: Iterator[str]) -> tuple[str | tuple[_Field, ...], str]:
    first = next(tokens)
    if first in _READ:
        return first, next(tokens)
    return _read_fields(chain([first], tokens))


@attrs.frozen
class Message:
    """One API: its key, the versions that the cluster speaks, and both layouts."""

    name: str
    key: int
    versions: range
    flexible: int
    request: tuple[_Field, ...] = attrs.field(converter=_fields, repr=False)
    response: tuple[_Field, ...] = attrs.field(converter=_fields, repr=False)

    def is_flexible(self, version: int) -> bool:
        """Whether that version has compact lengths and tagged fields."""
        return version >= self.flexible

    def decode_request(self, data: Buffer, version: int) -> dict[str, Any]:
        """The fields of a request. Raises ProtocolError for bytes that do not follow the layout."""
        reader = Reader(data, flexible=self.is_flexible(version), what=f"the {self.name} request")
        value = _read(reader, self.request, version)
        reader.expect_end()
        return value

    def encode_response(self, value: Value, version: int) -> bytes:
        """The body of a response. Raises ProtocolError for a value that its type cannot hold, or a field with another name."""
        writer = Writer(flexible=self.is_flexible(version))
        _write(writer, self.response, version, value)
        return writer.getvalue()


def _read(reader: Reader, fields: tuple[_Field, ...], version: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for field in fields:
        first, last = field.versions
        value[field.name] = _read_field(reader, field, version) if first <= version <= last else field.default()
    reader.tagged_fields()
    return value


def _read_field(reader: Reader, field: _Field, version: int) -> Any:
    kind = field.kind
    if isinstance(kind, str):
        read = _READ[kind]
        return reader.nullable_array(lambda: read(reader)) if field.is_array else read(reader)
    return reader.nullable_array(lambda: _read(reader, kind, version))


def _write(writer: Writer, fields: tuple[_Field, ...], version: int, value: Value) -> None:
    unknown = value.keys() - {field.name for field in fields}
    if unknown:
        raise ProtocolError(f"no field of the response: {', '.join(sorted(unknown))}")
    for field in fields:
        first, last = field.versions
        if first <= version <= last:
            _write_field(writer, field, version, value.get(field.name, field.default()))
    writer.tagged_fields(NO_TAGS)


def _write_field(writer: Writer, field: _Field, version: int, value: Any) -> None:
    kind = field.kind
    if isinstance(kind, str):
        write = _WRITE[kind]
        if field.is_array:
            writer.nullable_array(value, lambda item: write(writer, item))
        else:
            write(writer, value)
    else:
        writer.nullable_array(value, lambda item: _write(writer, kind, version, item))


_TXN_PARTITIONS = "topics [name string | partitions [partition int32 | error_code int16]]"

MESSAGES: Mapping[int, Message] = {
    message.key: message
    for message in (
        Message(
            "Produce", 0, range(9), 9,
            "3+ transactional_id string? | acks int16 | timeout_ms int32 | topics [name string"
            " | partitions [partition int32 | records bytes?]]",
            "topics [name string | partitions [partition int32 | error_code int16 | base_offset int64"
            " | 2+ log_append_time_ms int64 | 5+ log_start_offset int64"
            " | 8+ record_errors [batch_index int32 | message string?] | 8+ error_message string?]]"
            " | 1+ throttle_time_ms int32",
        ),
        Message(
            "OffsetCommit", 8, range(2, 8), 8,
            "group_id string | generation_id int32 | member_id string | 7+ group_instance_id string?"
            " | 2-4 retention_time_ms int64 | topics [name string | partitions [partition int32 | offset int64"
            " | 6+ leader_epoch int32 | metadata string?]]",
            f"3+ throttle_time_ms int32 | {_TXN_PARTITIONS}",
        ),
        Message(
            "OffsetFetch", 9, range(1, 6), 6,
            "group_id string | topics [name string | partitions [int32]]",
            "3+ throttle_time_ms int32 | topics [name string | partitions [partition int32 | offset int64"
            " | 5+ leader_epoch int32 | metadata string? | error_code int16]] | 2+ error_code int16",
        ),
        Message(
            "FindCoordinator", 10, range(3), 3,
            "key string | 1+ key_type int8",
            "1+ throttle_time_ms int32 | error_code int16 | 1+ error_message string? | node_id int32 | host string"
            " | port int32",
        ),
        Message(
            "JoinGroup", 11, range(6), 6,
            "group_id string | session_timeout_ms int32 | 1+ rebalance_timeout_ms int32 | member_id string"
            " | 5+ group_instance_id string? | protocol_type string | protocols [name string | metadata bytes]",
            "2+ throttle_time_ms int32 | error_code int16 | generation_id int32 | protocol_name string | leader string"
            " | member_id string | members [member_id string | 5+ group_instance_id string? | metadata bytes]",
        ),
        Message(
            "Heartbeat", 12, range(4), 4,
            "group_id string | generation_id int32 | member_id string | 3+ group_instance_id string?",
            "1+ throttle_time_ms int32 | error_code int16",
        ),
        Message(
            "LeaveGroup", 13, range(4), 4,
            "group_id string | 0-2 member_id string | 3+ members [member_id string | group_instance_id string?]",
            "1+ throttle_time_ms int32 | error_code int16"
            " | 3+ members [member_id string | group_instance_id string? | error_code int16]",
        ),
        Message(
            "SyncGroup", 14, range(4), 4,
            "group_id string | generation_id int32 | member_id string | 3+ group_instance_id string?"
            " | assignments [member_id string | assignment bytes]",
            "1+ throttle_time_ms int32 | error_code int16 | assignment bytes",
        ),
        Message(
            "CreateTopics", 19, range(5), 5,
            "topics [name string | num_partitions int32 | replication_factor int16"
            " | assignments [partition int32 | brokers [int32]] | configs [name string | value string?]]"
            " | timeout_ms int32 | 1+ validate_only bool",
            "2+ throttle_time_ms int32 | topics [name string | error_code int16 | 1+ error_message string?]",
        ),
        Message(
            "DeleteTopics", 20, range(1, 4), 4,
            "names [string] | timeout_ms int32",
            "1+ throttle_time_ms int32 | topics [name string | error_code int16]",
        ),
        Message(
            "DeleteRecords", 21, range(2), 2,
            "topics [name string | partitions [partition int32 | offset int64]] | timeout_ms int32",
            "throttle_time_ms int32 | topics [name string | partitions [partition int32 | low_watermark int64"
            " | error_code int16]]",
        ),
        Message(
            "InitProducerId", 22, range(2), 2,
            "transactional_id string? | transaction_timeout_ms int32",
            "throttle_time_ms int32 | error_code int16 | producer_id int64 | producer_epoch int16",
        ),
        Message(
            "OffsetForLeaderEpoch", 23, range(2, 4), 4,
            "3+ replica_id int32 | topics [name string | partitions [partition int32 | current_leader_epoch int32"
            " | leader_epoch int32]]",
            "2+ throttle_time_ms int32 | topics [name string | partitions [error_code int16 | partition int32"
            " | leader_epoch int32 | end_offset int64]]",
        ),
        Message(
            "AddPartitionsToTxn", 24, range(3), 3,
            "transactional_id string | producer_id int64 | producer_epoch int16 | topics [name string | partitions [int32]]",
            f"throttle_time_ms int32 | {_TXN_PARTITIONS}",
        ),
        Message(
            "AddOffsetsToTxn", 25, range(3), 3,
            "transactional_id string | producer_id int64 | producer_epoch int16 | group_id string",
            "throttle_time_ms int32 | error_code int16",
        ),
        Message(
            "EndTxn", 26, range(3), 3,
            "transactional_id string | producer_id int64 | producer_epoch int16 | committed bool",
            "throttle_time_ms int32 | error_code int16",
        ),
        Message(
            "TxnOffsetCommit", 28, range(4), 3,
            "transactional_id string | group_id string | producer_id int64 | producer_epoch int16"
            " | 3+ generation_id int32 | 3+ member_id string | 3+ group_instance_id string?"
            " | topics [name string | partitions [partition int32 | offset int64 | 2+ leader_epoch int32 | metadata string?]]",
            f"throttle_time_ms int32 | {_TXN_PARTITIONS}",
        ),
        Message(
            "DescribeConfigs", 32, range(1, 4), 4,
            "resources [type int8 | name string | names [string]] | include_synonyms bool | 3+ include_documentation bool",
            "throttle_time_ms int32 | results [error_code int16 | error_message string? | type int8 | name string"
            " | configs [name string | value string? | read_only bool | source int8 | sensitive bool"
            " | synonyms [name string | value string? | source int8] | 3+ type int8 | 3+ documentation string?]]",
        ),
        Message(
            "CreatePartitions", 37, range(2), 2,
            "topics [name string | count int32 | assignments [brokers [int32]]] | timeout_ms int32 | validate_only bool",
            "throttle_time_ms int32 | results [name string | error_code int16 | error_message string?]",
        ),
        Message(
            "IncrementalAlterConfigs", 44, range(1), 1,
            "resources [type int8 | name string | configs [name string | operation int8 | value string?]] | validate_only bool",
            "throttle_time_ms int32 | responses [error_code int16 | error_message string? | type int8 | name string]",
        ),
        Message(
            "DescribeCluster", 60, range(1), 0,
            "include_authorized_operations bool",
            "throttle_time_ms int32 | error_code int16 | error_message string? | cluster_id string | controller_id int32"
            " | brokers [id int32 | host string | port int32 | rack string?] | authorized_operations int32",
        ),
    )
}  # fmt: skip
"""By API key."""
