"""A shim's tier made from a configuration: it follows metadata, resolves, signs and serves."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from pathlib import Path

import attrs
import pytest
from kafka_remote_fetchers.directory_store import DirectoryStore

import kafka_remote_client.shim.shim_tier as tier_module
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import ByteRange, RemoteLogSegmentState
from kafka_remote_client.plugin import SignedUrl
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataUpdate
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.layouts import LayoutOptions, layout_named
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.grant_limits import GrantLimits
from kafka_remote_client.shim.shim_tier import ShimTier
from tests.support.shim_fakes import SEGMENT

QUIET: dict[str, str | int | float | bool] = {"log_level": 0}


def made(**settings: object) -> ShimTier:
    config = ShimConfig(bootstrap_servers="127.0.0.1:1", metadata_consumer=QUIET, **settings)
    return ShimTier(config, Counters(), SystemClock())


def test_objects_are_served_and_nothing_is_granted_before_metadata(tmp_path: Path) -> None:
    tier = made(store=tmp_path.as_uri())
    with pytest.raises(RuntimeError, match="is not started"):
        _ = tier.strategy
    tier.start()
    try:
        assert (tier.origin_url or "").startswith("http://127.0.0.1:")
        assert tier.strategy.api_versions == {}
        assert not tier.wait_ready(0.1)
        caches = {f"{one}_cache_{what}" for one in ("index", "manifest") for what in ("hits", "misses", "evictions", "bytes")}
        named = {"origin_requests", "origin_bytes", "metadata_restarts", "metadata_rereads", *caches}
        assert tier.metrics() == dict.fromkeys(named, 0)
    finally:
        tier.close()
        tier.close()
    with pytest.raises(RuntimeError, match="after shutdown"):
        tier._reads.submit(int)


def test_a_snapshot_folder_adds_its_metrics(tmp_path: Path) -> None:
    tier = made(store=tmp_path.as_uri(), metadata_snapshot_dir=str(tmp_path / "snapshots"))
    try:
        told = {name: number for name, number in tier.metrics().items() if "snapshot" in name}
        assert told == dict.fromkeys((f"metadata_snapshot_{what}" for what in ("segments_loaded", "writes", "failures")), 0)
    finally:
        tier.close()


def test_look_ups_run_in_parallel_as_configured(tmp_path: Path) -> None:
    tier = made(store=tmp_path.as_uri(), lookup_concurrency=3)
    together, release = threading.Barrier(4), threading.Event()

    def look_up() -> bool:
        together.wait(20)
        return release.wait(20)

    try:
        running = [tier._workers.submit(look_up) for _ in range(3)]
        together.wait(20)
        waiting = tier._workers.submit(lambda: True)
        assert not wait([waiting], 0.2).done
        release.set()
        assert all(one.result(20) for one in (*running, waiting))
    finally:
        release.set()
        tier.close()


def test_each_part_gets_its_configured_limits(tmp_path: Path) -> None:
    tier = made(
        store=tmp_path.as_uri(),
        range_bytes=1 << 20,
        max_grant_bytes=2 << 20,
        url_ttl=30.0,
        allow_plaintext_data_keys=True,
        whole_object_urls=True,
        lookup_timeout=7.0,
        index_cache_bytes=5 << 20,
        client_limits={"*.grants_per_second": 0},
        metadata_topic="metadata",
        metadata_snapshot_dir=str(tmp_path / "snapshots"),
        metadata_snapshot_interval=77.0,
    )
    tier.start()
    try:
        limits, resolving = tier.strategy._limits, tier._resolving
        assert limits == GrantLimits(1 << 20, 2 << 20, 30.0, True, 7.0, whole_object_urls=True, topics=limits.topics)
        assert not tier.strategy._clients.admits("me@192.0.2.1")
        assert resolving is not None
        assert resolving._url_ttl == 30.0
        assert resolving._ready == tier._follower.ready
        assert resolving._resolver.indexes.max_bytes == 5 << 20
        assert resolving._resolver._prefetch.is_on
        assert tier._guarded._health._hang_seconds == 7.0  # type: ignore[attr-defined] # of the guard
        assert tier._snapshots is tier._follower._snapshots
        assert tier._snapshots is not None
        assert (tier._follower._topic, tier._snapshots._topic, tier._snapshots._interval) == ("metadata", "metadata", 77.0)
    finally:
        tier.close()


def test_the_layout_gets_its_prefix_and_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, LayoutOptions]] = []
    layout = layout_named("local-tiered-storage", LayoutOptions())
    monkeypatch.setattr(tier_module, "layout_named", lambda *given: asked.append(given) or layout)
    made(store=tmp_path.as_uri(), layout="aiven", key_prefix="tier/", encryption_keys={"k": "k.pem"}).close()
    assert asked == [("aiven", LayoutOptions("tier/", {"k": "k.pem"}))]


@pytest.mark.parametrize(("before", "after"), [(900, 300), (300, 900)])
def test_an_old_signing_key_lives_as_long_as_its_urls(tmp_path: Path, before: float, after: float) -> None:
    tier = made(store=tmp_path.as_uri(), signing_key=b"k" * 16, url_ttl=30.0, topic_policies={"a.url_ttl": before})
    try:
        tier.start()
        assert tier._origin is not None
        rotated: list[tuple[bytes, float]] = []
        tier._origin.rotate = lambda *given: rotated.append(given)
        tier.reload(attrs.evolve(tier._config, signing_key=b"n" * 16, topic_policies={"a.url_ttl": after}))
        assert rotated == [(b"n" * 16, 900)]
    finally:
        tier.close()


def test_clients_may_get_another_address_of_the_origin(tmp_path: Path) -> None:
    tier = made(store=tmp_path.as_uri(), origin_public_url="https://objects.example", signing_key=b"k" * 32)
    try:
        assert tier.origin_url == "https://objects.example"
    finally:
        tier.close()


class WholeObjects:
    """A signer that cannot bind a range."""

    binds_ranges = False

    def sign(self, object_key: str, byte_range: ByteRange, ttl_seconds: float, etag: str | None = None) -> SignedUrl:
        return SignedUrl(f"https://store.example/{object_key}")


def test_urls_that_open_whole_objects_need_permission(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[object] = []
    monkeypatch.setattr(tier_module, "signer_schemes", lambda: ["tape"])
    monkeypatch.setattr(tier_module, "load_signer", lambda *told: asked.append(told) or WholeObjects())
    monkeypatch.setattr(tier_module, "load_store", lambda *told: asked.append(told) or DirectoryStore(tmp_path))
    told = {"store": "tape://library", "store_options": {"tape.drive": "3"}}
    with pytest.raises(ConfigurationError, match="--whole-object-urls"):
        made(**told)
    tier = made(**told, topic_policies={"orders.grant": "whole-object", "payments.grant": "range"})
    tier.start()
    try:
        assert tier.strategy._limits.permits("orders")
        assert not tier.strategy._limits.permits("payments")
    finally:
        tier.close()
    tier = made(**told, whole_object_urls=True)
    tier.start()
    try:
        assert tier.origin_url is None
        assert "origin_requests" not in tier.metrics()
    finally:
        tier.close()
    assert asked[-2:] == [("tape://library", {"tape.drive": "3"})] * 2


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "needs a store"),
        ({"store": "tape://library"}, "these stores only: .*file.*s3"),
        ({"store": "s3://bucket", "store_options": {"s3.colour": "red"}}, "unknown setting: s3.colour"),
        ({"store": "HERE", "store_options": {"colour": "red"}}, "unknown setting of the store: colour"),
        ({"store": "file:///no/such/directory"}, "director"),
        ({"store": "HERE", "layout": "unheard-of"}, "unheard-of"),
        ({"store": "HERE", "origin_public_url": "ftp://x"}, "object origin"),
        ({"store": "HERE", "origin_public_url": "https://a/b"}, "object origin"),
        ({"store": "HERE", "origin_listen": "0.0.0.0:0"}, "loopback addresses only"),
        ({"store": "HERE", "origin_listen": "[::]:0"}, "loopback addresses only"),
        ({"store": "HERE", "origin_listen": "192.0.2.1:9193"}, "loopback addresses only"),
        ({"store": "HERE", "origin_listen": "shim.example:9193"}, "loopback addresses only"),
    ],
)
def test_an_unusable_configuration_is_refused_with_its_reason(tmp_path: Path, settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        made(**{name: tmp_path.as_uri() if value == "HERE" else value for name, value in settings.items()})


def test_check_follows_metadata_and_the_newest_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = made(store=tmp_path.as_uri())
    try:
        assert tier.check() == "the metadata topic __remote_log_metadata has not been found yet"
        monkeypatch.setattr(tier._follower, "not_ready", lambda: [*range(2, 12), 50])
        assert str(tier.check()).endswith("not trusted: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"), "the first ten"
        assert tier.metrics()["metadata_partitions_not_ready"] == 11
        monkeypatch.setattr(tier._follower, "not_ready", list)
        assert tier.check() is None, "nothing tiered yet"
        tier._metadata.apply(attrs.evolve(SEGMENT, state=RemoteLogSegmentState.COPY_SEGMENT_STARTED))
        finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        tier._metadata.apply(RemoteLogSegmentMetadataUpdate(SEGMENT.remote_log_segment_id, 1, 1, finished))
        assert tier.check() is None, "a segment that may be deleted in what is not read yet"
        monkeypatch.setattr(tier._follower, "ready", lambda _: True)
        assert str(tier.check()).startswith("a segment of orders cannot be found in the store")
        log = tmp_path / tier._layout.object_key(SEGMENT, ObjectKind.LOG)
        log.parent.mkdir(parents=True)
        log.write_bytes(b"records")
        assert tier.check() is None
    finally:
        tier.close()


def test_a_reload_applies_topic_policies_and_client_limits(tmp_path: Path) -> None:
    tier = made(store=tmp_path.as_uri(), topic_policies={"a.url_ttl": 900})
    tier.start()
    try:
        config = attrs.evolve(tier._config, topic_policies={"a.grant": "never"}, client_limits={"*.grants_per_second": 0})
        tier.reload(config)
        assert tier.strategy._limits.topics.of("a").grant == "never"
        assert not tier.strategy._clients.admits("me@192.0.2.1")
    finally:
        tier.close()


def test_a_reload_keeps_overdrafts_of_clients(tmp_path: Path) -> None:
    tier = made(store=tmp_path.as_uri(), client_limits={"*.bytes_per_second": 1})
    tier.start()
    try:
        tier.strategy._clients.charge("me@192.0.2.1", 1 << 40)
        tier.reload(attrs.evolve(tier._config, client_limits={"*.bytes_per_second": 2}))
        assert not tier.strategy._clients.admits("me@192.0.2.1")
        assert tier.strategy._clients.admits("you@192.0.2.1")
    finally:
        tier.close()


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "127.3.2.1:0", "[::1]:0", "localhost:0"])
def test_the_origin_listens_on_loopback(tmp_path: Path, listen: str) -> None:
    made(store=tmp_path.as_uri(), origin_listen=listen).close()


def test_a_public_address_of_the_origin_needs_test_origin(tmp_path: Path) -> None:
    made(store=tmp_path.as_uri(), origin_listen="0.0.0.0:0", test_origin=True).close()
