"""Every error that this package raises, and what the caller is to do about each.

The tree::

    DirectFetchError
    ├── ConfigurationError            stop: a setting is unknown, out of bounds or contradictory
    │   └── MissingExtraError             a package that an extra installs is missing; the message has the pip command
    ├── ExportError                   stop: an export cannot write its table, or not commit it
    ├── RestoreError                  stop: a restore would lose records, or cannot write its files
    ├── ForkedConsumerError           stop: a consumer of the parent process was called in a forked child
    ├── UnreadableRecordError         stop: a key or value is not in the format that was asked for
    ├── RemoteStorageError            raised by fetchers, and by nothing else
    │   ├── RemoteStorageTimeoutError     broker
    │   ├── RemoteStorageUnavailableError retry (connection refused or cut, 5xx)
    │   │   └── RemoteStorageThrottledError   retry, after ``retry_after`` seconds
    │   ├── InvalidStorageResponseError   retry, once: the answer is not the range asked for
    │   ├── SegmentNotFoundError          relocate (404)
    │   ├── RangeNotSatisfiableError      relocate (416)
    │   ├── LocationExpiredError          relocate (403 or 400 of an expired URL)
    │   ├── RemoteStorageAccessError      relocate (401, 403)
    │   └── ForbiddenLocationError        broker (hostile URL, redirect): a security event
    ├── CorruptRecordError            retry once, then broker: bytes that are not what Kafka wrote
    ├── UnsupportedFormatError        broker: a format that this version cannot read
    ├── LocationError                 broker: the location of an offset is unknown
    │   ├── LocationThrottledError        wait ``retry_after`` seconds: the broker asks to be left alone
    │   ├── PeerUnreachableError          no connection to the shim or broker
    │   ├── PeerCertificateError          this client or its peer refuses the other's certificate
    │   │   └── ClientCertificateError        the peer does
    │   ├── SecurityProtocolError         the port has another ``security.protocol`` than this client
    │   ├── UnservedConnectionError       the peer closes the connection before it serves a request
    │   ├── NotAnnouncedError             the peer is a plain broker, which grants no locations
    │   ├── LocationNotGrantedError       the shim grants no location of an offset that is tiered
    │   ├── ProtocolError                 bytes from the peer do not follow Kafka's protocol
    │   ├── SaslAuthenticationError       the broker and this client do not accept each other
    │   └── BrokerResponseError           the broker answered with an error code
    └── RemoteLogError                broker: what lies in the tier could not be understood
        ├── NoSegmentsError               the store has no segment of the topic: perhaps another store, prefix or layout
        ├── RemoteLogMetadataError        a metadata record
        ├── CorruptIndexError             an index, checkpoint or snapshot file
        ├── CorruptChunkError             a chunk of a log that is stored compressed or encrypted
        ├── DataKeyError                  the key that a segment is encrypted with is not available
        └── ObjectNotFoundError           an object that metadata names is not in the store

``str(error)`` says what failed, where, and what to do. What else is known is in ``error.context``, an :class:`ErrorContext`:
each layer that an error passes on its way up fills in what it knows, with :meth:`DirectFetchError.with_context`.

A signed URL is in no message, attribute or ``repr`` of these: code that raises one hides the cause with
``from None`` where the cause could carry a URL.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, Self

import attrs

__all__ = [
    "Action",
    "BrokerResponseError",
    "ClientCertificateError",
    "ConfigurationError",
    "CorruptChunkError",
    "CorruptIndexError",
    "CorruptRecordError",
    "DataKeyError",
    "DirectFetchError",
    "ErrorContext",
    "ExportError",
    "ForbiddenLocationError",
    "ForkedConsumerError",
    "InvalidStorageResponseError",
    "LocationError",
    "LocationExpiredError",
    "LocationNotGrantedError",
    "LocationThrottledError",
    "MissingExtraError",
    "NoSegmentsError",
    "NotAnnouncedError",
    "ObjectNotFoundError",
    "PeerCertificateError",
    "PeerUnreachableError",
    "ProtocolError",
    "RangeNotSatisfiableError",
    "RemoteLogError",
    "RemoteLogMetadataError",
    "RemoteStorageAccessError",
    "RemoteStorageError",
    "RemoteStorageThrottledError",
    "RemoteStorageTimeoutError",
    "RemoteStorageUnavailableError",
    "RestoreError",
    "SaslAuthenticationError",
    "SecurityProtocolError",
    "SegmentNotFoundError",
    "UnreadableRecordError",
    "UnservedConnectionError",
    "UnsupportedFormatError",
    "missing_extra",
]


class Action(Enum):
    """What the caller of a failed step does next."""

    RETRY = "retry"
    """Repeat the same range on a new connection, within the deadline and the host's retry budget."""
    RELOCATE = "relocate"
    """Ask once for a fresh location, then go to the broker."""
    BROKER = "broker"
    """Continue through the broker from the exact next offset."""
    STOP = "stop"
    """Tell the user: nothing here can repair it."""


