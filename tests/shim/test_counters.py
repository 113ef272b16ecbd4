"""Counters count from any thread."""

from __future__ import annotations

import threading

from kafka_remote_client.shim.counters import Counters


def test_counts_from_several_threads() -> None:
    counters = Counters()
    threads = [threading.Thread(target=lambda: [counters.add("n") for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters["n"] == 4000


def test_a_snapshot_is_sorted_and_a_copy() -> None:
    counters = Counters()
    counters.add("b", 2)
    counters.add("a")
    snapshot = counters.snapshot()
    counters.add("a")
    assert list(snapshot.items()) == [("a", 1), ("b", 2)]
    assert counters["never"] == 0
