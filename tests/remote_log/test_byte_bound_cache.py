from __future__ import annotations

from kafka_remote_client.remote_log.byte_bound_cache import ByteBoundCache


def test_what_was_put_is_found_and_the_first_value_stays():
    cache = ByteBoundCache(10_000)
    assert cache.get("a") is None
    cache.put("a", 1, 10)
    size = cache.nbytes
    cache.put("a", 2, 10)
    assert (cache.get("a"), cache.nbytes) == (1, size)


def test_what_was_used_last_stays_within_the_bound():
    cache = ByteBoundCache(3000)
    for name in "abc":
        cache.put(name, name, 600)
    assert cache.get("a") == "a"
    cache.put("d", "d", 600)
    assert [cache.get(name) for name in "abcd"] == ["a", None, "c", "d"]
    assert cache.nbytes <= 3000


def test_the_newest_stays_even_when_it_alone_is_above_the_bound():
    cache = ByteBoundCache(1)
    cache.put("a", 1, 1000)
    assert cache.get("a") == 1
    cache.put("b", 2, 1000)
    assert (cache.get("a"), cache.get("b")) == (None, 2)
