"""What times of imports come to, and when they miss their target."""

from __future__ import annotations

import ast

from tests.benchmarks.import_time import PACKAGE_TARGET_MS, PROGRAMS, TARGET_MS, figures, missed


def test_interpreter_start_time_is_subtracted_from_both_sides() -> None:
    times = {
        "nothing": [10.0, 90.0, 20.0],
        "package": [25.0],
        "upstream": [60.0, 70.0, 80.0],
        "consumer": [90.0, 100.0, 990.0],
        "constructed": [400.0],
    }
    found = figures(times)
    assert found["median_ms"] == {
        "nothing": 20.0,
        "package": 25.0,
        "upstream": 70.0,
        "consumer": 100.0,
        "constructed": 400.0,
    }
    assert found["least_ms"] == {
        "nothing": 10.0,
        "package": 25.0,
        "upstream": 60.0,
        "consumer": 90.0,
        "constructed": 400.0,
    }
    assert (found["package_ms"], found["difference_ms"], found["ratio"]) == (5.0, 30.0, 1.6)


def test_figures_above_their_targets_are_missed() -> None:
    reached = {"package_ms": PACKAGE_TARGET_MS, "difference_ms": TARGET_MS}
    assert missed(reached) == []
    assert missed({**reached, "difference_ms": 40.1}) == ["difference_ms is 40.1 ms of CPU time, target 40 ms"]
    assert missed({**reached, "package_ms": 15.1}) == ["package_ms is 15.1 ms of CPU time, target 15 ms"]


def test_the_programs_differ_by_what_they_import() -> None:
    assert len({ast.dump(ast.parse(program)) for program in PROGRAMS.values()}) == 5
    assert all("kafka_remote_client" in PROGRAMS[side] for side in ("package", "consumer", "constructed"))
