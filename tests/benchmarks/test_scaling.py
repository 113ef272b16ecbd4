"""Synthetic tiers are what Kafka would have written, and figures come to what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.records import read_batches
from tests.benchmarks.in_flight_real import cell_of
from tests.benchmarks.running import ROOT
from tests.benchmarks.scaling import rows, tiers
from tests.benchmarks.synthetic_tier import BATCH_BYTES, StoreProcess, SyntheticTier, signer_of, write_tier

MIB = 1 << 20


def test_segments_have_batches_whose_offsets_continue(tmp_path: Path) -> None:
    write_tier(tmp_path, SyntheticTier(2, 2, 3))
    for number in range(2):
        log = (tmp_path / f"segment-{number:05d}.log").read_bytes()
        assert len(log) == 3 * BATCH_BYTES
        block = read_batches(log)
        assert [block.offset(index) for index in range(len(block))] == [3 * number, 3 * number + 1, 3 * number + 2]


def test_a_location_is_the_window_in_ranges_within_its_segment() -> None:
    tier, signer = SyntheticTier(2, 2, 10), signer_of("http://127.0.0.1:1")
    found = tier.locate(1, 14, 4 * BATCH_BYTES, 2 * BATCH_BYTES, signer)
    assert found is not None
    assert (found.metadata.start_offset, found.metadata.end_offset, found.next_offset) == (10, 19, 18)
    spans = [(one.range.start // BATCH_BYTES, one.range.end // BATCH_BYTES) for one in found.ranges]
    assert spans == [(4, 6), (6, 8)]
    last = tier.locate(1, 19, 4 * BATCH_BYTES, 2 * BATCH_BYTES, signer)
    assert last is not None
    assert last.next_offset == 20
    assert tier.locate(1, 20, BATCH_BYTES, BATCH_BYTES, signer) is None


def test_tiers_of_one_kind_have_the_same_bytes() -> None:
    sizes = {kind: {tier.nbytes for (name, _), tier in tiers(1024).items() if name == kind} for kind in ("segment MiB",)}
    assert sizes == {"segment MiB": {1024 * MIB}}
    assert [tier.nbytes // MIB for (kind, _), tier in tiers(1024).items() if kind == "partitions"] == [1024, 1023, 1018, 1000]
    assert [tier.nbytes // MIB for (kind, _), tier in tiers(1024).items() if kind == "total MiB"] == [256, 512, 1024, 2048]


def test_rows_compare_the_time_of_a_byte_with_the_first_row() -> None:
    def run(seconds: float, peak: int = 0) -> dict[str, Any]:
        counts = {"gets": 3, "hedges": 0, "locations": 1, "errors": {"unavailable": 1}}
        return {"seconds": seconds, "bytes": 2 * MIB, "peak_bytes": peak, "budget_bytes": 10 * MIB, **counts}

    one, two = rows({("total MiB", 1): [run(1.0), run(9.0), run(2.0)], ("total MiB", 2): [run(3.0, 43 * MIB)]})
    assert (one["mib_per_second"], one["over_first"], one["within"]) == (1.0, 1.0, True)
    assert (two["over_first"], two["within"]) == (1.5, False)
    assert (one["failed_gets"], two["failed_gets"]) == (3, 1)


def test_a_cell_compares_medians_with_the_best_fixed_setting() -> None:
    fixed = {(MIB, 8): [100e6, 300e6, 110e6], (4 * MIB, 16): [200e6, 200e6, 200e6]}
    assert cell_of([190e6, 10e6, 180e6], fixed) == {
        "megabytes_per_second": 180,
        "best_fixed": {"megabytes_per_second": 200, "range_mib": 4.0, "in_flight": 16},
        "ratio": 0.9,
    }


@pytest.mark.parametrize("setting", [{}, {"in_flight": 4, "range_bytes": MIB}])
def test_a_tier_is_read_to_its_end(tmp_path: Path, setting: dict[str, int]) -> None:
    tier = SyntheticTier(3, 2, 20)
    write_tier(tmp_path, tier)
    with StoreProcess(tmp_path, 0.001) as store:
        shape = {"partitions": 3, "segments": 2, "batches": 20}
        task = {"tier": shape, "url": store.url, "latency": 0.001, "seconds": 60, **setting}
        command = [sys.executable, "-m", "tests.benchmarks.engine_reading"]
        done = subprocess.run(command, cwd=ROOT, input=json.dumps(task), capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    assert result["finished"]
    assert result["errors"] == {}
    assert result["bytes"] == tier.nbytes
