from __future__ import annotations

import threading

import pytest

from kafka_remote_client.remote_log.loading_cache import LoadingCache, SingleFlight
from tests.support.locations import ManualClock
from tests.support.waiting import wait_until


class Loader:
    """Loads when the test says so, and counts."""

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
    """Starts threads that call ``ask``; a function that joins them and gives what each got or raised."""
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


def test_many_who_ask_at_once_share_one_load():
    cache, load = LoadingCache(1000), Loader(("value", 10))
    joined = together(8, lambda: cache.get("a", load))
    wait_until(lambda: cache.statistics().misses == 8, "all to have asked", pause=0.01)
    load.go.set()
    assert joined() == ["value"] * 8
    assert load.loads == 1
    assert cache.get("a", load) == "value"
    assert cache.statistics().hits == 1


def test_a_failure_reaches_all_who_wait_and_is_not_kept():
    cache, load = LoadingCache(1000), Loader(OSError("gone"), ("value", 10))
    joined = together(4, lambda: cache.get("a", load))
    wait_until(lambda: cache.statistics().misses == 4, "all to have asked", pause=0.01)
    load.go.set()
    results = joined()
    # One that was late enough to come after the failure loads anew, which is allowed.
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


def test_who_waits_for_a_thread_that_is_interrupted_loads_itself():
    flights, load = SingleFlight(), Loader(KeyboardInterrupt(), "value")
    first = together(1, lambda: flights.do("a", load))
    assert load.begun.wait(60)
    second = together(1, lambda: flights.do("a", load))
    load.go.set()
    assert [type(result) for result in first()] == [KeyboardInterrupt]
    assert second() == ["value"]


def test_what_is_loaded_is_bounded_in_bytes_and_time():
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


def test_a_load_that_raises_leaves_the_way_free():
    flights = SingleFlight()
    with pytest.raises(ZeroDivisionError):
        flights.do("a", lambda: 1 // 0)
    assert flights.do("a", lambda: 1) == 1
