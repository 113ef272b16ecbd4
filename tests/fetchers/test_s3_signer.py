"""URLs that a real S3 server checks: they open these bytes of this version of this object, for a limited time."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping

import pytest
from kafka_remote_fetchers.s3_signer import S3Signer

from kafka_remote_client.errors import ConfigurationError, ForbiddenLocationError, RemoteStorageAccessError
from kafka_remote_client.model import ByteRange
from kafka_remote_client.plugin import SignedUrl
from kafka_remote_client.registry import load_signer, signer_schemes
from tests.support.s3_server import S3Server

KEY = "topic-é 1/0 a+b&c=d.log"
DATA = bytes(range(256))
RANGE = ByteRange(5, 10)


def ask(url: str, headers: Mapping[str, str], method: str = "GET") -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=dict(headers), method=method), timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.fixture
def bucket(s3_environment: S3Server) -> str:
    return s3_environment.new_bucket([(f"tier/{KEY}", DATA), ("tier/other.log", DATA)])


@pytest.fixture
def signer(s3_environment: S3Server, bucket: str) -> S3Signer:
    return S3Signer(f"s3://{bucket}/tier/", s3_environment.options)


def headers_of(signed: SignedUrl, byte_range: str = "bytes=5-9") -> dict[str, str]:
    return {"range": byte_range, **dict(signed.headers)}


def test_a_url_opens_the_bytes_that_it_was_signed_for(signer: S3Signer) -> None:
    signed = signer.sign(KEY, RANGE, 60)
    assert ask(signed.url, headers_of(signed)) == (206, DATA[5:10])
    assert signer.binds_ranges


@pytest.mark.fault("S06")
@pytest.mark.parametrize("byte_range", ["bytes=5-10", "bytes=0-9", "bytes=5-", "bytes=0-0,5-9"])
def test_a_url_opens_no_other_range(signer: S3Signer, byte_range: str) -> None:
    signed = signer.sign(KEY, RANGE, 60)
    status, body = ask(signed.url, headers_of(signed, byte_range))
    assert (status, b"SignatureDoesNotMatch" in body) == (403, True)


def test_a_url_does_not_open_the_whole_object(signer: S3Signer) -> None:
    assert ask(signer.sign(KEY, RANGE, 60).url, {})[0] in (400, 403)


@pytest.mark.fault("S06")
@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE"])
def test_a_url_opens_with_no_other_method(signer: S3Signer, method: str) -> None:
    signed = signer.sign(KEY, RANGE, 60)
    assert ask(signed.url, headers_of(signed), method)[0] in (400, 403)


@pytest.mark.fault("S06")
def test_a_url_opens_no_other_object(signer: S3Signer) -> None:
    first, second = signer.sign(KEY, RANGE, 60), signer.sign("other.log", RANGE, 60)
    moved = second.url.partition("?")[0] + "?" + first.url.partition("?")[2]
    assert ask(moved, headers_of(first))[0] == 403


@pytest.mark.fault("S06")
def test_a_url_expires(signer: S3Signer) -> None:
    signed = signer.sign(KEY, RANGE, 0.5)
    while (answer := ask(signed.url, headers_of(signed)))[0] == 206:
        pass
    assert answer[0] == 403
    assert b"Request has expired" in answer[1]


def test_a_url_opens_one_version_only(s3_environment: S3Server, bucket: str, signer: S3Signer) -> None:
    etag = s3_environment.client.head_object(Bucket=bucket, Key=f"tier/{KEY}")["ETag"]
    signed = signer.sign(KEY, RANGE, 60, etag)
    assert signed.headers == (("if-match", etag),)
    assert ask(signed.url, headers_of(signed)) == (206, DATA[5:10])
    assert ask(signed.url, {"range": "bytes=5-9"})[0] in (400, 403), "the condition cannot be left out"
    s3_environment.put(bucket, [(f"tier/{KEY}", b"another version")])
    assert ask(signed.url, headers_of(signed))[0] == 412


@pytest.mark.parametrize("key", ["", "/a", "a//b", "../a", "a\nb"])
def test_refuses_to_sign_an_invalid_object_key(signer: S3Signer, key: str) -> None:
    with pytest.raises(ValueError, match="object key"):
        signer.sign(key, RANGE, 60)


def test_refuses_an_invalid_etag(signer: S3Signer) -> None:
    with pytest.raises(ForbiddenLocationError):
        signer.sign(KEY, RANGE, 60, 'a"\r\nx: y')


def test_without_credentials_nothing_is_signed(s3_environment: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    signer = S3Signer("s3://bucket", s3_environment.options)
    with pytest.raises(RemoteStorageAccessError, match="no usable credentials"):
        signer.sign(KEY, RANGE, 60)


def test_it_is_found_by_scheme_and_repr_shows_no_secret(s3_environment: S3Server) -> None:
    assert "s3" in signer_schemes()
    signer = load_signer("s3://some-bucket/tier", s3_environment.options)
    assert isinstance(signer, S3Signer)
    assert repr(signer) == "S3Signer('some-bucket')"
    with pytest.raises(ConfigurationError, match="must start with one of: "):
        load_signer("gopher://x")
