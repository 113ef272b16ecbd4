from __future__ import annotations

from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.remote_log.byte_bound_cache import ByteBoundCache
from tests.support.locations import ManualClock


def test_a_value_is_found_and_the_first_one_stays():
    cache = ByteBoundCache(10_000)
    assert cache.get("a") is None
    cache.put("a", 1, 10)
    size = cache.nbytes
    cache.put("a", 2, 10)
    assert (cache.get("a"), cache.nbytes) == (1, size)


def test_the_most_recently_used_values_stay_within_the_bound():
    cache = ByteBoundCache(3000)
    for name in "abc":
        cache.put(name, name, 600)
    assert cache.get("a") == "a"
    cache.put("d", "d", 600)
    assert [cache.get(name) for name in "abcd"] == ["a", None, "c", "d"]
    assert cache.nbytes <= 3000


def test_a_full_cache_holds_values_and_256_bytes_for_each():
    cache = ByteBoundCache(2 * (600 + 256))
    for name in "ab":
        cache.put(name, name, 600)
    assert (cache.get("a"), cache.get("b"), cache.nbytes) == ("a", "b", 2 * (600 + 256))
    cache.put("c", "c", 0)
    assert (cache.get("a"), cache.nbytes) == (None, 600 + 2 * 256)


def test_the_newest_value_stays_even_above_the_bound():
    cache = ByteBoundCache(1)
    cache.put("a", 1, 1000)
    assert cache.get("a") == 1
    cache.put("b", 2, 1000)
    assert (cache.get("a"), cache.get("b")) == (None, 2)


def test_no_value_stays_longer_than_its_time_however_often_it_is_used():
    clock = ManualClock()
    cache = ByteBoundCache(10_000, ttl_seconds=60, clock=clock)
    cache.put("a", 1, 10)
    clock.now += 59
    assert cache.get("a") == 1
    clock.now += 1
    assert (cache.get("a"), cache.nbytes) == (None, 0)
    cache.put("a", 2, 10)
    assert cache.get("a") == 2


def test_by_default_a_value_stays_for_an_hour():
    clock = ManualClock()
    cache = ByteBoundCache(10_000, clock=clock)
    cache.put("a", 1, 10)
    clock.now += 3599
    assert cache.get("a") == 1
    clock.now += 1
    assert cache.get("a") is None


def test_statistics_count_hits_misses_and_drops():
    cache = ByteBoundCache(1)
    cache.get("a")
    cache.put("a", 1, 1000)
    cache.get("a")
    assert (cache.peek("a"), cache.peek("b")) == (1, None)
    cache.put("b", 2, 500)
    assert cache.statistics() == CacheStatistics(hits=1, misses=1, evictions=1, nbytes=cache.nbytes)
    assert cache.nbytes > 500
    cache.put("c", 3, 500)
    assert cache.statistics().evictions == 2
    assert [cache.get("a"), cache.get("c"), cache.get("c")] == [None, 3, 3]
    assert (cache.statistics().misses, cache.statistics().hits) == (2, 3)


def test_peek_ignores_an_expired_value():
    clock = ManualClock()
    cache = ByteBoundCache(10_000, ttl_seconds=60, clock=clock)
    cache.put("a", 1, 10)
    clock.now += 60
    assert cache.peek("a") is None
    cache.put("a", 2, 10)
    assert cache.peek("a") == 2


def test_recorded_misses_count():
    cache = ByteBoundCache(1)
    cache.note_miss()
    cache.note_miss()
    assert cache.statistics().misses == 2
