"""GCS URLs, checked by the published rules: the server of these tests checks no signature."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import TransportError
from kafka_remote_fetchers import gcs_signer
from kafka_remote_fetchers.gcs_signer import GcsSigner
from kafka_remote_fetchers.presigned import PresignedFetcher

from kafka_remote_client.errors import ConfigurationError, RemoteStorageAccessError
from kafka_remote_client.model import ByteRange
from kafka_remote_client.plugin import LocationMetadata
from kafka_remote_client.registry import load_signer
from kafka_remote_client.testing import read_all, segment_metadata
from tests.support.gcs_server import GcsServer

DATA = bytes(range(256)) * 40
KEY = "dir/a b+é.log"


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture
def account(tmp_path: Path, key: rsa.RSAPrivateKey) -> str:
    """Writes a service account's file."""
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    fields = {"type": "service_account", "client_email": "shim@tests.example", "token_uri": "https://token.example/"}
    file = tmp_path / "account.json"
    file.write_text(json.dumps({**fields, "private_key": pem.decode(), "project_id": "tests"}))
    return str(file)


def holds(key: rsa.RSAPrivateKey, url: str, headers: dict[str, str]) -> bool:
    """Returns whether the signature is the account's for this request: the "canonical request" is rebuilt here."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    signature = bytes.fromhex(query.pop("X-Goog-Signature"))
    carried = {"host": parts.netloc, **headers}
    names = query["X-Goog-SignedHeaders"].split(";")
    assert names == sorted(names)
    canonical_query = "&".join(f"{quote(name, safe='')}={quote(query[name], safe='')}" for name in sorted(query))
    lines = ["GET", parts.path, canonical_query, *(f"{name}:{carried.get(name, '')}" for name in names), "", ";".join(names)]
    request = "\n".join([*lines, "UNSIGNED-PAYLOAD"])
    scope = query["X-Goog-Credential"].partition("/")[2]
    digest = hashlib.sha256(request.encode()).hexdigest()
    signed = f"GOOG4-RSA-SHA256\n{query['X-Goog-Date']}\n{scope}\n{digest}"
    try:
        key.public_key().verify(signature, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        return False
    return True


def test_signs_key_range_and_version(account: str, key: rsa.RSAPrivateKey) -> None:
    signer = load_signer("gs://some-bucket/tier", {"gcs.service.account.file": account})
    assert signer.binds_ranges
    signed = signer.sign(KEY, ByteRange(5, 10), 60, "version-1")
    assert signed.url.startswith("https://storage.googleapis.com/some-bucket/tier/dir/a%20b%2B%C3%A9.log?")
    query = parse_qs(urlsplit(signed.url).query)
    assert query["X-Goog-SignedHeaders"] == ["host;if-match;range"]
    assert query["X-Goog-Expires"] == ["60"]
    assert signed.headers == (("if-match", '"version-1"'),)
    sent = {"range": "bytes=5-9", **dict(signed.headers)}
    assert holds(key, signed.url, sent)
    assert not holds(key, signed.url, {**sent, "range": "bytes=5-10"})
    assert not holds(key, signed.url, {**sent, "if-match": '"version-2"'})
    assert not holds(key, signed.url.replace("a%20b", "a%20c"), sent)


def test_a_client_reads_with_the_signed_url(gcs_server: GcsServer, account: str) -> None:
    bucket = gcs_server.new_bucket([(f"tier/{KEY}", DATA)])
    options = {"gcs.endpoint.url": gcs_server.endpoint, "gcs.service.account.file": account}
    signed = GcsSigner(f"gs://{bucket}/tier", options).sign(KEY, ByteRange(5, 10), 60)
    fetcher = PresignedFetcher()
    fetcher.configure(
        {
            "remote.storage.fetcher.allowed.hosts": f"{gcs_server.authority}/{bucket}",
            "remote.storage.fetcher.allow.http": True,
            "remote.storage.fetcher.allow.private.addresses": True,
            "fetch.remote.connect.timeout.ms": 60_000,
            "fetch.remote.read.timeout.ms": 60_000,
        }
    )
    location = LocationMetadata(url=signed.url, signed_headers=signed.headers).encode()
    assert read_all(fetcher.fetch_log_segment(segment_metadata(location, len(DATA)), 5, 10)) == DATA[5:10]
    fetcher.close()


def test_an_account_that_cannot_be_loaded_is_not_repeated_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "account.json").write_text('{"type": "canary"}')
    for name in ("account.json", "absent.json"):
        with pytest.raises(ConfigurationError, match=r"gcs\.service\.account\.file failed to load") as caught:
            GcsSigner("gs://bucket", {"gcs.service.account.file": str(tmp_path / name)})
        assert "canary" not in str(caught.value)
        assert caught.value.__context__ is None


def test_credentials_that_cannot_sign_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcs_signer.google.auth, "default", lambda **_: (AnonymousCredentials(), None))
    with pytest.raises(ConfigurationError, match="needs a service account"):
        GcsSigner("gs://bucket")


def test_a_failed_signature_is_an_access_error(account: str) -> None:
    signer = GcsSigner("gs://bucket", {"gcs.service.account.file": account})
    assert repr(signer) == "GcsSigner('bucket')"

    class Unreachable:
        def generate_signed_url(self, **_: object) -> str:
            raise TransportError("canary")

    signer._bucket = type("Bucket", (), {"blob": lambda *_: Unreachable()})()
    with pytest.raises(RemoteStorageAccessError, match="TransportError"):
        signer.sign("a", ByteRange(0, 1), 60)
