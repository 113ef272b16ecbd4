from __future__ import annotations

import threading

import attrs
import pytest

from kafka_remote_client.errors import CorruptIndexError, ObjectNotFoundError
from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.layout import ObjectKind
from tests.support.tier import LAYOUT, MemoryStore, Tier, batch, offset_entries
from tests.support.waiting import wait_until


@pytest.fixture
def tier():
    return Tier()


@pytest.fixture
def segment(tier):
    return tier.add(
        [batch(0, 5), batch(5, 5)], number=1, indexed=[1], aborted=[(7, 0, 9, 10)], open_transactions=[(8, 4), (9, -1)]
    )


@pytest.fixture
def cache(tier):
    return RemoteIndexCache(tier.store, LAYOUT)


def test_each_object_is_read_once(tier, segment, cache):
    for _ in range(2):
        assert [e.offset for e in cache.offset_index(segment)] == [9]
        assert cache.time_index(segment).last_entry().timestamp == 1009
        assert [e.producer_id for e in cache.transaction_index(segment)] == [7]
        assert [e.epoch for e in cache.leader_epochs(segment)] == [0]
        assert cache.open_transactions(segment) == (AbortedTransaction(8, 4),)
        assert cache.batch_header(segment, 0).last_offset == 4
    assert len(tier.store.calls) == 6
    assert cache.nbytes > 0


def test_a_transaction_index_known_to_be_empty_is_not_read(tier, segment, cache):
    assert len(cache.transaction_index(attrs.evolve(segment, txn_index_empty=True))) == 0
    assert tier.store.calls == []


def test_a_missing_transaction_index_is_empty_and_remembered(tier, segment, cache):
    tier.remove(segment, ObjectKind.TRANSACTION_INDEX)
    for _ in range(2):
        assert len(cache.transaction_index(segment)) == 0
    assert tier.store.reads(".txnindex") == 1


@pytest.mark.parametrize("method", ["offset_index", "time_index", "leader_epochs", "open_transactions"])
def test_another_missing_object_raises_and_is_requested_again(tier, segment, cache, method):
    tier.store.objects.clear()
    for _ in range(2):
        with pytest.raises(ObjectNotFoundError):
            getattr(cache, method)(segment)
    assert len(tier.store.calls) == 2


def test_an_index_that_points_beyond_its_segment_raises(tier, segment, cache):
    tier.put(segment, ObjectKind.OFFSET_INDEX, offset_entries((10, 50)))
    with pytest.raises(CorruptIndexError):
        cache.offset_index(segment)


def test_the_most_recently_used_indexes_stay_within_the_bound(tier):
    segments = [tier.add([batch(n * 10, 10)], number=n + 1) for n in range(4)]
    cache = RemoteIndexCache(tier.store, LAYOUT, max_bytes=1200)
    for segment in segments[:3]:
        cache.leader_epochs(segment)
    cache.leader_epochs(segments[0])
    cache.leader_epochs(segments[3])
    assert cache.nbytes <= 1200
    tier.store.calls.clear()
    cache.leader_epochs(segments[0])
    cache.leader_epochs(segments[3])
    assert tier.store.calls == []
    cache.leader_epochs(segments[1])
    assert len(tier.store.calls) == 1


def test_the_newest_index_stays_even_above_the_bound(tier, segment):
    cache = RemoteIndexCache(tier.store, LAYOUT, max_bytes=1)
    cache.offset_index(segment)
    cache.offset_index(segment)
    assert len(tier.store.calls) == 1
    cache.time_index(segment)
    cache.offset_index(segment)
    assert len(tier.store.calls) == 3


def test_threads_that_ask_for_the_same_object_share_one_read(tier, segment, cache):
    get = tier.store.get
    go = threading.Event()

    def slow_get(key):
        assert go.wait(60)
        return get(key)

    tier.store.get = slow_get
    found = []
    threads = [threading.Thread(target=lambda: found.append(cache.leader_epochs(segment))) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: cache.statistics().misses == len(threads), "all threads to have asked", pause=0.01)
    go.set()
    for thread in threads:
        thread.join(60)
    assert found == [found[0]] * len(threads)
    assert tier.store.reads(".leader_epoch_checkpoint") == 1
    assert cache.leader_epochs(segment) == found[0]
    told = cache.statistics()
    assert (told.hits, told.misses, told.evictions, told.nbytes) == (1, len(threads), 0, cache.nbytes)


def test_the_etag_of_a_log_is_read_once_if_the_store_has_it(tier, segment):
    assert RemoteIndexCache(tier.store, LAYOUT).etag(segment) is None

    class Versioned(MemoryStore):
        def etag(self, key):
            self.calls.append(("etag", key, 0, 0))
            return self.told

    for told in ('"v1"', None):
        store = Versioned()
        store.told = told
        cache = RemoteIndexCache(store, LAYOUT)
        assert [cache.etag(segment), cache.etag(segment)] == [told, told]
        assert store.calls == [("etag", LAYOUT.object_key(segment, ObjectKind.LOG), 0, 0)]
