from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_remote_client.errors import CorruptIndexError, ObjectNotFoundError
from kafka_remote_client.model import (
    AbortedTransaction,
    ByteRange,
    EpochEntry,
    IsolationLevel,
    NotRemote,
    RemoteLogSegmentState,
)
from kafka_remote_client.records import read_batches
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment
from kafka_remote_client.remote_log.transaction_index import AbortedTxn, TransactionIndex
from tests.support.golden import golden_local, read_jsonl
from tests.support.golden_metadata import (
    golden_cache,
    golden_metadata,
    golden_offsets,
    golden_store,
    golden_tail,
    live_partitions,
)
from tests.support.questions import tier_question
from tests.support.tier import LAYOUT, TIP, Tier, batch, offset_entries, update

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


@pytest.fixture
def tier():
    return Tier()


@pytest.fixture
def resolver(tier):
    return RemoteSegmentResolver(tier.store, LAYOUT)


def resolve(resolver, cache, offset, isolation_level=COMMITTED, leader_epochs=None, tail=None, **changes):
    asked = tier_question(TIP, offset, isolation_level=isolation_level, **changes)
    return resolver.resolve(cache, asked, leader_epochs=leader_epochs, tail=tail)


def test_a_resolved_segment_has_the_fields_of_a_grant(tier, resolver):
    segment = tier.add([batch(0, 10), batch(10, 10)], number=1, indexed=[1], aborted=[(7, 2, 5, 6)])
    tier.add([batch(20, 10)], number=2)
    found = resolve(resolver, tier.cache, 3, max_bytes=1)
    first = len(batch(0, 10))
    assert found == ResolvedSegment(
        metadata=segment,
        object_key=LAYOUT.object_key(segment, ObjectKind.LOG),
        fetch_offset=3,
        ranges=(ByteRange(0, first),),
        range_offsets=(0,),
        next_offset=10,
        aborted=(AbortedTransaction(7, 2),),
        aborted_complete=True,
        searched_end=20,
        searched_epoch=0,
    )
    assert found.span == ByteRange(0, first)


def test_read_uncommitted_needs_no_list_and_reads_no_transaction_index(tier, resolver):
    tier.add([batch(0, 10)], number=1, aborted=[(7, 2, 5, 6)], open_transactions=[(8, 3)])
    found = resolve(resolver, tier.cache, 0, UNCOMMITTED)
    assert (found.aborted, found.aborted_complete) == ((), True)
    assert tier.store.reads(".txnindex") + tier.store.reads(".snapshot") == 0


def test_open_transaction_leaves_the_list_incomplete_to_the_tiers_end(tier, resolver):
    tier.add([batch(0, 10)], number=1, open_transactions=[(8, 3)])
    tier.add([batch(10, 10)], number=2, open_transactions=[(8, 3)])
    tier.add([batch(30, 10)], number=3)
    found = resolve(resolver, tier.cache, 0)
    assert (found.aborted_complete, found.searched_end) == (False, 20)


@pytest.mark.parametrize(
    ("offset", "level", "searched"),
    [(0, UNCOMMITTED, (5, 0)), (0, COMMITTED, (20, 1)), (12, UNCOMMITTED, (20, 1)), (12, COMMITTED, (20, 1))],
)
def test_the_end_of_what_was_searched_has_the_leader_epoch_before_it(tier, resolver, offset, level, searched):
    tier.add([batch(0, 5), batch(5, 5)], number=1, indexed=[1], open_transactions=[(8, 3)])
    tier.add([batch(10, 10, epoch=1)], number=2, epochs=[(1, 10)], lineage=[(0, 0), (1, 10)])
    found = resolve(resolver, tier.cache, offset, level, max_bytes=1)
    assert (found.searched_end, found.searched_epoch) == searched


