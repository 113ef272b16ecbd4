"""A shim starts, serves clients that know nothing of it, and stops."""

from __future__ import annotations

import logging
import socket
import threading
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import attrs
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka_remote_fetchers.directory_store import DirectoryStore

import kafka_remote_client.shim.shim_tier as tier_module
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import ByteRange
from kafka_remote_client.plugin import SignedUrl
from kafka_remote_client.shim.broker_strategy import PassThrough
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.shim.signing import UrlSigner
from tests.shim.test_client_connection import echo, heartbeat
from tests.support.kafka_client import RawClient
from tests.support.scripted_broker import ReceivedRequest, ScriptedBroker

QUIET = {"log_level": 0}


@pytest.fixture
def mock() -> Producer:
    return Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 3, **QUIET})


def address(mock: Producer) -> str:
    return ",".join(f"{broker.host}:{broker.port}" for broker in mock.list_topics(timeout=30).brokers.values())


def test_an_unmodified_producer_and_group_consumer_work(mock: Producer) -> None:
    real_ports = {broker.port for broker in mock.list_topics(timeout=30).brokers.values()}
    with Shim(ShimConfig(address(mock))) as shim:
        servers = {"bootstrap.servers": shim.bootstrap_servers, **QUIET}
        producer = Producer({**servers, "linger.ms": 5})
        for number in range(3000):
            producer.produce("orders", b"%d" % number, b"%d" % (number % 100))
        assert producer.flush(30) == 0
        consumer = Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
        got: list[bytes | None] = []
        try:
            consumer.subscribe(["orders"])
            while len(got) < 3000:
                got += [message.value() for message in consumer.consume(500, 1.0)]
            consumer.commit(asynchronous=False)
            committed = consumer.committed([TopicPartition("orders", partition) for partition in range(4)], 30)
            seen = {broker.port for broker in consumer.list_topics(timeout=30).brokers.values()}
        finally:
            consumer.close()
        assert sorted(filter(None, got)) == sorted(b"%d" % number for number in range(3000))
        assert sum(partition.offset for partition in committed) == 3000
        assert len(seen) == 3
        assert not seen & real_ports
        assert shim.metrics()["requests"] > 0


def test_an_admin_client_sees_the_shim_only(mock: Producer) -> None:
    with Shim(ShimConfig(address(mock))) as shim:
        admin = AdminClient({"bootstrap.servers": shim.bootstrap_servers, **QUIET})
        brokers = admin.list_topics("orders", timeout=30).brokers
        assert set(brokers) == {1, 2, 3}
        assert {broker.host for broker in brokers.values()} == {"127.0.0.1"}


def test_names_itself_by_where_it_listens() -> None:
    shim = Shim(ShimConfig("127.0.0.1:1", listen="[::1]:0"))
    with pytest.raises(RuntimeError, match="is not started"):
        _ = shim.bootstrap_servers
    with shim:
        assert shim.bootstrap_servers.startswith("[::1]:")
        assert shim.origin_url is None
        assert shim.wait_ready(0)
        assert not shim.wait(0)
    assert shim.wait(0)


def test_an_address_that_is_taken_is_said_and_leaves_nothing_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        shim = Shim(ShimConfig("127.0.0.1:1", listen=f"127.0.0.1:{taken.getsockname()[1]}"))
        with pytest.raises(ConfigurationError, match="cannot listen"):
            shim.start()
        assert shim.wait(0)


def test_a_tier_that_cannot_be_started_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        origin = f"127.0.0.1:{taken.getsockname()[1]}"
        shim = Shim(ShimConfig("127.0.0.1:1", store=tmp_path.as_uri(), origin_listen=origin))
        with pytest.raises(ConfigurationError, match="cannot listen"):
            shim.start()


def test_stopping_twice_or_without_start_does_nothing() -> None:
    shim = Shim(ShimConfig("127.0.0.1:1"))
    shim.stop()
    shim.start()
    shim.stop()
    shim.stop()


def test_stops_with_clients_connected() -> None:
    with ScriptedBroker(echo) as broker:
        with Shim(ShimConfig(broker.address)) as shim:
            client = RawClient(shim.bootstrap_servers)
            client.send(heartbeat(1))
            assert client.read()
        with client:
            assert client.closed()
            assert shim.metrics()["connections_dropped.stopped"] == 1


