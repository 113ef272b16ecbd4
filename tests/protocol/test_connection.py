from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pytest_mock import MockerFixture

from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.errors import (
    BrokerResponseError,
    ClientCertificateError,
    LocationError,
    PeerCertificateError,
    PeerUnreachableError,
    ProtocolError,
    SecurityProtocolError,
    UnservedConnectionError,
)
from kafka_remote_client.protocol import connection as connection_module
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.protocol.error_codes import ErrorCode, broker_error
from kafka_remote_client.protocol.tls import server_context
from tests.support.clocks import TickingClock
from tests.support.ports import HOST
from tests.support.scripted_peer import CERTIFICATE, PeerConnection, ScriptedPeer, broker_script
from tests.support.waiting import wait_until

CLOCK = SystemClock()


def ample(clock: Clock = CLOCK) -> Deadline:
    return Deadline(clock, 60)


def connect(peer: ScriptedPeer, **options: Any) -> BrokerConnection:
    settings: dict[str, Any] = {"client_id": "me", "clock": CLOCK, "connect_timeout": 30.0} | options
    return BrokerConnection(settings.pop("host", peer.host), peer.port, **settings)


def ask(connection: BrokerConnection, body: bytes = b"question", deadline: Deadline | None = None) -> bytes:
    return bytes(connection.send_receive(ApiKey.FETCH, 12, body, deadline or ample()))


echo = broker_script({ApiKey.FETCH: lambda _, body: body[::-1]})


def fails(script: Callable[[PeerConnection], None], kind: type[LocationError], match: str, **options: Any) -> None:
    """One exchange with that peer raises this error, and the connection is closed permanently."""
    with ScriptedPeer(script) as peer:
        connection = connect(peer, **options)
        with pytest.raises(kind, match=match) as failure:
            ask(connection)
        assert type(failure.value) is kind
        assert connection.closed
        with pytest.raises(LocationError, match="closed"):
            ask(connection)
        assert peer.accepted == 1


def test_each_request_gets_its_answer() -> None:
    with ScriptedPeer(echo) as peer:
        connection = connect(peer)
        assert [ask(connection, body) for body in (b"ab", b"cd", b"")] == [b"ba", b"dc", b""]
        connection.close()
    assert peer.accepted == 1


def test_requests_carry_the_client_id_and_their_own_correlation_id() -> None:
    seen = []

    def script(peer: PeerConnection) -> None:
        while True:
            header, _ = peer.receive()
            seen.append((header.client_id, header.correlation_id))
            peer.reply(header, b"")

    with ScriptedPeer(script) as peer:
        connection = connect(peer)
        ask(connection)
        ask(connection)
        connection.close()
    assert seen == [("me", 1), ("me", 2)]


def test_a_large_answer_arrives_whole() -> None:
    answer = bytes(range(256)) * 4096
    with ScriptedPeer(broker_script({ApiKey.FETCH: lambda *_: answer})) as peer:
        connection = connect(peer)
        assert ask(connection) == answer
        connection.close()


def test_the_wrong_correlation_id_is_a_protocol_error() -> None:
    def script(peer: PeerConnection) -> None:
        header, _ = peer.receive()
        peer.reply(type(header)(header.api_key, header.api_version, 99), b"")
        peer.hold()

    fails(script, ProtocolError, "correlation id 99, expected 1")


@pytest.mark.parametrize("length", ["00000003", "00000000", "ffffffff", "80000000", "7fffffff", "1500fe40", "04000001"])
def test_an_impossible_length_is_refused_before_reading(length: str) -> None:
    def script(peer: PeerConnection) -> None:
        peer.receive()
        peer.send(bytes.fromhex(length))
        peer.hold()

    fails(script, ProtocolError, "invalid response length of")


def test_a_length_longer_than_the_answer_is_a_location_error() -> None:
    def script(peer: PeerConnection) -> None:
        peer.receive()
        peer.send(bytes.fromhex("03ffffff") + b"few bytes")

    fails(script, UnservedConnectionError, "closed the connection")


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n"])
def test_another_protocol_is_a_protocol_error(garbage: bytes) -> None:
    def script(peer: PeerConnection) -> None:
        peer.receive()
        peer.send(garbage)
        peer.hold()

    fails(script, ProtocolError, "invalid response length of")


