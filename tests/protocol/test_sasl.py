"""Each SASL mechanism with a broker that follows the protocol, and with brokers that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scramp import ScramMechanism

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import (
    ConfigurationError,
    LocationError,
    ProtocolError,
    SaslAuthenticationError,
    SecurityProtocolError,
)
from kafka_remote_client.protocol import sasl_authenticate, sasl_handshake
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.protocol.headers import RequestHeader
from kafka_remote_client.protocol.sasl import (
    SCRAM_MECHANISMS,
    Conversation,
    SaslAuthenticator,
    oauthbearer,
    plain,
    scram,
)
from kafka_remote_client.protocol.sasl_authenticate import SaslAuthenticateResponse
from kafka_remote_client.protocol.sasl_handshake import SaslHandshakeResponse
from tests.support.locations import ManualClock
from tests.support.scripted_peer import PeerConnection, ScriptedPeer, broker_script

CLOCK = SystemClock()
USER, PASSWORD = "alice", "canary-of-a-password"
TOKEN = "canary.of-a.token"

Side = Callable[[bytes], SaslAuthenticateResponse]


class Broker:
    """The broker's side: it records the messages and answers each one."""

    def __init__(self, *answers: Side, mechanisms: tuple[str, ...] = (), refuses: int = ErrorCode.NONE) -> None:
        self.asked: list[tuple[str, Any]] = []
        self._answers = answers
        self._handshake = SaslHandshakeResponse(refuses, mechanisms)

    def script(self) -> Callable[[PeerConnection], None]:
        answers = iter(self._answers)

        def shake_hands(header: RequestHeader, body: bytes) -> bytes:
            self.asked.append(("handshake", sasl_handshake.decode_request(body, header.api_version).mechanism))
            return sasl_handshake.encode_response(self._handshake, header.api_version)

        def authenticate(header: RequestHeader, body: bytes) -> bytes:
            said = sasl_authenticate.decode_request(body, header.api_version).auth_bytes
            self.asked.append(("authenticate", said))
            return sasl_authenticate.encode_response(next(answers)(said), header.api_version)

        def echo(header: RequestHeader, body: bytes) -> bytes:
            self.asked.append(("fetch", body))
            return body

        return broker_script({ApiKey.SASL_HANDSHAKE: shake_hands, ApiKey.SASL_AUTHENTICATE: authenticate, ApiKey.FETCH: echo})


def satisfied(_: bytes = b"", **more: Any) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(**more)


def scram_broker(mechanism: str, *, password: str = PASSWORD, iterations: int = 4096, forged: bool = False) -> Broker:
    """A broker that knows ``password``; a ``forged`` one does not and claims to have verified the client."""
    kind = ScramMechanism(mechanism)
    server = kind.make_server(lambda _: kind.make_auth_info(password, iteration_count=iterations))

    def first(said: bytes) -> SaslAuthenticateResponse:
        server.set_client_first(said.decode())
        return satisfied(auth_bytes=server.get_server_first().encode())

    def final(said: bytes) -> SaslAuthenticateResponse:
        if forged:
            return satisfied(auth_bytes=b"v=" + b"A" * 43 + b"=")
        server.set_client_final(said.decode())
        return satisfied(auth_bytes=server.get_server_final().encode())

    return Broker(first, final)


def exchange(broker: Broker, mechanism: str, conversation: Callable[[Deadline], Conversation], *bodies: bytes) -> None:
    """Authenticates, then sends each body and expects it back."""
    with ScriptedPeer(broker.script()) as peer:
        sasl = SaslAuthenticator(mechanism, conversation)
        connection = BrokerConnection(peer.host, peer.port, client_id="me", clock=CLOCK, connect_timeout=30.0, sasl=sasl)
        try:
            for body in bodies or (b"question",):
                assert bytes(connection.send_receive(ApiKey.FETCH, 12, body, Deadline(CLOCK, 60))) == body
        finally:
            connection.close()


def test_plain_sends_user_and_password_once() -> None:
    broker = Broker(satisfied)
    exchange(broker, "PLAIN", lambda _: plain(USER, PASSWORD), b"a", b"b")
    said = f"\0{USER}\0{PASSWORD}".encode()
    assert broker.asked == [("handshake", "PLAIN"), ("authenticate", said), ("fetch", b"a"), ("fetch", b"b")]