def test_serves_with_a_tier_whose_cluster_is_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Ordinary clients must not suffer from the shim's own reading of metadata."""
    caplog.set_level(logging.CRITICAL)
    with ScriptedBroker(lambda _request: None) as broker:
        config = ShimConfig(broker.address, store=tmp_path.as_uri(), metadata_consumer=QUIET)
        with Shim(config) as shim:
            assert shim.origin_url is not None
            assert not shim.wait_ready(0.2)
            assert shim.metrics()["origin_requests"] == 0
            with RawClient(shim.bootstrap_servers) as client:
                client.send(heartbeat(1))
                assert client.closed()


def test_drain_answers_what_is_in_progress_and_takes_nothing_new() -> None:
    asked, release = threading.Event(), threading.Event()
    body = bytes(8 << 20)

    def slow(request: ReceivedRequest) -> bytes:
        asked.set()
        assert release.wait(60)
        return request.answer(body)

    with ScriptedBroker(slow) as broker, Shim(ShimConfig(broker.address)) as shim:
        with RawClient(shim.bootstrap_servers) as busy, RawClient(shim.bootstrap_servers) as idle:
            busy.send(heartbeat(1) + heartbeat(2)[:-1])
            assert asked.wait(60)
            draining = threading.Thread(target=shim.drain)
            draining.start()
            assert idle.closed()
            with pytest.raises(OSError, match="refused"):
                RawClient(shim.bootstrap_servers)
            release.set()
            assert busy.read()[4:] == body
            busy.send(heartbeat(2)[-1:])
            assert busy.read()[4:] == body
            assert busy.closed()
            draining.join(60)
            assert not draining.is_alive()
        assert "connections_dropped.stopped" not in shim.metrics()


def test_drain_ends_with_its_time() -> None:
    asked, release = threading.Event(), threading.Event()

    def never(request: ReceivedRequest) -> None:
        asked.set()
        release.wait(60)

    with ScriptedBroker(never) as broker:
        shim = Shim(ShimConfig(broker.address, drain_timeout=0.1)).start()
        with RawClient(shim.bootstrap_servers) as client:
            client.send(heartbeat(1))
            assert asked.wait(60)
            shim.drain()
            assert client.closed()
        assert shim.metrics()["connections_dropped.stopped"] == 1
        release.set()


def test_reload_takes_caps_for_new_connections_and_names_the_rest() -> None:
    with ScriptedBroker(echo) as broker:
        config = ShimConfig(broker.address)
        with pytest.raises(RuntimeError, match="not started"):
            Shim(config).reload(config)
        with Shim(config) as shim, RawClient(shim.bootstrap_servers) as client:
            client.send(heartbeat(1))
            assert client.read()
            changed = attrs.evolve(config, max_connections=1, listen="127.0.0.1:1")
            assert shim.reload(changed) == ["listen"]
            with RawClient(shim.bootstrap_servers) as second:
                assert second.closed()
            client.send(heartbeat(2))
            assert client.read()
            assert shim.metrics()["connections_refused.max_connections"] == 1


def test_reload_takes_another_order_of_the_same_policies(tmp_path: Path) -> None:
    wide, narrow = {"*.url_ttl": 60.0}, {"audit.grant": "never"}
    config = ShimConfig("127.0.0.1:1", store=tmp_path.as_uri(), topic_policies=wide | narrow, metadata_consumer=QUIET)
    with Shim(config) as shim:
        assert shim._tier is not None
        assert shim._tier.strategy._limits.topics.of("audit").grant is None
        assert shim.reload(attrs.evolve(config, topic_policies=narrow | wide)) == []
        assert shim._tier.strategy._limits.topics.of("audit").grant == "never"


class WholeObjects:
    """A signer that cannot bind a range."""

    binds_ranges = False

    def sign(self, object_key: str, byte_range: ByteRange, ttl_seconds: float, etag: str | None = None) -> SignedUrl:
        return SignedUrl(f"https://store.example/{object_key}")


PERMITTED = {"orders.grant": "whole-object"}


