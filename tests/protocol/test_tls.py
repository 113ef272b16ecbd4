"""librdkafka's ssl settings give one SSL context; a handshake in memory tests each setting."""

from __future__ import annotations

import os
import ssl
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import ConfigurationError, LocationError
from kafka_remote_client.protocol import tls
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.protocol.tls import client_context, security_protocol, server_context
from tests.support.certificates import Authority, Issued
from tests.support.scripted_peer import CERTIFICATE, PeerConnection, ScriptedPeer
from tests.support.waiting import wait_until

SECRET = "canary-of-a-password"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def mine(authority: Authority) -> Issued:
    return authority.issue(common_name="me")


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str = "localhost") -> ssl.SSLObject:
    """Runs a handshake in memory and returns the server's end. Raises the error of the end that refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    ends[0].write(b"x")
    assert ends[1].read(1) == b"x"
    return ends[1]


def server(authority: Authority, tmp_path: Path, *names: str, **more: Any) -> ssl.SSLContext:
    return server_context(authority.issue(*names).write(tmp_path / "server.pem"), **more)


@pytest.mark.parametrize("setting", ["ssl.ca.location", "ssl.ca.pem"])
def test_the_configured_authority_is_trusted_and_the_host_name_checked(
    authority: Authority, tmp_path: Path, setting: str
) -> None:
    given = {"ssl.ca.location": str(authority.write(tmp_path / "ca.pem")), "ssl.ca.pem": authority.pem}
    context = client_context({setting: given[setting], "security.protocol": "ssl", "group.id": "g"})
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    shake_hands(context, server(authority, tmp_path))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(context, server(authority, tmp_path, "other.example"))
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        shake_hands(context, server(Authority("stranger"), tmp_path))


def test_ca_location_may_be_a_directory(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "cas").mkdir()
    context = client_context({"ssl.ca.location": str(tmp_path / "cas")})
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(context, server(authority, tmp_path))


@pytest.mark.parametrize("settings", [{}, {"ssl.ca.location": "probe"}, {"ssl.ca.location": "", "ssl.ca.pem": None}])
def test_without_an_authority_the_systems_are_trusted(authority: Authority, tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(client_context(settings), server(authority, tmp_path))


def test_names_and_chains_are_unchecked_only_if_configured(authority: Authority, tmp_path: Path) -> None:
    other = server(authority, tmp_path, "other.example")
    unnamed = client_context({"ssl.ca.pem": authority.pem, "ssl.endpoint.identification.algorithm": "none"})
    shake_hands(unnamed, other)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(unnamed, server(Authority("stranger"), tmp_path))
    shake_hands(client_context({"enable.ssl.certificate.verification": False}), other)
    shake_hands(client_context({"enable.ssl.certificate.verification": "false"}), server(Authority("stranger"), tmp_path))
    with pytest.raises(ConfigurationError, match="https or none"):
        client_context({"ssl.endpoint.identification.algorithm": "ldap"})


def test_disabled_verification_logs_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    client_context({"enable.ssl.certificate.verification": True})
    assert caplog.messages == []
    context = client_context({"enable.ssl.certificate.verification": False})
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("enable.ssl.certificate.verification=false: ")


@pytest.mark.parametrize("value", ["true", "T", "1", "FALSE", "f", "0", "yes", "off", "2"])
def test_verification_accepts_the_booleans_of_librdkafka(value: str) -> None:
    """A text that is not a boolean once turned verification off."""
    setting = {"enable.ssl.certificate.verification": value}
    try:
        AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **setting})
    except KafkaException:
        with pytest.raises(ConfigurationError, match="verification must be true or false"):
            client_context(setting)
    else:
        expected = ssl.CERT_REQUIRED if value.lower() in ("true", "t", "1") else ssl.CERT_NONE
        assert client_context(setting).verify_mode is expected


@pytest.mark.parametrize("verifies", [True, False])
def test_an_unknown_authority_has_the_same_result_as_in_librdkafka(verifies: bool) -> None:
    settings = {"security.protocol": "ssl", "enable.ssl.certificate.verification": verifies}
    asked, failed = threading.Event(), threading.Event()

    def script(connection: PeerConnection) -> None:
        if connection.receive():
            asked.set()

    def error_cb(error: KafkaError) -> None:
        if error.code() == KafkaError._SSL:
            failed.set()

    with ScriptedPeer(*[script] * 8, certificate=CERTIFICATE) as peer:
        servers = f"127.0.0.1:{peer.port}"  # the certificate is for localhost
        client = AdminClient({"bootstrap.servers": servers, "log_level": 0, "error_cb": error_cb, **settings})
        event = failed if verifies else asked
        wait_until(lambda: client.poll(0.1) is not None and event.is_set(), "librdkafka's verdict", seconds=60, pause=0)
        assert asked.is_set() is not verifies
        asked.clear()
        clock = SystemClock()
        ours = BrokerConnection(
            "127.0.0.1", peer.port, client_id="me", clock=clock, connect_timeout=60, ssl_context=client_context(settings)
        )
        with pytest.raises(LocationError, match="cannot verify the certificate" if verifies else "closed|cut|failed"):
            ours.send_receive(18, 0, b"", Deadline(clock, 60))
        assert asked.is_set() is not verifies


def test_an_expired_or_revoked_certificate_is_refused(authority: Authority, tmp_path: Path) -> None:
    expired = server_context(authority.issue(expired=True).write(tmp_path / "expired.pem"))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shake_hands(client_context({"ssl.ca.pem": authority.pem}), expired)
    good, bad = authority.issue(), authority.issue()
    (tmp_path / "crl.pem").write_text(authority.revoke(bad))
    context = client_context({"ssl.ca.pem": authority.pem, "ssl.crl.location": tmp_path / "crl.pem"})
    shake_hands(context, server_context(good.write(tmp_path / "good.pem")))
    with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
        shake_hands(context, server_context(bad.write(tmp_path / "bad.pem")))


def identities(mine: Issued, tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Returns settings with the same certificate in each way that librdkafka accepts."""
    (tmp_path / "certificate.pem").write_text(mine.certificate_pem)
    (tmp_path / "key.pem").write_text(mine.key_pem())
    (tmp_path / "secret-key.pem").write_text(mine.key_pem(SECRET))
    (tmp_path / "open.p12").write_bytes(mine.keystore())
    (tmp_path / "store.p12").write_bytes(mine.keystore(SECRET))
    here = {"ssl.certificate.location": str(tmp_path / "certificate.pem")}
    text = {"ssl.certificate.pem": mine.certificate_pem}
    return {
        "files": {**here, "ssl.key.location": str(tmp_path / "key.pem")},
        "encrypted": {**here, "ssl.key.location": str(tmp_path / "secret-key.pem"), "ssl.key.password": SECRET},
        "strings": {**text, "ssl.key.pem": mine.key_pem()},
        "encrypted strings": {**text, "ssl.key.pem": mine.key_pem(SECRET), "ssl.key.password": SECRET},
        "mixed": {**here, "ssl.key.pem": mine.key_pem()},
        "strings win": {"ssl.certificate.location": "nowhere", **text, "ssl.key.pem": mine.key_pem()},
        "keystore": {"ssl.keystore.location": str(tmp_path / "store.p12"), "ssl.keystore.password": SECRET},
        "open keystore": {"ssl.keystore.location": str(tmp_path / "open.p12"), "ssl.certificate.pem": "overruled"},
    }


