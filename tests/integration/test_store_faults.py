"""A store that changes in the middle of a read, its bucket, its credentials or its objects, costs speed and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.aiven_tier import AivenTier
from tests.support.fetcher_settings import of_its_fetcher
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, plain, read_to_end, row, settings, total
from tests.support.s3_server import S3Server

pytestmark = [pytest.mark.stores, pytest.mark.broker]

WAYS = [("broker", "presigned"), ("broker", "s3"), ("metadata-topic", "s3")]
COMMON: Mapping[str, object] = {
    "fetch.remote.enabled": True,
    "remote.storage.fetcher.allow.http": True,
    "remote.storage.fetcher.allow.private.addresses": True,
    "fetch.remote.location.timeout.ms": 60_000,
    # So little at a time that most is still to be read when the fault comes.
    "fetch.remote.range.bytes": 64 << 10,
    "fetch.remote.max.in.flight": 1,
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A server of the test's own, and its credentials where boto3 looks for them."""
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
    """Nobody is told the new ones."""
    server.restart_as("another-access-key", "another-secret-key")


def logs_replaced(server: S3Server, bucket: str) -> None:
    """By other bytes. Nobody gets to see them, since the version that was looked at is asked for."""
    for page in server.client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        logs = {found["Key"]: found["Size"] for found in page["Contents"] if found["Key"].endswith(".log")}
        server.put(bucket, [(key, bytes(size)) for key, size in logs.items()])


@contextmanager
def consumer_of(
    broker: KafkaBroker, tier: AivenTier, server: S3Server, bucket: str, source: str, fetcher: str
) -> Iterator[Consumer]:
    url = f"s3://{bucket}"
    way: dict[str, Any] = {
        **COMMON,
        "remote.storage.fetcher.class": fetcher,
        "remote.storage.fetcher.allowed.hosts": server.authority,
        **(server.fetcher_settings if fetcher == "s3" else {}),
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
    config = ShimConfig(
        bootstrap_servers=broker.bootstrap_servers,
        store=url,
        store_options=server.options,
        layout="aiven",
        key_prefix=tier.prefix,
        encryption_keys=tier.encryption_keys,
        allow_plaintext_data_keys=True,
        metadata_topic=tier.metadata_topic,
        range_bytes=64 << 10,
        max_grant_bytes=64 << 10,
    )
    with Shim(config) as shim:
        assert shim.wait_ready(PATIENCE_SECONDS)
        with Consumer(of_its_fetcher(settings(shim.bootstrap_servers, "read_committed", **way))) as consumer:
            yield consumer


@pytest.mark.parametrize("fault", [bucket_gone, credentials_replaced, logs_replaced])
@pytest.mark.parametrize(("source", "fetcher"), WAYS)
def test_every_record_comes_all_the_same(
    kafka_broker: KafkaBroker,
    aiven_tier: Callable[[str], AivenTier],
    wide_topic: str,
    server: S3Server,
    source: str,
    fetcher: str,
    fault: Callable[[S3Server, str], None],
) -> None:
    tier = aiven_tier("zstd-aes")
    bucket = server.new_bucket(tier.objects())
    with consumer_of(kafka_broker, tier, server, bucket, source, fetcher) as consumer:
        consumer.assign([TopicPartition(wide_topic, 0, OFFSET_BEGINNING)])
        rows = [row(message) for message in consumer.consume(10, PATIENCE_SECONDS)]
        assert total(consumer.metrics(), "remote-fetch-records-total") >= 10
        fault(server, bucket)
        rows += read_to_end(consumer)
        metrics = consumer.metrics()
    assert rows == plain(kafka_broker, wide_topic, "read_committed")
    local = kafka_broker.offsets(wide_topic).earliest_local
    if total(metrics, "broker-fetch-records-total") > sum(1 for offset, *_ in rows if offset >= local):
        assert metrics["remote-fetch-fallbacks-total"], "the broker served what is tiered, and nobody says why"
    assert set(metrics["remote-fetch-fallbacks-total"]) <= {
        *("access-denied", "unavailable", "not-found", "object-not-found"),
        *("not-granted", "breaker-open", "timeout", "location-unavailable", "peer-unreachable"),
        "invalid-response",  # a segment that is located after its log was replaced: the version is there, its chunks fail
        "corrupt-chunk",  # who finds places by itself looks at batch headers; no range of a replaced log is read
    }
