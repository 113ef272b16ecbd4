from __future__ import annotations

import threading
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import DataKeyError, RemoteStorageUnavailableError
from kafka_remote_client.model import EpochEntry, RemoteLogSegmentId, TopicIdPartition, uuid_to_text
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver
from kafka_remote_client.remote_log.tier_listing import TierListing
from tests.support.golden_metadata import golden_metadata, golden_store, live_partitions
from tests.support.round_store import RoundStore
from tests.support.tier import (
    LAYOUT,
    TIP,
    Tier,
    batch,
    checkpoint,
    legacy_entry,
    metadata,
    offset_entries,
    time_entries,
)

MAY_BE_MISSING = {ObjectKind.TRANSACTION_INDEX, ObjectKind.PRODUCER_SNAPSHOT}


@pytest.fixture
def tier():
    return Tier()


def readable(tier):
    cache = TierListing(tier.store, LAYOUT).cache(TIP)
    return [(m.remote_log_segment_id.id.int, m.start_offset, m.end_offset) for m in cache.list_all_remote_log_segments()]


def test_an_empty_store_has_nothing(tier):
    listing = TierListing(tier.store, LAYOUT)
    assert (listing.partitions(), listing.topic_ids("orders"), listing.segments(TIP)) == ([], [], [])
    assert listing.cache(TIP).list_all_remote_log_segments() == []


def test_metadata_is_read_from_the_objects(tier):
    tier.add([batch(0, 10), batch(10, 10, epoch=2)], number=1, indexed=[1], epochs=[(0, 0), (2, 10)], aborted=[(7, 2, 5, 6)])
    tier.add([batch(20, 5, epoch=2), batch(25, 5, epoch=3)], number=2, indexed=[1], epochs=[(2, 20), (3, 25)])
    one, two = TierListing(tier.store, LAYOUT).cache(TIP).list_all_remote_log_segments()
    assert (one.start_offset, one.end_offset, one.max_timestamp_ms, one.txn_index_empty) == (0, 19, 1019, False)
    assert one.segment_leader_epochs == (EpochEntry(0, 0), EpochEntry(2, 10))
    assert (two.start_offset, two.end_offset, two.max_timestamp_ms, two.txn_index_empty) == (20, 29, 1029, True)
    assert two.segment_leader_epochs == (EpochEntry(2, 20), EpochEntry(3, 25))
    assert (two.broker_id, two.event_timestamp_ms) == (-1, -1)


def test_objects_are_read_in_small_pieces_and_once(tier):
    tier.add([batch(n * 10, 10, payload=5000) for n in range(20)], number=1, indexed=list(range(1, 20)))
    listing = TierListing(tier.store, LAYOUT)
    assert tier.store.calls == []
    listing.cache(TIP)
    log_reads = [end - start for _, key, start, end in tier.store.calls if key.endswith(".log")]
    assert sum(log_reads) <= len(batch(0, 10, payload=5000))
    assert {end - start for _, key, start, end in tier.store.calls if key.endswith("index")} == {8, 12}
    count = len(tier.store.calls)
    listing.cache(TIP)
    assert len(tier.store.calls) == count


def test_a_segment_without_index_entries_is_walked_from_its_start(tier):
    tier.add([batch(0, 10), batch(10, 7)], number=1)
    assert readable(tier) == [(1, 0, 16)]


def test_old_formats_have_an_end_too(tier):
    tier.add([legacy_entry(4, 1), legacy_entry(9, 1)], number=1, end=9)
    assert readable(tier) == [(1, 4, 9)]


@pytest.mark.parametrize("kind", [kind for kind in ObjectKind if kind not in MAY_BE_MISSING])
def test_a_half_copied_segment_is_listed_and_left_out(tier, kind):
    tier.add([batch(0, 10)], number=1)
    half = tier.add([batch(10, 10)], number=2)
    tier.remove(half, kind)
    assert readable(tier) == [(1, 0, 9)]
    listing = TierListing(tier.store, LAYOUT)
    assert [s.remote_log_segment_id.id.int for s in listing.segments(TIP)] == [1, 2]
    assert list(listing.unreadable(TIP)) == [half.remote_log_segment_id]
    assert kind.value in listing.unreadable(TIP)[half.remote_log_segment_id]
    assert listing.damaged(TIP) == []


