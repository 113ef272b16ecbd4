from __future__ import annotations

import threading

import pytest

from kafka_remote_client.remote_log.loading_cache import LoadingCache, SingleFlight
from tests.support.locations import ManualClock
from tests.support.waiting import wait_until


class Loader:
    """A load function that counts its calls and waits for the test."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.loads = 0
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self):
        self.loads += 1
        self.begun.set()
        assert self.go.wait(60)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def together(count, ask):
    """Starts threads that call ``ask``. Returns a function that joins them and returns what each got or raised."""
    results = []

    def run():
        try:
            results.append(ask())
        except BaseException as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()

    def joined():
        for thread in threads:
            thread.join(60)
        return results

    return joined


def test_concurrent_callers_share_one_load():
    cache, load = LoadingCache(1000), Loader(("value", 10))
    joined = together(8, lambda: cache.get("a", load))
    wait_until(lambda: cache.statistics().misses == 8, "all to have asked", pause=0.01)
    load.go.set()
    assert joined() == ["value"] * 8
    assert load.loads == 1
    assert cache.get("a", load) == "value"
    assert cache.statistics().hits == 1


def test_a_failure_reaches_all_waiting_callers_and_is_not_cached():
    cache, load = LoadingCache(1000), Loader(OSError("gone"), ("value", 10))
    joined = together(4, lambda: cache.get("a", load))
    wait_until(lambda: cache.statistics().misses == 4, "all to have asked", pause=0.01)
    load.go.set()
    results = joined()
    # A thread that began after the failure loads again, which is allowed.
    assert all(isinstance(result, OSError) or result == "value" for result in results)
    assert sum(isinstance(result, OSError) for result in results) >= 1
    if "value" not in results:
        assert cache.get("a", load) == "value"
    assert load.loads == 2
    assert cache.nbytes > 0


def test_other_keys_do_not_wait():
    flights, slow = SingleFlight(), Loader("slow")
    joined = together(1, lambda: flights.do("a", slow))
    assert slow.begun.wait(60)
    assert flights.do("b", lambda: "fast") == "fast"
    slow.go.set()
    assert joined() == ["slow"]


def test_a_caller_waiting_for_an_interrupted_thread_loads_itself():
    flights, load = SingleFlight(), Loader(KeyboardInterrupt(), "value")
    first = together(1, lambda: flights.do("a", load))
    assert load.begun.wait(60)
    second = together(1, lambda: flights.do("a", load))
    load.go.set()
    assert [type(result) for result in first()] == [KeyboardInterrupt]
    assert second() == ["value"]


def test_the_cache_is_bounded_in_bytes_and_time():
    clock = ManualClock()
    cache = LoadingCache(1, ttl_seconds=60, clock=clock)
    loads = []

    def load(key):
        loads.append(key)
        return key, 100

    for key in ("a", "a", "b", "a"):
        assert cache.get(key, lambda key=key: load(key)) == key
    assert loads == ["a", "b", "a"]
    clock.now += 60
    cache.get("a", lambda: load("a"))
    assert loads == ["a", "b", "a", "a"]


def test_a_load_that_raises_releases_its_key():
    flights = SingleFlight()
    with pytest.raises(ZeroDivisionError):
        flights.do("a", lambda: 1 // 0)
    assert flights.do("a", lambda: 1) == 1


def test_an_offer_is_loaded_by_the_thread_that_begins_it():
    cache, loads = LoadingCache(1000), []

    def load():
        loads.append(threading.current_thread())
        return "value", 10

    begin = cache.offer("a", load)
    assert (cache.has("a"), loads) == (True, [])
    worker = threading.Thread(target=begin)
    worker.start()
    worker.join(60)
    assert loads == [worker]
    assert cache.get("a", lambda: ("another", 10)) == "value"
    assert cache.statistics().misses == 1


def test_a_caller_before_the_pool_loads_the_offer_itself():
    cache, loads = LoadingCache(1000), []

    def load(value):
        loads.append(value)
        return value, 10

    begin = cache.offer("a", lambda: load("offered"))
    assert cache.get("a", lambda: load("asked")) == "offered"
    begin()
    assert loads == ["offered"]


def test_a_caller_waits_for_a_load_that_the_pool_began():
    cache, load = LoadingCache(1000), Loader(("value", 10))
    begun = together(1, cache.offer("a", load))
    assert load.begun.wait(60)
    asked = together(2, lambda: cache.get("a", load))
    wait_until(lambda: cache.statistics().misses == 3, "all to have asked", pause=0.01)
    load.go.set()
    assert (begun(), asked(), load.loads) == ([None], ["value"] * 2, 1)


def test_no_offer_is_made_for_a_cached_offered_or_started_load():
    cache, load = LoadingCache(1000), Loader(("value", 10))
    begin = cache.offer("a", load)
    assert cache.offer("a", load) is None
    joined = together(1, begin)
    assert load.begun.wait(60)
    assert cache.offer("a", load) is None
    load.go.set()
    joined()
    assert cache.offer("a", load) is None
    assert (cache.has("a"), cache.has("b"), cache.statistics().misses) == (True, False, 1)


def test_a_failed_offer_is_silent_and_releases_its_key():
    cache = LoadingCache(1000)
    begin = cache.offer("a", lambda: 1 // 0)
    begin()
    assert not cache.has("a")
    assert cache.get("a", lambda: ("value", 10)) == "value"


def test_a_failing_offer_fails_for_the_caller():
    cache = LoadingCache(1000)
    assert cache.offer("a", lambda: 1 // 0) is not None
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: ("value", 10))


def test_an_offer_started_by_another_thread_is_not_started_again():
    flights, calls = SingleFlight(), []
    begin = flights.offer("a", lambda: calls.append("offered"))
    flights.do("a", lambda: calls.append("asked"))
    begin()
    assert calls == ["offered"]


def test_a_call_is_offered_once():
    flights = SingleFlight()
    begin = flights.offer("a", lambda: "first")
    assert flights.offer("a", lambda: "second") is None
    begin()
    assert not flights.has("a")


def test_a_value_cached_since_the_offer_is_not_loaded_again():
    cache, load = LoadingCache(1000), Loader()
    begin = cache.offer("a", load)
    cache._entries.put("a", "value", 10)
    begin()
    assert (cache.get("a", load), load.loads) == ("value", 0)