def test_a_response_header_that_does_not_parse_is_a_protocol_error() -> None:
    def script(peer: PeerConnection) -> None:
        header, _ = peer.receive()
        peer.send(bytes.fromhex("00000006") + header.correlation_id.to_bytes(4, "big") + b"\x01\x80")
        peer.hold()

    fails(script, ProtocolError, "truncated")


@pytest.mark.parametrize("sent", [b"", b"\x00\x00", bytes.fromhex("0000000a00000001")])
def test_a_peer_that_closes_inside_an_answer_is_a_location_error(sent: bytes) -> None:
    def script(peer: PeerConnection) -> None:
        peer.receive()
        peer.send(sent)

    fails(script, UnservedConnectionError, "closed the connection")


ALERT = bytes.fromhex("15030300020246")


def test_a_tls_alert_as_the_first_answer_names_the_setting() -> None:
    def script(peer: PeerConnection) -> None:
        peer.receive()
        peer.send(ALERT)
        peer.hold()

    fails(script, SecurityProtocolError, r"^127\.0\.0\.1:\d+ expects TLS; check security\.protocol$")


@pytest.mark.parametrize("first", [ApiKey.API_VERSIONS, ApiKey.FETCH])
def test_a_close_before_the_first_answer_names_the_setting(first: ApiKey) -> None:
    """A broker that waits for SASL tells its versions, and closes the connection at any other request."""

    def script(peer: PeerConnection) -> None:
        header, _ = peer.receive()
        peer.reply(header, b"versions")
        peer.receive()

    with ScriptedPeer(script) as peer:
        connection = connect(peer)
        connection.send_receive(first, 2, b"", ample())
        with pytest.raises(LocationError) as failure:
            ask(connection)
    assert type(failure.value) is (UnservedConnectionError if first is ApiKey.API_VERSIONS else LocationError)
    hint = " before it served a request; check security.protocol, and the limits of the shim"
    said = f"127.0.0.1:{peer.port} closed the connection"
    assert str(failure.value) == said + (hint if first is ApiKey.API_VERSIONS else "")


def test_a_peer_that_closes_at_once_is_a_location_error() -> None:
    with ScriptedPeer(lambda _: None) as peer:
        connection = connect(peer)
        with pytest.raises(LocationError):
            ask(connection)


def test_a_refused_connection_is_a_location_error() -> None:
    with ScriptedPeer(echo) as peer:
        pass
    connection = connect(peer)
    with pytest.raises(PeerUnreachableError, match=rf"^cannot connect to {peer.host}:{peer.port}: connection refused$"):
        ask(connection)
    assert connection.closed


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", 70000), ("127.0.0.1", -1), ("a" * 70, 9092), ("nul\0byte", 9092), ("256.1.1.1", 9092)]
)
def test_an_invalid_address_is_a_location_error(host: str, port: int) -> None:
    connection = BrokerConnection(host, port, client_id="me", clock=CLOCK, connect_timeout=5.0)
    with pytest.raises(LocationError):
        ask(connection)
    assert connection.closed


def test_the_error_of_an_unknown_name_has_no_errno() -> None:
    with pytest.raises(PeerUnreachableError, match=r"^cannot connect to shim\.invalid:1: the host name does not resolve$"):
        ask(BrokerConnection("shim.invalid", 1, client_id="me", clock=CLOCK, connect_timeout=5.0))


def test_a_name_without_addresses_is_a_location_error(mocker: MockerFixture) -> None:
    mocker.patch.object(connection_module.socket, "getaddrinfo", return_value=[])
    with pytest.raises(LocationError, match="no address"):
        ask(BrokerConnection("nowhere", 1, client_id="me", clock=CLOCK, connect_timeout=5.0))


