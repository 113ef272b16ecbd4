"""Late and lost answers and 503s in virtual time: small samples of tests/benchmarks/tail_latency.py."""

from __future__ import annotations

import pytest

from kafka_remote_client.testing import FixedLatency
from tests.benchmarks.tail_latency import late, slow, throttled


@pytest.mark.parametrize(
    ("share", "cap", "partitions", "megabytes"), [(0.02, 3, 1, 800), (0.02, 3, 24, 1_600), (0.05, 8, 1, 800)]
)
def test_late_and_lost_answers_cost_a_tenth_at_most(share: float, cap: int, partitions: int, megabytes: int) -> None:
    """In a shorter read of 24 partitions the other partitions hide each late answer."""
    figures, missed = late(FixedLatency(0.02), share, cap, partitions, megabytes=megabytes)
    assert missed == [], figures
    assert figures["ratio_without_hedges"] < figures["ratio"]


def test_a_store_that_becomes_ten_times_slower_gets_few_hedges() -> None:
    figures, missed = slow(1, megabytes=800)
    assert missed == [], figures


@pytest.mark.parametrize("partitions", [1, 24])
def test_the_client_settles_below_the_rate_of_503s(partitions: int) -> None:
    figures, missed = throttled(partitions, megabytes=2_000)
    assert missed == [], figures
