from __future__ import annotations

import logging
import ssl
import sys
from typing import Any

import pytest
from kafka_remote_fetchers.memory import MemoryFetcher
from pytest_mock import MockerFixture

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.config import split_config
from kafka_remote_client.fetch.assemble import build_engine
from kafka_remote_client.fetch.chunked_fetcher import CHUNKED_FORMATS, ChunkedFetcher
from kafka_remote_client.fetch.engine import DEFAULT_FORMATS, FetchEngine
from kafka_remote_client.fetch.storage_formats import RestoringFetcher
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.plugin import RemoteStorageFetcher
from kafka_remote_client.protocol.sasl import SaslAuthenticator
from tests.support.certificates import Authority


def test_without_a_location_server_direct_fetch_is_off_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    remote, inner = split_config({"fetch.remote.enabled": True, "remote.storage.fetcher.class": "presigned"})
    with caplog.at_level(logging.WARNING):
        assert build_engine(remote, inner, SystemClock(), FetchMetrics(SystemClock())) is None
    assert caplog.messages == ["direct fetch is off: bootstrap.servers is not set"]


@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata.broker.list", "fetch.remote.bootstrap.servers"])
def test_location_requests_go_to_the_configured_servers(name: str) -> None:
    settings = {"fetch.remote.enabled": True, "remote.storage.fetcher.class": "memory", name: "localhost:9192"}
    remote, inner = split_config(settings)
    engine = build_engine(remote, inner, SystemClock(), FetchMetrics(SystemClock()))
    assert engine is not None
    engine.close()


def engine_of(monkeypatch: pytest.MonkeyPatch) -> tuple[FetchEngine, tuple[str, ...]]:
    """An engine with the memory fetcher, and the storage formats that its source offers."""
    offered: list[tuple[str, ...]] = []

    class Source(BrokerLocationSource):
        def __init__(self, bootstrap_servers: str, **settings: Any) -> None:
            offered.append(settings["formats"])
            super().__init__(bootstrap_servers, **settings)

    monkeypatch.setattr("kafka_remote_client.fetch.location_sources.BrokerLocationSource", Source)
    settings = {"fetch.remote.enabled": True, "remote.storage.fetcher.class": "memory", "bootstrap.servers": "localhost:1"}
    remote, inner = split_config(settings)
    engine = build_engine(remote, inner, SystemClock(), FetchMetrics(SystemClock()))
    assert engine is not None
    engine.close()
    return engine, offered[0]


def test_chunked_segments_are_offered_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, offered = engine_of(monkeypatch)
    assert offered == CHUNKED_FORMATS == engine._formats
    assert isinstance(engine._fetcher, RestoringFetcher)
    assert isinstance(engine._fetcher.of_format(CHUNKED_FORMATS[-1]), ChunkedFetcher)


def test_without_the_extra_only_kafkas_own_format_is_offered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with caplog.at_level("INFO", "kafka_remote_client"):
        engine, offered = engine_of(monkeypatch)
    assert offered == DEFAULT_FORMATS == engine._formats
    assert [message for message in caplog.messages if "kafka-remote-client[aiven]" in message] == [
        "the broker serves segments in format AivenTieredStorageV1; to read them directly: "
        "pip install 'kafka-remote-client[aiven]'"
    ]


def directly(**inner: object) -> FetchEngine | None:
    settings = {"fetch.remote.enabled": True, "remote.storage.fetcher.class": "memory", "bootstrap.servers": "localhost:9192"}
    remote, rest = split_config({**settings, **{name.replace("_", "."): value for name, value in inner.items()}})
    return build_engine(remote, rest, SystemClock(), FetchMetrics(SystemClock()))


def test_location_requests_use_the_consumers_tls_and_sasl(mocker: MockerFixture) -> None:
    source = mocker.patch("kafka_remote_client.fetch.location_sources.BrokerLocationSource")
    for protocol, tls, sasl in (
        *[("ssl", True, False), ("SSL", True, False), ("sasl_ssl", True, True)],
        *[("plaintext", False, False), (None, False, False), ("sasl_plaintext", False, True)],
    ):
        engine = directly(
            security_protocol=protocol, ssl_ca_pem=Authority().pem, sasl_mechanism="PLAIN", sasl_username="u", sasl_password="p"
        )
        assert engine is not None
        engine.close()
        assert isinstance(source.call_args.kwargs["ssl_context"], ssl.SSLContext) is tls
        assert isinstance(source.call_args.kwargs["sasl"], SaslAuthenticator) is sasl


def test_a_storage_format_that_fails_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Defective:
        def missing(self) -> None:
            return None

        def restoring(self, _inner: RemoteStorageFetcher) -> RemoteStorageFetcher:
            raise KeyError("defect")

    monkeypatch.setattr("kafka_remote_client.fetch.assemble.installed_formats", lambda: {"Defective": Defective()})
    monkeypatch.setattr(MemoryFetcher, "close", lambda _: closed.append("fetcher"))
    monkeypatch.setattr(BrokerLocationSource, "close", lambda _: closed.append("source"))
    with pytest.raises(KeyError, match="defect"):
        directly()
    assert sorted(closed) == ["fetcher", "source"]


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        ({"security_protocol": "sasl_ssl"}, "sasl.mechanism=GSSAPI"),
        ({"security_protocol": "ssl", "ssl_providers": "legacy"}, "ssl.providers is not supported by direct fetch"),
        ({"security_protocol": "ssl", "ssl_ca_location": "/nowhere"}, "ssl.ca.location /nowhere cannot be used"),
    ],
)
def test_settings_only_librdkafka_supports_are_logged_once(
    caplog: pytest.LogCaptureFixture, inner: dict[str, object], said: str
) -> None:
    with caplog.at_level(logging.WARNING):
        assert directly(**inner) is None
    assert [f"direct fetch is off: {said}" in record.getMessage() for record in caplog.records] == [True]
