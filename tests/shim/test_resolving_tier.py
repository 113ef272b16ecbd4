"""Known and ready partitions are resolved, and resolved ranges are signed."""

from __future__ import annotations

from uuid import UUID

import attrs
import pytest

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.model import ByteRange, IsolationLevel, NotRemote, RemoteLogSegmentId, TopicIdPartition
from kafka_remote_client.remote_log.aiven.chunk_table import ChunkTable
from kafka_remote_client.remote_log.aiven.layout import AivenLayout
from kafka_remote_client.remote_log.events import RemotePartitionDeleteMetadata, RemotePartitionDeleteState
from kafka_remote_client.remote_log.kept_only import NotKeptError, kept_only
from kafka_remote_client.remote_log.layout import located_as_they_are
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import ResolvedSegment
from kafka_remote_client.shim.resolving_tier import ResolvingTier
from kafka_remote_client.shim.signing import SignedRequest, SignedUrl, UrlSigner
from tests.support.aiven import DATA_KEY, AivenWriter, key_ring
from tests.support.questions import tier_question
from tests.support.steps import steps_of
from tests.support.tier import LAYOUT, TIP, MemoryStore, Tier, batch, metadata

SIGNER = UrlSigner(b"0123456789abcdef", "http://origin:1", SystemClock())
QUESTION = tier_question(TIP, 12, end_offset=100)


class Made:
    """A tier with one segment of offsets 0 to 19; a test sets ``ready``."""

    def __init__(self) -> None:
        self.ready = True
        self.store = RemoteLogMetadataStore()
        tier = Tier()
        self.objects = tier
        tier.add([batch(0, 10), batch(10, 10)], number=1, indexed=(1,))
        self.tier = ResolvingTier(
            self.store,
            tier.store,
            LAYOUT,
            SIGNER,
            url_ttl=60,
            ready=lambda _tip: self.ready,
        )

    def resolve(self, offset: int, end: int = 100) -> ResolvedSegment | NotRemote:
        return self.tier.resolve(attrs.evolve(QUESTION, offset=offset, end_offset=end))


@pytest.fixture
def made() -> Made:
    return Made()


def test_a_partition_is_found_when_it_is_known(made: Made) -> None:
    assert made.tier.find("", TIP.topic_id, TIP.partition) is None
    made.objects.publish(made.store)
    assert made.tier.find("", TIP.topic_id, TIP.partition) == TIP
    assert made.tier.find(TIP.topic, TIP.topic_id, TIP.partition) == TIP


def test_finding_takes_as_many_steps_in_1000_partitions_as_in_one(made: Made) -> None:
    def find(topic_id: UUID) -> TopicIdPartition | None:
        return made.tier.find("", topic_id, TIP.partition)

    made.objects.publish(made.store)
    steps = {}
    for partitions in (1, 1000):
        for number in range(1, partitions):
            other = attrs.evolve(TIP, partition=TIP.partition + number)
            made.store.apply(attrs.evolve(metadata(0, 9), remote_log_segment_id=RemoteLogSegmentId(other, UUID(int=1))))
        assert len(made.store.partitions()) == partitions
        steps[partitions] = [steps_of(lambda asked=asked: find(asked)) for asked in (TIP.topic_id, UUID(int=1))]
    assert steps[1000] == steps[1]


def test_a_deleted_partition_is_not_found(made: Made) -> None:
    made.objects.publish(made.store)
    made.store.apply(RemotePartitionDeleteMetadata(TIP, RemotePartitionDeleteState.DELETE_PARTITION_FINISHED, 0, 1))
    assert made.tier.find(TIP.topic, TIP.topic_id, TIP.partition) is None
    made.objects.publish(made.store)
    made.store.clear()
    assert made.tier.find(TIP.topic, TIP.topic_id, TIP.partition) is None


def test_a_name_must_belong_to_the_id(made: Made) -> None:
    made.objects.publish(made.store)
    assert made.tier.find("another", TIP.topic_id, TIP.partition) is None
    assert made.tier.find(TIP.topic, UUID(int=1), TIP.partition) is None


def test_only_offsets_below_the_given_end_are_resolved(made: Made) -> None:
    made.objects.publish(made.store)
    whole, half = made.resolve(3), made.resolve(3, end=10)
    assert isinstance(whole, ResolvedSegment)
    assert isinstance(half, ResolvedSegment)
    assert (whole.next_offset, half.next_offset) == (20, 10)
    assert whole.object_key.startswith("kafka-tiered-storage/orders-7-")


