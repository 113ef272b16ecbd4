from __future__ import annotations

import threading
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import ConfigurationError, NoSegmentsError, RemoteStorageUnavailableError
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.location.source import locate_one
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.model import (
    AbortedTransaction,
    IsolationLevel,
    LocationPending,
    NotRemote,
    PartitionOffsets,
    RemoteLogSegmentId,
    SegmentLocation,
    TopicIdPartition,
    uuid_to_text,
)
from kafka_remote_client.remote_log.layout import ObjectKind
from tests.support.golden_metadata import golden_offsets, golden_store, live_partitions
from tests.support.locations import ManualClock
from tests.support.questions import question
from tests.support.tier import LAYOUT, TIP, MemoryStore, Tier, batch, metadata
from tests.support.waiting import wait_until

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
DEADLINE = Deadline(ManualClock(), 60)


@pytest.fixture
def tier():
    return Tier()


def locate(source, offset, isolation_level=COMMITTED, *, topic="orders", partition=7, max_bytes=10**6):
    asked = question(topic, partition, offset, isolation_level=isolation_level, max_bytes=max_bytes)
    return locate_one(source, asked, Deadline(SystemClock(), 60))


def test_a_location_names_the_object_in_every_range(tier):
    segment = tier.add([batch(n * 10, 10) for n in range(4)], number=1, indexed=[1, 2, 3], aborted=[(7, 2, 5, 6)])
    source = ListingLocationSource(tier.store, LAYOUT, range_bytes=1)
    location = locate(source, 5)
    assert isinstance(location, SegmentLocation)
    assert location.metadata.remote_log_segment_id == segment.remote_log_segment_id
    assert (location.format, location.fetch_offset, location.next_offset) == ("ApacheKafkaV1", 5, 40)
    assert (location.last_stable_offset, location.high_watermark, location.log_start_offset) == (-1, -1, -1)
    assert location.aborted_transactions == (AbortedTransaction(7, 2),)
    assert len(location.ranges) == 4
    keys = {LocationMetadata.decode(granted.custom_metadata).object_key for granted in location}
    assert keys == {LAYOUT.object_key(segment, ObjectKind.LOG)}
    assert not location.range_signed


def test_the_source_chooses_the_window_if_the_size_is_zero(tier):
    tier.add([batch(n * 10, 10) for n in range(4)], number=1, indexed=[1, 2, 3])
    assert locate(ListingLocationSource(tier.store, LAYOUT), 0, max_bytes=0).next_offset == 40
    assert locate(ListingLocationSource(tier.store, LAYOUT), 0, max_bytes=1).next_offset == 10


def test_committed_readers_stop_before_the_first_undecided_transaction(tier):
    tier.add([batch(0, 10), batch(10, 10), batch(20, 10)], number=1, open_transactions=[(7, 20)])
    source = ListingLocationSource(tier.store, LAYOUT)
    location = locate(source, 0)
    assert (location.next_offset, location.last_stable_offset) == (20, 20)
    assert location.ranges[-1].range.end == len(batch(0, 10)) * 2
    stopped = locate(source, 20)
    assert (stopped.reason, stopped.offsets) == (
        "undecided",
        PartitionOffsets(log_start=0, earliest_local=30, latest_tiered=29, high_watermark=30),
    )
    assert locate(source, 20, UNCOMMITTED).next_offset == 30
    assert source.first_undecided_offset(TIP) == 20


@pytest.mark.parametrize("damage", [None, b"damaged"])
def test_the_log_gives_the_committed_end_without_a_valid_snapshot(tier, damage):
    open_at_10 = [batch(0, 5, producer_id=7), batch(5, producer_id=7, marker="abort"), batch(10, 5, producer_id=8)]
    segment = tier.add(open_at_10, number=1, aborted=[(7, 0, 5, 6)])
    if damage is None:
        tier.remove(segment, ObjectKind.PRODUCER_SNAPSHOT)
    else:
        tier.put(segment, ObjectKind.PRODUCER_SNAPSHOT, damage)
    source = ListingLocationSource(tier.store, LAYOUT)
    location = locate(source, 0)
    assert (location.next_offset, location.aborted_transactions) == (10, (AbortedTransaction(7, 0),))
    assert locate(source, 10).reason == "undecided"