@attrs.frozen
class ErrorContext:
    """Where an error happened, as far as it is known. Nothing here is a secret.

    ``segment_id``: Kafka's text form of the segment's Uuid. ``object_key``: the object's key in the store, never a URL and
    without any query string. ``host``: the store or peer that failed, as ``host:port``. ``byte_range``: start inclusive, end
    exclusive, in bytes of the original segment. ``attempt`` counts from 1. ``elapsed_seconds``: of that attempt.
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    segment_id: str | None = None
    object_key: str | None = None
    host: str | None = None
    byte_range: tuple[int, int] | None = None
    attempt: int | None = None
    elapsed_seconds: float | None = None

    def __str__(self) -> str:
        """What is known, for a log line: ``topic=orders partition=0 bytes=[0, 512) attempt=2``."""
        known = attrs.asdict(self, filter=lambda _, value: value is not None)
        if self.byte_range is not None:
            known["byte_range"] = f"[{self.byte_range[0]}, {self.byte_range[1]})"
        if self.elapsed_seconds is not None:
            known["elapsed_seconds"] = f"{self.elapsed_seconds:.3f}"
        return " ".join(f"{name}={value}" for name, value in known.items())


class DirectFetchError(Exception):
    """The root of the tree. ``action`` says what to do; ``cause`` is the short name that metrics count by.

    ``str(error)`` is one sentence: what failed, where, what to do. ``context`` says where it happened, in values.
    """

    action: ClassVar[Action] = Action.BROKER
    cause: ClassVar[str] = "error"
    context: ErrorContext = ErrorContext()

    def with_context(self, **known: Any) -> Self:
        """This error, with fields of its :class:`ErrorContext` filled in. What a layer below has filled in stays."""
        unknown = {name: value for name, value in known.items() if getattr(self.context, name) is None}
        self.context = attrs.evolve(self.context, **unknown)
        return self

    @property
    def topic(self) -> str | None:
        """The topic; see :class:`ErrorContext` about this and the following."""
        return self.context.topic

    @property
    def partition(self) -> int | None:
        return self.context.partition

    @property
    def offset(self) -> int | None:
        return self.context.offset

    @property
    def segment_id(self) -> str | None:
        return self.context.segment_id

    @property
    def object_key(self) -> str | None:
        return self.context.object_key

    @property
    def host(self) -> str | None:
        return self.context.host

    @property
    def byte_range(self) -> tuple[int, int] | None:
        return self.context.byte_range

    @property
    def attempt(self) -> int | None:
        return self.context.attempt

    @property
    def elapsed_seconds(self) -> float | None:
        return self.context.elapsed_seconds


class ConfigurationError(DirectFetchError, ValueError):
    """A setting is unknown, out of its bounds, or contradicts another one."""

    action = Action.STOP
    cause = "configuration"


class MissingExtraError(ConfigurationError):
    """A module that a plugin or a part of this package needs is not installed. The message has the pip command."""


def missing_extra(what: str, missing: ImportError | str, extra: str) -> MissingExtraError:
    """The error for ``what`` (singular), which needs the module ``missing``; ``extra`` of this package installs it."""
    module = missing if isinstance(missing, str) else missing.name
    return MissingExtraError(f"{what} needs {module}: pip install 'kafka-remote-client[{extra}]'")


class ExportError(DirectFetchError):
    """An export cannot write to its target, or cannot commit what it wrote. Readers of the table see none of it."""

    action = Action.STOP
    cause = "export"


class RestoreError(DirectFetchError):
    """A restore of topics would lose or change records, finds its target in use, or cannot write its files."""

    action = Action.STOP
    cause = "restore"


class ForkedConsumerError(DirectFetchError, RuntimeError):
    """A consumer was called in a forked child. librdkafka's threads, which do its work, are in the parent only."""

    action = Action.STOP
    cause = "forked"

    def __init__(self) -> None:
        super().__init__("a consumer of the parent process does not work in a forked child; create one in the child")


