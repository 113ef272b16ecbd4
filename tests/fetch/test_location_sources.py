"""Each value of fetch.remote.location.source builds its source from the configured components."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.config import RemoteFetchConfig, split_config
from kafka_remote_client.errors import ConfigurationError, MissingExtraError
from kafka_remote_client.fetch.assemble import build_engine
from kafka_remote_client.fetch.chunked_fetcher import ChunkedFetcher
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.location_sources import asks_compacted, build_source, reads_the_store
from kafka_remote_client.fetch.storage_formats import RestoringFetcher
from kafka_remote_client.fetch.store_fetcher import StoreFetcher
from kafka_remote_client.location import cleanup_policies
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.listed_tier import ListedTier
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.location.metadata_topic import MetadataTopicTier
from kafka_remote_client.location.source import LocationSource
from kafka_remote_client.location.tier_source import TierLocationSource
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.aiven.layout import AivenLayout
from tests.support.tier import TIP, MemoryStore


def remote_of(**settings: object) -> RemoteFetchConfig:
    named = {name.replace("__", "."): value for name, value in settings.items()}
    store = {"remote.storage.store.url": "file:///tier"}
    remote, _ = split_config({**store, **{f"fetch.remote.{name}": value for name, value in named.items()}})
    return remote


class Built:
    """The sources that a test built, and the stores that they got."""

    def __init__(self) -> None:
        self.sources: list[LocationSource] = []
        self.store = MemoryStore()
        self.metrics = FetchMetrics(SystemClock())

    def __call__(self, inner: dict[str, Any] | None = None, **settings: object) -> LocationSource:
        remote = remote_of(**settings)
        store = self.store if reads_the_store(remote) else None
        given = {"bootstrap.servers": "localhost:1", "log_level": 0} if inner is None else inner
        source = build_source(
            remote,
            given,
            SystemClock(),
            store,
            metrics=self.metrics,
            formats=("ApacheKafkaV1",),
            ssl_context=None,
            sasl=None,
        )
        self.sources.append(source)
        return source


@pytest.fixture
def built() -> Iterator[Built]:
    built = Built()
    yield built
    for source in built.sources:
        source.close()


def test_the_broker_is_the_default_source(built: Built) -> None:
    assert isinstance(built(), BrokerLocationSource)
    assert not reads_the_store(remote_of())


def test_the_metadata_topic_uses_the_consumers_connection(built: Built) -> None:
    inner = {"metadata.broker.list": "localhost:1", "log_level": 0, "group.id": "g", "socket.timeout.ms": 1234}
    source = built(inner, location__source="metadata-topic", metadata__topic="followed", location__timeout__ms=1)
    assert isinstance(source, TierLocationSource)
    tier = source._tier
    assert isinstance(tier, MetadataTopicTier)
    config = tier.follower._config
    assert (config["bootstrap.servers"], config["socket.timeout.ms"]) == ("localhost:1", 1234)
    assert config["group.id"] != "g"
    assert tier.follower._topic == "followed"
    tier.follower.restarts, tier.follower.rereads = 2, 3
    counted = built.metrics.snapshot()
    assert (counted["remote-fetch-metadata-restarts-total"], counted["remote-fetch-metadata-rereads-total"]) == (2, 3)
    source._store.close()
    assert built.store.closed


@pytest.mark.parametrize(
    ("inner", "asked"),
    [
        ({"bootstrap.servers": "localhost:1", "metadata.broker.list": "localhost:2"}, "localhost:2"),
        ({"metadata.broker.list": "localhost:2", "bootstrap.servers": "localhost:1"}, "localhost:1"),
    ],
)
@pytest.mark.parametrize("shim", [None, "localhost:3"])
def test_follower_and_leaders_are_asked_at_the_same_servers(
    built: Built, inner: dict[str, Any], asked: str, shim: str | None
) -> None:
    source = built({**inner, "log_level": 0}, location__source="metadata-topic", bootstrap__servers=shim)
    assert isinstance(source, TierLocationSource)
    assert isinstance(source._tier, MetadataTopicTier)
    config = source._tier.follower._config
    assert "metadata.broker.list" not in config
    assert config["bootstrap.servers"] == (shim or asked)
    host, port = (shim or asked).split(":")
    assert source._leaders._cluster._bootstrap == ((host, int(port)),)


def test_an_address_that_is_refused_is_named_as_it_was_given(built: Built) -> None:
    with pytest.raises(ConfigurationError, match=r"^metadata\.broker\.list: 'localhost:x' is not host:port"):
        built({"metadata.broker.list": "localhost:x"})


def test_leaders_confirm_a_listing_unless_configured_otherwise(built: Built) -> None:
    confirmed = built(location__source="listing")
    assert isinstance(confirmed, TierLocationSource)
    assert isinstance(confirmed._tier, ListedTier)
    assert isinstance(built(inner={}, location__source="listing", listing__broker=False), ListingLocationSource)


@pytest.mark.parametrize("source", ["broker", "listing"])
def test_location_connections_use_the_connect_time_out(built: Built, source: str) -> None:
    made = built(location__source=source, connect__timeout__ms=2500)
    assert isinstance(made, BrokerLocationSource | TierLocationSource)
    assert made._leaders._connection(("localhost", 1))._connect_timeout == 2.5


@pytest.mark.parametrize("source", ["metadata-topic", "listing", "without brokers"])
def test_lookups_and_the_index_cache_use_the_configuration(built: Built, source: str) -> None:
    named: dict[str, object] = {"location__source": source}
    if source == "without brokers":
        named = {"location__source": "listing", "listing__broker": False}
    made = built(**named, lookup__concurrency=3, index__cache__bytes=5 << 20, pending__timeout__ms=2500)
    assert isinstance(made, TierLocationSource | ListingLocationSource)
    if isinstance(made, ListingLocationSource):
        resolver = made.resolver
    else:
        assert isinstance(made._tier, ListedTier | MetadataTopicTier)
        resolver = made._tier._resolver
    assert (made._look_ups._workers._most, made._look_ups._timeout) == (3, 2.5)
    assert resolver.indexes.max_bytes == 5 << 20


def test_a_missing_location_server_is_a_configuration_error(built: Built) -> None:
    for source in ("broker", "metadata-topic", "listing"):
        with pytest.raises(ConfigurationError, match=r"bootstrap\.servers is not set"):
            built(inner={}, location__source=source)


def test_a_setting_that_librdkafka_refuses_is_a_configuration_error(built: Built) -> None:
    inner = {"bootstrap.servers": "localhost:1", "security.protocol": "none-such"}
    with pytest.raises(ConfigurationError, match="cannot follow the metadata topic"):
        built(inner, location__source="metadata-topic")


def engine_of(tmp_path: Path, **more: object) -> FetchEngine | None:
    settings = {
        "fetch.remote.enabled": True,
        "fetch.remote.location.source": "listing",
        "remote.storage.store.url": tmp_path.as_uri(),
        "bootstrap.servers": "localhost:1",
        **more,
    }
    remote, inner = split_config(settings)
    return build_engine(remote, inner, SystemClock(), FetchMetrics(SystemClock()))


def test_without_a_fetcher_setting_ranges_are_read_through_the_store(tmp_path: Path) -> None:
    engine = engine_of(tmp_path)
    assert engine is not None
    engine.close()
    source = engine._source.inner
    assert isinstance(source, TierLocationSource)
    restoring = engine._fetcher
    assert isinstance(restoring, RestoringFetcher)
    assert isinstance(restoring._inner, StoreFetcher)
    assert isinstance(restoring.of_format(AivenLayout.format_name), ChunkedFetcher)


def test_a_configured_fetcher_reads_the_ranges(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, **{"remote.storage.fetcher.class": "memory"})
    assert engine is not None
    engine.close()
    restoring = engine._fetcher
    assert isinstance(restoring, RestoringFetcher)
    assert not isinstance(restoring._inner, StoreFetcher)


def test_a_store_with_a_missing_package_turns_direct_fetch_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(_remote: RemoteFetchConfig) -> RemoteObjectStore:
        raise MissingExtraError("pip install it")

    monkeypatch.setattr("kafka_remote_client.fetch.assemble.configured_store", missing)
    assert engine_of(tmp_path) is None
    assert caplog.messages[-1] == "direct fetch is off: pip install it"


def test_a_failed_build_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr("kafka_remote_client.fetch.assemble.configured_store", lambda _remote: store)
    with pytest.raises(ConfigurationError):
        engine_of(tmp_path, **{"remote.storage.store.layout": "none-such"})
    assert store.closed


def test_without_a_broker_no_topic_is_known_to_be_compacted() -> None:
    clock = SystemClock()
    assert not asks_compacted(remote_of(location__source="listing"), {}, clock)(TIP, Deadline(clock, 1.0))


@pytest.mark.parametrize("own", ["", "shim:9092"])
def test_the_policy_is_asked_of_the_servers_for_locations(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked:
        def __init__(self, settings: dict[str, Any], _clock: object) -> None:
            self.settings = settings

        def compacted(self, *_: object) -> bool:
            assert self.settings == {"bootstrap.servers": own or "broker:9092", "log_level": 0}
            return True

    monkeypatch.setattr(cleanup_policies, "CleanupPolicies", Asked)
    clock = SystemClock()
    inner = {"bootstrap.servers": "broker:9092", "log_level": 0, "group.id": "g"}
    remote = remote_of(bootstrap__servers=own) if own else remote_of()
    assert asks_compacted(remote, inner, clock)(TIP, Deadline(clock, 1.0))
