"""Durations are counted by upper bound."""

from __future__ import annotations

from kafka_remote_client.shim.durations import BOUNDS, Durations


def test_each_bound_counts_durations_up_to_it() -> None:
    durations = Durations()
    for seconds in (0.0005, 0.001, 0.002, 60.0):
        durations.add(seconds)
    counts, total = durations.snapshot()
    assert len(counts) == len(BOUNDS) + 1
    assert [counts[BOUNDS.index(bound)] for bound in (0.0005, 0.001, 0.0025)] == [1, 2, 3]
    assert counts[-2:] == [3, 4]
    assert abs(total - 60.0035) < 1e-9
