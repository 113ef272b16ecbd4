"""Ranges of S3 objects, with a server that refuses credentials."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka_remote_fetchers._byte_range import WantedRange
from kafka_remote_fetchers._range_client import RangeClient
from kafka_remote_fetchers._s3_client import S3Clients, S3Settings
from kafka_remote_fetchers._s3_ranges import S3Ranges
from kafka_remote_fetchers._store_url import StoreUrl

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import RemoteStorageAccessError, RemoteStorageUnavailableError
from kafka_remote_client.testing import ScriptedOrigin, error, read_all

DATA = bytes(range(100))


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedOrigin]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "canary")
    with ScriptedOrigin({"bucket/tier/a.log": DATA}) as made:
        yield made


@pytest.fixture
def ranges(origin: ScriptedOrigin) -> Iterator[S3Ranges]:
    options = {"s3.endpoint.url": origin.url, "s3.path.style": True, "allow.http": True, "s3.region": "eu-west-1"}
    clock = SystemClock()
    clients = S3Clients(S3Settings.parse(options), clock)
    connections = RangeClient({"fetch.remote.read.timeout.ms": 60_000}, clock, allow_private=True)
    made = S3Ranges(StoreUrl("bucket", "tier/"), clients, connections, clock)
    yield made
    made.close()


def test_refused_credentials_are_read_again_once(ranges: S3Ranges, origin: ScriptedOrigin) -> None:
    before = ranges.clients.current
    origin.script(error(403, "AccessDenied"))
    assert read_all(ranges.open("a.log", WantedRange(3, 8), ranges.deadline())) == DATA[3:8]
    assert ranges.clients.current is not before
    origin.script(error(403, "AccessDenied"))
    with pytest.raises(RemoteStorageAccessError):  # they were read a moment ago
        ranges.open("a.log", WantedRange(3, 8), ranges.deadline())
    assert len(origin.exchanges) == 3


def test_a_closed_one_opens_nothing(ranges: S3Ranges) -> None:
    ranges.close()
    with pytest.raises(RemoteStorageUnavailableError):
        ranges.open("a.log", WantedRange(0, 1), ranges.deadline())
