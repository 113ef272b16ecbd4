"""The shipped conformance suite for each of our fetchers; the presigned one with two kinds of store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_remote_fetchers.local import LocalFetcher
from kafka_remote_fetchers.memory import MemoryFetcher
from kafka_remote_fetchers.presigned import PresignedFetcher
from kafka_remote_fetchers.requests_session import RequestsFetcher
from kafka_remote_fetchers.s3_signer import S3Signer

from kafka_remote_client.model import ByteRange
from kafka_remote_client.plugin import LocationMetadata
from kafka_remote_client.shim.origin import ObjectOrigin
from kafka_remote_client.testing import Answer, FailingFetcher, RemoteStorageFetcherTests, ScriptedOrigin, SlowFetcher
from tests.support.s3_server import S3Server

SECRET = b"a secret of 16 bytes or more"


def by_key(key: str) -> bytes:
    return LocationMetadata(object_key=key).encode()


def configured(fetcher: Any, authority: str) -> Any:
    """A fetcher that may read that store on loopback."""
    fetcher.configure(
        {
            "remote.storage.fetcher.allowed.hosts": authority,
            "remote.storage.fetcher.allow.http": "true",
            "remote.storage.fetcher.allow.private.addresses": True,
        }
    )
    return fetcher


class TestMemoryFetcher(RemoteStorageFetcherTests):
    @pytest.fixture
    def fetcher(self) -> MemoryFetcher:
        self.objects: dict[str, bytes] = {}
        return MemoryFetcher(self.objects)

    def put(self, key: str, data: bytes) -> bytes:
        self.objects[key] = data
        return by_key(key)

    def absent(self, key: str) -> bytes:
        return by_key(key)


class TestLocalFetcher(RemoteStorageFetcherTests):
    @pytest.fixture
    def fetcher(self, tmp_path: Path) -> Iterator[LocalFetcher]:
        self.root = tmp_path
        fetcher = LocalFetcher()
        fetcher.configure({"remote.storage.fetcher.local.root": str(tmp_path)})
        yield fetcher
        fetcher.close()

    def put(self, key: str, data: bytes) -> bytes:
        path = self.root / "topic-0" / key
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return by_key(f"topic-0/{key}")

    def absent(self, key: str) -> bytes:
        return by_key(f"topic-0/{key}")


class TestPresignedFetcherOnUnsignedRanges(RemoteStorageFetcherTests):
    kind: type[PresignedFetcher | RequestsFetcher] = PresignedFetcher

    @pytest.fixture
    def fetcher(self) -> Iterator[PresignedFetcher | RequestsFetcher]:
        with ScriptedOrigin(signature="0123456789abcdef") as self.origin:
            fetcher = configured(self.kind(), self.origin.authority)
            yield fetcher
            fetcher.close()

    def put(self, key: str, data: bytes) -> bytes:
        self.origin.objects[key] = data
        return self.absent(key)

    def absent(self, key: str) -> bytes:
        return LocationMetadata(url=self.origin.url_for(key)).encode()


class TestPresignedFetcherOnChunkedAnswers(TestPresignedFetcherOnUnsignedRanges):
    @pytest.fixture
    def fetcher(self) -> Iterator[PresignedFetcher | RequestsFetcher]:
        with ScriptedOrigin(otherwise=Answer(chunked=True)) as self.origin:
            fetcher = configured(self.kind(), self.origin.authority)
            yield fetcher
            fetcher.close()


class TestRequestsFetcher(TestPresignedFetcherOnUnsignedRanges):
    kind = RequestsFetcher


class TestRequestsFetcherOnChunkedAnswers(TestPresignedFetcherOnChunkedAnswers):
    kind = RequestsFetcher


class TestPresignedFetcherOnSignedRanges(RemoteStorageFetcherTests):
    open_ended = False

    @pytest.fixture
    def fetcher(self, tmp_path: Path) -> Iterator[PresignedFetcher]:
        self.root = tmp_path
        with ObjectOrigin(tmp_path, SECRET) as self.origin:
            fetcher = configured(PresignedFetcher(), self.origin.url.removeprefix("http://"))
            yield fetcher
            fetcher.close()

    def put(self, key: str, data: bytes) -> bytes:
        (self.root / key).write_bytes(data)
        return by_key(key)

    def absent(self, key: str) -> bytes:
        return by_key(key)

    def locate(self, custom_metadata: bytes, start: int, end: int) -> bytes:
        key = LocationMetadata.decode(custom_metadata).object_key
        return LocationMetadata(url=self.origin.signer.sign(key, ByteRange(start, end), 60).url).encode()


class TestPresignedFetcherOnS3(RemoteStorageFetcherTests):
    """A server that checks each signature, range and expiry, with URLs that a shim grants."""

    kind: type[PresignedFetcher | RequestsFetcher] = PresignedFetcher
    open_ended = False

    @pytest.fixture
    def fetcher(self, s3_environment: S3Server) -> Iterator[PresignedFetcher | RequestsFetcher]:
        self.server = s3_environment
        self.bucket = s3_environment.new_bucket()
        self.signer = S3Signer(f"s3://{self.bucket}/tier", s3_environment.options)
        fetcher = configured(self.kind(), f"{s3_environment.authority}/{self.bucket}/tier")
        yield fetcher
        fetcher.close()

    def put(self, key: str, data: bytes) -> bytes:
        self.server.put(self.bucket, [(f"tier/{key}", data)])
        return by_key(key)

    def absent(self, key: str) -> bytes:
        return by_key(key)

    def locate(self, custom_metadata: bytes, start: int, end: int) -> bytes:
        key = LocationMetadata.decode(custom_metadata).object_key
        signed = self.signer.sign(key, ByteRange(start, end), 60)
        return LocationMetadata(url=signed.url, signed_headers=signed.headers).encode()


class TestRequestsFetcherOnS3(TestPresignedFetcherOnS3):
    kind = RequestsFetcher


class TestWrappers(TestMemoryFetcher):
    @pytest.fixture
    def fetcher(self) -> SlowFetcher:
        self.objects = {}
        return SlowFetcher(FailingFetcher(MemoryFetcher(self.objects)), 0.0)
