"""A real broker's tier in each kind of store: our consumer reads the records of a plain one.

::

    store | by URLs that the shim signs          | with own credentials
    S3    | presigned; range and version signed  | s3 (boto3), object_store (obstore)
    Azure | presigned; whole objects, permitted  | object_store
    GCS   | presigned; range signed (the server of the tests does not check it) | object_store
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from kafka_remote_fetchers.presigned import PresignedFetcher

from kafka_remote_client import Consumer
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.azure_server import AzureServer
from tests.support.gcs_server import GcsServer
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, PATIENT, plain, read_to_end, settings, total
from tests.support.s3_server import S3Server
from tests.support.scenario import TransactionalTopic

pytestmark = pytest.mark.stores

_LATE_SECONDS = 3.0
ISOLATION = ("read_committed", "read_uncommitted")
"""Nothing falls back to the broker because the machine is busy."""


class Stored:
    """The broker's tier in a bucket of a server, and the settings of shim and consumer for it."""

    buckets: ClassVar[dict[str, str]] = {}
    """By scheme. The topic is written once and changes no more."""

    def __init__(self, scheme: str, server: Any, broker: KafkaBroker, topic: str, **more: object) -> None:
        self.broker, self.topic = broker, topic
        if scheme not in self.buckets:
            self.buckets[scheme] = server.new_bucket(self._objects())
        self.url = f"{scheme}://{self.buckets[scheme]}/tier"
        self.options = {**server.options, **more}
        self.authority = server.authority

    def _objects(self) -> Iterator[tuple[str, bytes]]:
        root = self.broker.store_directory
        for path in sorted(root.rglob("*")):
            if path.is_file() and f"{self.topic}-0-" in path.as_posix():
                yield f"tier/{path.relative_to(root).as_posix()}", path.read_bytes()

    def read(self, isolation: str, fetcher: str, **more: object) -> Mapping[str, Any]:
        """All records below the local log come from the store, and all records equal the plain consumer's.

        Returns the consumer's metrics.
        """
        expected = plain(self.broker, self.topic, isolation)
        local = self.broker.offsets(self.topic).earliest_local
        below = sum(1 for offset, *_ in expected if offset < local)
        assert below > 1000
        servers = self.broker.bootstrap_servers
        config = ShimConfig(bootstrap_servers=servers, store=self.url, store_options=self.options, **more)
        with Shim(config) as shim:
            assert shim.origin_url is None
            assert shim.wait_ready(PATIENCE_SECONDS)
            with Consumer(self._consumer(shim, isolation, fetcher)) as consumer:
                consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
                rows = read_to_end(consumer)
                metrics = consumer.metrics()
        assert rows == expected
        assert metrics["remote-fetch-fallbacks-total"] == {}
        assert total(metrics, "remote-fetch-records-total") >= below
        return metrics

    def _consumer(self, shim: Shim, isolation: str, fetcher: str) -> dict[str, Any]:
        reach = {
            "presigned": {
                "remote.storage.fetcher.allowed.hosts": self.authority,
                "remote.storage.fetcher.allow.http": True,
                "remote.storage.fetcher.allow.private.addresses": True,
            }
        }
        own = {f"remote.storage.fetcher.{name}": value for name, value in self.options.items()}
        own["remote.storage.fetcher.store.url"] = self.url
        access = {"fetch.remote.enabled": True, "remote.storage.fetcher.class": fetcher, **reach.get(fetcher, own)}
        return settings(shim.bootstrap_servers, isolation, **access, **PATIENT)


@pytest.fixture
def stored(kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic) -> Callable[..., Stored]:
    return lambda scheme, server, **more: Stored(scheme, server, kafka_broker, transactional_topic.topic, **more)


@pytest.mark.parametrize("fetcher", ["presigned", "s3", "object_store"])
@pytest.mark.parametrize("isolation", ISOLATION)
def test_s3_gives_the_plain_consumers_records(
    stored: Callable[..., Stored], s3_environment: S3Server, isolation: str, fetcher: str
) -> None:
    stored("s3", s3_environment).read(isolation, fetcher)


@pytest.mark.parametrize("fetcher", ["presigned", "object_store"])
@pytest.mark.parametrize("isolation", ISOLATION)
def test_azure_gives_the_plain_consumers_records(
    stored: Callable[..., Stored], azure_environment: AzureServer, isolation: str, fetcher: str
) -> None:
    stored("az", azure_environment).read(isolation, fetcher, whole_object_urls=True)


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes the file of an unknown service account."""
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    fields = {"type": "service_account", "client_email": "shim@tests.example", "token_uri": "https://token.example/"}
    file = tmp_path_factory.mktemp("account") / "account.json"
    file.write_text(json.dumps({**fields, "private_key": pem.decode(), "private_key_id": "1", "project_id": "tests"}))
    return file


@pytest.mark.parametrize("fetcher", ["presigned", "object_store"])
@pytest.mark.parametrize("isolation", ISOLATION)
def test_gcs_gives_the_plain_consumers_records(
    stored: Callable[..., Stored], gcs_server: GcsServer, account: Path, isolation: str, fetcher: str
) -> None:
    # Anonymous access comes before the account when the store is read; the shim's signer has only the account.
    stored("gs", gcs_server, **{"gcs.service.account.file": str(account)}).read(isolation, fetcher)


def test_expired_urls_of_the_store_are_requested_again(
    stored: Callable[..., Stored], s3_environment: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """URLs live for a second, and the first range is requested later: the store refuses it, and delivers every record."""
    fetch, begun = PresignedFetcher.fetch_log_segment, count()

    def first_is_late(self: PresignedFetcher, *of_range: Any) -> Any:
        if not next(begun):
            Event().wait(_LATE_SECONDS)
        return fetch(self, *of_range)

    monkeypatch.setattr(PresignedFetcher, "fetch_log_segment", first_is_late)
    metrics = stored("s3", s3_environment).read(
        "read_committed", "presigned", url_ttl=1.0, range_bytes=64 << 10, max_grant_bytes=64 << 10
    )
    assert metrics["remote-fetch-errors-total"].get("expired", 0) > 0, metrics["remote-fetch-errors-total"]