def test_every_address_of_a_name_is_tried(mocker: MockerFixture) -> None:
    with ScriptedPeer(echo) as nobody:
        pass
    with ScriptedPeer(echo) as peer:
        entry = (2, 1, 6, "")
        addresses = [(*entry, (nobody.host, nobody.port)), (*entry, (peer.host, peer.port))]
        mocker.patch.object(connection_module.socket, "getaddrinfo", return_value=addresses)
        connection = connect(peer)
        assert ask(connection, b"ab") == b"ba"
        connection.close()


def test_an_address_of_a_family_that_the_machine_lacks_is_skipped(mocker: MockerFixture) -> None:
    with ScriptedPeer(echo) as peer:
        addresses = [(9999, 1, 6, "", ("::1", peer.port, 0, 0)), (2, 1, 6, "", (peer.host, peer.port))]
        mocker.patch.object(connection_module.socket, "getaddrinfo", return_value=addresses)
        connection = connect(peer)
        assert ask(connection, b"ab") == b"ba"
        connection.close()


def test_the_deadline_applies_to_the_whole_answer_not_to_each_byte(mocker: MockerFixture) -> None:
    mocker.patch.object(connection_module, "_READ_BYTES", 1)

    def script(peer: PeerConnection) -> None:
        header, _ = peer.receive()
        peer.reply(header, b"x" * 1000)
        peer.hold()

    clock = TickingClock(1.0)
    with ScriptedPeer(script) as peer:
        connection = connect(peer, clock=clock, connect_timeout=1000.0)
        with pytest.raises(LocationError, match="timed out"):
            ask(connection, deadline=Deadline(clock, 100))
        assert connection.closed


def test_a_silent_peer_takes_no_longer_than_the_deadline() -> None:
    with ScriptedPeer(PeerConnection.hold) as peer:
        connection = connect(peer)
        with pytest.raises(LocationError, match="timed out"):
            ask(connection, deadline=Deadline(CLOCK, 0.05))
        assert connection.closed


def test_a_past_deadline_sends_nothing() -> None:
    with ScriptedPeer(echo) as peer:
        connection = connect(peer)
        with pytest.raises(LocationError, match="timed out"):
            ask(connection, deadline=Deadline(CLOCK, 0))
    assert peer.accepted == 0


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_close_wakes_an_exchange_in_another_thread(tls: bool) -> None:
    asked = threading.Event()

    def script(peer: PeerConnection) -> None:
        peer.receive()
        asked.set()
        peer.hold()

    failures: list[BaseException] = []

    def exchange() -> None:
        try:
            ask(connection)
        except BaseException as error:
            failures.append(error)

    context = ssl.create_default_context(cafile=CERTIFICATE) if tls else None
    with ScriptedPeer(script, certificate=CERTIFICATE if tls else None) as peer:
        connection = connect(peer, host="localhost", ssl_context=context)
        thread = threading.Thread(target=exchange)
        thread.start()
        assert asked.wait(30)
        connection.close()
        thread.join(30)
        assert not thread.is_alive()
    assert [type(failure) for failure in failures] == [LocationError]


def test_close_before_any_exchange_prevents_it() -> None:
    with ScriptedPeer(echo) as peer:
        connection = connect(peer)
        connection.close()
        connection.close()
        with pytest.raises(LocationError, match="closed"):
            ask(connection)
    assert peer.accepted == 0


def test_close_while_connecting_ends_the_connection(mocker: MockerFixture) -> None:
    with ScriptedPeer(echo) as peer:
        connection = connect(peer)
        resolve = connection_module.socket.getaddrinfo

        def close_meanwhile(*args: Any, **kwargs: Any) -> Any:
            connection.close()
            return resolve(*args, **kwargs)

        mocker.patch.object(connection_module.socket, "getaddrinfo", close_meanwhile)
        with pytest.raises(LocationError, match="closed"):
            ask(connection)