@pytest.mark.parametrize(
    ("at_first", "then", "said"),
    [
        ({"topic_policies": PERMITTED}, {"topic_policies": {"orders.grant": "range"}}, "--whole-object-urls or a topic policy"),
        ({"whole_object_urls": True}, {"whole_object_urls": False}, "--whole-object-urls or a topic policy"),
        ({"whole_object_urls": True}, {"store": "disk://library"}, "URLs can be signed for these stores only"),
        ({"whole_object_urls": True}, {"store": "file:///", "origin_listen": "0.0.0.0:0"}, "loopback addresses only"),
        ({"whole_object_urls": True}, {"broker_settings": {"sasl.username": "me"}}, "not a supported broker setting"),
    ],
)
def test_reload_refuses_what_a_start_refuses_and_keeps_what_there_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at_first: dict[str, Any], then: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(tier_module, "signer_schemes", lambda: ["tape"])
    monkeypatch.setattr(tier_module, "load_signer", lambda *_told: WholeObjects())
    monkeypatch.setattr(tier_module, "load_store", lambda *_told: DirectoryStore(tmp_path))
    config = ShimConfig("127.0.0.1:1", store="tape://library", metadata_consumer=QUIET, **at_first)
    wrong = attrs.evolve(config, **then, max_connections=1)
    with pytest.raises(ConfigurationError, match=said) as at_start:
        Shim(wrong).start()
    with Shim(config) as shim:
        assert shim._tier is not None
        limits = shim._tier.strategy._limits
        with pytest.raises(ConfigurationError, match=said) as at_reload:
            shim.reload(wrong)
        assert str(at_reload.value) == str(at_start.value)
        assert shim._tier.strategy._limits is limits
        assert shim._config == config


def test_reload_refuses_policies_that_only_the_next_start_permits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tier_module, "signer_schemes", lambda: ["tape"])
    monkeypatch.setattr(tier_module, "load_signer", lambda *_told: WholeObjects())
    monkeypatch.setattr(tier_module, "load_store", lambda *_told: DirectoryStore(tmp_path))
    config = ShimConfig("127.0.0.1:1", store="tape://library", metadata_consumer=QUIET, topic_policies=PERMITTED)
    with Shim(config) as shim:
        assert shim._tier is not None
        with pytest.raises(ConfigurationError, match="--whole-object-urls"):
            shim.reload(attrs.evolve(config, topic_policies={}, whole_object_urls=True))
        assert shim._tier.strategy._limits.topics.of("orders").grant == "whole-object"


def test_reload_builds_one_signer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    built: list[WholeObjects] = []

    def build(*_told: object) -> WholeObjects:
        built.append(WholeObjects())
        return built[-1]

    monkeypatch.setattr(tier_module, "signer_schemes", lambda: ["tape"])
    monkeypatch.setattr(tier_module, "load_signer", build)
    monkeypatch.setattr(tier_module, "load_store", lambda *_told: DirectoryStore(tmp_path))
    config = ShimConfig("127.0.0.1:1", store="tape://library", metadata_consumer=QUIET, topic_policies=PERMITTED)
    with Shim(config) as shim:
        assert len(built) == 1
        assert shim.reload(attrs.evolve(config, max_connections=1)) == []
        assert len(built) == 2


def test_reload_refuses_to_remove_the_signing_key(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_bytes(b"records")
    config = ShimConfig("127.0.0.1:1", store=tmp_path.as_uri(), signing_key=b"k" * 16, metadata_consumer=QUIET)
    with Shim(config) as shim:
        assert shim.origin_url is not None
        url = UrlSigner(b"k" * 16, shim.origin_url, SystemClock()).sign("one.log", ByteRange(0, 2), 60).url
        with pytest.raises(
            ConfigurationError, match=r"^signing_key cannot be removed without a restart: clients still hold URLs"
        ):
            shim.reload(attrs.evolve(config, signing_key=None, max_connections=1))
        assert shim._config == config
        assert shim.reload(attrs.evolve(config, signing_key=b"n" * 16)) == []
        with urlopen(Request(url, headers={"Range": "bytes=0-1"}), timeout=60) as answer:
            assert answer.read() == b"re"


def test_reload_judges_no_store_where_the_strategy_is_given() -> None:
    config = ShimConfig("127.0.0.1:1", store="tape://library")
    with Shim(config, strategy=PassThrough()) as shim:
        assert shim.reload(attrs.evolve(config, max_connections=1)) == []