class RemoteStorageError(DirectFetchError):
    """A fetcher could not deliver a byte range. Fetchers raise the kinds below; this one means "unclassified"."""

    cause = "storage-error"


class RemoteStorageTimeoutError(RemoteStorageError):
    """The connect or read time-out ran out (KIP-1254: falls back to the broker)."""

    cause = "timeout"


class RemoteStorageUnavailableError(RemoteStorageError):
    """The store refused or cut the connection, or answered 5xx."""

    action = Action.RETRY
    cause = "unavailable"


class RemoteStorageThrottledError(RemoteStorageUnavailableError):
    """The store asks for less traffic (503 SlowDown, 429). ``retry_after`` is in seconds, ``None`` when not told."""

    cause = "throttled"

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class InvalidStorageResponseError(RemoteStorageError):
    """The store's answer is not the range that was asked for: status, Content-Range, length or encoding."""

    action = Action.RETRY
    cause = "invalid-response"


class SegmentNotFoundError(RemoteStorageError):
    """The store has no such object (404): retention may have removed it since the location was given."""

    action = Action.RELOCATE
    cause = "not-found"


class RangeNotSatisfiableError(RemoteStorageError):
    """The object ends before the range begins (416)."""

    action = Action.RELOCATE
    cause = "range-not-satisfiable"


class LocationExpiredError(RemoteStorageError):
    """The location has expired, by the store's answer or by the local clock."""

    action = Action.RELOCATE
    cause = "expired"


class RemoteStorageAccessError(RemoteStorageError):
    """The store refuses the credentials or the signature (401, 403). ``clocks_differ``: because of the time in the request."""

    action = Action.RELOCATE
    cause = "access-denied"

    def __init__(self, message: str, *, clocks_differ: bool = False) -> None:
        super().__init__(message)
        self.clocks_differ = clocks_differ


class ForbiddenLocationError(RemoteStorageError):
    """A location that this client must not follow: scheme, host, redirect, path. Counted as a security event."""

    cause = "forbidden-location"


class UnreadableRecordError(DirectFetchError):
    """A key or value does not parse in the format that was asked for. The record itself is what Kafka wrote."""

    action = Action.STOP
    cause = "unreadable"


class CorruptRecordError(DirectFetchError):
    """Bytes that no Kafka broker wrote at this place (the name is Kafka's CorruptRecordException).

    ``offset`` is the base offset of the batch where that is known, ``position`` the batch's place in the buffer. ``gap``: the
    batch itself is good, but offsets before it are missing. Compaction leaves such gaps.
    """

    action = Action.RETRY
    cause = "corrupt"

    def __init__(self, message: str, *, offset: int | None = None, position: int | None = None, gap: bool = False) -> None:
        super().__init__(message)
        self.with_context(offset=offset)
        self.position = position
        self.gap = gap


