"""SASL: how a connection proves whom it belongs to, by PLAIN, SCRAM or OAUTHBEARER.

A mechanism is a conversation that does no I/O: a generator that yields what the client says and is sent what the broker
answers; when it returns, both sides are satisfied. :class:`SaslAuthenticator` carries one over a connection::

    SaslHandshake v1     which mechanism               refused: the mechanisms that the broker has are named
    SaslAuthenticate v1  a message each way, repeated  the last answer may give the session's life (KIP-368)

SCRAM: the broker is asked for its signature, and one that asks for fewer than 4,096 rounds of hashing, or more than 1,000,000,
is refused before the first: few make a stolen exchange cheap to guess from, many would hold this client up for seconds.

References: RFC 4616 (PLAIN), RFC 5802 and 7677 (SCRAM), RFC 7628 (OAUTHBEARER), KIP-43, KIP-84, KIP-152, KIP-255, KIP-368.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TypeAlias

from scramp import ScramClient, ScramException

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import ConfigurationError, SaslAuthenticationError, SecurityProtocolError
from kafka_remote_client.protocol import sasl_authenticate, sasl_handshake
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.protocol.error_codes import ErrorCode

__all__ = ["SCRAM_ITERATIONS", "SCRAM_MECHANISMS", "Conversation", "SaslAuthenticator", "oauthbearer", "plain", "scram"]

Conversation: TypeAlias = Generator[bytes, bytes, None]

SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SCRAM_ITERATIONS = range(4_096, 1_000_001)

_HANDSHAKE_VERSION = 1
_AUTHENTICATE_VERSION = 1
_SAID = 200
_SEPARATOR = "\x01"


class SaslAuthenticator:
    """Authenticates connections; holds no secret itself. An Authenticator of :mod:`~kafka_remote_client.protocol.connection`.

    ``converse`` begins a conversation, with what there is time for; it may raise SaslAuthenticationError.
    """

    def __init__(self, mechanism: str, converse: Callable[[Deadline], Conversation]) -> None:
        self._mechanism = mechanism
        self._converse = converse

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._mechanism}>"

    def authenticate(self, connection: BrokerConnection, deadline: Deadline) -> float | None:
        """As Authenticator. Raises SaslAuthenticationError when either side refuses the other, LocationError, ProtocolError."""
        conversation = self._converse(deadline)
        self._shake_hands(connection, deadline)
        message, lifetime_ms = next(conversation), 0
        while True:
            answer = self._say(connection, message, deadline)
            lifetime_ms = answer.session_lifetime_ms
            try:
                message = conversation.send(answer.auth_bytes)
            except StopIteration:
                return lifetime_ms / 1000 if lifetime_ms > 0 else None

    def _shake_hands(self, connection: BrokerConnection, deadline: Deadline) -> None:
        body = sasl_handshake.encode_request(sasl_handshake.SaslHandshakeRequest(self._mechanism), _HANDSHAKE_VERSION)
        data = connection.send_receive(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, body, deadline)
        answer = sasl_handshake.decode_response(data, _HANDSHAKE_VERSION)
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = _printable(", ".join(answer.mechanisms)) or "none"
            raise SaslAuthenticationError(f"the broker does not support {self._mechanism}; it supports: {offered}")
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise SecurityProtocolError("the broker does not ask for SASL; check security.protocol")
        if answer.error_code != ErrorCode.NONE:
            raise SaslAuthenticationError(f"the broker refused to start {self._mechanism}: error {answer.error_code}")

    def _say(
        self, connection: BrokerConnection, message: bytes, deadline: Deadline
    ) -> sasl_authenticate.SaslAuthenticateResponse:
        body = sasl_authenticate.encode_request(sasl_authenticate.SaslAuthenticateRequest(message), _AUTHENTICATE_VERSION)
        data = connection.send_receive(ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, body, deadline)
        answer = sasl_authenticate.decode_response(data, _AUTHENTICATE_VERSION)
        if answer.error_code != ErrorCode.NONE:
            said = _printable(answer.error_message or f"error {answer.error_code}")
            raise SaslAuthenticationError(f"the broker rejected {self._mechanism}: {said}")
        return answer


def plain(username: str, password: str) -> Conversation:
    """One message with both in it. Raises ConfigurationError for a zero byte in either."""
    if "\0" in username + password:
        raise ConfigurationError("sasl.username and sasl.password must not contain a zero byte")
    return _plain(username, password)


def _plain(username: str, password: str) -> Conversation:
    yield f"\0{username}\0{password}".encode()


def scram(mechanism: str, username: str, password: str) -> Conversation:
    """Proves that both sides know the password, without sending it. Raises ConfigurationError for text it cannot carry."""
    try:
        client = ScramClient([mechanism], username, password)
        first = client.get_client_first()
    except ScramException:
        raise ConfigurationError(f"sasl.username or sasl.password cannot be used with {mechanism}") from None
    return _scram(mechanism, client, first)


def _scram(mechanism: str, client: ScramClient, first: str) -> Conversation:
    answer = yield first.encode()
    try:
        client.set_server_first(answer.decode())
        rounds = int(client.iterations)
        if rounds not in SCRAM_ITERATIONS:
            raise SaslAuthenticationError(
                f"{mechanism} iterations {rounds} not in {SCRAM_ITERATIONS.start}-{SCRAM_ITERATIONS[-1]}"
            )
        final = client.get_client_final()
    except (ScramException, UnicodeDecodeError):
        raise SaslAuthenticationError(f"the broker's first message of {mechanism} is malformed") from None
    answer = yield final.encode()
    try:
        client.set_server_final(answer.decode())
    except (ScramException, UnicodeDecodeError):
        raise SaslAuthenticationError(
            f"the broker's last message of {mechanism} is invalid: the broker may not know the password"
        ) from None


def oauthbearer(token: str, extensions: Mapping[str, str]) -> Conversation:
    """Shows a token. Raises SaslAuthenticationError for a token or extensions that the message cannot carry."""
    pairs = {"auth": f"Bearer {token}", **extensions}
    fields = "".join(f"{name}={value}{_SEPARATOR}" for name, value in pairs.items())
    proper = all(name.isascii() and name.isalpha() for name in extensions) and "auth" not in extensions
    if not proper or not token or not all(value.isascii() and value.isprintable() for value in pairs.values()):
        raise SaslAuthenticationError("the OAUTHBEARER token or an extension contains invalid characters")
    return _oauthbearer(f"n,,{_SEPARATOR}{fields}{_SEPARATOR}".encode())


def _oauthbearer(message: bytes) -> Conversation:
    if (yield message):
        # The broker says why not, and ends the exchange with an error once that was heard.
        yield _SEPARATOR.encode()
        raise SaslAuthenticationError("the broker rejected the token")


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text[:_SAID])
