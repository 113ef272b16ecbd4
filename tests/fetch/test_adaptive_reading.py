"""Adaptive ranges: no fixed setting of their number and size is much faster. Runs in virtual time."""

from __future__ import annotations

import pytest

from kafka_remote_client.config import RemoteFetchConfig
from tests.benchmarks.in_flight import LEAST_RATIO, best_fixed, measured
from tests.support.virtual_reading import VirtualReading, distant

MIB = 1 << 20
SETTINGS = tuple((size * MIB, number) for size, number in [(1, 64), (2, 32), (4, 16), (8, 8)])


@pytest.mark.parametrize(
    ("round_trip", "per_connection", "partitions"),
    [(0.0, None, 1), (0.05, 40_000_000, 1), (0.2, None, 1), (0.2, None, 100)],
)
def test_no_fixed_setting_is_much_faster(round_trip: float, per_connection: float | None, partitions: int) -> None:
    store = distant(round_trip, per_connection)
    ours = measured(store, partitions, 1_000_000_000, 1_000)
    best, setting = best_fixed(store, partitions, 1_000_000_000, 1_000, SETTINGS)
    assert ours.bytes_per_second >= LEAST_RATIO * best.bytes_per_second, setting


def test_ranges_are_small_only_where_memory_is_short_for_slow_connections() -> None:
    near, far, slow = (
        measured(store, 1, 1_000_000_000, 1_000).gets for store in (distant(0.0), distant(0.2), distant(0.2, 40e6))
    )
    assert 1.25 * far < slow
    assert near < far, "ranges begin small, and grow where GETs of twice the size take hardly longer"


def test_ranges_have_their_full_size_after_the_second_window() -> None:
    reading = VirtualReading(RemoteFetchConfig(enabled=True), distant(0.02), application_bytes_per_second=700_000_000)
    assert reading.run(300).gets < 64, "2 of 128 KiB, 8 of 2 MiB, 36 of 8 MiB, and what is read ahead"


def test_ranges_in_flight_never_exceed_the_setting() -> None:
    reading = VirtualReading(RemoteFetchConfig(enabled=True, max_in_flight=3), distant(0.2))
    assert reading.run(200).most_in_flight == 3
