"""The cache drops the least recently used answer first."""

from __future__ import annotations

from kafka_remote_client.location.lru_cache import LruCache


def test_the_least_recently_used_answer_is_dropped() -> None:
    memory: LruCache[str] = LruCache(2)
    memory.put("a", "A")
    memory.put("b", "B")
    assert memory.get("a") == "A"
    memory.put("c", "C")
    assert memory.get("b") is None
    assert (memory.get("a"), memory.get("c"), len(memory)) == ("A", "C", 2)


def test_a_newer_value_replaces_an_older_one() -> None:
    memory: LruCache[str] = LruCache(2)
    memory.put("a", "A")
    memory.put("a", "AA")
    assert (memory.get("a"), len(memory)) == ("AA", 1)