def test_committed_readers_get_nothing_without_snapshot_and_log(tier, caplog):
    damaged = bytearray(batch(0, 5, producer_id=7))
    damaged[-1] ^= 1
    segment = tier.add([bytes(damaged), batch(5, 5)], number=1, indexed=[1])
    tier.remove(segment, ObjectKind.PRODUCER_SNAPSHOT)
    source = ListingLocationSource(tier.store, LAYOUT)
    assert locate(source, 5).reason == "transactions-unknown"
    assert "cannot find the committed records" in caplog.text
    assert locate(source, 5, UNCOMMITTED).next_offset == 10


def test_unused_copies_have_a_remark_each(tier):
    tier.add([batch(0, 50)], number=2, lineage=[(0, 0)])
    tier.add([batch(0, 50)], number=1, lineage=[(0, 0), (1, 50)])
    half = tier.add([batch(50, 10)], number=3)
    tier.remove(half, ObjectKind.LEADER_EPOCH)
    source = ListingLocationSource(tier.store, LAYOUT)
    remarks = source.remarks(TIP)
    assert len(remarks) == 2
    assert sum("leader epoch checkpoint" in remark for remark in remarks) == 1
    assert locate(source, 0).metadata.remote_log_segment_id.id.int == 1


def test_nothing_is_listed_before_it_is_needed_and_then_one_topic_only(tier):
    tier.add([batch(0, 10)], number=1)
    listed = []
    whole = tier.store.list
    tier.store.list = lambda prefix: listed.append(prefix) or whole(prefix)
    source = ListingLocationSource(tier.store, LAYOUT)
    assert listed == []
    locate(source, 0)
    locate(source, 5)
    assert len(listed) == 1
    assert "orders" in listed[0]
    assert source.listing.partitions() == [TIP]
    assert source.cache_statistics() == source.resolver.cache_statistics()


def test_known_locations_wait_for_no_listing_and_no_read(tier):
    tier.add([batch(n * 10, 10) for n in range(4)], number=1, indexed=[1, 2, 3])
    list_store, get = tier.store.list, tier.store.get_range
    go, hanging = threading.Event(), []

    def hangs(where):
        hanging.append(where)
        assert go.wait(60)

    source = ListingLocationSource(tier.store, LAYOUT, lookup_concurrency=2)
    assert locate(source, 3, max_bytes=1).next_offset == 10
    tier.store.list = lambda prefix: hangs(prefix) or list_store(prefix)
    tier.store.get_range = lambda *where: hangs(where) or get(*where)
    unlisted = question("payments", 0, 3)
    unread = question("orders", 7, 25, max_bytes=1)
    unbegun = question("refunds", 0, 3)
    cold = source.locate([unlisted, unread], DEADLINE)
    assert set(cold.values()) == {LocationPending()}
    # A header that the first look-up reads in advance may hang as well.
    wait_until(lambda: {type(where) for where in hanging} == {str, tuple}, "a listing and a read")
    assert source.locate([unbegun], DEADLINE) == {unbegun: LocationPending()}
    assert locate(source, 3, max_bytes=1).next_offset == 10
    assert locate(source, 0, partition=8) == NotRemote("unknown-partition")
    go.set()
    source.close()


def test_a_missing_segment_that_may_hold_a_marker_is_never_skipped(tier):
    tier.add([batch(0, 10)], number=1, open_transactions=[(7, 3)])
    tier.add([batch(20, 10)], number=3)
    source = ListingLocationSource(tier.store, LAYOUT)
    assert locate(source, 0).reason == "aborted-unknown"
    assert locate(source, 0, UNCOMMITTED).next_offset == 10
    assert locate(source, 10).reason == "missing"


def test_a_refusal_names_its_reason(tier):
    tier.add([batch(10, 10)], number=1)
    source = ListingLocationSource(tier.store, LAYOUT)
    assert locate(source, 20).reason == "local"
    assert locate(source, 0).reason == "below-tier"
    assert locate(source, 0, topic="unknown") == NotRemote("unknown-partition")
    assert locate(source, 0, partition=8).error is None
    assert locate(source, 0, partition=8) == NotRemote("unknown-partition")


def test_a_topic_without_segments_is_an_error_that_lists_other_topics(tier):
    tier.add([batch(10, 10)], number=1)
    source = ListingLocationSource(tier.store, LAYOUT)
    said = (
        "found no segments of topic unknown; the store has LocalTieredStorage segments below kafka-tiered-storage/ "
        "(remote.storage.store.layout=local-tiered-storage) of topic orders"
    )
    for _ in range(2):
        answer = locate(source, 0, topic="unknown")
        assert str(answer.error) == said
        assert answer.error.topic == "unknown"
        with pytest.raises(NoSegmentsError, match=r"found no segments of topic unknown; the store has Local") as caught:
            source.offsets("unknown", 0, DEADLINE)
        assert str(caught.value) == said


