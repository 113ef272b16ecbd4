"""TLS on both sides of a shim: which clients it admits and distinguishes, and that bytes pass as without TLS."""

from __future__ import annotations

import logging
import socket
import ssl
import struct
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import attrs
import pytest

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import ByteRange
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.metadata import MetadataBroker, MetadataResponse, encode_response
from kafka_remote_client.protocol.tls import client_context
from kafka_remote_client.shim.broker_strategy import Ask, ClientRequest
from kafka_remote_client.shim.client_admission import QUESTION_VERSION
from kafka_remote_client.shim.config import ShimConfig, parse_address
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.shim.signing import UrlSigner
from kafka_remote_client.shim.tls import TLS_BUFFER_BYTES, broker_context, limit_tls_buffers, listener_context, origin_context
from tests.shim.test_client_connection import Strategy, echo, heartbeat
from tests.support.certificates import Authority
from tests.support.kafka_client import RawClient
from tests.support.locations import ManualClock
from tests.support.scripted_broker import ScriptedBroker
from tests.support.scripted_peer import CERTIFICATE, PeerConnection, ScriptedPeer
from tests.support.waiting import wait_until

FETCH_12 = struct.pack(">ihhih", 14, 1, 12, 1, 3) + b"raw\0"
LARGE = b"x" * (6 << 20)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def files(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("tls")
    sealed = authority.issue()
    (directory / "certificate.pem").write_text(sealed.certificate_pem)
    (directory / "key.pem").write_text(sealed.key_pem("secret"))
    return {
        "ssl_certificate": str(directory / "certificate.pem"),
        "ssl_key": str(directory / "key.pem"),
        "ssl_key_password": "secret",
        "ca": str(authority.write(directory / "ca.pem")),
    }


@pytest.fixture
def tls(files: dict[str, str]) -> dict[str, Any]:
    """A TLS listener. Its handshake time-out is long enough for a busy machine."""
    return {"handshake_timeout": 60, **{name: value for name, value in files.items() if name != "ca"}}


@pytest.fixture
def trusting(authority: Authority) -> ssl.SSLContext:
    return client_context({"ssl.ca.pem": authority.pem})


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker(echo) as running:
        yield running


def counted(shim: Shim, name: str, count: int = 1) -> None:
    wait_until(lambda: shim.metrics().get(name, 0) >= count, f"{name} to be {count}", pause=0.01)
    assert shim.metrics()[name] == count


def all_gone(shim: Shim) -> None:
    def gone() -> bool:
        counts = shim.metrics()
        return counts["connections"] - counts.get("connections_refused.max_connections", 0) == counts.get(
            "connections_closed", 0
        )

    wait_until(gone, "all connections to be closed", pause=0.01)


def test_bytes_pass_both_ways_unchanged(broker: ScriptedBroker, tls: dict[str, Any], trusting: ssl.SSLContext) -> None:
    with Shim(ShimConfig(broker.address, **tls)) as shim:
        with RawClient(shim.bootstrap_servers, tls=trusting) as client:
            for number, body in enumerate((b"", b"small", LARGE, b"after it")):
                client.send(heartbeat(number, body))
                assert client.read() == struct.pack(">i", number) + heartbeat(number, body)[12:]
            client.send(b"".join(heartbeat(number, b"%d" % number) for number in range(10, 60)))
            for number in range(10, 60):
                assert client.read().endswith(b"%d" % number)
        all_gone(shim)
        assert not any(name.startswith("connections_dropped") for name in shim.metrics())


def test_a_strategy_gets_whether_the_client_uses_tls(
    broker: ScriptedBroker, tls: dict[str, Any], trusting: ssl.SSLContext
) -> None:
    async def answer(request: ClientRequest, ask: Ask) -> bytes | None:
        return b"secure" if request.secure else b"in the open"

    with (
        Shim(ShimConfig(broker.address, **tls), strategy=Strategy(answer)) as shim,
        RawClient(shim.bootstrap_servers, tls=trusting) as client,
    ):
        client.send(FETCH_12)
        assert client.read().endswith(b"secure")
    with Shim(ShimConfig(broker.address), strategy=Strategy(answer)) as shim, RawClient(shim.bootstrap_servers) as client:
        client.send(FETCH_12)
        assert client.read().endswith(b"in the open")


@pytest.mark.parametrize("words", [heartbeat(1, b"plain"), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello"])
def test_a_client_without_tls_is_disconnected_at_once_and_counted(
    broker: ScriptedBroker, tls: dict[str, Any], words: bytes
) -> None:
    # Far longer than the test: only the plaintext bytes can end the connection.
    with (
        Shim(ShimConfig(broker.address, **{**tls, "handshake_timeout": 600}, admission_timeout=600)) as shim,
        RawClient(shim.bootstrap_servers) as client,
    ):
        client.send(words)
        while client.socket.recv(1024):
            pass
        counted(shim, "connections_dropped.tls")
        all_gone(shim)
    assert not broker.requests


def test_a_client_that_never_ends_the_handshake_is_disconnected(broker: ScriptedBroker, tls: dict[str, Any]) -> None:
    with (
        Shim(ShimConfig(broker.address, **{**tls, "handshake_timeout": 0.1})) as shim,
        RawClient(shim.bootstrap_servers) as client,
    ):
        assert client.closed()
        counted(shim, "connections_dropped.tls")
        all_gone(shim)


def test_a_client_that_leaves_during_the_handshake_leaves_nothing(broker: ScriptedBroker, tls: dict[str, Any]) -> None:
    with Shim(ShimConfig(broker.address, **tls)) as shim:
        with RawClient(shim.bootstrap_servers) as client:
            client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        counted(shim, "connections_dropped.tls")
        all_gone(shim)


def test_connections_in_the_handshake_count_and_end_with_the_shim(broker: ScriptedBroker, tls: dict[str, Any]) -> None:
    config = ShimConfig(broker.address, **{**tls, "handshake_timeout": 600}, max_connections=1, admission_timeout=600)
    with Shim(config) as shim:
        silent = RawClient(shim.bootstrap_servers)
        counted(shim, "connections")
        with RawClient(shim.bootstrap_servers) as second:
            assert second.closed()
        counted(shim, "connections_refused.max_connections")
    with silent:
        assert silent.closed()
    assert shim.metrics()["connections_dropped.stopped"] == 1


def test_a_tls_client_that_sends_no_request_is_disconnected(
    broker: ScriptedBroker, tls: dict[str, Any], trusting: ssl.SSLContext
) -> None:
    clock = ManualClock()
    with (
        Shim(ShimConfig(broker.address, **tls), clock=clock) as shim,
        RawClient(shim.bootstrap_servers, tls=trusting) as client,
    ):
        clock.now += 11
        assert client.closed()
        counted(shim, "connections_dropped.admission")
        all_gone(shim)


def test_bytes_that_are_not_a_request_end_a_tls_connection_too(
    broker: ScriptedBroker, tls: dict[str, Any], trusting: ssl.SSLContext
) -> None:
    with Shim(ShimConfig(broker.address, **tls)) as shim, RawClient(shim.bootstrap_servers, tls=trusting) as client:
        client.send(struct.pack(">i", -1))
        assert client.closed()
        counted(shim, "connections_dropped.protocol")
        all_gone(shim)


def test_a_required_client_certificate_admits_only_its_holders(
    broker: ScriptedBroker, files: dict[str, str], tls: dict[str, Any], authority: Authority, trusting: ssl.SSLContext
) -> None:
    mine = authority.issue()
    known = client_context(
        {"ssl.ca.pem": authority.pem, "ssl.certificate.pem": mine.certificate_pem, "ssl.key.pem": mine.key_pem()}
    )
    with Shim(ShimConfig(broker.address, **tls, ssl_client_ca=files["ca"])) as shim:
        with RawClient(shim.bootstrap_servers, tls=known) as client:
            client.send(heartbeat(1, b"hello"))
            assert client.read().endswith(b"hello")
        with RawClient(shim.bootstrap_servers, tls=trusting) as client:
            assert client.closed()
        counted(shim, "connections_dropped.tls")
    assert len(broker.requests) == 1


def test_a_strategy_gets_the_subject_of_the_clients_certificate(
    broker: ScriptedBroker, files: dict[str, str], tls: dict[str, Any], authority: Authority, trusting: ssl.SSLContext
) -> None:
    async def answer(request: ClientRequest, ask: Ask) -> bytes | None:
        return f"<{request.principal}>".encode()

    mine = authority.issue(common_name="app")
    known = client_context(
        {"ssl.ca.pem": authority.pem, "ssl.certificate.pem": mine.certificate_pem, "ssl.key.pem": mine.key_pem()}
    )
    for settings, context, said in (({"ssl_client_ca": files["ca"]}, known, b"<commonName=app>"), ({}, trusting, b"<>")):
        with (
            Shim(ShimConfig(broker.address, **tls, **settings), strategy=Strategy(answer)) as shim,
            RawClient(shim.bootstrap_servers, tls=context) as client,
        ):
            client.send(FETCH_12)
            assert client.read().endswith(said)


def test_a_client_that_does_not_trust_the_shim_gets_an_error(broker: ScriptedBroker, tls: dict[str, Any]) -> None:
    with Shim(ShimConfig(broker.address, **tls)) as shim:
        with pytest.raises(ssl.SSLCertVerificationError):
            RawClient(shim.bootstrap_servers, tls=client_context({}))
        counted(shim, "connections_dropped.tls")
        all_gone(shim)


SERVED = encode_response(MetadataResponse((MetadataBroker(1, "localhost", 9092),), ()), QUESTION_VERSION)


def tls_echo(peer: PeerConnection) -> None:
    while True:
        body = peer.read(int.from_bytes(peer.read(4), "big"))
        (key,) = struct.unpack_from(">h", body)
        answer = body[4:8] + (b"\0" + SERVED if key == ApiKey.METADATA else body[8:])
        peer.send(struct.pack(">i", len(answer)) + answer)


@pytest.mark.parametrize("both", [False, True])
def test_brokers_are_connected_over_tls_if_configured(tls: dict[str, Any], trusting: ssl.SSLContext, both: bool) -> None:
    settings = {"security.protocol": "sasl_ssl", "ssl.ca.location": str(CERTIFICATE)}
    with ScriptedPeer(tls_echo, certificate=CERTIFICATE) as peer:
        config = ShimConfig(f"localhost:{peer.port}", broker_settings=settings, **(tls if both else {}))
        with Shim(config) as shim, RawClient(shim.bootstrap_servers, tls=trusting if both else None) as client:
            for number, body in enumerate((b"hello", LARGE)):
                client.send(heartbeat(number, body))
                assert client.read().endswith(body)


def test_a_broker_with_a_wrong_certificate_receives_no_bytes(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedPeer(tls_echo, certificate=CERTIFICATE) as peer, caplog.at_level(logging.WARNING):
        config = ShimConfig(f"localhost:{peer.port}", broker_settings={"security.protocol": "ssl"})
        with Shim(config) as shim, RawClient(shim.bootstrap_servers) as client:
            client.send(heartbeat(1, b"hello"))
            assert client.closed()
            counted(shim, "connections_dropped.upstream")
    assert "certificate verify failed" in caplog.text


def test_an_unfinished_broker_handshake_ends_at_the_connect_time_out() -> None:
    with ScriptedPeer(PeerConnection.hold) as peer:
        settings = {"security.protocol": "ssl"}
        config = ShimConfig(f"localhost:{peer.port}", broker_settings=settings, connect_timeout=0.1)
        with Shim(config) as shim, RawClient(shim.bootstrap_servers) as client:
            client.send(heartbeat(1))
            assert client.closed()
            counted(shim, "connections_dropped.upstream")


def test_the_origin_uses_tls_if_configured_and_requires_no_certificate(
    tmp_path: Path, files: dict[str, str], tls: dict[str, Any], trusting: ssl.SSLContext
) -> None:
    config = ShimConfig("127.0.0.1:1", store=tmp_path.as_uri(), **tls, ssl_client_ca=files["ca"], origin_https=True)
    with Shim(config) as shim:
        url = str(shim.origin_url)
        assert url.startswith("https://127.0.0.1:")
        with socket.create_connection(parse_address(url.removeprefix("https://")), timeout=20) as plain:
            secured = trusting.wrap_socket(plain, server_hostname="127.0.0.1")
            secured.sendall(b"GET /unsigned HTTP/1.1\r\nConnection: close\r\n\r\n")
            assert secured.recv(1024).startswith(b"HTTP/1.1 403")
            secured.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ssl_key": "key.pem"}, "TLS needs a certificate: set ssl_certificate"),
        ({"ssl_client_ca": "ca.pem"}, "TLS needs a certificate: set ssl_certificate"),
        ({"origin_https": True}, "TLS needs a certificate: set ssl_certificate"),
        ({"ssl_certificate": "/nowhere.pem"}, "the listener's certificate cannot be used: No such file"),
        ({"broker_settings": {"sasl.password": "canary"}}, r"sasl\.password is not a supported broker setting"),
        ({"broker_settings": {"security.protocol": "canary"}}, "unknown security.protocol"),
        ({"broker_settings": {"enable.ssl.certificate.verification": "false"}}, "see --allow-unverified-brokers"),
        ({"metadata_consumer": {"enable.ssl.certificate.verification": False}}, "see --allow-unverified-brokers"),
        ({"broker_settings": {"ssl.key.pem": "canary"}}, r"ssl\.key\.pem would present the shim's certificate"),
        (
            {"broker_settings": {"security.protocol": "ssl", "ssl.providers": "x"}},
            r"ssl\.providers is not supported by direct fetch",
        ),
    ],
)
def test_invalid_settings_are_refused_before_the_listeners_open(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Shim(ShimConfig("127.0.0.1:1", **settings)).start()


def test_unverified_brokers_are_logged_as_a_warning_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}
    with ScriptedPeer(tls_echo, certificate=CERTIFICATE) as peer, caplog.at_level(logging.WARNING):
        config = ShimConfig(f"127.0.0.1:{peer.port}", broker_settings=settings, allow_unverified_brokers=True)
        with Shim(config) as shim, RawClient(shim.bootstrap_servers) as client:
            client.send(heartbeat(1, b"hello"))
            assert client.read().endswith(b"hello")
            assert shim.metrics()["broker_connections_unverified"] == 1
    assert [record.levelname for record in caplog.records if "are not verified" in record.getMessage()] == ["WARNING"]


def test_a_shared_identity_has_to_be_allowed(authority: Authority) -> None:
    mine = authority.issue()
    settings = {
        "security.protocol": "sasl_ssl",
        "enable.ssl.certificate.verification": True,
        "ssl.certificate.pem": mine.certificate_pem,
        "ssl.key.pem": mine.key_pem(),
    }
    assert broker_context(ShimConfig("b:1", broker_settings=settings, allow_shared_identity=True)) is not None


def test_without_any_tls_setting_there_is_no_tls(tls: dict[str, Any]) -> None:
    plain = ShimConfig("b:1")
    assert (listener_context(plain), origin_context(plain), broker_context(plain)) == (None, None, None)
    assert origin_context(ShimConfig("b:1", **tls)) is None
    assert "secret" not in repr(ShimConfig("b:1", **tls))


def test_a_renewed_certificate_is_used_after_a_reload(broker: ScriptedBroker, tmp_path: Path, trusting: ssl.SSLContext) -> None:
    path = Authority("Somebody else").issue().write(tmp_path / "shim.pem")
    config = ShimConfig(broker.address, ssl_certificate=str(path), handshake_timeout=60)
    with Shim(config) as shim:
        path.write_text("no certificate")
        with pytest.raises(ConfigurationError):
            shim.reload(config)
        path.write_text(CERTIFICATE.read_text())
        assert shim.reload(config) == []
        trusts = client_context({"ssl.ca.location": str(CERTIFICATE), "ssl.endpoint.identification.algorithm": "none"})
        with RawClient(shim.bootstrap_servers, tls=trusts) as client:
            client.send(heartbeat(1, b"renewed"))
            assert client.read().endswith(b"renewed")
        with pytest.raises(ConfigurationError, match="without a restart"):
            shim.reload(ShimConfig(broker.address))


def test_the_origin_uses_a_renewed_certificate_and_a_new_key(tmp_path: Path) -> None:
    path = Authority("Somebody else").issue().write(tmp_path / "shim.pem")
    config = ShimConfig("127.0.0.1:1", store=tmp_path.as_uri(), ssl_certificate=str(path), origin_https=True)
    with Shim(config) as shim:
        path.write_text(CERTIFICATE.read_text())
        assert shim.reload(attrs.evolve(config, signing_key=b"k" * 16, url_ttl=60, max_connections=7)) == ["url_ttl"]
        trusts = client_context({"ssl.ca.location": str(CERTIFICATE), "ssl.endpoint.identification.algorithm": "none"})
        assert shim.origin_url
        url = UrlSigner(b"k" * 16, shim.origin_url, SystemClock()).sign("none.log", ByteRange(0, 1), 60).url
        host, port = parse_address(shim.origin_url.removeprefix("https://"))
        connection = HTTPSConnection(host, port, context=trusts, timeout=60)
        connection.request("GET", url.removeprefix(shim.origin_url), headers={"Range": "bytes=0-0"})
        assert connection.getresponse().status == 404, "the signature counts, and there is no such object"
        connection.close()


def test_idle_tls_connections_hold_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SSLProtocol, "max_size", 256 << 10)
    limit_tls_buffers()
    assert SSLProtocol.max_size == TLS_BUFFER_BYTES
    monkeypatch.setattr(SSLProtocol, "max_size", 1 << 10)
    limit_tls_buffers()
    assert SSLProtocol.max_size == 1 << 10, "who needs less still gets it"