def test_threads_exchange_one_at_a_time() -> None:
    answers: dict[int, bytes] = {}
    with ScriptedPeer(echo) as peer:
        connection = connect(peer)

        def exchange(number: int) -> None:
            answers[number] = ask(connection, f"{number:04d}".encode())

        threads = [threading.Thread(target=exchange, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        connection.close()
    assert answers == {number: f"{number:04d}".encode()[::-1] for number in range(16)}
    assert peer.accepted == 1


def test_a_waiting_caller_gets_the_next_turn() -> None:
    """Otherwise a caller that returns at once would keep the connection, and the other one would never send."""
    connection = BrokerConnection("127.0.0.1", 1, client_id="me", clock=CLOCK, connect_timeout=30.0)
    order: list[str] = []

    def wait() -> None:
        with connection.turn():
            order.append("other")

    other = threading.Thread(target=wait)
    with connection.turn():
        other.start()
        wait_until(connection._next.locked, "the other one")
        with connection.turn():  # the exchange of an authenticator
            order.append("inner")
    with connection.turn(ample()):
        order.append("again")
    other.join(30)
    assert order == ["inner", "other", "again"]


def test_a_third_caller_waits_no_longer_than_its_deadline() -> None:
    connection = BrokerConnection("127.0.0.1", 1, client_id="me", clock=CLOCK, connect_timeout=30.0)
    other = threading.Thread(target=lambda: takes_a_turn(connection))
    with connection.turn():
        other.start()
        wait_until(connection._next.locked, "the other one")
        third = threading.Thread(target=lambda: failures.append(refused(connection)))
        failures: list[str] = []
        third.start()
        third.join(30)
    other.join(30)
    assert failures == ["127.0.0.1:1 timed out waiting for a free connection"]


def takes_a_turn(connection: BrokerConnection) -> None:
    with connection.turn():
        pass


def refused(connection: BrokerConnection) -> str:
    """Returns the error of a turn that is not granted in time."""
    with pytest.raises(LocationError) as refusal, connection.turn(Deadline(CLOCK, 0.01)):
        pass
    return str(refusal.value)


def test_the_wait_for_a_turn_ends_at_the_deadline() -> None:
    asked, release = threading.Event(), threading.Event()

    def script(peer: PeerConnection) -> None:
        header, body = peer.receive()
        asked.set()
        release.wait(30)
        peer.reply(header, body)
        peer.hold()

    answers: list[bytes] = []
    with ScriptedPeer(script) as peer:
        connection = connect(peer)
        thread = threading.Thread(target=lambda: answers.append(ask(connection)))
        thread.start()
        assert asked.wait(30)
        with pytest.raises(LocationError, match="timed out waiting for a free connection"):
            ask(connection, deadline=Deadline(CLOCK, 0.01))
        assert not connection.closed
        release.set()
        thread.join(30)
        assert answers == [b"question"]
        connection.close()


def test_an_interrupt_closes_the_connection(mocker: MockerFixture) -> None:
    with ScriptedPeer(echo) as peer:
        connection = connect(peer)
        mocker.patch.object(connection_module, "frame", side_effect=KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            ask(connection)
        assert connection.closed


class _Sasl:
    """Sends one request before any other, then succeeds or raises."""

    def __init__(self, refusal: LocationError | None = None) -> None:
        self.refusal = refusal
        self.heard: list[bytes] = []

    def authenticate(self, connection: BrokerConnection, deadline: Deadline) -> None:
        self.heard.append(ask(connection, b"who", deadline))
        if self.refusal is not None:
            raise self.refusal


def test_an_authenticator_sends_first() -> None:
    sasl = _Sasl()
    with ScriptedPeer(echo) as peer:
        connection = connect(peer, sasl=sasl)
        assert ask(connection, b"ab") == b"ba"
        assert ask(connection, b"cd") == b"dc"
        connection.close()
    assert sasl.heard == [b"ohw"]


def test_a_refused_client_sends_nothing_more() -> None:
    sasl = _Sasl(broker_error(ErrorCode.SASL_AUTHENTICATION_FAILED, "SaslAuthenticate"))
    with ScriptedPeer(echo) as peer:
        connection = connect(peer, sasl=sasl)
        with pytest.raises(BrokerResponseError):
            ask(connection)
        assert connection.closed


def test_tls_is_used_if_it_is_configured() -> None:
    with ScriptedPeer(echo, certificate=CERTIFICATE) as peer:
        connection = connect(peer, host="localhost", ssl_context=ssl.create_default_context(cafile=CERTIFICATE))
        assert ask(connection, b"ab") == b"ba"
        connection.close()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_an_untrusted_certificate_is_refused(host: str) -> None:
    with ScriptedPeer(echo, certificate=CERTIFICATE) as peer:
        connection = connect(peer, host=host, ssl_context=ssl.create_default_context())
        with pytest.raises(PeerCertificateError) as failure:
            ask(connection)
    said = "self-signed certificate; check ssl.ca.location, and that the certificate names this host"
    assert str(failure.value) == f"cannot verify the certificate of {host}:{peer.port}: {said}"


def test_a_peer_that_asks_for_a_certificate_names_the_settings() -> None:
    """TLS 1.3 refuses a client after the handshake, in the place of the first answer."""
    asking, seen = server_context(CERTIFICATE, client_ca=CERTIFICATE), threading.Event()

    def accept() -> None:
        accepted, _ = server.accept()
        with asking.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False) as peer:
            with pytest.raises(ssl.SSLError, match="did not return a certificate"):
                peer.do_handshake()
            assert seen.wait(60)  # a close before the client has read the alert would take it away

    with socket.create_server((HOST, 0)) as server, ThreadPoolExecutor(1) as other:
        port = server.getsockname()[1]
        accepting = other.submit(accept)
        context = ssl.create_default_context(cafile=CERTIFICATE)
        clock = SystemClock()
        connection = BrokerConnection("localhost", port, client_id="me", clock=clock, connect_timeout=30.0, ssl_context=context)
        try:
            with pytest.raises(ClientCertificateError) as failure:
                ask(connection)
        finally:
            seen.set()
        accepting.result(60)
    said = "refuses this client's certificate, or requires one; check ssl.certificate.location and ssl.key.location"
    assert str(failure.value) == f"localhost:{port} {said}"


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (b"no TLS here, sorry", SecurityProtocolError, "does not answer with TLS; check security.protocol"),
        (
            b"",
            UnservedConnectionError,
            "closed the connection during the TLS handshake; check security.protocol, and the limits of the shim",
        ),
    ],
)
def test_tls_with_a_peer_without_tls_names_the_setting(answer: bytes, kind: type[LocationError], said: str) -> None:
    def script(peer: PeerConnection) -> None:
        peer.read(1)
        peer.send(answer)

    with ScriptedPeer(script) as peer:
        connection = connect(peer, host="localhost", ssl_context=ssl.create_default_context(cafile=CERTIFICATE))
        with pytest.raises(kind) as failure:
            ask(connection)
        assert str(failure.value) == f"localhost:{peer.port} {said}"


def test_a_refused_handshake_is_not_taken_for_a_peer_without_tls() -> None:
    def script(peer: PeerConnection) -> None:
        peer.read(1)
        peer.send(ALERT)

    with ScriptedPeer(script) as peer:
        connection = connect(peer, host="localhost", ssl_context=ssl.create_default_context(cafile=CERTIFICATE))
        with pytest.raises(LocationError, match=r"^the connection to localhost:\d+ failed: "):
            ask(connection)


def test_a_silent_tls_handshake_ends_at_the_connect_timeout() -> None:
    with ScriptedPeer(PeerConnection.hold) as peer:
        context = ssl.create_default_context(cafile=CERTIFICATE)
        connection = connect(peer, host="localhost", ssl_context=context, connect_timeout=0.05)
        with pytest.raises(LocationError, match="timed out"):
            ask(connection)


def test_repr_shows_the_address_and_state() -> None:
    connection = BrokerConnection("broker", 9092, client_id="me", clock=CLOCK, connect_timeout=1.0)
    assert repr(connection) == "<BrokerConnection broker:9092>"
    connection.close()
    assert repr(connection) == "<BrokerConnection broker:9092 closed>"
