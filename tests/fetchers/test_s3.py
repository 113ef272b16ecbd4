"""The S3 fetcher with its own credentials, with a real S3 server and with one that misbehaves."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_remote_fetchers.s3 import S3Fetcher

from kafka_remote_client.config import split_config
from kafka_remote_client.errors import (
    ConfigurationError,
    ForbiddenLocationError,
    InvalidStorageResponseError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
)
from kafka_remote_client.plugin import LocationMetadata
from kafka_remote_client.registry import load_fetcher
from kafka_remote_client.testing import (
    Answer,
    Ending,
    Pace,
    RemoteStorageFetcherTests,
    ScriptedOrigin,
    error,
    read_all,
    segment_metadata,
    texts_of,
)
from tests.support.s3_server import S3Server

DATA = bytes(range(256)) * 40
PATIENT = {"fetch.remote.connect.timeout.ms": 60_000, "fetch.remote.read.timeout.ms": 60_000}


def fetcher_of(server: S3Server, bucket: str, **more: object) -> S3Fetcher:
    fetcher = S3Fetcher()
    url = {"remote.storage.fetcher.store.url": f"s3://{bucket}/tier"}
    fetcher.configure({**PATIENT, **url, **server.fetcher_settings, **more})
    return fetcher


def by_key(key: str, etag: str | None = None) -> Any:
    return segment_metadata(LocationMetadata(object_key=key, etag=etag).encode(), len(DATA))


class TestS3Fetcher(RemoteStorageFetcherTests):
    @pytest.fixture
    def fetcher(self, s3_environment: S3Server) -> Iterator[S3Fetcher]:
        self.server = s3_environment
        self.bucket = s3_environment.new_bucket()
        fetcher = fetcher_of(s3_environment, self.bucket)
        yield fetcher
        fetcher.close()

    def put(self, key: str, data: bytes) -> bytes:
        self.server.put(self.bucket, [(f"tier/{key}", data)])
        return self.absent(key)

    def absent(self, key: str) -> bytes:
        return LocationMetadata(object_key=key).encode()


@pytest.fixture
def bucket(s3_environment: S3Server) -> str:
    return s3_environment.new_bucket([("tier/a b+c.log", DATA)])


def test_it_is_loaded_by_name_and_uses_the_clients_store_url(s3_environment: S3Server, bucket: str) -> None:
    config, _ = split_config({"remote.storage.fetcher.class": "s3", **s3_environment.fetcher_settings, **PATIENT})
    with pytest.raises(ConfigurationError, match=r"store\.url is not set"):
        load_fetcher(config)
    fetcher = S3Fetcher()
    fetcher.configure({**s3_environment.fetcher_settings, "remote.storage.store.url": f"s3://{bucket}/tier"})
    assert read_all(fetcher.fetch_log_segment(by_key("a b+c.log"), 3, 20)) == DATA[3:20]
    fetcher.close()


def test_a_replaced_object_is_not_found(s3_environment: S3Server, bucket: str) -> None:
    etag = s3_environment.client.head_object(Bucket=bucket, Key="tier/a b+c.log")["ETag"]
    fetcher = fetcher_of(s3_environment, bucket)
    assert read_all(fetcher.fetch_log_segment(by_key("a b+c.log", etag), 3, 20)) == DATA[3:20]
    s3_environment.put(bucket, [("tier/a b+c.log", DATA[::-1])])
    with pytest.raises(SegmentNotFoundError, match="412"):
        fetcher.fetch_log_segment(by_key("a b+c.log", etag), 3, 20)
    fetcher.close()


def test_a_missing_bucket_is_unavailable(s3_environment: S3Server) -> None:
    fetcher = fetcher_of(s3_environment, "no-such-bucket")
    with pytest.raises(RemoteStorageUnavailableError, match="NoSuchBucket"):
        fetcher.fetch_log_segment(by_key("a.log"), 0, 10)
    fetcher.close()


@pytest.mark.parametrize("key", ["../a", "a//b", "/a"])
def test_keys_outside_the_root_are_refused(s3_environment: S3Server, bucket: str, key: str) -> None:
    fetcher = fetcher_of(s3_environment, bucket)
    with pytest.raises(ForbiddenLocationError):
        fetcher.fetch_log_segment(by_key(key), 0, 10)
    fetcher.close()


def test_an_unconfigured_fetcher_reads_nothing() -> None:
    with pytest.raises(RemoteStorageUnavailableError):
        S3Fetcher().fetch_log_segment(by_key("a.log"), 0, 10)
    S3Fetcher().close()


def test_credentials_rotated_during_a_read_are_used_for_the_next_range(
    s3_environment: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The open range is read to its end. The next request uses the credentials that the file has by then."""
    server = type(s3_environment)(tmp_path / "server", access_key="first-key", secret_key="first-secret")
    file = tmp_path / "credentials"

    def write() -> None:
        file.write_text(f"[tier]\naws_access_key_id = {server.access_key}\naws_secret_access_key = {server.secret_key}\n")

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    server.start()
    try:
        bucket = server.new_bucket([("tier/a.log", DATA)])
        write()
        fetcher = fetcher_of(server, bucket, **{"remote.storage.fetcher.s3.profile": "tier"})
        assert read_all(fetcher.fetch_log_segment(by_key("a.log"), 0, 100)) == DATA[:100]
        stream = fetcher.fetch_log_segment(by_key("a.log"), 100, 200)
        server.restart_as("second-key", "second-secret")
        write()
        assert read_all(stream) == DATA[100:200]
        assert read_all(fetcher.fetch_log_segment(by_key("a.log"), 200, 300)) == DATA[200:300]
        server.restart_as("third-key", "third-secret")
        with pytest.raises(
            RemoteStorageAccessError
        ) as caught:  # credentials were read a moment ago: not read again for each refusal
            fetcher.fetch_log_segment(by_key("a.log"), 200, 300)
        assert not [text for text in texts_of(caught.value) if "Signature=" in text or "a.log" in text]
        fetcher.close()
    finally:
        server.stop()


