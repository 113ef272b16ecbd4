from __future__ import annotations

import ssl
import threading
from functools import partial
from typing import Any

import pytest
from pytest_mock import MockerFixture

from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.errors import (
    BrokerResponseError,
    ClientCertificateError,
    LocationError,
    LocationThrottledError,
    PeerCertificateError,
    PeerUnreachableError,
    ProtocolError,
    SaslAuthenticationError,
    SecurityProtocolError,
    UnservedConnectionError,
)
from kafka_remote_client.protocol import api_versions
from kafka_remote_client.protocol import peer as peer_module
from kafka_remote_client.protocol.api_keys import FETCH, METADATA, ApiKey
from kafka_remote_client.protocol.api_versions import ApiVersion, ApiVersionsResponse
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.protocol.headers import RequestHeader
from kafka_remote_client.protocol.peer import BrokerPeer
from tests.support.locations import ManualClock
from tests.support.mock_cluster import mock_cluster
from tests.support.scripted_peer import CERTIFICATE, Answer, PeerConnection, ScriptedPeer, broker_script

PLAIN = ApiVersionsResponse(api_keys=(ApiVersion(ApiKey.FETCH, 4, 18), ApiVersion(ApiKey.METADATA, 0, 13)))
SHIM = PLAIN.announcing()


def speaking(response: ApiVersionsResponse) -> Answer:
    return lambda header, _: api_versions.encode_response(response, header.api_version)


def script(response: ApiVersionsResponse, **more: Any) -> Any:
    return broker_script({ApiKey.API_VERSIONS: speaking(response), ApiKey.FETCH: lambda _, body: body[::-1]})


def peer_at(host: str, port: int, clock: Clock) -> BrokerPeer:
    # The exchanges use real time; the test's clock is only for the peer's own time-outs.
    return BrokerPeer(
        f"{host}:{port}", lambda: BrokerConnection(host, port, client_id="me", clock=SystemClock(), connect_timeout=30), clock
    )


class FailingConnection(BrokerConnection):
    def __init__(self, error: LocationError) -> None:
        super().__init__("broker", 9092, client_id="me", clock=SystemClock(), connect_timeout=30)
        self._error = error

    def send_receive(self, *_: Any, **__: Any) -> memoryview:
        raise self._error


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def ample() -> Deadline:
    return Deadline(SystemClock(), 60)


def test_a_session_is_kept_and_has_the_peers_versions(clock: ManualClock) -> None:
    with ScriptedPeer(script(SHIM)) as scripted:
        peer = peer_at(scripted.host, scripted.port, clock)
        first, used_before = peer.session(ample())
        assert not used_before
        assert first.versions.announces_direct_fetch
        assert first.best_version(FETCH) == 18
        assert first.best_version(METADATA, range(4, 10)) == 9
        assert first.best_version(FETCH, range(30, 31)) is None
        assert first.call(FETCH, 12, b"ab", ample()) == b"ba"
        assert peer.session(ample()) == (first, True)
        peer.close()
    assert scripted.accepted == 1


def test_a_closed_connection_is_replaced(clock: ManualClock) -> None:
    with ScriptedPeer(script(SHIM), script(PLAIN)) as scripted:
        peer = peer_at(scripted.host, scripted.port, clock)
        first, _ = peer.session(ample())
        first.connection.close()
        second, used_before = peer.session(ample())
        assert not used_before
        assert not second.versions.announces_direct_fetch
        peer.close()
    assert scripted.accepted == 2


def test_the_software_name_is_sent_in_version_3_only(mocker: MockerFixture, clock: ManualClock) -> None:
    heard: list[tuple[int, api_versions.ApiVersionsRequest]] = []

    def answer(header: RequestHeader, body: bytes) -> bytes:
        heard.append((header.api_version, api_versions.decode_request(body, header.api_version)))
        if header.api_version == 3:
            return api_versions.encode_response(ApiVersionsResponse(35), 0)
        return api_versions.encode_response(SHIM, 0)

    with ScriptedPeer(broker_script({ApiKey.API_VERSIONS: answer})) as scripted:
        peer = peer_at(scripted.host, scripted.port, clock)
        session, _ = peer.session(ample())
        assert session.versions.announces_direct_fetch
        peer.close()
    assert [version for version, _ in heard] == [3, 0]
    assert heard[0][1].client_software_name == "kafka-remote-client"
    assert heard[0][1].client_software_version[0].isalnum()


def test_an_uninstalled_package_has_an_unknown_version(mocker: MockerFixture) -> None:
    mocker.patch.object(peer_module.metadata, "version", side_effect=peer_module.metadata.PackageNotFoundError)
    assert peer_module._software_version.__wrapped__() == "unknown"


def test_librdkafkas_mock_may_refuse_version_3(clock: ManualClock) -> None:
    with mock_cluster("t", []) as (host, port):
        peer = peer_at(host, port, clock)
        session, _ = peer.session(ample())
        assert session.best_version(FETCH) == 16
        assert not session.versions.announces_direct_fetch
        peer.close()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", ProtocolError),
        (b"\x00", ProtocolError),
        (b"\x00\x00\x05", ProtocolError),
        (b"\x00\x2a\x01" + bytes(5), BrokerResponseError),
    ],
)
def test_an_invalid_answer_closes_the_connection(body: bytes, kind: type[LocationError], clock: ManualClock) -> None:
    with ScriptedPeer(broker_script({ApiKey.API_VERSIONS: lambda *_: body})) as scripted:
        peer = peer_at(scripted.host, scripted.port, clock)
        with pytest.raises(kind):
            peer.session(ample())