@pytest.mark.parametrize(
    ("offset", "reason"),
    [(0, "below-tier"), (9, "below-tier"), (20, "missing"), (29, "missing"), (40, "local"), (10**12, "local")],
)
def test_a_refusal_names_why_an_offset_is_not_remote(tier, resolver, offset, reason):
    tier.add([batch(10, 10)], number=1)
    tier.add([batch(30, 10)], number=2)
    found = resolve(resolver, tier.cache, offset)
    assert isinstance(found, NotRemote)
    assert (found.reason, found.offsets.latest_tiered, found.out_of_range) == (reason, 39, False)


def test_nothing_is_remote_before_a_copy_is_finished(tier, resolver):
    assert resolve(resolver, tier.cache, 0) == NotRemote("nothing-tiered")
    assert resolve(resolver, tier.cache, 0, leader_epochs=[EpochEntry(0, 0)]) == NotRemote("nothing-tiered")
    assert resolver.first_undecided_offset(tier.cache) is None
    assert resolver.first_undecided_offset(tier.cache, leader_epochs=[EpochEntry(0, 0)]) is None
    assert resolver.offset_for_time(tier.cache, 0) is None
    assert resolver.lineage(tier.cache) is None


def test_nothing_is_granted_at_or_after_the_end_that_the_caller_sets(tier, resolver):
    tier.add([batch(0, 10), batch(10, 10)], number=1)
    found = resolve(resolver, tier.cache, 0, end_offset=10)
    assert (found.next_offset, found.span.end) == (10, len(batch(0, 10)))
    assert resolve(resolver, tier.cache, 10, end_offset=10).reason == "beyond-end"
    assert resolve(resolver, tier.cache, 0, end_offset=500).next_offset == 20


def test_a_segment_without_a_batch_below_the_callers_end_is_not_remote(tier, resolver):
    tier.add([batch(0, 10), batch(50, 10)], number=1, indexed=[1])
    assert resolve(resolver, tier.cache, 20, end_offset=50).next_offset == 50
    tier.add([batch(70, 10)], number=2, start_offset=60, epochs=[(0, 60)])
    assert resolve(resolver, tier.cache, 60, end_offset=70).reason == "no-batch"


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0), (-1, 1)])
def test_raises_for_sizes_below_one(tier, resolver, sizes):
    with pytest.raises(ValueError, match="at least"):
        resolve(resolver, tier.cache, 0, max_bytes=sizes[0], range_bytes=sizes[1])


@pytest.mark.parametrize("level", [7, None, "committed", True])
def test_an_unknown_isolation_level_is_refused(tier, resolver, level):
    tier.add([batch(0, 10)], number=1)
    with pytest.raises(ValueError, match="isolation_level must be"):
        resolve(resolver, tier.cache, 0, isolation_level=level)


def test_the_lineage_of_the_newest_segment_decides_between_two_leaders(tier, resolver):
    old = tier.add([batch(0, 10), batch(10, 10)], number=1)
    new = tier.add([batch(10, 10, epoch=1)], number=2, epochs=[(1, 10)], lineage=[(0, 0), (1, 10)])
    before = resolve(resolver, tier.cache, 0)
    assert (before.metadata, before.next_offset) == (old, 10)
    assert resolve(resolver, tier.cache, 10).metadata == new
    # A caller with an older lineage gets the log as it was then.
    assert resolve(resolver, tier.cache, 10, leader_epochs=[EpochEntry(0, 0)]).metadata == old
    known = LeaderEpochLineage([EpochEntry(0, 0)])
    assert resolve(resolver, tier.cache, 0, leader_epochs=known).next_offset == 20


@pytest.mark.parametrize("kind", [ObjectKind.OFFSET_INDEX, ObjectKind.LEADER_EPOCH])
def test_a_missing_required_object_raises(tier, resolver, kind):
    tier.remove(tier.add([batch(0, 10)], number=1), kind)
    with pytest.raises(ObjectNotFoundError):
        resolve(resolver, tier.cache, 0)


