from __future__ import annotations

from pathlib import Path

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.spark.options.client_options import TrustStore
from kafka_remote_client.spark.options.tls import translate_tls


def translated(**options: str) -> tuple[dict[str, str], TrustStore | None]:
    """Translates options without ``ssl.`` and with ``_`` for ``.``."""
    rest = {f"ssl.{name.replace('_', '.')}": value for name, value in options.items()}
    settings: dict[str, str] = {}
    store = translate_tls(rest, settings)
    assert not rest, "all of them are taken"
    return settings, store


def refusal(**options: str) -> str:
    with pytest.raises(ConfigurationError) as raised:
        translated(**options)
    assert "canary" not in str(raised.value)
    return str(raised.value)


def test_without_options_no_setting_is_made() -> None:
    assert translated() == ({}, None)
    assert translated(truststore_type="JKS", keystore_type="JKS") == ({}, None)


@pytest.mark.parametrize(("given", "expected"), [("https", "https"), ("HTTPS", "https"), ("", "none")])
def test_host_name_verification(given: str, expected: str) -> None:
    assert translated(endpoint_identification_algorithm=given)[0] == {"ssl.endpoint.identification.algorithm": expected}


def test_other_verification_is_refused() -> None:
    assert "https or empty" in refusal(endpoint_identification_algorithm="LDAPS")


def test_versions_that_openssl_supports_are_accepted() -> None:
    assert translated(enabled_protocols="TLSv1.3, TLSv1.2", protocol="TLSv1.3") == ({}, None)


def test_narrower_versions_are_refused() -> None:
    assert "kafka.ssl.enabled.protocols" in refusal(enabled_protocols="TLSv1.3")
    assert "kafka.ssl.protocol" in refusal(protocol="SSLv3")


def test_pem_trust_stores() -> None:
    assert translated(truststore_type="PEM", truststore_location="ca.pem") == ({"ssl.ca.location": "ca.pem"}, None)
    assert translated(truststore_type="pem", truststore_certificates="-----B") == ({"ssl.ca.pem": "-----B"}, None)


def test_a_pem_trust_store_is_a_file_or_certificates() -> None:
    assert "set one of the two" in refusal(truststore_type="PEM", truststore_location="a", truststore_certificates="canary")
    assert "must not be set for a PEM store" in refusal(
        truststore_type="PEM", truststore_location="a", truststore_password="canary"
    )


def test_pkcs12_trust_store_is_read_later() -> None:
    settings, store = translated(truststore_type="PKCS12", truststore_location="t.p12", truststore_password="p")
    assert settings == {}
    assert store == TrustStore(Path("t.p12"), "p")


def test_pkcs12_trust_store_is_a_file() -> None:
    assert "ssl.truststore.certificates is for PEM stores" in refusal(
        truststore_type="PKCS12", truststore_certificates="canary"
    )


@pytest.mark.parametrize("kind", [{}, {"type": "JKS"}])
@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_jks_is_refused_with_advice(store: str, kind: dict[str, str]) -> None:
    options = {f"{store}_location": "s.jks"} | {f"{store}_{key}": value for key, value in kind.items()}
    text = refusal(**options)
    assert f"kafka.ssl.{store}.location" in text
    assert f"kafka.ssl.{store}.type=PEM or PKCS12" in text


def test_other_types_are_refused() -> None:
    assert "must be PEM or PKCS12" in refusal(keystore_type="BCFKS", keystore_location="k")


def test_pem_key_stores() -> None:
    found, _ = translated(keystore_type="PEM", keystore_location="k.pem", key_password="p")
    assert found == {"ssl.certificate.location": "k.pem", "ssl.key.location": "k.pem", "ssl.key.password": "p"}
    found, _ = translated(keystore_type="PEM", keystore_key="K", keystore_certificate_chain="C")
    assert found == {"ssl.certificate.pem": "C", "ssl.key.pem": "K"}


def test_a_pem_key_store_is_a_file_or_key_and_certificate() -> None:
    assert "set one of the two" in refusal(keystore_type="PEM", keystore_key="canary")
    assert "set one of the two" in refusal(keystore_type="PEM", keystore_certificate_chain="canary")
    assert "ssl.key.password" in refusal(keystore_type="PEM", keystore_location="k", keystore_password="canary")


def test_pkcs12_key_stores() -> None:
    found, _ = translated(keystore_type="PKCS12", keystore_location="k.p12", keystore_password="p", key_password="p")
    assert found == {"ssl.keystore.location": "k.p12", "ssl.keystore.password": "p"}
    assert translated(keystore_type="PKCS12", keystore_location="k.p12")[0] == {"ssl.keystore.location": "k.p12"}


def test_pkcs12_key_store_is_a_file_with_one_password() -> None:
    assert "is for PEM stores" in refusal(keystore_type="PKCS12", keystore_location="k", keystore_key="canary")
    assert "must be the password of the PKCS12 store" in refusal(
        keystore_type="PKCS12", keystore_location="k", keystore_password="p", key_password="canary"
    )