def test_assumes_a_role_with_the_credentials_of_the_chain(
    s3_environment: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3_environment.endpoint)
    role = {
        "remote.storage.fetcher.s3.role.arn": "arn:aws:iam::123456789012:role/tier-reader",
        "remote.storage.fetcher.s3.external.id": "somebody",
    }
    fetcher = fetcher_of(s3_environment, bucket, **role)
    assert fetcher._ranges is not None
    assert fetcher._ranges.clients.current.may_wait(), "the role is taken when it is needed"
    assert read_all(fetcher.fetch_log_segment(by_key("a b+c.log"), 3, 20)) == DATA[3:20]
    assert fetcher._ranges.clients.current.credentials.get_frozen_credentials().token
    assert not fetcher._ranges.clients.current.may_wait()
    fetcher.close()


ROLE = {"remote.storage.fetcher.s3.role.arn": "arn:aws:iam::123456789012:role/tier-reader"}


def test_a_refused_role_is_an_access_error(s3_environment: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3_environment.endpoint)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
    fetcher = fetcher_of(s3_environment, bucket, **ROLE)
    with pytest.raises(RemoteStorageAccessError) as caught:
        fetcher.fetch_log_segment(by_key("a b+c.log"), 3, 20)
    assert not [text for text in texts_of(caught.value) if "canary" in text]
    fetcher.close()


def test_a_slow_role_request_is_a_timeout(s3_environment: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{silent.getsockname()[1]}")
        fetcher = fetcher_of(s3_environment, bucket, **ROLE, **{"fetch.remote.read.timeout.ms": 200})
        with pytest.raises(RemoteStorageTimeoutError):
            fetcher.fetch_log_segment(by_key("a b+c.log"), 3, 20)
        fetcher.close()
    for thread in threading.enumerate():
        if thread.name == "s3-credentials":
            thread.join(60)


class Misbehaving:
    """An S3 endpoint that gives scripted answers."""

    def __init__(self, origin: ScriptedOrigin, read_timeout_ms: int) -> None:
        self.origin = origin
        origin.objects["bucket/tier/a.log"] = DATA
        self.fetcher = S3Fetcher()
        self.fetcher.configure(
            {
                "remote.storage.fetcher.store.url": "s3://bucket/tier",
                "remote.storage.fetcher.s3.endpoint.url": origin.url,
                "remote.storage.fetcher.s3.path.style": "true",
                "remote.storage.fetcher.allow.http": "true",
                "fetch.remote.connect.timeout.ms": 60_000,
                "fetch.remote.read.timeout.ms": read_timeout_ms,
            }
        )

    def fails(self) -> RemoteStorageError:
        with pytest.raises(RemoteStorageError) as caught:
            read_all(self.fetcher.fetch_log_segment(by_key("a.log"), 0, 1000))
        leaked = [text for text in texts_of(caught.value) if "canary" in text or "X-Amz" in text or "a.log" in text]
        assert not leaked
        return caught.value


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, f"canary-{name}")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))


