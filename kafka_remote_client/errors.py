"""Every error that this package raises, and what the caller is to do about each.

The tree::

    DirectFetchError
    ├── ConfigurationError            stop: a setting is unknown, out of bounds or contradictory
    ├── ForkedConsumerError           stop: a consumer of the parent process was called in a forked child
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
    ├── LocationError                 broker: where the offset lies could not be learnt
    │   ├── LocationThrottledError        wait ``retry_after`` seconds: the broker asks to be left alone
    │   ├── PeerUnreachableError          no connection to the shim or broker
    │   ├── NotAnnouncedError             the peer is a plain broker, which grants no locations
    │   ├── ProtocolError                 bytes from the peer do not follow Kafka's protocol
    │   ├── SaslAuthenticationError       the broker and this client do not accept each other
    │   └── BrokerResponseError           the broker answered with an error code
    └── RemoteLogError                broker: what lies in the tier could not be understood
        ├── RemoteLogMetadataError        a metadata record
        ├── CorruptIndexError             an index, checkpoint or snapshot file
        ├── CorruptChunkError             a chunk of a log that is stored compressed or encrypted
        ├── DataKeyError                  the key that a segment is encrypted with cannot be had
        └── ObjectNotFoundError           an object that metadata names is not in the store

A signed URL is in no message, attribute or ``repr`` of these: whoever raises one wraps the cause with
``from None`` where the cause could carry a URL.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

__all__ = [
    "Action",
    "BrokerResponseError",
    "ConfigurationError",
    "CorruptChunkError",
    "CorruptIndexError",
    "CorruptRecordError",
    "DataKeyError",
    "DirectFetchError",
    "ForbiddenLocationError",
    "ForkedConsumerError",
    "InvalidStorageResponseError",
    "LocationError",
    "LocationExpiredError",
    "LocationThrottledError",
    "NotAnnouncedError",
    "ObjectNotFoundError",
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
    "SaslAuthenticationError",
    "SegmentNotFoundError",
    "UnsupportedFormatError",
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


class DirectFetchError(Exception):
    """The root of the tree. ``action`` says what to do; ``cause`` is the short name that metrics count by.

    ``host`` is the store or peer that failed, as ``host:port``, where that is known.
    """

    action: ClassVar[Action] = Action.BROKER
    cause: ClassVar[str] = "error"
    host: str | None = None


class ConfigurationError(DirectFetchError, ValueError):
    """A setting is unknown, out of its bounds, or contradicts another one."""

    action = Action.STOP
    cause = "configuration"


class ForkedConsumerError(DirectFetchError, RuntimeError):
    """A consumer was called in a forked child. librdkafka's threads, which do its work, are in the parent only."""

    action = Action.STOP
    cause = "forked"

    def __init__(self) -> None:
        super().__init__("a consumer of the parent process does not work in a forked child: make one there")


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
    """The location's life is over, by the store's word or by our own clock."""

    action = Action.RELOCATE
    cause = "expired"


class RemoteStorageAccessError(RemoteStorageError):
    """The store refuses the credentials or the signature (401, 403)."""

    action = Action.RELOCATE
    cause = "access-denied"


class ForbiddenLocationError(RemoteStorageError):
    """A location that this client must not follow: scheme, host, redirect, path. Counted as a security event."""

    cause = "forbidden-location"


class CorruptRecordError(DirectFetchError):
    """Bytes that no Kafka broker wrote at this place (the name is Kafka's CorruptRecordException).

    ``offset`` is the base offset of the batch where that is known, ``position`` its place in the buffer.
    """

    action = Action.RETRY
    cause = "corrupt"

    def __init__(self, message: str, *, offset: int | None = None, position: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset
        self.position = position


class UnsupportedFormatError(DirectFetchError):
    """A storage format, magic, codec or layout version that this client does not know."""

    cause = "unsupported-format"


class LocationError(DirectFetchError):
    """Where an offset lies could not be learnt: the peer is gone, slow, or makes no sense."""

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


class NotAnnouncedError(LocationError):
    """The peer that is asked for locations does not announce direct fetch: a plain broker in the place of the shim."""

    cause = "not-announced"

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host} does not announce direct fetch; fetch.remote.bootstrap.servers (or bootstrap.servers) must name the shim"
        )
        self.host = host


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
    """A segment is encrypted, and its data key cannot be had: no such private key was given, or it is another one."""

    cause = "data-key"


class ObjectNotFoundError(RemoteLogError):
    """An object that metadata names is not in the store. ``key`` is the object's key, never a URL."""

    cause = "object-not-found"

    def __init__(self, key: str) -> None:
        super().__init__(f"no such object: {key}")
        self.key = key
