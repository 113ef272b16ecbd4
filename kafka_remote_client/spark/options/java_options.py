"""Java's consumer settings, as ``format("kafka")`` takes them under ``kafka.*``, in librdkafka's terms. Pure.

::

    subject of the option                         | handling
    connection, metadata, fetch sizes and times   | librdkafka's setting of the same meaning, cut to its bounds
    security (sasl.*, ssl.*, security.*)          | translated in security.py, or an error: never ignored
    isolation.level, default.api.timeout.ms       | settings of this source
    group membership, metrics, Java's own tuning  | ignored, and named in ClientOptions.ignored
    errors of Spark's own source                  | errors: auto.offset.reset, deserializers, enable.auto.commit, interceptors
    an unknown name                               | ignored, as Java's client does

Defaults are Java's where they differ in meaning: ``check.crcs`` is true.

References: Kafka's ConsumerConfig and CommonClientConfigs; librdkafka's CONFIGURATION.md; Spark's "Structured Streaming + Kafka
Integration Guide", "Kafka Specific Configurations".
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.spark.options.client_options import ClientOptions, refused, whole_number
from kafka_remote_client.spark.options.security import SECURITY_PREFIXES, translate_security

__all__ = ["JAVA_PREFIX", "REFUSED", "TRANSLATED", "translate"]

JAVA_PREFIX = "kafka."

_RECEIVE_LIMIT = 100_000_000
_RECEIVE_OVERHEAD = 512
_API_TIMEOUT = "default.api.timeout.ms"
_DEFAULT_API_TIMEOUT_MS = 60_000
_INT_MAX = 2**31 - 1
_LONGEST_AGE_MS = _INT_MAX // 1000
"""librdkafka multiplies the age of metadata by 1000 in 32 bits. Above this, metadata is out of date at once, and each client
asks for it every second."""


@attrs.frozen
class _Number:
    """A whole number, cut to librdkafka's bounds; ``unset`` is librdkafka's value for Java's -1 (the system's default)."""

    name: str
    minimum: int
    maximum: int
    unset: int | None = None

    def translate(self, key: str, value: str) -> str:
        number = _int(key, value)
        if number < 0 and self.unset is not None:
            return str(self.unset)
        return str(min(max(number, self.minimum), self.maximum))


@attrs.frozen
class _Switch:
    name: str

    def translate(self, key: str, value: str) -> str:
        return str(arguments.true_or_false(value, f"{JAVA_PREFIX}{key}", arguments.java_boolean)).lower()


@attrs.frozen
class _Text:
    name: str

    def translate(self, _key: str, value: str) -> str:
        return value.strip()


# Java's name: librdkafka's name, and its bounds.
TRANSLATED: Mapping[str, _Number | _Switch | _Text] = {
    "bootstrap.servers": _Text("bootstrap.servers"),
    "client.id": _Text("client.id"),
    "client.rack": _Text("client.rack"),
    "group.id": _Text("group.id"),
    "client.dns.lookup": _Text("client.dns.lookup"),
    "metadata.recovery.strategy": _Text("metadata.recovery.strategy"),
    "allow.auto.create.topics": _Switch("allow.auto.create.topics"),
    "check.crcs": _Switch("check.crcs"),
    "enable.metrics.push": _Switch("enable.metrics.push"),
    "fetch.min.bytes": _Number("fetch.min.bytes", 1, 100_000_000),
    # librdkafka rejects a fetch.max.bytes below its message.max.bytes, which stays at its default.
    "fetch.max.bytes": _Number("fetch.max.bytes", 1_000_000, _INT_MAX - _RECEIVE_OVERHEAD),
    "fetch.max.wait.ms": _Number("fetch.wait.max.ms", 0, 300_000),
    "max.partition.fetch.bytes": _Number("max.partition.fetch.bytes", 1, 1_000_000_000),
    "metadata.max.age.ms": _Number("metadata.max.age.ms", 1, _LONGEST_AGE_MS),
    "metadata.recovery.rebootstrap.trigger.ms": _Number("metadata.recovery.rebootstrap.trigger.ms", 0, _INT_MAX),
    "connections.max.idle.ms": _Number("connections.max.idle.ms", 0, _INT_MAX, unset=0),
    "reconnect.backoff.ms": _Number("reconnect.backoff.ms", 0, 3_600_000),
    "reconnect.backoff.max.ms": _Number("reconnect.backoff.max.ms", 0, 3_600_000),
    "retry.backoff.ms": _Number("retry.backoff.ms", 1, 300_000),
    "retry.backoff.max.ms": _Number("retry.backoff.max.ms", 1, 300_000),
    "request.timeout.ms": _Number("socket.timeout.ms", 10, 300_000),
    "socket.connection.setup.timeout.ms": _Number("socket.connection.setup.timeout.ms", 1000, _INT_MAX),
    "send.buffer.bytes": _Number("socket.send.buffer.bytes", 0, 100_000_000, unset=0),
    "receive.buffer.bytes": _Number("socket.receive.buffer.bytes", 0, 100_000_000, unset=0),
}

_OURS = frozenset({"isolation.level", _API_TIMEOUT})
_DESERIALIZER = "keys and values come as binary columns; cast or decode them in the query"
_NO_COMMIT = "this source commits no offsets; Spark's checkpoint holds them"
REFUSED: Mapping[str, str] = {
    "auto.offset.reset": "set startingOffsets to say where a read begins",
    "key.deserializer": _DESERIALIZER,
    "value.deserializer": _DESERIALIZER,
    "enable.auto.commit": _NO_COMMIT,
    "interceptor.classes": "no Java classes; transform the columns in the query",
    "config.providers": "no Java classes; give the values themselves, for example from Spark's secrets",
}


def translate(options: Mapping[str, str]) -> ClientOptions:
    """Translates options with the prefix ``kafka.`` for this client, and skips other options.

    Raises ConfigurationError, which names the option and never shows its value, for an unsupported or invalid one.
    """
    java = {key.removeprefix(JAVA_PREFIX): value for key, value in options.items() if key.startswith(JAVA_PREFIX)}
    for key in java.keys() & REFUSED.keys():
        raise refused(key, f"is not supported: {REFUSED[key]}")
    if not java.get("bootstrap.servers", "").strip():
        unprefixed = "; bootstrap.servers needs the prefix kafka." if "bootstrap.servers" in options else ""
        raise refused("bootstrap.servers", f"must be set{unprefixed}")
    settings = {"check.crcs": "true"}
    ignored = []
    for key, value in java.items():
        translated = TRANSLATED.get(key)
        if translated is not None:
            settings[translated.name] = translated.translate(key, value)
        elif key not in _OURS and not key.startswith(SECURITY_PREFIXES):
            ignored.append(JAVA_PREFIX + key)
    _make_room(settings)
    security = translate_security({key: value for key, value in java.items() if key.startswith(SECURITY_PREFIXES)})
    return ClientOptions(
        settings=settings | security.settings,
        isolation_level=_isolation_level(java),
        api_timeout_ms=max(1, _int(_API_TIMEOUT, java.get(_API_TIMEOUT, str(_DEFAULT_API_TIMEOUT_MS)))),
        trust_store=security.trust_store,
        ignored=tuple(sorted([*ignored, *(JAVA_PREFIX + key for key in security.ignored)])),
    )


def _make_room(settings: dict[str, str]) -> None:
    """librdkafka rejects answers longer than its receive limit, regardless of fetch.max.bytes."""
    needed = int(settings.get("fetch.max.bytes", "0")) + _RECEIVE_OVERHEAD
    if needed > _RECEIVE_LIMIT:
        settings["receive.message.max.bytes"] = str(needed)


def _isolation_level(java: Mapping[str, str]) -> IsolationLevel:
    """Java's default, and so Spark's, is read_uncommitted; librdkafka's is the other one."""
    text = java.get("isolation.level", "read_uncommitted").strip().upper()
    if text not in IsolationLevel.__members__:
        raise refused("isolation.level", "must be read_uncommitted or read_committed")
    return IsolationLevel[text]


def _int(key: str, value: str) -> int:
    number = whole_number(value)
    if number is None:
        raise refused(key, "must be a whole number")
    return number
