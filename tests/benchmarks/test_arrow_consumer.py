"""What the script compares is the same work, and its ratios say which way is faster."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.arrow_consumer import WAYS, measured, ratios
from tests.support.batches import Rec, batch


def test_decoders_without_a_cluster_read_all_segments(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.log").write_bytes(batch(0, [Rec(n, None, b"value") for n in range(5)]))
    task = {"topic": "t", "directory": str(tmp_path)}
    for way in ("decode", "arrow of files"):
        ticks: list[None] = []
        assert WAYS[way](task, lambda ticks=ticks: ticks.append(None)) == 10
        assert len(ticks) == 2
        assert measured({**task, "way": way}).keys() == {"seconds", "cpu_seconds"}


def test_a_ratio_above_one_means_consume_arrow_is_faster() -> None:
    found = {
        "consume": {"seconds": 3.0, "cpu_seconds": 2.0},
        "consume_arrow": {"seconds": 1.0, "cpu_seconds": 0.5},
        "arrow of files": {"seconds": 1.0, "cpu_seconds": 0.25},
        "decode": {"seconds": 0.5, "cpu_seconds": 0.1},
    }
    assert list(ratios(found).values()) == [3.0, 4.0, 0.5, 0.5]
