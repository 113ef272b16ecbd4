"""Figures of the field benchmark come to what was measured, each missed target has a line, and a run goes through."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.testing import AnswerKind, FixedLatency, LognormalLatency, StoreModel
from tests.benchmarks.field import Place, Target, figures, missed, rows
from tests.benchmarks.running import ROOT
from tests.benchmarks.topics import TieredTopic
from tests.support import artifacts
from tests.support.live_store import text_of_model

COLD = Place("cold", 2, 100, "none", 50)
MIB = 1 << 20
TOPIC = TieredTopic("t", 100, 150, 3, partitions=2, tiered=(100, 100), segment_bytes=(20 * MIB, 8 * MIB, 1))


def _result(positions: list[int], from_store: int, gets: int = 0, **fallbacks: int) -> dict[str, Any]:
    metrics = {
        "remote-fetch-records-total": from_store,
        "remote-fetch-request-total": gets,
        "remote-fetch-hedges-total": 1,
        "remote-fetch-over-read-bytes-total": 7,
        "remote-fetch-fallbacks-total": {cause.replace("_", "-"): count for cause, count in fallbacks.items()},
    }
    measured = {"first_seconds": 0.5, "mib_per_second": 100.0, "cpu_ns_per_record": 300.0, "servers_cpu_ns_per_record": 600.0}
    return {**measured, "servers": {"minio": 400.0, "proxy": 200.0}, "positions": positions, "metrics": metrics}


def _run(speed: float, **more: float) -> dict[str, float]:
    return {"mib_per_second": speed, **more}


def test_the_share_counts_tiered_records_only() -> None:
    assert figures("direct default", TOPIC, _result([100, 50], 150))["share"] == 1.0
    assert figures("direct default", TOPIC, _result([100, 50], 75))["share"] == 0.5
    assert figures("direct default", TOPIC, _result([130, 50], 150))["share"] == 1.0, "30 records were never in the tier"
    assert figures("direct default", TOPIC, _result([100, 50], 180))["share"] == 1.2, "30 records wait to be taken"
    assert figures("direct default", TOPIC, _result([0, 0], 0))["share"] == 0.0


def test_ideal_gets_are_ranges_of_full_size_of_the_part_read() -> None:
    found = figures("direct default", TOPIC, _result([100, 100], 200, gets=10))
    assert (found["gets_over_ideal"], found["gets"], found["hedges"]) == (2.0, 10, 1)
    assert figures("direct default", TOPIC, _result([100, 0], 100, gets=10))["gets_over_ideal"] == 4.0


def test_fallbacks_are_counted_and_those_of_locations_apart() -> None:
    found = figures("direct default", TOPIC, _result([9, 0], 9, location_unavailable=2, location_pending=1, timeout=4))
    assert (found["fallbacks"], found["location_fallbacks"]) == (7, 3)


def test_the_broker_path_has_only_wall_clock_figures() -> None:
    found = figures("broker tuned", TOPIC, {**_result([9, 0], 9), "metrics": {}})
    servers = {"servers_cpu_ns_per_record": 600.0, "minio_cpu_ns_per_record": 400.0, "proxy_cpu_ns_per_record": 200.0}
    assert found == {"first_seconds": 0.5, "mib_per_second": 100.0, "cpu_ns_per_record": 300.0, **servers}


def test_an_earlier_version_is_compared_by_its_own_counters() -> None:
    result = _result([100, 50], 120)
    del result["metrics"]["remote-fetch-hedges-total"]
    assert figures("direct before", TOPIC, result)["share"] == 0.8
    measured = {(COLD, "direct default"): [_run(48.0)], (COLD, "direct before"): [_run(50.0)]}
    assert missed(rows(measured), [Target("over_before", 0.97, latency_ms=50)]) == [
        "missed: cold 2 x 100 B none 50 ms: over_before is 0.96, not at least 0.97"
    ]


def test_row_has_medians_ratios_and_the_worst_rounds_fallbacks() -> None:
    measured = {
        (COLD, "broker default"): [_run(9.0), _run(10.0), _run(30.0)],
        (COLD, "direct default"): [_run(100.0, fallbacks=0), _run(20.0, fallbacks=3), _run(50.0, fallbacks=0)],
    }
    (row,) = rows(measured)
    assert row["over_default"] == 5.0
    assert "over_tuned" not in row
    assert row["figures"]["direct default"] == {"mib_per_second": 50.0, "fallbacks": 3}


def test_each_missed_target_has_a_line() -> None:
    ours = {(COLD, "direct default"): [_run(50.0, share=0.9, location_fallbacks=1)], (COLD, "broker default"): [_run(10.0)]}
    targets = (
        Target("over_default", 10, partitions=2),
        Target("over_default", 10, partitions=24),
        Target("over_default", 5, shim="cold"),
        Target("over_tuned", 100),
        Target("share", 0.98, shim="cold"),
        Target("location_fallbacks", most=0, shim="cold"),
    )
    assert missed(rows(ours), targets) == [
        "missed: cold 2 x 100 B none 50 ms: over_default is 5, not at least 10",
        "not measured: cold 2 x 100 B none 50 ms: over_tuned, to be at least 100",
        "missed: cold 2 x 100 B none 50 ms: share is 0.9, not at least 0.98",
        "missed: cold 2 x 100 B none 50 ms: location_fallbacks is 1, not at most 0",
    ]


@pytest.mark.broker
@pytest.mark.parametrize(
    "model",
    [
        StoreModel(FixedLatency(0.05)),
        StoreModel(LognormalLatency(0.02, 0.08), late_share=0.1, late_seconds=1.5, lost_share=0.05, requests_per_second=500),
    ],
    ids=["fixed", "all"],
)
def test_the_brokers_store_draws_its_answers_from_the_same_model(model: StoreModel) -> None:
    """5,000 answers, one each millisecond, of the class that the broker's store asks."""
    command = [artifacts.java(), "-cp", str(artifacts.our_classes()), "StoreModel", text_of_model(model), "5000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    kinds: dict[str, list[float]] = {kind.name: [] for kind in AnswerKind}
    for line in done.stdout.splitlines():
        kind, seconds = line.split()
        kinds[kind].append(float(seconds))
    shares = {kind: len(seconds) / 5000 for kind, seconds in kinds.items()}
    served = 1.0 if model.requests_per_second is None else model.requests_per_second / 1000
    assert shares["THROTTLED"] == pytest.approx(1 - served, abs=0.01)
    assert shares["LATE"] == pytest.approx(served * model.late_share, abs=0.02)
    assert shares["LOST"] == pytest.approx(served * model.lost_share, abs=0.02)
    times = sorted(kinds["ANSWERED"])
    if isinstance(model.latency, FixedLatency):
        assert set(times) == {model.latency.seconds}
    else:
        assert statistics.median(times) == pytest.approx(model.latency.p50, rel=0.1)
        assert times[int(0.99 * len(times))] == pytest.approx(model.latency.p99, rel=0.2)
        assert min(kinds["LATE"]) > model.late_seconds


@pytest.mark.broker
def test_a_tiny_run_measures_cold_and_warm_rows(tmp_path: Path) -> None:
    written = tmp_path / "report.json"
    size = ("--partitions", "2", "--megabytes", "2", "--record-bytes", "1024", "--codec", "none", "--rounds", "1")
    few = ("--latency-ms", "5", "--tail", "lognormal", "--seconds", "30", "--directory", str(tmp_path), "--json", str(written))
    command = [sys.executable, "-m", "tests.benchmarks.field", *size, *few]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    report = json.loads(written.read_text())
    assert done.returncode == (1 if report["missed"] else 0), done.stderr
    assert [row["place"]["shim"] for row in report["rows"]] == ["cold", "warm"]
    for row in report["rows"]:
        assert set(row["figures"]) == {"broker default", "broker tuned", "direct default"}
        assert row["figures"]["direct default"]["share"] >= 1.0
