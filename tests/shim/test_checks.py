"""A shim checks its dependencies before it starts and reports each fault."""

from __future__ import annotations

import struct
from pathlib import Path

import attrs
import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka_remote_fetchers.directory_store import DirectoryStore

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ClientCertificateError, ConfigurationError, RemoteStorageAccessError
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.shim import checks
from kafka_remote_client.shim.bootstrap_servers import BootstrapServers
from kafka_remote_client.shim.checks import check_brokers, check_metadata_topic, check_shim
from kafka_remote_client.shim.config import ShimConfig
from tests.support.certificates import Authority
from tests.support.mock_cluster import mock_cluster
from tests.support.ports import free_ports
from tests.support.scripted_broker import ReceivedRequest, ScriptedBroker
from tests.support.scripted_peer import CERTIFICATE, PeerConnection, ScriptedPeer
from tests.support.silent_peer import SilentPeer


def versions(request: ReceivedRequest) -> bytes:
    return request.answer(struct.pack(">hi", 0, 0))


def checked(config: ShimConfig) -> str | None:
    return check_brokers(config, SystemClock(), None, BootstrapServers(config.upstream))


def test_one_bootstrap_server_that_answers_is_enough() -> None:
    (port,) = free_ports(1)
    with ScriptedBroker(versions) as broker:
        assert checked(ShimConfig(f"127.0.0.1:{port},{broker.address}")) is None


def test_a_silent_server_does_not_use_up_the_time_of_others() -> None:
    with SilentPeer() as silent, ScriptedBroker(versions) as broker:
        config = ShimConfig(f"{silent.address},{broker.address}", connect_timeout=60)
        servers = BootstrapServers(config.upstream)
        for timeout in (0.4, 600):
            assert check_brokers(attrs.evolve(config, admission_timeout=timeout), SystemClock(), None, servers) is None
        assert silent.connections == 1


def test_brokers_that_do_not_answer_are_named() -> None:
    (port,) = free_ports(1)
    found = checked(ShimConfig(f"127.0.0.1:{port}"))
    assert found is not None
    assert found.startswith(f"no broker answers: cannot connect to 127.0.0.1:{port}")


def test_a_broker_that_requires_a_certificate_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> memoryview:
        raise ClientCertificateError("broker:1 refuses this client's certificate, or requires one")

    monkeypatch.setattr(BrokerConnection, "send_receive", refused)
    assert "the broker asks for a client certificate" in str(checked(ShimConfig("broker:1")))


def test_brokers_with_tls_are_checked_over_tls() -> None:
    def answer(peer: PeerConnection) -> None:
        request = peer.read(int.from_bytes(peer.read(4), "big"))
        peer.send(struct.pack(">i", 10) + request[4:8] + struct.pack(">hi", 0, 0))

    settings = {"security.protocol": "ssl", "ssl.ca.location": str(CERTIFICATE)}
    with ScriptedPeer(answer, certificate=CERTIFICATE) as peer:
        config = ShimConfig(f"localhost:{peer.port}", broker_settings=settings)
        assert list(check_shim(config, SystemClock())) == []


def test_an_expired_certificate_is_reported(tmp_path: Path) -> None:
    certificate = str(Authority().issue(expired=True).write(tmp_path / "shim.pem"))
    with ScriptedBroker(versions) as broker:
        (found,) = check_shim(ShimConfig(broker.address, ssl_certificate=certificate), SystemClock())
    assert found.startswith("the listener's certificate expired at 2")


def test_a_complete_environment_has_no_finding(tmp_path: Path) -> None:
    with mock_cluster("metadata", [b"one"]) as (host, port):
        config = ShimConfig(f"{host}:{port}", store=tmp_path.as_uri(), metadata_topic="metadata")
        assert list(check_shim(config, SystemClock())) == []
        assert list(check_shim(ShimConfig(f"{host}:{port}"), SystemClock())) == []


def test_each_finding_is_reported(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (tmp_path / "kafka-tiered-storage").mkdir()
    (tmp_path / "kafka-tiered-storage" / "else").write_text("here")
    config = ShimConfig(f"127.0.0.1:{port}", store=tmp_path.as_uri(), connect_timeout=0.5)
    broker, store, topic = check_shim(config, SystemClock())
    assert broker.startswith("no broker answers")
    assert store == "the store holds objects, but none of the first 1 has a name of the layout local-tiered-storage"
    assert topic.startswith("the metadata topic __remote_log_metadata cannot be read: ")


def test_a_store_that_cannot_be_listed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise RemoteStorageAccessError("access denied")

    monkeypatch.setattr(DirectoryStore, "list", refused)
    with mock_cluster("metadata", [b"one"]) as (host, port):
        config = ShimConfig(f"{host}:{port}", store=tmp_path.as_uri(), metadata_topic="metadata")
        (found,) = check_shim(config, SystemClock())
    assert found.startswith("the store cannot be read: access denied")


def test_the_check_creates_no_metadata_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused:
        def __init__(self, settings: dict[str, object]) -> None:
            assert settings["allow.auto.create.topics"] is False
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "made"))

    monkeypatch.setattr(checks, "Consumer", Refused)
    with pytest.raises(ConfigurationError, match="made"):
        check_metadata_topic(ShimConfig("broker:1", metadata_consumer={"allow.auto.create.topics": "true"}))


def test_unusable_settings_raise(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="metadata_consumer: "):
        check_metadata_topic(ShimConfig("broker:1", metadata_consumer={"no.such.setting": "1"}))
