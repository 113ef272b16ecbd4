"""A tier known by the metadata topic: what the follower reads, its connection, and how long a question waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_remote_client.location import metadata_topic
from kafka_remote_client.location.bootstrap import connection_settings
from kafka_remote_client.location.metadata_topic import MetadataTopicTier
from kafka_remote_client.model import IsolationLevel, NotRemote, TopicIdPartition
from kafka_remote_client.remote_log.kept_only import NotKeptError, kept_only
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment
from tests.support.locations import ManualClock
from tests.support.questions import tier_question
from tests.support.tier import LAYOUT, TIP, Tier, batch


class FakeFollower:
    def __init__(self, config: Any, store: RemoteLogMetadataStore, *, topic: str, clock: Any) -> None:
        self.config, self.store, self.topic, self.clock = config, store, topic, clock
        self.is_ready = False
        self.waited: list[float] = []
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def close(self) -> None:
        self.calls.append("close")

    def ready(self, _tip: TopicIdPartition) -> bool:
        return self.is_ready

    def wait_ready(self, _tip: TopicIdPartition, seconds: float) -> bool:
        self.waited.append(seconds)
        return self.is_ready


class Setup:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.objects = Tier()
        self.objects.add([batch(0, 10), batch(10, 10)], number=1)
        self.resolver = RemoteSegmentResolver(self.objects.store, LAYOUT)
        self.tier = MetadataTopicTier({"a": "b"}, self.resolver, clock=self.clock, patience=5, topic="followed")
        self.follower: Any = self.tier.follower

    def resolve(self) -> ResolvedSegment | NotRemote:
        level = IsolationLevel.READ_UNCOMMITTED
        return self.tier.resolve(tier_question(TIP, 3, end_offset=10, isolation_level=level))


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> Setup:
    monkeypatch.setattr(metadata_topic, "RemoteLogMetadataFollower", FakeFollower)
    return Setup()


def test_the_follower_starts_at_the_beginning_and_ends_with_the_tier(setup: Setup) -> None:
    assert (setup.follower.config, setup.follower.topic) == ({"a": "b"}, "followed")
    setup.tier.close()
    assert setup.follower.calls == ["start", "close"]


def test_followed_segments_are_resolved(setup: Setup) -> None:
    setup.follower.is_ready = True
    setup.follower.store._caches[TIP] = setup.objects.cache
    found = setup.resolve()
    assert isinstance(found, ResolvedSegment)
    assert found.next_offset == 10
    assert setup.tier.cache_statistics() == setup.resolver.cache_statistics()


def test_only_the_first_questions_wait_for_the_follower(setup: Setup) -> None:
    assert setup.resolve() == NotRemote("metadata-not-ready")
    setup.clock.now += 4
    setup.resolve()
    setup.clock.now += 4
    setup.resolve()
    assert setup.follower.waited == [5, 1, 0]


def test_kept_only_does_not_wait_for_metadata(setup: Setup) -> None:
    with kept_only(), pytest.raises(NotKeptError):
        setup.resolve()
    setup.follower.is_ready = True
    with kept_only():
        assert setup.resolve() == NotRemote("nothing-tiered")
    setup.follower.is_ready = False
    setup.clock.now += 5
    with kept_only():
        assert setup.resolve() == NotRemote("metadata-not-ready")


def test_only_the_consumers_connection_settings_are_used() -> None:
    def token(_config: str) -> tuple[str, float]:
        return "t", 0.0

    kept = {
        "bootstrap.servers": "b:1",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.password": "hush",
        "ssl.ca.location": "/ca",
        "enable.ssl.certificate.verification": False,
        "client.id": "me",
        "client.dns.lookup": "use_all_dns_ips",
        "socket.timeout.ms": 10,
        "broker.address.family": "v4",
        "oauth_cb": token,
        "log_level": 0,
    }
    dropped = {
        "group.id": "g",
        "group.instance.id": "i",
        "on_commit": print,
        "error_cb": print,
        "stats_cb": print,
        "statistics.interval.ms": 5,
        "auto.offset.reset": "earliest",
        "fetch.max.bytes": 5,
        "isolation.level": "read_committed",
    }
    not_text: Any = {5: 1}  # librdkafka refuses it
    assert connection_settings({**kept, **dropped, **not_text}) == kept
