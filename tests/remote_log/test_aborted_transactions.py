from __future__ import annotations

import pytest

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import AbortedTransaction, EpochEntry
from kafka_remote_client.remote_log.aborted_transactions import collect_aborted_transactions, undecided_transactions
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.tiered_log import TieredLog
from kafka_remote_client.remote_log.transaction_index import AbortedTxn, TransactionIndex
from tests.support.tier import LAYOUT, Tier, batch


@pytest.fixture
def tier():
    return Tier()


def log_of(tier, *entries):
    return TieredLog(tier.cache, LeaderEpochLineage([EpochEntry(*e) for e in entries or [(0, 0)]]))


def collect(tier, a, b, *, tail=None, lineage=()):
    found = collect_aborted_transactions(RemoteIndexCache(tier.store, LAYOUT), log_of(tier, *lineage), a, b, tail)
    return [(t.producer_id, t.first_offset) for t in found.aborted], found.is_complete, found.searched_end


def test_the_list_is_complete_if_nothing_is_open_at_the_segments_end(tier):
    tier.add([batch(0, 10)], number=1, aborted=[(1, 2, 5, 6)])
    tier.add([batch(10, 10)], number=2)
    assert collect(tier, 0, 10) == ([(1, 2)], True, 10)
    assert not any("00000000000000000010" in key for _, key, _, _ in tier.store.calls)


def test_a_marker_in_a_later_segment_is_found(tier):
    tier.add([batch(0, 10)], number=1, open_transactions=[(1, 4)])
    tier.add([batch(10, 10)], number=2, open_transactions=[(1, 4)])
    tier.add([batch(20, 10)], number=3, aborted=[(1, 4, 25, 26)])
    assert collect(tier, 0, 10) == ([(1, 4)], True, 30)


def test_an_index_entry_can_end_the_search(tier):
    tier.add([batch(0, 10)], number=1, aborted=[(1, 2, 5, 9)], open_transactions=[(2, 9)])
    assert collect(tier, 0, 9) == ([(1, 2)], True, 10)
    assert tier.store.reads(".snapshot") == 0


def test_a_transaction_that_began_after_the_range_is_ignored(tier):
    tier.add([batch(0, 10)], number=1, open_transactions=[(2, 8)])
    assert collect(tier, 0, 8) == ([], True, 10)
    assert collect(tier, 0, 9) == ([], False, 10)


def test_incomplete_if_the_tier_ends_with_an_open_transaction(tier):
    tier.add([batch(0, 10)], number=1, open_transactions=[(1, 4)])
    tier.add([batch(10, 10)], number=2, open_transactions=[(1, 4)])
    assert collect(tier, 0, 10) == ([], False, 20)


def test_incomplete_if_a_segment_is_missing(tier):
    tier.add([batch(0, 10)], number=1, open_transactions=[(1, 4)])
    tier.add([batch(20, 10)], number=3, aborted=[(1, 4, 25, 26)])
    assert collect(tier, 0, 10) == ([], False, 10)


def test_a_transaction_that_ended_before_the_range_is_left_out(tier):
    tier.add([batch(0, 10)], number=1, aborted=[(1, 0, 3, 4), (1, 4, 8, 9)])
    assert collect(tier, 4, 10) == ([(1, 4)], True, 10)


def test_duplicates_are_removed_and_sorted_by_first_offset(tier):
    tier.add([batch(0, 10)], number=1, aborted=[(5, 3, 6, 1), (1, 0, 7, 1), (5, 3, 9, 10)])
    assert collect(tier, 0, 10) == ([(1, 0), (5, 3)], True, 10)


def test_a_lost_snapshot_makes_the_search_continue(tier):
    first = tier.add([batch(0, 10)], number=1)
    tier.remove(first, ObjectKind.PRODUCER_SNAPSHOT)
    second = tier.add([batch(10, 10)], number=2)
    assert collect(tier, 0, 10) == ([], True, 20)
    tier.put(second, ObjectKind.PRODUCER_SNAPSHOT, b"damaged")
    assert collect(tier, 0, 10) == ([], False, 20)


def test_a_damaged_transaction_index_raises(tier):
    segment = tier.add([batch(0, 10)], number=1)
    tier.put(segment, ObjectKind.TRANSACTION_INDEX, b"damaged")
    with pytest.raises(CorruptIndexError):
        collect(tier, 0, 10)


def test_markers_after_the_lineage_leaves_a_segment_do_not_count(tier):
    tier.add([batch(0, 20)], number=1, aborted=[(1, 2, 5, 3), (2, 3, 15, 16)])
    tier.add([batch(10, 10, epoch=1)], number=2, epochs=[(1, 10)], aborted=[(2, 3, 18, 19)])
    assert collect(tier, 0, 10, lineage=[(0, 0), (1, 10)]) == ([(1, 2), (2, 3)], True, 20)
    assert collect(tier, 0, 4, lineage=[(0, 0), (3, 12)]) == ([(1, 2)], False, 12)


def test_a_local_tail_completes_the_list_of_the_tier(tier):
    tier.add([batch(0, 10)], number=1, open_transactions=[(1, 4)])
    aborted = TransactionIndex([AbortedTxn(1, 4, 12, 11)])
    assert collect(tier, 0, 10, tail=aborted) == ([(1, 4)], True, 10)
    assert collect(tier, 0, 10, tail=TransactionIndex()) == ([], False, 10)
    decided = TransactionIndex([AbortedTxn(9, 11, 12, 13)])
    assert collect(tier, 0, 10, tail=decided) == ([], True, 10)


def test_a_local_tail_without_a_snapshot_is_not_enough(tier):
    first = tier.add([batch(0, 10)], number=1)
    tier.remove(first, ObjectKind.PRODUCER_SNAPSHOT)
    assert collect(tier, 0, 10, tail=TransactionIndex()) == ([], False, 10)


def test_undecided_transactions_are_open_at_the_end_of_the_segment(tier):
    tier.add([batch(0, 20)], number=1, open_transactions=[(1, 4)])
    indexes = RemoteIndexCache(tier.store, LAYOUT)
    whole = log_of(tier).segment_for_offset(0)
    assert undecided_transactions(indexes, whole) == (AbortedTransaction(1, 4),)
    cut = log_of(tier, (0, 0), (1, 10)).segment_for_offset(0)
    assert undecided_transactions(indexes, cut) is None


@pytest.mark.parametrize(("marker", "found"), [(11, [(2, 3)]), (12, [])])
def test_a_marker_at_the_offset_where_the_lineage_leaves_does_not_count(tier, marker, found):
    tier.add([batch(0, 20)], number=1, aborted=[(2, 3, marker, 3)])
    assert collect(tier, 0, 4, lineage=[(0, 0), (3, 12)]) == (found, False, 12)
