"""What the figures of a first record come to, and which targets they miss."""

from __future__ import annotations

from tests.benchmarks.first_record import MOST_MS, missed, row


def test_a_row_has_medians_in_milliseconds() -> None:
    made = row(20, [0.030, 0.026, 0.5], [0.025, 0.024, 0.9], 1.0, 25_000.0)
    assert (made["latency_ms"], made["read_ms"], made["parts_ms"], round(made["more_ms"], 6)) == (20, 30.0, 25.0, 5.0)


def test_more_than_the_target_is_missed() -> None:
    rows = [row(latency, [0.030 + more], [0.030], 1.0, 1.0) for latency, more in ((20, 0.0049), (50, 0.0051))]
    assert missed(rows) == ["missed: 50 ms: 5.1 ms more"]
    assert MOST_MS == 5.0