def test_a_segment_without_producer_snapshot_is_used(tier):
    tier.remove(tier.add([batch(0, 10)], number=1), ObjectKind.PRODUCER_SNAPSHOT)
    assert readable(tier) == [(1, 0, 9)]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (ObjectKind.LOG, (batch(10, 10) + batch(20, 10))[:-5]),
        (ObjectKind.LOG, b""),
        (ObjectKind.LOG, b"\0" * 200),
        (ObjectKind.OFFSET_INDEX, b"\0" * 7),
        (ObjectKind.OFFSET_INDEX, offset_entries((9, 10**6))),
        (ObjectKind.OFFSET_INDEX, offset_entries((9, 3))),
        (ObjectKind.OFFSET_INDEX, offset_entries((-9, 0))),
        (ObjectKind.TIME_INDEX, b"\0" * 13),
        (ObjectKind.LEADER_EPOCH, b"nonsense"),
        (ObjectKind.LEADER_EPOCH, checkpoint()),
        (ObjectKind.LEADER_EPOCH, checkpoint((2**31, 10))),
        (ObjectKind.LEADER_EPOCH, checkpoint((0, 20))),
    ],
)
def test_a_damaged_segment_is_left_out_and_the_others_stay(tier, kind, data):
    tier.add([batch(0, 10)], number=1)
    damaged = tier.add([batch(10, 10)], number=2)
    tier.put(damaged, kind, data)
    tier.add([batch(20, 10)], number=3)
    assert readable(tier) == [(1, 0, 9), (3, 20, 29)]
    listing = TierListing(tier.store, LAYOUT)
    assert list(listing.unreadable(TIP)) == [damaged.remote_log_segment_id]
    ((listed, why),) = listing.damaged(TIP)
    assert listed.remote_log_segment_id == damaged.remote_log_segment_id
    assert why == listing.unreadable(TIP)[damaged.remote_log_segment_id]


def test_a_segment_into_which_the_log_start_moved_is_used(tier):
    tier.add([batch(0, 10), batch(10, 10)], number=1, epochs=[(2, 13)])
    tier.add([batch(20, 10)], number=2, epochs=[(2, 20)], lineage=[(2, 13)])
    one, two = TierListing(tier.store, LAYOUT).cache(TIP).list_all_remote_log_segments()
    assert (one.start_offset, one.end_offset, one.segment_leader_epochs) == (0, 19, (EpochEntry(2, 13),))
    assert two.segment_leader_epochs == (EpochEntry(2, 20),)
    resolver = RemoteSegmentResolver(tier.store, LAYOUT)
    assert [(s.start, s.end) for s in resolver.all_segments(TierListing(tier.store, LAYOUT).cache(TIP))] == [(13, 20), (20, 30)]


def test_without_time_index_entries_the_highest_timestamp_is_unknown(tier):
    segment = tier.add([batch(0, 10)], number=1)
    tier.put(segment, ObjectKind.TIME_INDEX, b"")
    (found,) = TierListing(tier.store, LAYOUT).cache(TIP).list_all_remote_log_segments()
    assert found.max_timestamp_ms == -1
    tier.put(segment, ObjectKind.TIME_INDEX, time_entries((5, 1), (900, 4)))
    (found,) = TierListing(tier.store, LAYOUT).cache(TIP).list_all_remote_log_segments()
    assert found.max_timestamp_ms == 900


def lookup(tier, offset, epoch=0):
    found = TierListing(tier.store, LAYOUT).cache(TIP).remote_log_segment_metadata(epoch, offset)
    return None if found is None else found.remote_log_segment_id.id.int


@pytest.mark.parametrize("numbers", [(1, 2), (2, 1)])
def test_the_copy_that_covers_more_offsets_is_used(tier, numbers):
    small, large = numbers
    tier.add([batch(10, 81)], number=small)
    tier.add([batch(5, 96)], number=large, lineage=[(0, 5)])
    tier.put(metadata(10, 90, number=small), ObjectKind.LEADER_EPOCH, checkpoint((0, 5)))
    assert [lookup(tier, offset) for offset in (5, 10, 95, 100)] == [large] * 4


