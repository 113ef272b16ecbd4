from __future__ import annotations

import base64
import json
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kafka_remote_client.errors import ConfigurationError, DataKeyError, MissingExtraError
from kafka_remote_client.remote_log.aiven.key_ring import KeyRing
from tests.support.aiven import DATA_KEY, key_ring, private_key, wrap
from tests.support.golden import golden_aiven


def pem(der: bytes, label: str = "PRIVATE KEY") -> bytes:
    lines = base64.encodebytes(der).decode()
    return f"some words before\n-----BEGIN {label}-----\n{lines}-----END {label}-----\n".encode()


def wrapped_by_the_plugin() -> bytes:
    manifest = next((golden_aiven("aiven-zstd-aes") / "remote").rglob("*.rsm-manifest"))
    key_id, _, text = json.loads(manifest.read_text())["encryption"]["dataKey"].partition(":")
    assert key_id == "key1"
    return base64.b64decode(text)


def new_key(bits: int) -> bytes:
    key = rsa.generate_private_key(65537, bits)  # not by Crypto, which takes a second
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    "data", [private_key(), pem(private_key()), pem(private_key(), "ANY LABEL")], ids=["DER", "PEM", "PEM with another label"]
)
def test_opens_a_key_that_the_plugin_wrapped(data):
    assert len(KeyRing({"key1": data}).unwrap("key1", wrapped_by_the_plugin())) == 32
    assert KeyRing({"key1": data}).unwrap("key1", wrap(DATA_KEY)) == DATA_KEY


def test_keys_are_read_from_files(tmp_path):
    (tmp_path / "k.pem").write_bytes(pem(private_key()))
    ring = KeyRing.of_files({"old": tmp_path / "k.pem", "key1": str(tmp_path / "k.pem")})
    assert ring.unwrap("old", wrap(DATA_KEY)) == DATA_KEY
    assert repr(ring) == "KeyRing(key1, old)"
    with pytest.raises(ConfigurationError, match="'gone' cannot be read: No such file"):
        KeyRing.of_files({"gone": tmp_path / "gone"})


def test_an_error_names_a_key_that_is_not_on_the_ring():
    with pytest.raises(DataKeyError, match="for key 'key2', whose private key is not configured; known keys: key1"):
        key_ring().unwrap("key2", wrap(DATA_KEY))
    with pytest.raises(DataKeyError, match="known keys: none"):
        KeyRing().unwrap("key1", wrap(DATA_KEY))


def test_the_wrong_key_raises():
    other = new_key(2048)
    with pytest.raises(DataKeyError, match="cannot decrypt"):
        KeyRing({"key1": other}).unwrap("key1", wrap(DATA_KEY))


@pytest.mark.parametrize("wrapped", [b"", b"short", bytes(256), bytes(257), b"\xff" * 256])
def test_other_bytes_are_not_a_wrapped_key(wrapped):
    with pytest.raises(DataKeyError):
        key_ring().unwrap("key1", wrapped)


def test_a_data_key_of_another_size_is_refused():
    with pytest.raises(DataKeyError, match="16 bytes"):
        key_ring().unwrap("key1", wrap(bytes(16)))


def locked_key() -> bytes:
    from Crypto.PublicKey import RSA

    return RSA.import_key(private_key()).export_key("PEM", passphrase="x", pkcs=8)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no key",
        bytes(100),
        private_key()[:-1],
        pem(private_key()[:500]),
        b"-----BEGIN PRIVATE KEY-----\n!!!\n-----END PRIVATE KEY-----",
        pem(private_key()).replace(b"-----\n", b"-----\n!", 1),
        (golden_aiven("aiven-zstd-aes") / "keys" / "key1.public.der").read_bytes(),
        new_key(1024),
        locked_key(),
    ],
    ids=["nothing", "words", "zeros", "cut", "cut PEM", "not base64", "stray character", "public", "weak", "locked"],
)
def test_a_file_without_a_private_key_is_refused(data):
    with pytest.raises(ConfigurationError, match="'key1' is not an unencrypted RSA private key"):
        KeyRing({"key1": data})


def test_a_missing_package_is_an_error_with_the_pip_command(monkeypatch):
    for name in [name for name in sys.modules if name == "Crypto" or name.startswith("Crypto.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "Crypto", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'kafka-remote-client\[aiven\]'"):
        KeyRing({"key1": b""})
    assert repr(KeyRing()) == "KeyRing()"
