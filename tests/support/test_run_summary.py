"""The lines at the end of a run have the counts of its tests; a failed test counts as a violation."""

from __future__ import annotations

from typing import Any

import attrs

from tests.support.run_summary import summary


@attrs.frozen
class Told:
    passed: bool = True
    user_properties: list[tuple[str, Any]] = attrs.field(factory=list)
    capstdout: str = ""


def cell(*faults: str, passed: bool = True) -> Told:
    return Told(passed, [("cells" if faults else "controls", 1), ("faults", list(faults))])


def test_summary_is_empty_without_counts() -> None:
    assert summary([Told(), Told(capstdout="any text\n")]) == []


def test_counts_passed_cells_and_their_faults() -> None:
    reports = [cell("F01", "F02"), cell("F02"), cell(), cell("F03", passed=False)]
    assert summary(reports) == ["faults: cells=3 fired=2 numbers=2/48 controls=1 violations=1"]


def test_counts_torture_bugs_and_cuts() -> None:
    reports = [
        Told(True, [("failed_calls", 20)]),
        Told(False, [("failed_calls", 3)]),
        Told(True, [("caught", 1)]),
        Told(True, [("cuts", 9)]),
    ]
    assert summary(reports) == [
        "torture: failed_calls=20 violations=3",
        "planted bugs: caught=1 violations=0",
        "cuts of a segment: cuts=9 violations=0",
    ]


def test_passes_on_lines_of_the_ledger() -> None:
    lines = [
        "2026-11-21T03:05:26Z oracle commit=a26aeb3 records=525000 differences=0",
        "2026-11-22T19:19:24Z state-machine commit=3980730 seed=931 examples=100",
    ]
    assert summary([Told(capstdout="\n".join(["before", *lines, "after"]))]) == lines