def test_a_zero_byte_in_user_or_password_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        plain("alice\0x", "y")


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
@pytest.mark.parametrize("user", [USER, "a=b,c", "müller"])
def test_scram_proves_the_password_without_sending_it(mechanism: str, user: str) -> None:
    broker = scram_broker(mechanism)
    exchange(broker, mechanism, lambda _: scram(mechanism, user, PASSWORD))
    said = b"".join(message for kind, message in broker.asked if kind == "authenticate")
    assert PASSWORD.encode() not in said
    assert [kind for kind, _ in broker.asked] == ["handshake", "authenticate", "authenticate", "fetch"]


def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    broker = scram_broker("SCRAM-SHA-256", forged=True)
    with pytest.raises(SaslAuthenticationError, match="the broker may not know the password"):
        exchange(broker, "SCRAM-SHA-256", lambda _: scram("SCRAM-SHA-256", USER, PASSWORD))
    assert broker.asked[-1][0] == "authenticate"


@pytest.mark.parametrize("rounds", ["4095", "1000001", "99999999999"])
def test_an_implausible_scram_iteration_count_is_refused_before_hashing(monkeypatch: pytest.MonkeyPatch, rounds: str) -> None:
    def hashing(*_: Any) -> bytes:
        raise AssertionError("hashed")

    monkeypatch.setattr("hashlib.pbkdf2_hmac", hashing)
    conversation = scram("SCRAM-SHA-512", USER, PASSWORD)
    nonce = next(conversation).decode().rpartition("r=")[2]
    with pytest.raises(SaslAuthenticationError, match=f"iterations {rounds} not in|is malformed"):
        conversation.send(f"r={nonce}more,s={'QUFB' * 8},i={rounds}".encode())


@pytest.mark.parametrize(
    "answer", [b"", b"\xff", b"r=someone-elses,s=QUFBQUFBQUFBQUFB,i=4096", b"e=other-error", b"r=x", b"i=-5", b"m=unknown,r=x"]
)
def test_an_invalid_first_scram_message_is_refused(answer: bytes) -> None:
    conversation = scram("SCRAM-SHA-256", USER, PASSWORD)
    next(conversation)
    with pytest.raises(SaslAuthenticationError, match="is malformed"):
        conversation.send(answer)


def test_a_name_that_scram_cannot_encode_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"sasl\.username or sasl\.password"):
        scram("SCRAM-SHA-256", "tab\there", PASSWORD)


def test_oauthbearer_sends_the_token_and_its_extensions() -> None:
    broker = Broker(satisfied)
    exchange(broker, "OAUTHBEARER", lambda _: oauthbearer(TOKEN, {"logicalCluster": "lkc-1"}))
    assert broker.asked[1] == ("authenticate", f"n,,\1auth=Bearer {TOKEN}\1logicalCluster=lkc-1\1\1".encode())


def test_a_refused_token_raises_the_brokers_message() -> None:
    why = satisfied(auth_bytes=b'{"status":"invalid_token"}')
    failed = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "token has\nexpired")
    broker = Broker(lambda _: why, lambda _: failed)
    with pytest.raises(SaslAuthenticationError, match=r"rejected OAUTHBEARER: token has\?expired"):
        exchange(broker, "OAUTHBEARER", lambda _: oauthbearer(TOKEN, {}))
    assert broker.asked[-1] == ("authenticate", b"\1")


def test_a_broker_that_accepts_after_refusing_a_token_is_refused() -> None:
    broker = Broker(lambda _: satisfied(auth_bytes=b"{}"), satisfied)
    with pytest.raises(SaslAuthenticationError, match="rejected the token"):
        exchange(broker, "OAUTHBEARER", lambda _: oauthbearer(TOKEN, {}))


@pytest.mark.parametrize(
    ("token", "extensions"),
    [
        ("", {}),
        ("a\1b", {}),
        ("ä", {}),
        (TOKEN, {"auth": "x"}),
        (TOKEN, {"a": "b\1c=d"}),
        (TOKEN, {"a-b": "c"}),
        (TOKEN, {"": "c"}),
    ],
)
def test_an_invalid_token_or_extension_is_never_sent(token: str, extensions: dict[str, str]) -> None:
    with pytest.raises(SaslAuthenticationError):
        oauthbearer(token, extensions)