def test_a_failed_peer_gets_no_requests_for_a_while(clock: ManualClock) -> None:
    with ScriptedPeer(lambda _: None, lambda _: None, script(SHIM)) as scripted:
        peer = peer_at(scripted.host, scripted.port, clock)
        for tries, seconds in ((1, 0.5), (2, 1.0)):
            with pytest.raises(LocationError):
                peer.session(ample())
            assert scripted.accepted == tries
            with pytest.raises(LocationError, match="failed recently"):
                peer.session(ample())
            assert scripted.accepted == tries
            clock.now += seconds
        session, _ = peer.session(ample())
        assert session.versions.announces_direct_fetch
        peer.close()
    assert scripted.accepted == 3


def test_a_failure_keeps_its_cause_during_the_pause(clock: ManualClock) -> None:
    for kind in (
        SaslAuthenticationError,
        ProtocolError,
        ClientCertificateError,
        PeerCertificateError,
        PeerUnreachableError,
        SecurityProtocolError,
        UnservedConnectionError,
    ):
        error = kind("no")
        peer = BrokerPeer("the shim", partial(FailingConnection, error), clock)
        with pytest.raises(type(error), match=f"^{error}$"):
            peer.session(ample())
        with pytest.raises(type(error), match=rf"^{error} \(failed recently; the next attempt waits\)$"):
            peer.session(ample())


def test_a_short_deadline_is_not_a_failure_of_the_peer(clock: ManualClock) -> None:
    with ScriptedPeer(script(SHIM)) as scripted:
        peer = peer_at(scripted.host, scripted.port, clock)
        with pytest.raises(LocationError, match="timed out"):
            peer.session(Deadline(SystemClock(), 0))
        session, _ = peer.session(ample())
        assert session.versions.announces_direct_fetch
        peer.close()


def test_an_unannounced_peer_is_asked_again_at_growing_intervals(clock: ManualClock) -> None:
    with ScriptedPeer(script(PLAIN), script(PLAIN), script(SHIM)) as scripted:
        peer = peer_at(scripted.host, scripted.port, clock)
        peer.session(ample())
        for connections, seconds in ((1, 5.0), (2, 10.0)):
            clock.now += seconds * 0.74
            _, used_before = peer.session(ample())
            assert (scripted.accepted, used_before) == (connections, True)
            clock.now += seconds * 0.27
            peer.session(ample())
        session, _ = peer.session(ample())
        assert session.versions.announces_direct_fetch
        clock.now += 10_000
        assert peer.session(ample()) == (session, True)
        peer.close()
    assert scripted.accepted == 3


def test_close_ends_a_negotiation_in_another_thread(clock: ManualClock) -> None:
    asked = threading.Event()

    def silent(connection: PeerConnection) -> None:
        connection.receive()
        asked.set()
        connection.hold()

    failures: list[BaseException] = []

    def connect() -> None:
        try:
            peer.session(ample())
        except BaseException as error:
            failures.append(error)

    with ScriptedPeer(silent) as scripted:
        peer = peer_at(scripted.host, scripted.port, clock)
        thread = threading.Thread(target=connect)
        thread.start()
        assert asked.wait(30)
        with pytest.raises(LocationError, match=r"connecting to .* timed out"):
            peer.session(Deadline(SystemClock(), 0.01))
        peer.close()
        thread.join(30)
        assert not thread.is_alive()
        with pytest.raises(LocationError):
            peer.session(ample())
    assert [type(failure) for failure in failures] == [LocationError]
    assert scripted.accepted == 1


def test_close_is_idempotent_and_allowed_before_use(clock: ManualClock) -> None:
    peer = peer_at("127.0.0.1", 1, clock)
    peer.close()
    peer.close()
    with pytest.raises(LocationError, match="was closed"):
        peer.session(ample())


def test_a_throttled_session_sends_no_request_until_the_wait_is_over(clock: ManualClock) -> None:
    asked: list[bytes] = []

    def fetch(_: RequestHeader, body: bytes) -> bytes:
        asked.append(body)
        return (30_000).to_bytes(4, "big") + body

    scripted_answers = {ApiKey.API_VERSIONS: speaking(SHIM), ApiKey.FETCH: fetch}
    with ScriptedPeer(broker_script(scripted_answers)) as scripted:
        peer = peer_at(scripted.host, scripted.port, clock)
        session, _ = peer.session(ample())
        assert session.call(FETCH, 12, b"one", ample())[4:] == b"one"
        with pytest.raises(LocationThrottledError, match="throttles this client for 30"):
            peer.session(ample())
        with pytest.raises(LocationThrottledError):
            session.call(FETCH, 12, b"too soon", Deadline(SystemClock(), 20))
        clock.now += 30
        assert peer.session(ample()) == (session, True)
        session.call(FETCH, 12, b"two", ample())
        peer.close()
    assert asked == [b"one", b"two"]


def test_a_refused_tls_handshake_logs_nothing_by_itself(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    contexts = [ssl.create_default_context()] * 3 + [ssl.create_default_context(cafile=CERTIFICATE)]

    def connect() -> BrokerConnection:
        return BrokerConnection(
            "localhost", scripted.port, client_id="me", clock=SystemClock(), connect_timeout=30, ssl_context=contexts.pop(0)
        )

    with ScriptedPeer(script(SHIM), certificate=CERTIFICATE) as scripted:
        peer = BrokerPeer("the shim", connect, clock)
        for _ in range(3):
            with pytest.raises(PeerCertificateError, match="self-signed certificate"):
                peer.session(ample())
            clock.now += 30
        assert peer.session(ample())[0].versions.announces_direct_fetch
        assert caplog.records == []  # the fallback logs the warning
        peer.close()
