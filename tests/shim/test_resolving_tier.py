"""Resolves what is known and ready, and signs what it resolved."""

from __future__ import annotations

from uuid import UUID

import pytest

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.model import ByteRange, IsolationLevel, NotRemote
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment
from kafka_remote_client.shim.grants import Window
from kafka_remote_client.shim.resolving_tier import ResolvingTier
from kafka_remote_client.shim.signing import UrlSigner
from tests.support.tier import LAYOUT, TIP, Tier, batch

SIGNER = UrlSigner(b"0123456789abcdef", "http://origin:1", SystemClock())
WINDOW = Window(1 << 20, 1 << 20)


class Made:
    """A tier with one segment of offsets 0 to 19; ``ready`` is a switch."""

    def __init__(self) -> None:
        self.ready = True
        self.store = RemoteLogMetadataStore()
        tier = Tier()
        self.segment = tier.add([batch(0, 10), batch(10, 10)], number=1, indexed=(1,))
        self.cache = tier.cache
        self.tier = ResolvingTier(
            self.store,
            RemoteSegmentResolver(tier.store, LAYOUT),
            SIGNER,
            format_name="ApacheKafkaV1",
            url_ttl=60,
            ready=lambda _tip: self.ready,
        )

    def resolve(self, offset: int, end: int = 100) -> ResolvedSegment | NotRemote:
        return self.tier.resolve(TIP, offset, IsolationLevel.READ_COMMITTED, end=end, window=WINDOW)


@pytest.fixture
def made() -> Made:
    return Made()


def test_finds_a_partition_as_soon_as_it_is_known(made: Made) -> None:
    assert made.tier.find("", TIP.topic_id, TIP.partition) is None
    made.store._caches[TIP] = made.cache
    assert made.tier.find("", TIP.topic_id, TIP.partition) == TIP
    assert made.tier.find(TIP.topic, TIP.topic_id, TIP.partition) == TIP


def test_a_name_must_belong_to_the_id(made: Made) -> None:
    made.store._caches[TIP] = made.cache
    assert made.tier.find("another", TIP.topic_id, TIP.partition) is None
    assert made.tier.find(TIP.topic, UUID(int=1), TIP.partition) is None


def test_resolves_below_the_end_that_it_is_given(made: Made) -> None:
    made.store._caches[TIP] = made.cache
    whole, half = made.resolve(3), made.resolve(3, end=10)
    assert isinstance(whole, ResolvedSegment)
    assert isinstance(half, ResolvedSegment)
    assert (whole.next_offset, half.next_offset) == (20, 10)
    assert whole.object_key.startswith("kafka-tiered-storage/orders-7-")


def test_nothing_is_resolved_before_all_is_known(made: Made) -> None:
    assert made.resolve(3) == NotRemote("nothing-tiered")
    made.store._caches[TIP] = made.cache
    made.ready = False
    assert made.resolve(3) == NotRemote("metadata-not-ready")


def test_a_location_has_a_url_for_exactly_its_range(made: Made) -> None:
    location = LocationMetadata.decode(made.tier.location_of("a/b.log", ByteRange(5, 10), "etag"))
    assert (location.object_key, location.etag) == ("a/b.log", "etag")
    assert location.url is not None
    verified = SIGNER.verify("GET", location.url.removeprefix("http://origin:1"), {"range": "bytes=5-9"})
    assert (verified.key, verified.range) == ("a/b.log", ByteRange(5, 10))
    assert made.tier.format_name == "ApacheKafkaV1"