def test_an_unsupported_mechanism_is_an_error_that_lists_the_others() -> None:
    broker = Broker(mechanisms=("SCRAM-SHA-512", "GSSAPI"), refuses=ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    with pytest.raises(SaslAuthenticationError, match="does not support PLAIN; it supports: SCRAM-SHA-512, GSSAPI"):
        exchange(broker, "PLAIN", lambda _: plain(USER, PASSWORD))
    assert len(broker.asked) == 1


def test_a_broker_without_sasl_is_an_error_that_names_the_setting() -> None:
    broker = Broker(refuses=ErrorCode.ILLEGAL_SASL_STATE)
    with pytest.raises(SecurityProtocolError, match=r"^the broker does not ask for SASL; check security\.protocol$"):
        exchange(broker, "PLAIN", lambda _: plain(USER, PASSWORD))


@pytest.mark.parametrize(
    "broker",
    [
        Broker(refuses=ErrorCode.UNKNOWN_SERVER_ERROR),
        Broker(lambda _: SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED)),
        Broker(lambda _: SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "x" * 5000)),
    ],
)
def test_no_refusal_repeats_a_secret_or_a_long_message(broker: Broker) -> None:
    with pytest.raises(SaslAuthenticationError) as failure:
        exchange(broker, "PLAIN", lambda _: plain(USER, PASSWORD))
    assert PASSWORD not in str(failure.value)
    assert len(str(failure.value)) < 300
    assert failure.value.cause == "authentication"


def test_an_answer_that_does_not_parse_is_a_protocol_error() -> None:
    script = broker_script({ApiKey.SASL_HANDSHAKE: lambda *_: b"\0"})
    with ScriptedPeer(script) as peer:
        sasl = SaslAuthenticator("PLAIN", lambda _: plain(USER, PASSWORD))
        connection = BrokerConnection(peer.host, peer.port, client_id="me", clock=CLOCK, connect_timeout=30.0, sasl=sasl)
        with pytest.raises(ProtocolError):
            connection.send_receive(ApiKey.FETCH, 12, b"", Deadline(CLOCK, 60))
        assert connection.closed


class Lived:
    """A connection with a session lifetime of one second, on a manual clock."""

    def __init__(self, broker: Broker, peer: ScriptedPeer) -> None:
        self.clock = ManualClock()
        self.broker = broker
        sasl = SaslAuthenticator("PLAIN", lambda _: plain(USER, PASSWORD))
        self.connection = BrokerConnection(
            peer.host, peer.port, client_id="me", clock=self.clock, connect_timeout=30.0, sasl=sasl
        )

    def ask(self) -> None:
        self.connection.send_receive(ApiKey.FETCH, 12, b"x", Deadline(self.clock, 60))

    @property
    def authentications(self) -> int:
        return [kind for kind, _ in self.broker.asked].count("authenticate")


@pytest.fixture
def lived() -> Iterator[Lived]:
    broker = Broker(*[lambda said: satisfied(said, session_lifetime_ms=1000)] * 2, satisfied)
    with ScriptedPeer(broker.script()) as peer:
        made = Lived(broker, peer)
        yield made
        made.connection.close()
        assert peer.accepted == 1


def test_a_connection_authenticates_again_before_its_session_ends(lived: Lived) -> None:
    lived.ask()
    lived.clock.now += 0.8
    lived.ask()
    assert lived.authentications == 1
    lived.clock.now += 0.06
    lived.ask()
    assert lived.authentications == 2
    lived.clock.now += 0.9
    lived.ask()
    assert lived.authentications == 3
    lived.clock.now += 3600
    lived.ask()  # the last answer had no session lifetime
    assert lived.authentications == 3


def test_an_authentication_without_a_token_sends_nothing() -> None:
    def refuses(_: Deadline) -> Conversation:
        raise SaslAuthenticationError("no token")

    broker = Broker()
    with pytest.raises(LocationError, match="no token"):
        exchange(broker, "OAUTHBEARER", refuses)
    assert not broker.asked


def test_repr_shows_the_mechanism_only() -> None:
    assert repr(SaslAuthenticator("PLAIN", lambda _: plain(USER, PASSWORD))) == "<SaslAuthenticator PLAIN>"
