"""The ratios of arrow_stream.py, and its ways over files."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.arrow_stream import WAYS, _cuts, measured, missed
from tests.support.batches import Rec, batch
from tests.support.golden import golden_local


def test_missed_targets_are_named() -> None:
    seconds = {"stream": 2.0, "consume": 6.0, "blocks": 1.7, "bare": 1.0}
    ratios, short = missed(100, seconds)
    assert ratios == {"stream / consume": 3.0, "stream / blocks": 0.85, "stream / bare": 0.5}
    assert short == []
    assert missed(100, {**seconds, "consume": 5.9, "blocks": 1.6})[1] == ["stream / consume", "stream / blocks"]
    assert missed(1024, seconds)[1] == ["stream / bare"]


def test_all_ways_over_files_read_the_same_records(tmp_path: Path) -> None:
    store = golden_local() / "remote"
    files = [str(file) for file in sorted(store.glob("*/delrec-0-*/*.log"))]
    task = {"store": store.as_uri(), "options": {}, "topic": "delrec", "record_bytes": 1, "files": files}
    counts = {way: measured({**task, "way": way})["bytes"] for way in ("blocks", "in memory")}
    assert counts["blocks"] == counts["in memory"] > 0
    assert measured({**task, "way": "stream"})["bytes"] == measured({**task, "way": "again"})["bytes"] > 0
    segment = tmp_path / "segment.log"
    segment.write_bytes(batch(0, [Rec(n, None, b"value") for n in range(5)]))
    assert WAYS["in memory"]({"files": [str(segment)], "record_bytes": 5}, lambda: None) == 25


def test_cuts_tile_a_segment() -> None:
    assert _cuts(20 << 20) == [(0, 8 << 20), (8 << 20, 16 << 20), (16 << 20, 20 << 20)]
