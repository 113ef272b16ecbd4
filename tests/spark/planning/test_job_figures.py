from __future__ import annotations

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.spark.planning.job_figures import JobFigures, Prices, counted_figures, side_by_side
from tests.support.locations import ManualClock

PLANNED = JobFigures(
    splits=2, segments=3, segment_bytes=3000, gets=12_345, read_bytes=2_000_000_000, records=9, dollars=0.00494, seconds=3.25
)


def test_gets_and_bytes_have_a_price() -> None:
    assert Prices().of(2_000_000, 10**12) == pytest.approx(0.8)
    assert Prices(per_1000_gets=0.005, per_gb=0.09).of(1000, 2 * 10**9) == pytest.approx(0.185)


def test_figures_come_from_counters() -> None:
    metrics = FetchMetrics(ManualClock())
    metrics.range_done(600, 0.1)
    metrics.range_done(400, 0.1, "timeout")
    metrics.segment_opened(5000)
    metrics.add("remote-fetch-records-total", 7)
    metrics.add("broker-fetch-records-total", 2)
    found = counted_figures(metrics.snapshot(), splits=3, seconds=1.5, prices=Prices(per_1000_gets=1.0))
    assert found == JobFigures(3, 1, 5000, 2, 1000, 9, 0.002, 1.5)


def test_missing_counters_are_unknown() -> None:
    found = counted_figures({"remote-fetch-request-total": 5, "remote-fetch-bytes-total": 100})
    assert attrs.astuple(found)[:3] == (None, None, None)
    assert (found.records, found.seconds) == (None, None)


@pytest.mark.parametrize(
    "counters", [{}, {"remote-fetch-request-total": 1}, {"remote-fetch-request-total": True, "remote-fetch-bytes-total": "1"}]
)
def test_other_values_than_counters_are_refused(counters: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="not counters"):
        counted_figures(counters)


def test_a_plan_and_its_counters_are_shown_next_to_each_other() -> None:
    counted = attrs.evolve(PLANNED, splits=None, seconds=2.0, dollars=0.1)
    assert side_by_side({"planned": PLANNED, "counted": counted}, ["gets", "seconds"]).splitlines() == [
        "                     planned        counted",
        "splits                     2              ?",
        "segments                   3              3",
        "segment bytes          3,000          3,000",
        "gets                 ~12,345         12,345",
        "read bytes     2,000,000,000  2,000,000,000",
        "records                    9              9",
        "dollars               0.0049         0.1000",
        "seconds                 ~3.2            2.0",
    ]