def test_an_index_that_points_into_a_batch_raises(tier, resolver):
    segment = tier.add([batch(0, 10), batch(10, 10)], number=1)
    tier.put(segment, ObjectKind.OFFSET_INDEX, offset_entries((19, len(batch(0, 10)) + 3)))
    with pytest.raises(CorruptIndexError):
        resolve(resolver, tier.cache, 1)


def test_first_undecided_is_the_oldest_open_transaction_at_the_tiers_end(tier, resolver):
    tier.add([batch(0, 10)], number=1, open_transactions=[(1, 2)])
    tier.add([batch(10, 10)], number=2, open_transactions=[(8, 13), (9, 11)])
    assert resolver.first_undecided_offset(tier.cache) == 11
    tail = TransactionIndex([AbortedTxn(9, 11, 25, 13)])
    assert resolver.first_undecided_offset(tier.cache, tail=tail) == 13
    tail = TransactionIndex([AbortedTxn(9, 11, 25, 13), AbortedTxn(8, 13, 26, 27)])
    assert resolver.first_undecided_offset(tier.cache, tail=tail) is None


def test_without_a_snapshot_the_log_gives_open_transactions(tier, resolver):
    tier.remove(tier.add([batch(5, 10), batch(15, 5, producer_id=4)], number=1), ObjectKind.PRODUCER_SNAPSHOT)
    assert resolver.first_undecided_offset(tier.cache) == 15


def test_undecided_raises_if_the_end_of_the_tier_cannot_be_read(tier, resolver):
    # Epoch 0 ends at 15 in the lineage. Its segment with 10..14 existed once, but is deleted.
    tier.add([batch(0, 10)], number=1)
    gone = tier.add([batch(10, 10)], number=2)
    tier.cache.update_remote_log_segment_metadata(update(gone, RemoteLogSegmentState.DELETE_SEGMENT_STARTED))
    with pytest.raises(CorruptIndexError):
        resolver.first_undecided_offset(tier.cache)


def test_a_repeated_look_up_reads_nothing_from_the_store(tier, resolver):
    tier.add([batch(n * 10, 10) for n in range(5)], number=1, indexed=[1, 3])
    first = resolve(resolver, tier.cache, 0, max_bytes=1)
    tier.store.calls.clear()
    assert resolve(resolver, tier.cache, 0, max_bytes=1) == first
    assert tier.store.calls == []


def test_the_next_window_needs_one_small_read(tier, resolver):
    tier.add([batch(n * 10, 10) for n in range(9)], number=1, indexed=list(range(1, 9)))
    found = resolve(resolver, tier.cache, 0, max_bytes=1)
    tier.store.calls.clear()
    resolve(resolver, tier.cache, found.next_offset, max_bytes=1)
    assert [(end - start) for _, _, start, end in tier.store.calls] == [61]


def test_many_threads_get_the_same_answers():
    resolver = RemoteSegmentResolver(golden_store(), LAYOUT, index_cache_bytes=4000)
    cache = golden_cache("txn")
    offsets = [*range(0, 2695, 7)]
    alone = [resolve(resolver, cache, offset, max_bytes=3000) for offset in offsets]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda o: resolve(resolver, cache, o, max_bytes=3000), offsets)) == alone


@pytest.mark.parametrize("tip", live_partitions(), ids=str)
@pytest.mark.parametrize("max_bytes", [1, 20_000])
def test_golden_windows_hold_every_offset_of_the_tier_once(tip, max_bytes):
    resolver, cache, store = RemoteSegmentResolver(golden_store(), LAYOUT), golden_metadata().cache(tip), golden_store()
    offset = resolver.log(cache).start_offset()
    seen = []
    while isinstance(found := resolve(resolver, cache, offset, UNCOMMITTED, max_bytes=max_bytes), ResolvedSegment):
        data = store.get_range(found.object_key, found.span.start, found.span.end)
        seen += [row[0] for row in read_batches(data, fetch_offset=offset).rows()]
        offset = found.next_offset
    end = golden_offsets()[tip.topic, tip.partition]["latest_tiered"]["offset"] + 1
    assert (found.reason, offset) == ("local", end)
    name = f"{tip.topic}-{tip.partition}.read_uncommitted.jsonl.gz"
    expected = [line["offset"] for line in read_jsonl(golden_local() / "expected" / name)]
    start = golden_offsets()[tip.topic, tip.partition]["earliest"]["offset"]
    assert [o for o in seen if o >= start] == [o for o in expected if o < end]