def test_offsets_are_those_of_the_tier(tier):
    tier.add([batch(10, 10)], number=1)
    source = ListingLocationSource(tier.store, LAYOUT)
    assert source.offsets("orders", 7, DEADLINE) == PartitionOffsets(
        log_start=10, earliest_local=20, latest_tiered=19, high_watermark=20
    )
    assert source.offsets("orders", 8, DEADLINE) == PartitionOffsets()


def test_each_of_many_partitions_has_its_answer_or_its_error(tier):
    tier.add([batch(10, 10)], number=1)
    source = ListingLocationSource(tier.store, LAYOUT)
    error = RemoteStorageUnavailableError("down")

    def fails(prefix):
        if "other" in prefix:
            raise error
        return MemoryStore.list(tier.store, prefix)

    tier.store.list = fails
    keys = [("orders", 7), ("orders", 8), ("other", 0)]
    answers = source.offsets_of(keys, DEADLINE)
    assert answers == dict(zip(keys, [PartitionOffsets(10, 20, 19, 20), PartitionOffsets(), error], strict=True))


def test_segments_of_many_partitions_are_listed_at_once(tier):
    tier.add([batch(10, 10)], number=1)
    tier.add([batch(20, 10)], number=2)
    lists = []
    listing = tier.store.list
    tier.store.list = lambda prefix: lists.append(prefix) or listing(prefix)
    source = ListingLocationSource(tier.store, LAYOUT, topic="orders")
    found = source.segments_of([("orders", 7), ("orders", 8)], DEADLINE)
    assert {key: [(one.start, one.end) for one in segments] for key, segments in found.items()} == {
        ("orders", 7): [(10, 20), (20, 30)]
    }
    assert len(lists) == 1


def test_a_partition_without_readable_segments_has_no_offsets(tier):
    tier.remove(tier.add([batch(10, 10)], number=1), ObjectKind.LEADER_EPOCH)
    source = ListingLocationSource(tier.store, LAYOUT)
    assert source.offsets("orders", 7, DEADLINE) == PartitionOffsets()
    assert locate(source, 10).reason == "nothing-tiered"


def test_a_name_of_several_topics_is_refused_without_a_topic_id(tier):
    tier.add([batch(0, 10)], number=1)
    other = TopicIdPartition(UUID(int=5), "orders", 7)
    segment = attrs.evolve(metadata(0, 9), remote_log_segment_id=RemoteLogSegmentId(other, UUID(int=9)))
    tier.put(segment, ObjectKind.LOG, batch(0, 10))
    source = ListingLocationSource(tier.store, LAYOUT)
    with pytest.raises(ConfigurationError) as caught:
        locate(source, 0)
    assert uuid_to_text(TIP.topic_id) in str(caught.value)
    assert uuid_to_text(other.topic_id) in str(caught.value)
    picked = ListingLocationSource(tier.store, LAYOUT, topic="orders", topic_id=TIP.topic_id)
    assert picked.partitions("orders") == [TIP]
    assert locate(picked, 0).next_offset == 10
    assert ListingLocationSource(tier.store, LAYOUT, topic_id=UUID(int=6)).partitions("orders") == []


def test_close_closes_the_store(tier):
    source = ListingLocationSource(tier.store, LAYOUT)
    source.close()
    assert tier.store.closed
    with pytest.raises(RuntimeError, match="after shutdown"):
        source._reads.submit(int)


@pytest.mark.parametrize("tip", live_partitions(), ids=str)
def test_golden_locations_lead_from_the_start_of_the_tier_to_its_end(tip):
    source = ListingLocationSource(golden_store(), LAYOUT, range_bytes=10_000)
    known = golden_offsets()[tip.topic, tip.partition]
    tiered_end = known["latest_tiered"]["offset"] + 1
    bounds = {
        UNCOMMITTED: (tiered_end, "local"),
        COMMITTED: (2455, "undecided") if tip.topic == "txn" else (tiered_end, "local"),
    }
    for isolation_level, (end, reason) in bounds.items():
        offset = source.offsets(tip.topic, tip.partition, DEADLINE).log_start
        while isinstance(
            found := locate(source, offset, isolation_level, topic=tip.topic, partition=tip.partition, max_bytes=30_000),
            SegmentLocation,
        ):
            assert found.fetch_offset == offset < found.next_offset
            offset = found.next_offset
        assert (offset, found.reason) == (end, reason)
