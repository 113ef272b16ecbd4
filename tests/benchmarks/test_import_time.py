"""What times of imports come to, and when they miss their target."""

from __future__ import annotations

import ast

from tests.benchmarks.import_time import PROGRAMS, TARGET_MS, figures, missed


def test_interpreter_start_time_is_subtracted_from_both_sides() -> None:
    times = {
        "nothing": [10.0, 90.0, 20.0],
        "upstream": [60.0, 70.0, 80.0],
        "consumer": [90.0, 100.0, 990.0],
        "constructed": [400.0],
    }
    found = figures(times)
    assert found["median_ms"] == {"nothing": 20.0, "upstream": 70.0, "consumer": 100.0, "constructed": 400.0}
    assert found["least_ms"] == {"nothing": 10.0, "upstream": 60.0, "consumer": 90.0, "constructed": 400.0}
    assert (found["difference_ms"], found["ratio"]) == (30.0, 1.6)


def test_a_difference_above_the_target_is_missed() -> None:
    assert missed(TARGET_MS) is None
    assert missed(TARGET_MS + 0.1) == "difference 40.1 ms of CPU time, target 40 ms"


def test_the_programs_differ_by_what_they_import() -> None:
    assert len({ast.dump(ast.parse(program)) for program in PROGRAMS.values()}) == 4
    assert all("kafka_remote_client" in PROGRAMS[side] for side in ("consumer", "constructed"))