def test_nothing_is_resolved_before_all_metadata_is_read(made: Made) -> None:
    assert made.resolve(3) == NotRemote("nothing-tiered")
    made.objects.publish(made.store)
    made.ready = False
    assert made.resolve(3) == NotRemote("metadata-not-ready")


def test_cached_objects_are_resolved_without_a_read(made: Made) -> None:
    made.objects.publish(made.store)
    with kept_only(), pytest.raises(NotKeptError):
        made.resolve(3)
    found = made.resolve(3)
    made.objects.store.objects.clear()
    with kept_only():
        assert made.resolve(3) == found
        assert isinstance(found, ResolvedSegment)
        assert made.tier.locate(found).ranges
        with pytest.raises(NotKeptError):
            made.resolve(13, end=15)


def verified(custom_metadata: bytes | None) -> SignedRequest:
    """Returns what the origin would serve for a range's own URL."""
    location = LocationMetadata.decode(custom_metadata)
    assert location.url is not None
    signed = ByteRange(*map(int, location.url.partition("range=")[2].partition("&")[0].split("-")))
    headers = {"range": f"bytes={signed.start}-{signed.end}"}
    return SIGNER.verify("GET", location.url.removeprefix("http://origin:1"), headers)


def test_a_location_has_a_url_for_exactly_its_range(made: Made) -> None:
    assert made.tier.formats == ("ApacheKafkaV1",)
    located = located_as_they_are("a/b.log", [ByteRange(5, 10), ByteRange(10, 12)])
    granted, life = made.tier.sign(located, "etag")
    assert life == 60
    assert [one.range for one in granted] == [ByteRange(5, 10), ByteRange(10, 12)]
    for one in granted:
        location = LocationMetadata.decode(one.custom_metadata)
        assert (location.object_key, location.etag) == ("a/b.log", "etag")
        assert verified(one.custom_metadata) == SignedRequest("a/b.log", one.range)


def test_ranges_are_valid_until_the_first_url_ends(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    lives = iter([40.0, 20.0, None])
    monkeypatch.setattr(UrlSigner, "sign", lambda *_: SignedUrl("http://origin:1/", life_seconds=next(lives)))
    located = located_as_they_are("a/b.log", [ByteRange(5, 10), ByteRange(10, 12), ByteRange(12, 14)])
    _, life = made.tier.sign(located, "etag", 30.0)
    assert life == 20.0


@pytest.mark.parametrize("encrypted", [False, True])
def test_whole_chunks_are_signed_and_their_table_is_included(encrypted: bool) -> None:
    tier = Tier()
    segment = tier.add([batch(n * 10, 10) for n in range(5)], number=1, indexed=[1, 2, 3])
    store = MemoryStore()
    store.objects = AivenWriter("p/", 100, compressed=True, encrypted=encrypted).objects(tier.store, segment)
    known = RemoteLogMetadataStore()
    tier.publish(known)
    made = ResolvingTier(known, store, AivenLayout("p/", key_ring()), SIGNER, url_ttl=60, ready=lambda _tip: True)
    assert made.formats == ("ApacheKafkaV1", "AivenTieredStorageV1")
    uncommitted = IsolationLevel.READ_UNCOMMITTED
    found = made.resolve(attrs.evolve(QUESTION, isolation_level=uncommitted, max_bytes=600, range_bytes=250))
    assert isinstance(found, ResolvedSegment)
    located = made.locate(found)
    assert (located.format, located.has_data_key) == ("AivenTieredStorageV1", encrypted)
    granted, _ = made.sign(located, None)
    assert (granted[0].range.start, granted[-1].range.end) == (found.span.start, found.span.end)
    assert [one.range.end % 100 for one in granted[:-1]] == [0] * (len(granted) - 1)
    for one in granted:
        location = LocationMetadata.decode(one.custom_metadata)
        assert location.chunk_table is not None
        table = ChunkTable.decode(location.chunk_table)
        assert location.data_key == (DATA_KEY if encrypted else None)
        assert verified(one.custom_metadata).range == table.chunks.object_range
        assert verified(one.custom_metadata).key.startswith("p/orders-")
        assert table.chunks.original_start <= one.range.start < one.range.end <= table.chunks.original_end
