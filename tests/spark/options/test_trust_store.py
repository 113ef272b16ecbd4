from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, NoEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)

from kafka_remote_client.errors import ConfigurationError, MissingExtraError
from kafka_remote_client.spark.options.client_options import ClientOptions, TrustStore
from kafka_remote_client.spark.options.trust_store import librdkafka_settings
from tests.support.certificates import Authority


def client(path: Path, password: str | None = "canary") -> ClientOptions:
    return ClientOptions({"bootstrap.servers": "b:1"}, trust_store=TrustStore(path, password))


def java_store(path: Path, password: bytes = b"canary") -> str:
    """Writes a store as Java's keytool does. Returns the certificate as PEM."""
    pem = Authority().pem
    certificate = x509.load_pem_x509_certificate(pem.encode())
    path.write_bytes(serialize_java_truststore([PKCS12Certificate(certificate, b"ca")], BestAvailableEncryption(password)))
    return pem


def test_without_a_store_the_settings_do_not_change() -> None:
    assert librdkafka_settings(ClientOptions({"a": "b"})) == {"a": "b"}


def test_trusted_certificates_become_pem(tmp_path: Path) -> None:
    pem = java_store(tmp_path / "t.p12")
    found = librdkafka_settings(client(tmp_path / "t.p12"))
    assert found["bootstrap.servers"] == "b:1"
    assert found["ssl.ca.pem"].strip() == pem.strip()


def test_a_store_may_have_no_password(tmp_path: Path) -> None:
    certificate = x509.load_pem_x509_certificate(Authority().pem.encode())
    (tmp_path / "t.p12").write_bytes(serialize_key_and_certificates(None, None, None, [certificate], NoEncryption()))
    assert "BEGIN CERTIFICATE" in librdkafka_settings(client(tmp_path / "t.p12", None))["ssl.ca.pem"]


@pytest.mark.parametrize(("content", "complaint"), [(None, "cannot be read: No such file"), (b"x", "is not a PKCS#12 file")])
def test_a_file_that_is_not_a_store_is_refused(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    if content is not None:
        (tmp_path / "t.p12").write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"kafka\.ssl\.truststore\.location {complaint}") as raised:
        librdkafka_settings(client(tmp_path / "t.p12"))
    assert "canary" not in str(raised.value)


def test_another_password_is_refused(tmp_path: Path) -> None:
    java_store(tmp_path / "t.p12", b"other")
    with pytest.raises(ConfigurationError, match="or the password is wrong"):
        librdkafka_settings(client(tmp_path / "t.p12"))


def test_a_store_without_certificates_is_refused(tmp_path: Path) -> None:
    key = Authority().issue("x").key
    (tmp_path / "t.p12").write_bytes(serialize_key_and_certificates(None, key, None, None, NoEncryption()))
    with pytest.raises(ConfigurationError, match="contains no certificate"):
        librdkafka_settings(client(tmp_path / "t.p12", None))


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(MissingExtraError, match=r"kafka-remote-client\[tls\]"):
        librdkafka_settings(client(Path("t.p12")))
