"""Requests of every API key and version, encoded by the message definitions in Kafka's own jar.

A request names one topic and one group, wherever it has a field for a topic's name or id, a group or a resource. Arrays have
one element. Other fields have their defaults, and tagged fields are left out.

References: Kafka's clients/src/main/resources/common/message/README.md.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Mapping
from functools import cache
from typing import Any
from uuid import UUID

import attrs

from tests.support.artifacts import kafka_jars

__all__ = ["AnyRequest", "requests_of_clients"]

_NUMBERS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}
_WORDS = {"true": 1, "false": 0, "null": 0}
_NULL_STRUCT = b"\xff"
_NUMBERS_BY_NAME = {
    "Acks": -1,  # a broker does not answer a Produce with 0
    "Operation": 3,  # READ; a broker closes the connection for 0, as for PermissionType
    "PermissionType": 3,  # ALLOW
    "ResourceType": 2,  # a topic
    "ResourceTypeFilter": 2,
}


def _includes(versions: str, version: int) -> bool:
    """Returns whether a definition's range ("0+", "3-5", "2", "none") includes a version."""
    if versions == "none":
        return False
    first, _, last = versions.replace("+", f"-{1 << 15}").partition("-")
    return int(first) <= version <= int(last or first)


@attrs.frozen
class AnyRequest:
    """All versions of the requests of one API key. ``definition`` is that of the message in the jar."""

    definition: Mapping[str, Any]

    @property
    def api_key(self) -> int:
        return int(self.definition["apiKey"])

    @property
    def name(self) -> str:
        return str(self.definition["name"]).removesuffix("Request")

    def flexible(self, version: int) -> bool:
        """Returns whether this version has compact fields and tagged fields."""
        return _includes(self.definition["flexibleVersions"], version)

    def body(self, version: int, topic: str, topic_id: UUID) -> bytes:
        """Returns the body of a request that names the topic."""
        shared = {one["name"]: one["fields"] for one in self.definition.get("commonStructs", ())}
        return _Body(version, self.flexible(version), topic, topic_id, shared).struct(self.definition["fields"])


@attrs.frozen
class _Body:
    version: int
    flexible: bool
    topic: str
    topic_id: UUID
    shared: Mapping[str, Any]

    def struct(self, fields: list[dict[str, Any]]) -> bytes:
        written = (self._field(one) for one in fields if _includes(one["versions"], self.version) and "tag" not in one)
        return b"".join(written) + (b"\0" if self.flexible else b"")

    def _field(self, field: dict[str, Any]) -> bytes:
        kind = str(field["type"])
        compact = self.flexible and field.get("flexibleVersions") != "none"
        if not kind.startswith("[]"):
            return self._value(field, kind, compact, _includes(field.get("nullableVersions", "none"), self.version))
        count = b"\2" if compact else struct.pack(">i", 1)
        return count + self._value(field, kind.removeprefix("[]"), compact, nullable=False)

    def _value(self, field: dict[str, Any], kind: str, compact: bool, nullable: bool) -> bytes:
        name, default = field["name"], field.get("default", 0)
        if kind in _NUMBERS:
            number = _NUMBERS_BY_NAME.get(name, _WORDS.get(str(default).lower(), default))
            return struct.pack(_NUMBERS[kind], float(number) if kind == "float64" else int(str(number), 0))
        if kind == "uuid":
            return self.topic_id.bytes if "Topic" in name or name == "TopicIds" else bytes(16)
        if kind in ("string", "bytes", "records"):
            return self._text(self._chosen(field, nullable, kind), compact, short=kind == "string")
        return _NULL_STRUCT if nullable else self.struct(field.get("fields") or self.shared[kind])

    def _chosen(self, field: dict[str, Any], nullable: bool, kind: str) -> bytes | None:
        if field.get("entityType") == "topicName" or field["name"] in ("ResourceName", "ResourceNameFilter"):
            return self.topic.encode()
        if field.get("entityType") == "groupId":
            return b"group"
        if kind == "records":
            return b""
        return None if nullable else b"" if kind != "string" else b"x"

    def _text(self, value: bytes | None, compact: bool, *, short: bool) -> bytes:
        size = -1 if value is None else len(value)
        return (bytes([size + 1]) if compact else struct.pack(">h" if short else ">i", size)) + (value or b"")


@cache
def requests_of_clients() -> tuple[AnyRequest, ...]:
    """Returns the requests that a broker takes from clients, in the order of their keys."""
    (jar,) = (path for path in kafka_jars().glob("kafka-clients-*.jar") if not path.name.endswith("-test.jar"))
    found = []
    with zipfile.ZipFile(jar) as messages:
        for name in messages.namelist():
            if re.fullmatch(r"common/message/\w+Request\.json", name):
                definition = json.loads(re.sub(r"(?m)^\s*//.*$", "", messages.read(name).decode()))
                if "broker" in definition.get("listeners", ()):
                    found.append(AnyRequest(definition))
    return tuple(sorted(found, key=lambda one: one.api_key))
