"""Without reads, cached values are returned; a missing value is distinguished from a failure."""

from __future__ import annotations

import threading

import pytest

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.remote_log.breaker_store import guarded_store
from kafka_remote_client.remote_log.kept_only import NotKeptError, about_to_read, is_kept_only, kept_only
from kafka_remote_client.remote_log.loading_cache import LoadingCache, SingleFlight
from tests.support.tier import MemoryStore


def loaded() -> tuple[str, int]:
    return "loaded", 1


def test_reads_are_allowed_by_default() -> None:
    about_to_read()
    with kept_only():
        assert is_kept_only()
        with kept_only(on=False):
            about_to_read()
        with pytest.raises(NotKeptError):
            about_to_read()
    assert not is_kept_only()
    about_to_read()


def test_an_exception_ends_the_restriction_too() -> None:
    with pytest.raises(NotKeptError), kept_only():
        about_to_read()
    about_to_read()


def test_the_restriction_applies_to_its_own_thread_only() -> None:
    seen: list[bool] = []
    with kept_only():
        other = threading.Thread(target=lambda: seen.append(is_kept_only()))
        other.start()
        other.join()
    assert seen == [False]


def test_a_cache_returns_its_values_and_loads_nothing() -> None:
    cache: LoadingCache[str] = LoadingCache(100)
    with kept_only(), pytest.raises(NotKeptError):
        cache.get("key", loaded)
    assert cache.statistics().misses == 0
    assert cache.get("key", loaded) == "loaded"
    with kept_only():
        assert cache.get("key", lambda: ("another", 1)) == "loaded"


def test_a_load_in_another_thread_is_not_waited_for() -> None:
    cache: LoadingCache[str] = LoadingCache(100)
    began, go_on = threading.Event(), threading.Event()

    def slow() -> tuple[str, int]:
        began.set()
        assert go_on.wait(60)
        return loaded()

    other = threading.Thread(target=lambda: cache.get("key", slow))
    other.start()
    assert began.wait(60)
    with kept_only(), pytest.raises(NotKeptError):
        cache.get("key", loaded)
    go_on.set()
    other.join()
    with kept_only():
        assert cache.get("key", slow) == "loaded"


def test_no_call_is_made_or_joined() -> None:
    flights: SingleFlight[str] = SingleFlight()
    assert flights.offer("key", lambda: "offered") is not None
    with kept_only(), pytest.raises(NotKeptError):
        flights.do("key", lambda: "mine")
    assert flights.do("key", lambda: "mine") == "offered"


def test_the_store_gets_no_request() -> None:
    inner = MemoryStore()
    inner.objects["a"] = b"abc"
    store = guarded_store(inner, SystemClock(), failures=1)
    with kept_only():
        for read in (lambda: store.get("a"), lambda: store.get_range("a", 0, 1), lambda: store.size("a")):
            with pytest.raises(NotKeptError):
                read()
    assert store.get("a") == b"abc", "the breaker did not notice"