def _misbehaving(timeout_ms: int) -> Iterator[Misbehaving]:
    with ScriptedOrigin() as origin:
        made = Misbehaving(origin, timeout_ms)
        yield made
        made.fetcher.close()


@pytest.fixture
def misbehaving(environment: None) -> Iterator[Misbehaving]:
    yield from _misbehaving(60_000)


@pytest.fixture
def impatient(environment: None) -> Iterator[Misbehaving]:
    yield from _misbehaving(300)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error(503, "SlowDown", Retry_After="2"), RemoteStorageThrottledError),
        (error(500, "InternalError"), RemoteStorageUnavailableError),
        (error(404, "NoSuchKey"), SegmentNotFoundError),
        (error(404, "NoSuchBucket"), RemoteStorageUnavailableError),
        (error(301, "PermanentRedirect"), ForbiddenLocationError),
        (error(400, "AuthorizationHeaderMalformed"), RemoteStorageError),
        (Answer(ending=Ending.CUT, at=100), RemoteStorageUnavailableError),
        (Answer(status=200, headers={"Content-Range": None}), InvalidStorageResponseError),
    ],
)
def test_each_answer_has_its_error(misbehaving: Misbehaving, answer: Answer, kind: type[RemoteStorageError]) -> None:
    misbehaving.origin.otherwise = answer
    assert type(misbehaving.fails()) is kind


def test_refused_credentials_are_renewed_once(misbehaving: Misbehaving) -> None:
    misbehaving.origin.script(error(403, "InvalidAccessKeyId"))
    assert read_all(misbehaving.fetcher.fetch_log_segment(by_key("a.log"), 0, 10)) == DATA[:10]
    misbehaving.origin.otherwise = error(403, "InvalidAccessKeyId")
    assert type(misbehaving.fails()) is RemoteStorageAccessError
    assert [exchange.status for exchange in misbehaving.origin.exchanges] == [403, 206, 403]


def test_a_trickle_takes_no_longer_than_the_deadline(impatient: Misbehaving) -> None:
    impatient.origin.otherwise = Answer(pace=Pace(1, 0.02))
    assert isinstance(impatient.fails(), RemoteStorageTimeoutError)


def test_a_body_below_the_floor_is_cut_long_before_the_deadline(misbehaving: Misbehaving) -> None:
    misbehaving.origin.otherwise = Answer(pace=Pace(1, 0.02))
    assert isinstance(misbehaving.fails(), RemoteStorageTimeoutError)


def test_silence_takes_no_longer_than_the_deadline(impatient: Misbehaving) -> None:
    impatient.origin.otherwise = Answer(silent=True)
    assert isinstance(impatient.fails(), RemoteStorageTimeoutError)


def test_connections_are_kept(misbehaving: Misbehaving) -> None:
    for start in range(5):
        assert read_all(misbehaving.fetcher.fetch_log_segment(by_key("a.log"), start, start + 10)) == DATA[start : start + 10]
    assert misbehaving.origin.connections == 1


def test_logs_have_no_signature_and_no_key(misbehaving: Misbehaving, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    misbehaving.origin.script(error(403, "ExpiredToken"))
    read_all(misbehaving.fetcher.fetch_log_segment(by_key("a.log"), 0, 10))
    assert not [record for record in caplog.records if "canary" in record.getMessage() or "Signature" in record.getMessage()]