WAYS = ["files", "encrypted", "strings", "encrypted strings", "mixed", "strings win", "keystore", "open keystore"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("in_memory", [True, False])
def test_the_clients_certificate_is_sent(
    authority: Authority, mine: Issued, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, in_memory: bool
) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    context = client_context({"ssl.ca.pem": authority.pem, **identities(mine, tmp_path)[way]})
    demanding = server(authority, tmp_path, client_ca=authority.write(tmp_path / "ca.pem"))
    shown = shake_hands(context, demanding).getpeercert()
    assert shown is not None
    assert shown["subject"] == ((("commonName", "me"),),)


def test_a_client_without_a_certificate_is_refused_if_one_is_required(authority: Authority, tmp_path: Path) -> None:
    demanding = server(authority, tmp_path, client_ca=authority.write(tmp_path / "ca.pem"))
    with pytest.raises(ssl.SSLError, match="peer did not return a certificate"):
        shake_hands(client_context({"ssl.ca.pem": authority.pem}), demanding)


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_key_written_to_a_file_is_private_and_removed_afterwards(monkeypatch: pytest.MonkeyPatch, in_memory: bool) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    with tls._shown_as_file(b"key material") as path:
        assert Path(path).read_bytes() == b"key material"
        mode = Path(path).stat().st_mode
        assert in_memory or stat.S_IMODE(mode) == 0o600
    assert not Path(path).exists()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"ssl.engine.location": "/lib/engine.so"}, r"ssl\.engine\.location is not supported by direct fetch"),
        ({"ssl.providers": "legacy"}, r"ssl\.providers is not supported by direct fetch"),
        ({"ssl.curves.list": "P-521"}, r"ssl\.curves\.list is not supported by direct fetch"),
        ({"ssl_engine_callback_data": object()}, "ssl_engine_callback_data is not supported by direct fetch"),
        ({"ssl.truststore.location": "trust.jks"}, r"ssl\.truststore\.location is not supported by direct fetch"),
        ({"ssl.ca.location": "/nowhere/ca.pem"}, r"ssl\.ca\.location /nowhere/ca\.pem cannot be used: No such file"),
        ({"ssl.ca.pem": "nothing"}, r"ssl\.ca\.pem cannot be used"),
        ({"ssl.ca.pem": "nöthing"}, r"ssl\.ca\.pem cannot be used: invalid contents"),
        ({"ssl.crl.location": "/nowhere/crl.pem"}, r"ssl\.crl\.location /nowhere/crl\.pem cannot be used"),
        ({"ssl.certificate.location": "/nowhere/me.pem"}, r"ssl\.certificate\.\* and ssl\.key\.\* cannot be used: No such"),
        ({"ssl.key.pem": SECRET}, r"ssl\.key\.\* is set without"),
        ({"ssl.key.location": "key.pem"}, r"ssl\.key\.\* is set without"),
        ({"ssl.certificate.pem": SECRET, "ssl.key.pem": SECRET}, r"ssl\.key\.\* cannot be used"),
        ({"ssl.cipher.suites": "none-such"}, r"ssl\.cipher\.suites cannot be used"),
        ({"ssl.keystore.location": "/nowhere/me.p12"}, r"ssl\.keystore\.location /nowhere/me\.p12 cannot be used: No such"),
    ],
)
def test_an_unsupported_setting_is_named_without_its_secret(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as refused:
        client_context(settings)
    assert SECRET not in str(refused.value)


def test_an_empty_setting_counts_as_unset() -> None:
    client_context({"ssl.engine.location": None, "ssl.providers": "", "ssl.ca.certificate.stores": "Root"})


def test_cipher_suites_are_the_configured_ones() -> None:
    context = client_context({"ssl.cipher.suites": "ECDHE-ECDSA-AES256-GCM-SHA384"})
    older = [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    assert older == ["ECDHE-ECDSA-AES256-GCM-SHA384"]


@pytest.mark.parametrize("password", [None, "another one"])
def test_encrypted_key_without_a_password_is_refused_without_a_prompt(
    mine: Issued, password: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = {"ssl.certificate.pem": mine.certificate_pem, "ssl.key.pem": mine.key_pem(SECRET), "ssl.key.password": password}
    with pytest.raises(ConfigurationError, match=r"ssl\.key\.\* cannot be used"):
        client_context(settings)
    assert capfd.readouterr() == ("", "")


def test_a_key_of_another_certificate_is_refused(authority: Authority, mine: Issued) -> None:
    settings = {"ssl.certificate.pem": mine.certificate_pem, "ssl.key.pem": authority.issue().key_pem()}
    with pytest.raises(ConfigurationError, match="key values mismatch"):
        client_context(settings)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\xfe\xed\xfe\xed\0\0\0\2", "is a JKS keystore; convert it to PKCS#12"),
        (b"no keystore", "is damaged or the password is wrong"),
        (None, "is damaged or the password is wrong"),
    ],
)
def test_a_keystore_of_another_type_or_password_is_named(
    mine: Issued, tmp_path: Path, content: bytes | None, text: str
) -> None:
    store = tmp_path / "store"
    store.write_bytes(mine.keystore(SECRET) if content is None else content)
    with pytest.raises(ConfigurationError, match=text):
        client_context({"ssl.keystore.location": str(store), "ssl.keystore.password": "wrong"})


def test_a_keystore_without_a_key_is_named(authority: Authority, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12

    store = tmp_path / "store"
    store.write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, [authority._issued.certificate], NoEncryption()))
    with pytest.raises(ConfigurationError, match="contains no private key with a certificate"):
        client_context({"ssl.keystore.location": str(store)})