def test_of_two_copies_with_the_same_end_the_longer_is_used(tier):
    tier.add([batch(5, 96)], number=1)
    tier.add([batch(10, 91)], number=2)
    assert lookup(tier, 50) == 1


def test_a_copy_by_a_later_leader_wins(tier):
    tier.add([batch(0, 50)], number=2, lineage=[(0, 0)])
    tier.add([batch(0, 50)], number=1, lineage=[(0, 0), (1, 50)])
    assert lookup(tier, 20) == 1


def test_truncated_records_are_not_in_the_lineage(tier):
    tier.add([batch(0, 50)], number=1, lineage=[(0, 0)])
    tier.add([batch(30, 10, epoch=1)], number=2, epochs=[(1, 30)], lineage=[(0, 0), (1, 30)])
    assert (lookup(tier, 35, epoch=1), lookup(tier, 35, epoch=0)) == (2, 1)
    cache = TierListing(tier.store, LAYOUT).cache(TIP)
    assert cache.newest_segment().remote_log_segment_id.id.int == 2


def superseded(tier):
    listing = TierListing(tier.store, LAYOUT)
    return {identity.id.int: why for identity, why in listing.superseded(TIP).items()}


def test_unused_copies_are_logged_once_with_the_reason(tier, caplog):
    tier.add([batch(0, 50)], number=2, lineage=[(0, 0)])
    tier.add([batch(0, 50)], number=1, lineage=[(0, 0), (1, 50)])
    assert superseded(tier) == {2: f"{uuid_to_text(UUID(int=1))} is read"}
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "ignored segment" in caplog.text


def test_a_second_listing_logs_only_what_is_new(tier, caplog):
    tier.add([batch(0, 50)], number=2, lineage=[(0, 0)])
    tier.add([batch(0, 50)], number=1, lineage=[(0, 0), (1, 50)])
    half = tier.add([batch(50, 10)], number=3)
    tier.remove(half, ObjectKind.LEADER_EPOCH)
    first = TierListing(tier.store, LAYOUT)
    first.cache(TIP)
    assert len(caplog.records) == 2
    second = TierListing(tier.store, LAYOUT, previous=first)
    second.cache(TIP)
    assert len(caplog.records) == 2
    tier.put(half, ObjectKind.LEADER_EPOCH, b"nonsense")
    TierListing(tier.store, LAYOUT, previous=second).cache(TIP)
    assert [str(half.remote_log_segment_id) in record.getMessage() for record in caplog.records[2:]] == [True]


def test_a_segment_truncated_by_an_election_has_that_reason(tier):
    tier.add([batch(0, 30)], number=1, lineage=[(0, 0)])
    tier.add([batch(30, 20)], number=2, lineage=[(0, 0)])
    tier.add([batch(30, 10, epoch=1)], number=3, epochs=[(1, 30)], lineage=[(0, 0), (1, 30)])
    assert list(superseded(tier)) == [2]
    assert "lineage" in superseded(tier)[2]


def test_every_segment_of_an_ordinary_log_is_used(tier):
    tier.add([batch(0, 30)], number=1)
    tier.add([batch(50, 20)], number=2)
    assert superseded(tier) == {}
    assert superseded(Tier()) == {}


def test_a_copy_hidden_by_a_shorter_one_is_reported(tier):
    tier.add([batch(0, 10), batch(10, 10)], number=1, lineage=[(0, 0)])
    tier.add([batch(0, 10)], number=2, lineage=[(0, 0), (1, 20)])
    assert lookup(tier, 15) is None
    assert list(superseded(tier)) == [1]


def test_without_the_lineage_only_hidden_copies_are_reported(tier):
    class Locked(LocalTieredStorageLayout):
        def stored_metadata(self, store, segment):
            return attrs.evolve(metadata(0, 9), remote_log_segment_id=segment.remote_log_segment_id)

        def read_index(self, store, segment, kind):
            raise DataKeyError("no key")

    tier.add([batch(0, 10)], number=1)
    assert TierListing(tier.store, Locked()).superseded(TIP) == {}
    tier.add([batch(0, 10)], number=2)
    assert len(TierListing(tier.store, Locked()).superseded(TIP)) == 1


