"""A broker (or shim) at one address: a connection that is made again when needed, and the API versions of the peer.

It asks for the API versions on every connection, because another program may answer at the same address later. The first
ApiVersions request has version 3. After UNSUPPORTED_VERSION, whatever body follows, it asks again at version 0, which has all
necessary fields: brokers before 2.4 answer so, and librdkafka's mock cluster, whose body is malformed.

Waiting times, doubled each time up to the maximum and spread by a quarter::

    after                                         | first  | maximum | meanwhile
    a connection that could not be made           | 0.5 s  | 30 s    | every call fails at once
    a peer that does not announce direct fetch    | 5 s    | 300 s   | the connection serves everything else

References: KIP-35, KIP-511, docs/wire-format.md.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import cache, partial
from importlib import metadata

import attrs

from kafka_remote_client.backoff import Backoff
from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import (
    ClientCertificateError,
    LocationError,
    PeerCertificateError,
    PeerUnreachableError,
    ProtocolError,
    SaslAuthenticationError,
    SecurityProtocolError,
    UnservedConnectionError,
)
from kafka_remote_client.protocol import api_versions
from kafka_remote_client.protocol.api_keys import Api, ApiKey
from kafka_remote_client.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.protocol.error_codes import ErrorCode, broker_error
from kafka_remote_client.protocol.throttle import Throttle, throttle_seconds
from kafka_remote_client.wire import Reader

__all__ = ["BrokerPeer", "PeerSession"]

_log = logging.getLogger(__name__)

_SOFTWARE_NAME = "kafka-remote-client"
_KEPT = (
    ClientCertificateError,  # before the kind that it is one of
    PeerCertificateError,
    PeerUnreachableError,
    ProtocolError,
    SaslAuthenticationError,
    SecurityProtocolError,
    UnservedConnectionError,
)
"""Kinds of a failure that the pause after it keeps, so that it is counted and logged under the same cause."""
_FIRST_ASKED = 3
_ALWAYS_KNOWN = 0

_RECONNECT_SECONDS = (0.5, 30.0)
_REPROBE_SECONDS = (5.0, 300.0)


@attrs.frozen(eq=False)
class PeerSession:
    """One connection, and what the peer at its other end speaks."""

    connection: BrokerConnection
    versions: ApiVersionsResponse
    throttle: Throttle

    def call(self, api: Api, version: int, body: bytes, deadline: Deadline) -> memoryview:
        """Sends a request, after the pause that an earlier answer has asked for; the body of its response.

        Raises LocationThrottledError when that pause is longer than the deadline; LocationError or ProtocolError, and then the
        connection is closed.
        """
        self.throttle.sit_out(deadline)
        answer = self.connection.send_receive(api.key, version, body, deadline)
        self.throttle.asked(throttle_seconds(api.key, version, answer))
        return answer

    def best_version(self, api: Api, versions: range | None = None) -> int | None:
        """The highest version that both sides speak, of ``versions`` or of all that we do; ``None`` when there is none."""
        return self.versions.best_version(api.key, versions or api.versions)


class BrokerPeer:
    """The peer at one address. ``connect`` makes a new, unopened connection to it; ``name`` is for messages.

    Several connections to one peer share a ``throttle``: a broker means the client and not the connection.

    Safe to share between threads.
    """

    def __init__(
        self, name: str, connect: Callable[[], BrokerConnection], clock: Clock, throttle: Throttle | None = None
    ) -> None:
        self._name = name
        self._connect = connect
        self._lock = threading.Lock()
        self._guard = threading.Lock()
        self._reconnect = Backoff(clock, *_RECONNECT_SECONDS)
        self._reprobe = Backoff(clock, *_REPROBE_SECONDS)
        self._throttle = throttle or Throttle(name, clock)
        self._connection: BrokerConnection | None = None
        self._session: PeerSession | None = None
        self._closed = False
        self._failure = partial(LocationError, f"{name} cannot be reached")
        """Makes the error that says why the last connection could not be made."""

    def session(self, deadline: Deadline) -> tuple[PeerSession, bool]:
        """The session, and whether it is an old one, whose connection the peer may have closed since.

        Raises LocationError when it cannot connect, and at once during the pause after a failure;
        LocationThrottledError while that is its own wish.
        """
        self._throttle.check()
        if not self._lock.acquire(timeout=deadline.remaining()):
            raise LocationError(f"connecting to {self._name} timed out")
        try:
            if self._session is not None:
                if self._usable(self._session):
                    return self._session, True
                self._session.connection.close()
            self._session = self._negotiated(deadline)
            return self._session, False
        finally:
            self._lock.release()

    def close(self) -> None:
        """Ends the connection for good; calls in other threads fail at once. May be called twice."""
        with self._guard:
            self._closed = True
            connection = self._connection
        self._throttle.close()
        if connection is not None:
            connection.close()

    def _usable(self, session: PeerSession) -> bool:
        announced_or_known = session.versions.announces_direct_fetch or self._reprobe.waiting
        return announced_or_known and not session.connection.closed

    def _negotiated(self, deadline: Deadline) -> PeerSession:
        if self._reconnect.waiting:
            raise self._failure()
        connection = self._connect()
        with self._guard:
            if self._closed:
                raise LocationError(f"the connection to {self._name} was closed")
            self._connection = connection
        try:
            versions = _negotiate(connection, deadline)
        except LocationError as error:
            connection.close()
            if not deadline.expired():  # else it may be the caller's haste and not the peer's fault
                kind = next((kind for kind in _KEPT if isinstance(error, kind)), LocationError)
                self._failure = partial(kind, f"{error} (failed recently; the next attempt waits)")
                self._reconnect.failed()
            raise
        self._reconnect.succeeded()
        if versions.announces_direct_fetch:
            self._reprobe.succeeded()
        else:
            self._reprobe.failed()
        return PeerSession(connection, versions, self._throttle)


@cache
def _software_version() -> str:
    try:
        return metadata.version(_SOFTWARE_NAME)
    except metadata.PackageNotFoundError:  # run from a checkout that was never installed
        return "unknown"


def _negotiate(connection: BrokerConnection, deadline: Deadline) -> ApiVersionsResponse:
    request = ApiVersionsRequest(_SOFTWARE_NAME, _software_version())
    version = _FIRST_ASKED
    answer = _ask_versions(connection, request, version, deadline)
    if Reader(answer).int16() == ErrorCode.UNSUPPORTED_VERSION:
        version = _ALWAYS_KNOWN
        answer = _ask_versions(connection, request, version, deadline)
    response = api_versions.decode_response(answer, version)
    if response.error_code != ErrorCode.NONE:
        raise broker_error(response.error_code, "ApiVersions")
    return response


def _ask_versions(connection: BrokerConnection, request: ApiVersionsRequest, version: int, deadline: Deadline) -> memoryview:
    body = api_versions.encode_request(request, version)
    return connection.send_receive(ApiKey.API_VERSIONS, version, body, deadline)