def test_without_cryptography_only_keystores_cannot_be_read(
    mine: Issued, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = identities(mine, tmp_path)
    for name in [name for name in sys.modules if name.startswith("cryptography.hazmat.primitives.serialization")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError, match=r"install kafka-remote-client\[tls\]"):
        client_context(ways["keystore"])
    client_context(ways["encrypted strings"])


def test_a_listener_needs_a_usable_certificate(authority: Authority, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the listener's certificate cannot be used: No such file"):
        server_context(tmp_path / "nothing.pem")
    sealed = authority.issue().write(tmp_path / "sealed.pem", SECRET)
    with pytest.raises(ConfigurationError, match="the listener's certificate cannot be used") as refused:
        server_context(sealed, key_password="wrong")
    assert SECRET not in str(refused.value)
    with pytest.raises(ConfigurationError, match=r"the clients' authority .* cannot be used"):
        server_context(sealed, sealed, key_password=SECRET, client_ca=tmp_path / "nothing.pem")


@pytest.mark.parametrize(
    ("value", "protocol"), [(None, "plaintext"), ("", "plaintext"), ("SASL_SSL", "sasl_ssl"), (" ssl", "ssl")]
)
def test_the_security_protocol_has_librdkafkas_default(value: str | None, protocol: str) -> None:
    assert security_protocol({"security.protocol": value}) == protocol