def test_golden_aborted_lists_equal_the_brokers_up_to_the_last_byte():
    resolver, cache, tail = RemoteSegmentResolver(golden_store(), LAYOUT), golden_cache("txn"), golden_tail()
    compared = 0
    for answer in read_jsonl(golden_local() / "fetch-txn.jsonl"):
        if answer["isolation"] != 1:
            continue
        found = resolve(resolver, cache, answer["fetch_offset"], max_bytes=answer["max_bytes"], tail=tail)
        if answer["fetch_offset"] >= 2695:
            assert found.reason == "local"
            continue
        ours = {(t.producer_id, t.first_offset) for t in found.aborted}
        brokers = {tuple(pair) for pair in answer["aborted"]}
        # The broker's bytes and ours end at different batches, so lists are compared below both ends.
        end = min(found.next_offset, answer["last_complete_batch_last_offset"] + 1)
        assert {t for t in ours if t[1] < end} == {t for t in brokers if t[1] < end}
        assert found.aborted_complete
        compared += 1
    assert compared == 120


def test_golden_aborted_lists_to_the_brokers_end_are_a_subset():
    resolver, cache, tail = RemoteSegmentResolver(golden_store(), LAYOUT), golden_cache("txn"), golden_tail()
    for answer in read_jsonl(golden_local() / "fetch-txn.jsonl"):
        end = (answer["last_complete_batch_last_offset"] or 0) + 1
        if answer["isolation"] != 1 or not answer["fetch_offset"] < end <= 2695:
            continue
        found = resolve(resolver, cache, answer["fetch_offset"], max_bytes=10**9, tail=tail, end_offset=end)
        ours = {(t.producer_id, t.first_offset) for t in found.aborted}
        extras = {tuple(pair) for pair in answer["aborted"]} - ours
        assert ours <= {tuple(pair) for pair in answer["aborted"]}
        assert all(first >= found.next_offset for _, first in extras)


def test_golden_first_undecided_offsets():
    resolver = RemoteSegmentResolver(golden_store(), LAYOUT)
    for tip in live_partitions():
        expected = 2455 if tip.topic == "txn" else None
        assert resolver.first_undecided_offset(golden_metadata().cache(tip)) == expected
    # With the index of the local tail, everything up to the tier's last offset, 2694, is decided.
    assert resolver.first_undecided_offset(golden_cache("txn"), tail=golden_tail()) is None


def test_the_deleted_golden_topic_has_nothing_tiered():
    (deleted,) = [tip for tip in golden_metadata().partitions("deleted") if tip not in live_partitions()]
    resolver = RemoteSegmentResolver(golden_store(), LAYOUT)
    assert resolve(resolver, golden_metadata().cache(deleted), 0).reason == "nothing-tiered"
    assert resolve(resolver, RemoteLogMetadataCache(TIP), 0).reason == "nothing-tiered"


@pytest.mark.parametrize("end_offset", [None, 15, 100])
def test_a_window_ends_where_the_lineage_leaves_the_segment(tier, resolver, end_offset):
    tier.add([batch(0, 10), batch(10, 10)], number=1)
    lineage = [EpochEntry(0, 0), EpochEntry(1, 10)]
    found = resolve(resolver, tier.cache, 3, leader_epochs=lineage, end_offset=end_offset)
    assert (found.next_offset, found.span) == (10, ByteRange(0, len(batch(0, 10))))