class UnsupportedFormatError(DirectFetchError):
    """A storage format, magic, codec or layout version that this client does not know."""

    cause = "unsupported-format"


class LocationError(DirectFetchError):
    """The location of an offset is unknown: the peer is unreachable, slow, or its answer is invalid."""

    cause = "location-unavailable"


class LocationThrottledError(LocationError):
    """The broker has asked for a pause that is not over (KIP-219): nothing was sent. ``retry_after`` is in seconds."""

    cause = "location-throttled"

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class PeerUnreachableError(LocationError):
    """No connection to the peer that is asked for locations (the shim, or a broker): unknown name, refused, timed out."""

    cause = "peer-unreachable"


class PeerCertificateError(LocationError):
    """The shim's or broker's certificate cannot be verified, or (ClientCertificateError) it refuses this client's."""

    cause = "certificate"


class ClientCertificateError(PeerCertificateError):
    """The shim or broker refuses this client's certificate, or requires one."""

    cause = "client-certificate"


class SecurityProtocolError(LocationError):
    """The peer's port has TLS or SASL and this client's ``security.protocol`` has not, or the other way round."""

    cause = "security-protocol"


class UnservedConnectionError(LocationError):
    """The peer closes a new connection before it serves a request: for another ``security.protocol``, or a limit."""

    cause = "unserved-connection"


class NotAnnouncedError(LocationError):
    """The peer that is asked for locations does not announce direct fetch: a plain broker in the place of the shim."""

    cause = "not-announced"

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host} does not announce direct fetch; fetch.remote.bootstrap.servers (or bootstrap.servers) must name the shim"
        )
        self.with_context(host=host)


class LocationNotGrantedError(LocationError):
    """The shim grants no location of an offset that is tiered: it cannot read that segment's objects, or may not grant it."""

    action = Action.RETRY
    cause = "not-granted"

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(
            f"the shim grants no location of {topic}-{partition} at offset {offset}, although that offset is tiered; "
            "see the shim's counters locations_refused for the reason"
        )
        self.with_context(topic=topic, partition=partition, offset=offset)


class ProtocolError(LocationError):
    """The peer's bytes do not follow Kafka's protocol."""

    cause = "protocol"


class SaslAuthenticationError(LocationError):
    """The broker refuses this client's identity, or did not prove its own (Kafka's name). No secret is in the message."""

    cause = "authentication"


class BrokerResponseError(LocationError):
    """The broker answered with an error code. ``code`` is Kafka's number; ``retriable`` is Kafka's own view of it."""

    cause = "broker-error"

    def __init__(self, code: int, message: str = "", *, retriable: bool = False) -> None:
        super().__init__(message or f"broker answered with error code {code}")
        self.code = code
        self.retriable = retriable


class RemoteLogError(DirectFetchError):
    """What lies in the tier could not be understood."""

    cause = "remote-log"


class NoSegmentsError(RemoteLogError):
    """The store has no segment of a topic that is tiered. The text says what the store has instead."""

    cause = "nothing-tiered"


class RemoteLogMetadataError(RemoteLogError):
    """A record of ``__remote_log_metadata`` (or a manifest) has an unknown version or does not parse."""

    cause = "metadata"


class CorruptIndexError(RemoteLogError):
    """An index, checkpoint or snapshot object contradicts its format or the segment that it belongs to."""

    cause = "corrupt-index"


class CorruptChunkError(RemoteLogError):
    """A chunk of a log object fails its tag, its decompression, or the size that the chunk table gives it."""

    cause = "corrupt-chunk"


class DataKeyError(RemoteLogError):
    """A segment is encrypted, and its data key is not available: no private key has its id, or it is another key."""

    cause = "data-key"


class ObjectNotFoundError(RemoteLogError):
    """An object that metadata names is not in the store. ``key`` is the object's key, never a URL."""

    cause = "object-not-found"

    def __init__(self, key: str) -> None:
        super().__init__(f"no such object: {key}")
        self.key = key
        self.with_context(object_key=key)
