"""A measurement counts for the side that it measured, and for no other; a run goes through, however small."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.consumer import Cell, cells, impurity, ratios
from tests.benchmarks.running import ROOT


def _direct(*, from_store: int, from_broker: int = 0, fallbacks: dict[str, int] | None = None) -> dict[str, Any]:
    metrics = {
        "remote-fetch-records-total": from_store,
        "broker-fetch-records-total": from_broker,
        "remote-fetch-fallbacks-total": fallbacks or {},
    }
    return {"records": 100, "metrics": metrics}


def _measured(speed: float, cpu: float = 1.0) -> dict[str, float]:
    return {"mib_per_second": speed, "cpu_ns_per_record": cpu}


def test_direct_run_with_all_records_from_the_store_counts() -> None:
    assert impurity("direct", _direct(from_store=100)) is None
    assert impurity("direct", _direct(from_store=96, from_broker=4), partitions=24) is None


@pytest.mark.parametrize(
    "result",
    [
        _direct(from_store=0, from_broker=100, fallbacks={"forbidden-location": 1}),
        _direct(from_store=99, from_broker=1),
        _direct(from_store=100, fallbacks={"timeout": 1}),
        _direct(from_store=50),
    ],
)
def test_direct_run_that_the_broker_served_in_part_does_not_count(result: dict[str, Any]) -> None:
    assert impurity("direct", result) is not None


def test_with_many_partitions_the_broker_may_serve_a_few_records() -> None:
    assert impurity("direct", _direct(from_store=90, from_broker=10), partitions=24) is not None


def test_direct_run_of_local_records_counts_only_without_the_store() -> None:
    assert impurity("direct", _direct(from_store=0, from_broker=100), local=True) is None
    assert impurity("direct", _direct(from_store=1, from_broker=99), local=True) is not None


def test_run_of_the_broker_needs_no_metrics_but_records() -> None:
    assert impurity("broker", {"records": 1, "metrics": {}}) is None
    assert impurity("broker", {"records": 0, "metrics": {}}) == "read nothing"


def test_each_row_gets_its_applicable_cells() -> None:
    wanted = cells(["plain", "local", "queue", "disabled"], [100], [0, 20], ["consume", "poll"], ["default"])
    assert {cell.latency_ms for cell in wanted if cell.row == "plain"} == {0, 20}
    assert {cell.latency_ms for cell in wanted if cell.row != "plain"} == {0}
    assert {(cell.api, cell.settings) for cell in wanted if cell.row == "queue"} == {("poll", "queue")}
    assert {cell.side for cell in wanted if cell.row == "disabled"} == {"broker", "disabled"}
    assert {cell.settings for cell in wanted if cell.row == "plain"} == {"default"}


def test_ratios_compare_direct_with_broker_cells_of_one_place() -> None:
    place = ("plain", 100, 0, "consume")
    ours = {Cell(*place, "direct", "default"): _measured(4.0, cpu=100.0)}
    assert ratios(ours) == []
    theirs = {Cell(*place, "broker", "default"): _measured(1.0), Cell(*place, "broker", "tuned"): _measured(2.0, cpu=300.0)}
    assert ratios(theirs) == []
    (row,) = ratios(ours | theirs)
    assert row["over"] == {"direct default/default": 4.0, "direct default/tuned": 2.0, "direct default/best": 2.0}
    assert row["cpu_over"]["direct default/tuned"] == 3.0


@pytest.mark.broker
def test_a_tiny_run_measures_its_rows(tmp_path: Path) -> None:
    written, rows = tmp_path / "report.json", ("tls", "local")
    size = ("--megabytes", "2", "--segment-mib", "1", "--record-bytes", "1024", "--rounds", "1", "--latency-ms", "0")
    few = ("--settings", "default", "--api", "poll", "--seconds", "30", "--directory", str(tmp_path), "--json", str(written))
    command = [sys.executable, "-m", "tests.benchmarks.consumer", "--rows", *rows, *size, *few]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    report = json.loads(written.read_text())
    assert {row["row"] for row in report["ratios"]} == set(rows)
    assert report["impure"] == []
