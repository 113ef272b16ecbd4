"""A change of a store during a read, in its bucket, credentials or objects, costs only speed.

A relay in front of the store holds a read back while the fault is made, and records the store's answers afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from kafka_remote_client import Consumer
from tests.support.aiven_tier import AivenTier, aiven_shim
from tests.support.fetcher_settings import of_its_fetcher
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, plain, read_to_end, row, settings, total
from tests.support.s3_server import S3Server
from tests.support.watched_store import WatchedStore

pytestmark = [pytest.mark.stores, pytest.mark.broker]

_SOUND_READS = 2
"""Reads of logs before the fault: so many give the first records."""
_CLIENT_CLOSED_REQUEST = 499
"""MinIO's answer to a sound read that it still serves when it is stopped."""
_CAUSES = {
    *("access-denied", "unavailable", "not-found", "object-not-found"),
    *("not-granted", "breaker-open", "timeout", "location-unavailable", "peer-unreachable"),
    "invalid-response",  # a segment located after its log was replaced: the version exists, its chunks fail
    "corrupt-chunk",  # a client that resolves locations itself reads batch headers; no range of a replaced log is read
}
WAYS = [("broker", "presigned"), ("broker", "s3"), ("metadata-topic", "s3")]
COMMON: Mapping[str, object] = {
    "fetch.remote.enabled": True,
    "remote.storage.fetcher.allow.http": True,
    "remote.storage.fetcher.allow.private.addresses": True,
    # A loaded machine may need longer than the defaults, and a time-out would end the sound reads before the fault.
    "fetch.remote.location.timeout.ms": 60_000,
    "fetch.remote.read.timeout.ms": 60_000,
    # So little at a time that most is still unread when the fault comes.
    "fetch.remote.range.bytes": 64 << 10,
    "fetch.remote.max.in.flight": 1,
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A server for this test, with its credentials where boto3 looks for them."""
    own = S3Server(tmp_path / "s3")
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in own.environment.items():
        monkeypatch.setenv(name, value)
    own.start()
    try:
        yield own
    finally:
        own.stop()


def bucket_gone(server: S3Server, bucket: str) -> None:
    for page in server.client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        keys = [{"Key": found["Key"]} for found in page["Contents"]]
        server.client.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
    server.client.delete_bucket(Bucket=bucket)


def credentials_replaced(server: S3Server, _bucket: str) -> None:
    """Replaces the credentials; no client gets the new ones."""
    server.restart_as("another-access-key", "another-secret-key")


def logs_replaced(server: S3Server, bucket: str) -> None:
    """Replaces the logs by other bytes. No reader sees them, because readers request the version that was located."""
    for page in server.client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        logs = {found["Key"]: found["Size"] for found in page["Contents"] if found["Key"].endswith(".log")}
        server.put(bucket, [(key, bytes(size)) for key, size in logs.items()])


@contextmanager
def consumer_of(
    broker: KafkaBroker, tier: AivenTier, server: S3Server, relay: WatchedStore, bucket: str, source: str, fetcher: str
) -> Iterator[Consumer]:
    url = f"s3://{bucket}"
    options = {**server.options, "s3.endpoint.url": relay.url}
    way: dict[str, Any] = {
        **COMMON,
        "remote.storage.fetcher.class": fetcher,
        "remote.storage.fetcher.allowed.hosts": relay.authority,
        **({f"remote.storage.fetcher.{name}": value for name, value in options.items()} if fetcher == "s3" else {}),
        **({"remote.storage.fetcher.store.url": url} if fetcher == "s3" else {}),
    }
    if source == "metadata-topic":
        way |= {
            "fetch.remote.location.source": source,
            "fetch.remote.metadata.topic": tier.metadata_topic,
            "remote.storage.store.url": url,
            "remote.storage.store.layout": "aiven",
            "remote.storage.store.key.prefix": tier.prefix,
            "remote.storage.store.encryption.keys": ",".join(f"{key}={path}" for key, path in tier.encryption_keys.items()),
        }
        with Consumer(of_its_fetcher(settings(broker.bootstrap_servers, "read_committed", **way))) as consumer:
            yield consumer
        return
    with (
        aiven_shim(
            broker,
            tier,
            url,
            store_options=options,
            allow_plaintext_data_keys=True,
            range_bytes=64 << 10,
            max_grant_bytes=64 << 10,
        ) as shim,
        Consumer(of_its_fetcher(settings(shim.bootstrap_servers, "read_committed", **way))) as consumer,
    ):
        yield consumer


_Read: TypeAlias = Callable[[str, str, Callable[[S3Server, str], None]], set[int]]


@pytest.fixture
def read(kafka_broker: KafkaBroker, aiven_tier: Callable[[str], AivenTier], wide_topic: str, server: S3Server) -> _Read:
    """Reads a topic during a fault; checks records and fallbacks. Returns the statuses of all changed answers."""

    def reading(source: str, fetcher: str, fault: Callable[[S3Server, str], None]) -> set[int]:
        tier = aiven_tier("zstd-aes")
        objects = dict(tier.objects())
        bucket = server.new_bucket(objects.items())
        truth = {f"/{bucket}/{key}": data for key, data in objects.items()}
        with (
            WatchedStore(server.authority, truth) as relay,
            consumer_of(kafka_broker, tier, server, relay, bucket, source, fetcher) as consumer,
        ):
            relay.hold(after=_SOUND_READS)
            consumer.assign([TopicPartition(wide_topic, 0, OFFSET_BEGINNING)])
            rows = [row(message) for message in consumer.consume(10, PATIENCE_SECONDS)]
            before = consumer.metrics()
            assert total(before, "remote-fetch-records-total") >= 10, before["remote-fetch-fallbacks-total"]
            relay.wait_for_readers(1)
            assert relay.changed_statuses() == set()
            fault(server, bucket)
            relay.release()
            rows += read_to_end(consumer)
            metrics = consumer.metrics()
        assert rows == plain(kafka_broker, wide_topic, "read_committed")
        assert metrics["remote-fetch-fallbacks-total"], "the broker served what is tiered, and nobody says why"
        assert set(metrics["remote-fetch-fallbacks-total"]) <= _CAUSES
        return relay.changed_statuses()

    return reading


@pytest.mark.fault("F07")
@pytest.mark.parametrize(("source", "fetcher"), WAYS)
def test_a_removed_bucket_costs_speed_only(read: _Read, source: str, fetcher: str) -> None:
    assert read(source, fetcher, bucket_gone) == {HTTPStatus.NOT_FOUND}


@pytest.mark.fault("F05")
@pytest.mark.parametrize(("source", "fetcher"), WAYS)
def test_replaced_credentials_cost_speed_only(read: _Read, source: str, fetcher: str) -> None:
    assert read(source, fetcher, credentials_replaced) - {_CLIENT_CLOSED_REQUEST} == {HTTPStatus.FORBIDDEN}


@pytest.mark.fault("F07", "F32")
@pytest.mark.parametrize(("source", "fetcher"), WAYS)
def test_replaced_logs_cost_speed_only(read: _Read, source: str, fetcher: str) -> None:
    """The located version no longer exists; a segment located after the replacement has zeros."""
    changed = read(source, fetcher, logs_replaced)
    assert HTTPStatus.PRECONDITION_FAILED in changed
    assert changed <= {HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PARTIAL_CONTENT}
