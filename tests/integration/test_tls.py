"""TLS from the consumer to the shim, from the shim to a real broker and from the fetcher to the store: the same records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.exporters.readings import readings
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.aiven_tier import AivenTier, aiven_shim
from tests.support.certificates import Authority, Issued
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, by_consume, by_poll, direct, plain, read_to_end, settings, total
from tests.support.scenario import TransactionalTopic

pytestmark = pytest.mark.broker

PASSWORD = "canary-of-a-password"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("The shim's authority")


@contextmanager
def shim_showing(issued: Issued, broker: KafkaBroker, directory: Path, **more: Any) -> Iterator[Shim]:
    config = ShimConfig(
        broker.tls_bootstrap_servers,
        store=broker.store_url,
        ssl_certificate=str(issued.write(directory / "shim.pem", PASSWORD)),
        ssl_key_password=PASSWORD,
        handshake_timeout=60,
        broker_settings={"security.protocol": "ssl", "ssl.ca.location": str(broker.authority)},
        **more,
    )
    with Shim(config) as running:
        assert running.wait_ready(PATIENCE_SECONDS)
        yield running


def tls(authority: Authority, **more: object) -> dict[str, object]:
    return {"security.protocol": "ssl", "ssl.ca.pem": authority.pem, **more}


@pytest.mark.parametrize("take", [by_poll, by_consume])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_everything_over_tls_equals_the_broker_and_comes_from_the_store(
    kafka_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    authority: Authority,
    tmp_path: Path,
    isolation: str,
    take: Callable[[confluent_kafka.Consumer], list[Message]],
) -> None:
    topic = transactional_topic.topic
    store = {
        "remote.storage.fetcher.allow.http": False,
        "remote.storage.fetcher.ssl.ca.location": str(authority.write(tmp_path / "ca.pem")),
    }
    with (
        shim_showing(authority.issue(), kafka_broker, tmp_path, origin_https=True) as shim,
        Consumer(direct(shim, isolation, **store, **tls(authority))) as consumer,
    ):
        consumer.subscribe([topic])
        rows = read_to_end(consumer, take)
        metrics = consumer.metrics()
    assert rows == plain(kafka_broker, topic, isolation)
    local = kafka_broker.offsets(topic).earliest_local
    assert total(metrics, "remote-fetch-records-total") >= sum(1 for offset, *_ in rows if offset < local)
    assert metrics["remote-fetch-fallbacks-total"] == {}


def identities(issued: Issued, directory: Path) -> dict[str, dict[str, object]]:
    """Returns one certificate and its key in the forms that librdkafka accepts, with a password."""
    certificate, key, keystore = directory / "me.pem", directory / "me.key", directory / "me.p12"
    certificate.write_text(issued.certificate_pem)
    key.write_text(issued.key_pem(PASSWORD))
    keystore.write_bytes(issued.keystore(PASSWORD))
    locked: dict[str, object] = {"ssl.key.password": PASSWORD}
    return {
        "files": {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key), **locked},
        "strings": {"ssl.certificate.pem": issued.certificate_pem, "ssl.key.pem": issued.key_pem(PASSWORD), **locked},
        "keystore": {"ssl.keystore.location": str(keystore), "ssl.keystore.password": PASSWORD},
    }


@pytest.mark.parametrize("way", ["files", "strings", "keystore"])
def test_the_consumer_sends_its_certificate_in_any_form(
    kafka_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    authority: Authority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    way: str,
) -> None:
    topic = transactional_topic.topic
    identity = identities(authority.issue(), tmp_path)[way]
    demanding = {"ssl_client_ca": str(authority.write(tmp_path / "ca.pem"))}
    with (
        caplog.at_level(logging.DEBUG),
        shim_showing(authority.issue(), kafka_broker, tmp_path, **demanding) as shim,
        Consumer(direct(shim, "read_committed", **identity, **tls(authority))) as consumer,
    ):
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        rows = read_to_end(consumer, by_consume)
        metrics = consumer.metrics()
    assert rows == plain(kafka_broker, topic, "read_committed")
    assert total(metrics, "remote-fetch-records-total") > 1000
    assert PASSWORD not in caplog.text


def test_a_shim_of_another_name_is_accepted_without_host_verification(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, authority: Authority, tmp_path: Path
) -> None:
    unasked = {"ssl.endpoint.identification.algorithm": "none"}
    with (
        shim_showing(authority.issue("other.example"), kafka_broker, tmp_path) as shim,
        Consumer(direct(shim, "read_committed", **tls(authority, **unasked))) as consumer,
    ):
        consumer.assign([TopicPartition(transactional_topic.topic, 0, OFFSET_BEGINNING)])
        rows = read_to_end(consumer, by_consume)
        metrics = consumer.metrics()
    assert rows == plain(kafka_broker, transactional_topic.topic, "read_committed")
    assert total(metrics, "remote-fetch-records-total") > 1000


def test_a_tls_setting_of_librdkafka_only_leaves_all_to_the_broker(
    kafka_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    authority: Authority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = transactional_topic.topic
    with (
        shim_showing(authority.issue(), kafka_broker, tmp_path) as shim,
        caplog.at_level(logging.WARNING),
        Consumer(direct(shim, "read_committed", **tls(authority, **{"ssl.curves.list": "P-256"}))) as consumer,
    ):
        assert type(consumer) is Consumer
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        rows = read_to_end(consumer, by_consume)
        metrics = consumer.metrics()
        assert shim.metrics().get("location_requests", 0) == 0
    assert rows == plain(kafka_broker, topic, "read_committed")
    assert not any(one.value for one in readings(metrics))
    said = [message for message in caplog.messages if "direct fetch" in message]
    assert said == ["direct fetch is off: ssl.curves.list is not supported by direct fetch"]


def test_a_plain_consumer_works_through_a_shim_with_tls_on_both_sides(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, authority: Authority, tmp_path: Path
) -> None:
    topic = transactional_topic.topic
    with shim_showing(authority.issue(), kafka_broker, tmp_path) as shim:
        consumer = confluent_kafka.Consumer(settings(shim.bootstrap_servers, "read_committed", **tls(authority)))
        try:
            consumer.subscribe([topic])
            assert read_to_end(consumer, by_consume) == plain(kafka_broker, topic, "read_committed")
        finally:
            consumer.close()


@pytest.mark.parametrize("shown", ["wrong name", "wrong authority", "expired"])
def test_the_broker_serves_if_the_shims_certificate_is_wrong(
    kafka_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    authority: Authority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    shown: str,
) -> None:
    topic = transactional_topic.topic
    issued = {
        "wrong name": lambda: authority.issue("other.example"),
        "wrong authority": lambda: Authority("A stranger").issue(),
        "expired": lambda: authority.issue(expired=True),
    }[shown]()
    trusted = authority.pem + kafka_broker.authority.read_text()
    with shim_showing(issued, kafka_broker, tmp_path) as shim, caplog.at_level(logging.WARNING):
        changes = {
            **tls(authority),
            "ssl.ca.pem": trusted,
            "bootstrap.servers": kafka_broker.tls_bootstrap_servers,
            "fetch.remote.bootstrap.servers": shim.bootstrap_servers,
        }
        with Consumer(direct(shim, "read_committed", **changes)) as consumer:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            rows = read_to_end(consumer, by_consume)
            metrics = consumer.metrics()
        assert shim.metrics().get("requests", 0) == 0
    assert rows == plain(kafka_broker, topic, "read_committed")
    assert total(metrics, "remote-fetch-records-total") == 0
    said = [record.getMessage() for record in caplog.records if "cannot verify the certificate of" in record.getMessage()]
    assert len(said) == 1


@pytest.mark.parametrize("secure", [True, False])
def test_keys_of_encrypted_segments_are_granted_over_tls_only(
    kafka_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    aiven_tier: Callable[[str], AivenTier],
    authority: Authority,
    tmp_path: Path,
    secure: bool,
) -> None:
    topic, tier = transactional_topic.topic, aiven_tier("zstd-aes")
    listener = {"ssl_certificate": str(authority.issue().write(tmp_path / "shim.pem"))} if secure else {}
    with aiven_shim(kafka_broker, tier, **listener) as shim:
        with Consumer(direct(shim, "read_committed", **(tls(authority) if secure else {}))) as consumer:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            rows = read_to_end(consumer, by_consume)
            metrics = consumer.metrics()
        refused = shim.metrics().get("locations_refused.plaintext-data-key", 0)
    assert rows == plain(kafka_broker, topic, "read_committed")
    if secure:
        assert (metrics["remote-fetch-fallbacks-total"], refused) == ({}, 0)
        assert total(metrics, "remote-fetch-records-total") > 1000
    else:
        assert total(metrics, "remote-fetch-records-total") == 0
        assert refused > 0