def test_a_second_listing_reads_new_objects_only(tier):
    tier.add([batch(0, 10)], number=1)
    changed = tier.add([batch(10, 10)], number=2)
    first = TierListing(tier.store, LAYOUT)
    first.cache(TIP)
    tier.put(changed, ObjectKind.LOG, batch(10, 10) + batch(20, 5))
    tier.add([batch(25, 5)], number=3)
    tier.store.calls.clear()
    second = TierListing(tier.store, LAYOUT, previous=first)
    ends = [m.end_offset for m in second.cache(TIP).list_all_remote_log_segments()]
    assert ends == [9, 24, 29]
    assert {key.split("/")[-1].split("-")[0] for _, key, _, _ in tier.store.calls} == {f"{10:020}", f"{25:020}"}


def test_segments_are_read_side_by_side_and_partitions_do_not_wait(tier):
    for number in range(4):
        tier.add([batch(number * 10, 10)], number=number + 1)
    together = threading.Barrier(4, timeout=60)
    get_range = tier.store.get_range

    def slow(key, start, end):
        if key.endswith(".log"):
            together.wait()
        return get_range(key, start, end)

    tier.store.get_range = slow
    assert len(readable(tier)) == 4


def test_a_segment_costs_two_round_trips_and_the_lineage_none(tier):
    for n in range(2):
        tier.add([batch(10 * n, 10)], number=n + 1, indexed=[0])
    store = RoundStore(tier.store, [6, 2])
    indexes = RemoteIndexCache(store, LAYOUT)
    newest = TierListing(store, LAYOUT, indexes=indexes).cache(TIP).newest_segment()
    assert [[key.rpartition(".")[2].partition("@")[0] for key in one] for one in store.rounds] == [
        ["index", "leader_epoch_checkpoint", "timeindex"] * 2,
        ["log"] * 2,
    ]
    assert indexes.keeps(newest, ObjectKind.LEADER_EPOCH)


def test_a_failed_read_is_retried(tier):
    tier.add([batch(0, 10)], number=1)
    listing = TierListing(tier.store, LAYOUT)
    get_range = tier.store.get_range

    def fails(key, start, end):
        raise RemoteStorageUnavailableError("down")

    tier.store.get_range = fails
    with pytest.raises(RemoteStorageUnavailableError):
        listing.cache(TIP)
    tier.store.get_range = get_range
    assert len(listing.cache(TIP).list_all_remote_log_segments()) == 1


def test_partitions_and_ids_are_distinguished():
    tier = Tier()
    for number, topic, partition in ((2, "a", 10), (2, "a", 9), (1, "a", 3), (3, "b", 0)):
        tip = TopicIdPartition(UUID(int=number), topic, partition)
        segment = attrs.evolve(metadata(0, 9), remote_log_segment_id=RemoteLogSegmentId(tip, UUID(int=9)))
        tier.put(segment, ObjectKind.LOG, batch(0, 10))
    listing = TierListing(tier.store, LAYOUT)
    found = [(t.topic, t.topic_id.int, t.partition) for t in listing.partitions()]
    assert found == [("a", 1, 3), ("a", 2, 9), ("a", 2, 10), ("b", 3, 0)]
    assert [t.topic for t in listing.partitions("b")] == ["b"]
    assert listing.topic_ids("a") == [UUID(int=1), UUID(int=2)]
    assert [t.topic for t in TierListing(tier.store, LAYOUT, "b").partitions()] == ["b"]


@pytest.mark.parametrize("tip", live_partitions(), ids=str)
def test_golden_listing_equals_the_metadata_records(tip):
    from_listing = TierListing(golden_store(), LAYOUT, tip.topic).cache(tip).list_all_remote_log_segments()
    from_records = golden_metadata().cache(tip).list_all_remote_log_segments()
    assert from_listing == [attrs.evolve(m, broker_id=-1, event_timestamp_ms=-1) for m in from_records]
