"""The tables of campaigns' figures: the runs that they have, and the mark of runs that are older than the code."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from docs.campaigns import filled, table
from tests.support.ledger import RunEntry, digest, entries

_CODE = "package"


def _root(directory: Path) -> Path:
    (directory / _CODE).mkdir()
    (directory / _CODE / "code.py").write_text("one = 1\n")
    return directory


def _run(campaign: str, day: int, marked: str | None, seconds: float = 60, **counts: object) -> RunEntry:
    return RunEntry(campaign, f"2026-11-{day:02d}T00:00:00Z", "0123abc", (_CODE,), counts, marked, seed=day, seconds=seconds)


def test_figures_older_than_the_code_are_marked(tmp_path: Path) -> None:
    root = _root(tmp_path)
    current = digest([_CODE], root)
    runs = [_run("chaos", 1, None), _run("chaos", 2, "of other code"), _run("chaos", 3, current, records=1234)]
    *_, first, second, third = table(["chaos"], runs, root).splitlines()
    assert first.endswith("| unknown |")
    assert second.endswith("| **older than the code** |")
    assert third == "| chaos | 2026-11-03 | `0123abc` | 3 | 1.0 | records 1,234 | same |"


def test_the_tables_have_the_last_runs_of_each_campaign(tmp_path: Path) -> None:
    runs = [_run("chaos", day, None) for day in (4, 2, 5, 3, 1)] + [_run("torture", 1, None)]
    rows = table(["torture", "chaos"], runs, _root(tmp_path)).splitlines()[2:]
    assert [row.split(" | ")[:2] for row in rows] == [
        ["| torture", "2026-11-01"],
        ["| chaos", "2026-11-03"],
        ["| chaos", "2026-11-04"],
        ["| chaos", "2026-11-05"],
    ]


def test_runs_of_a_fuzz_target_on_the_same_code_are_added_up(tmp_path: Path) -> None:
    root = _root(tmp_path)
    current = digest([_CODE], root)
    told = {"target": "lz4", "build": "plain"}
    runs = [
        _run("fuzz", 1, "of other code", 60, **told, inputs=7, findings=1),
        _run("fuzz", 2, current, 90, **told, inputs=1000, findings=0),
        _run("fuzz", 3, current, 30, **told, inputs=234, findings=0),
        _run("fuzz", 3, "of other code", 30, target="lz4", build="sanitized", inputs=5, findings=0),
    ]
    assert table(["fuzz"], runs, root).splitlines()[2:] == [
        "| `lz4` | plain | 1,234 | 2.0 | 0 | 2026-11-03 | `0123abc` | 3 | same |",
        "| `lz4` | sanitized | 5 | 0.5 | 0 | 2026-11-03 | `0123abc` | 3 | **older than the code** |",
    ]


def test_runs_of_a_suite_under_load_on_the_same_code_are_added_up(tmp_path: Path) -> None:
    root = _root(tmp_path)
    current = digest([_CODE], root)
    told = {"suite": "shim", "load": 4}
    runs = [
        _run("under-load", 1, "of other code", **told, load_average=9, passed=1, failed=1),
        _run("under-load", 2, current, **told, load_average=31, passed=723, failed=1),
        _run("under-load", 3, current, **told, load_average=6, passed=724, failed=0),
        _run("under-load", 3, "of other code", suite="faults", load=4, load_average=8, passed=5, failed=0),
    ]
    assert table(["under-load"], runs, root).splitlines()[2:] == [
        "| `faults` | 4 | 1 | 5 | 0 | 1.0 | 8 to 8 | 2026-11-03 | `0123abc` | **older than the code** | 1, 0 with failures |",
        "| `shim` | 4 | 2 | 1,447 | 1 | 2.0 | 6 to 31 | 2026-11-03 | `0123abc` | same | 3, 2 with failures |",
    ]


def test_the_events_of_simulations_on_the_same_code_are_added_up(tmp_path: Path) -> None:
    root = _root(tmp_path)
    current = digest([_CODE], root)
    told = {"scenarios": 10, "events": 12_345, "events_per_second": 9_000, "failed": 0}
    runs = [
        _run("simulate", 1, "of other code", **told, sometimes={"hedge-won": 100}),
        _run("simulate", 2, current, **told, sometimes={"hedge-won": 1_000}),
        _run("simulate", 3, current, **told, python="CPython 3.14.0", sometimes={"hedge-won": 5, "retried": 1}),
    ]
    assert table(["simulate"], runs, root).splitlines()[3:] == [
        "| 1 | 10 | 12,345 | 206 | 0 | 1.0 |  | 2026-11-02 | `0123abc` | 2 | same |",
        "| 1 | 10 | 12,345 | 206 | 0 | 1.0 | CPython 3.14.0 | 2026-11-03 | `0123abc` | 3 | same |",
        "| 2 on the same code | 20 | 24,690 | 206 | 0 | 2.0 | | | | | same |",
        "| all 3 | 30 | 37,035 | 206 | 0 | 3.0 | | | | | |",
    ]
    rows = table(["simulate-events"], runs, root).splitlines()
    assert "| `hedge-won` | a hedge brings the range before the first GET | 1,005 |" in rows
    assert "| `retried` | a GET is repeated | 1 |" in rows
    assert "| `tier-grew` | a segment reaches the tier while its partition is read | 0 |" in rows


def test_bugs_that_a_simulation_found_come_by_time(tmp_path: Path) -> None:
    root = _root(tmp_path)
    found = {"late": (7.5, "J9"), "soon": (0.1, "J1")}
    run = _run("simulate-bugs", 1, digest([_CODE], root), seconds_each=60, found=found, missed=["never"])
    assert table(["simulate-bugs"], [run], root).splitlines()[2:] == [
        "| soon | 0.1 | J1 |",
        "| late | 7.5 | J9 |",
        "| never | not found | |",
        "| found 2 of 3 | 2026-11-01, `0123abc`, seed 1, at most 60 s each | code since: same |",
    ]


def test_the_page_keeps_its_text_around_the_tables(tmp_path: Path) -> None:
    page = "before\n\n<!-- campaigns: chaos -->\nold\n<!-- /campaigns -->\n\nafter\n"
    made = filled(page, [_run("chaos", 1, None)], _root(tmp_path))
    assert made.startswith("before\n\n<!-- campaigns: chaos -->\n| campaign | run |")
    assert made.endswith("| unknown |\n<!-- /campaigns -->\n\nafter\n")
    assert filled(made, [_run("chaos", 1, None)], tmp_path) == made


def test_refuses_a_campaign_without_a_run() -> None:
    with pytest.raises(ValueError, match="no run of chaos"):
        table(["chaos"], [])


def test_every_entry_of_the_ledger_is_compared_with_the_code() -> None:
    runs = entries()
    assert runs
    for run in runs:
        assert run.is_current() in {True, False}, run


def test_mutants_have_a_row_for_each_kind_and_package(tmp_path: Path) -> None:
    told = {"bugs": "library", "package": "fetch", "planted": 50}
    runs = [
        _run("mutants", 1, None, **told, killed=40, survived=10, equivalent=0, broken=0),
        _run("mutants", 2, None, **told, killed=47, survived=1, equivalent=1, broken=1),
        _run("mutants", 2, None, bugs="hand", package="shim", planted=10, killed=10, survived=0, equivalent=0, broken=0),
    ]
    assert table(["mutants"], runs, _root(tmp_path)).splitlines()[2:] == [
        "| hand | `shim` | 10 | 10 | 0 | 0 | 100 % | 2026-11-02 | `0123abc` | 2 | unknown |",
        "| library | `fetch` | 50 | 47 | 1 | 2 | 96 % | 2026-11-02 | `0123abc` | 2 | unknown |",
    ]


def test_results_of_a_seed_that_was_new_to_the_tests_are_reported(tmp_path: Path) -> None:
    def ran(day: int, package: str, killed: int, *, unseen: bool, equivalent: int = 0) -> RunEntry:
        told = {"bugs": "library", "package": package, "planted": 10, "killed": killed, "equivalent": equivalent}
        return attrs.evolve(_run("mutants", day, None, **told, unseen=unseen), seed=7)

    runs = [
        ran(1, "verify", 6, unseen=True),
        ran(1, "records", 9, unseen=True, equivalent=1),
        ran(1, "shim", 10, unseen=True),
        ran(2, "verify", 8, unseen=False, equivalent=1),
        ran(2, "fetch", 3, unseen=False),
    ]
    assert table(["mutants-first"], runs, _root(tmp_path)).splitlines()[2:] == [
        "| 7 | pure, aim 97 % | 20 | 15 | 78.9 % | `verify` 4 | 1 | 2026-11-01 | `0123abc` |",
        "| 7 | others, aim 92 % | 10 | 10 | 100.0 % | none | 0 | 2026-11-01 | `0123abc` |",
    ]


def test_the_table_has_the_coverage_of_each_kernel_file(tmp_path: Path) -> None:
    told = {"lines": 40, "missed": 0, "branches": 9, "untaken": 0}
    runs = [
        _run("kernel-coverage", 1, None, file="_a.pxi", **told | {"missed": 3}),
        _run("kernel-coverage", 2, None, file="_a.pxi", **told),
        _run("kernel-coverage", 2, None, file="_b.h", **told | {"untaken": 2}),
    ]
    assert table(["kernel-coverage"], runs, _root(tmp_path)).splitlines()[2:] == [
        "| `_a.pxi` | 40 of 40 | 9 of 9 | 2026-11-02 | `0123abc` | unknown |",
        "| `_b.h` | 40 of 40 | 7 of 9 | 2026-11-02 | `0123abc` | unknown |",
    ]


def test_the_table_has_the_last_run_of_each_broker_version(tmp_path: Path) -> None:
    told = {
        "tier": "20 segments",
        "announced": "Fetch up to 15",
        "records": "9",
        "transactions": "7",
        "delayed": "5",
        "denied": "Fetch 12 to 15",
    }
    runs = [
        _run("broker-versions", 1, None, version="4.0.2", tier="failed: MissingPartError()"),
        _run("broker-versions", 2, None, version="4.0.2", **told),
        _run("broker-versions", 1, None, version="3.9.2", tier="failed: MissingPartError()"),
    ]
    assert table(["broker-versions"], runs, _root(tmp_path)).splitlines()[2:] == [
        "| 3.9.2 | failed: MissingPartError() |  |  |  |  |  | 2026-11-01 | `0123abc` | unknown |",
        "| 4.0.2 | 20 segments | Fetch up to 15 | 9 | 7 | 5 | Fetch 12 to 15 | 2026-11-02 | `0123abc` | unknown |",
    ]


def test_one_run_of_the_suites_gives_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not enough"):
        table(["suites"], [_run("suites", 1, None, minutes={"unit": 1.0}, machine="2 cores")], _root(tmp_path))


def test_the_table_has_the_minutes_of_the_first_and_the_last_run(tmp_path: Path) -> None:
    runs = [
        _run("suites", day, None, minutes=minutes, machine="2 cores")
        for day, minutes in enumerate(({"unit": 4.0, "old": 1.0}, {"unit": 9.0}, {"unit": 3.25, "new": 2.0}), 1)
    ]
    assert table(["suites"], runs, _root(tmp_path)).splitlines()[2:] == [
        "| `unit` | 4.0 | 3.2 |  |",
        "| `new` |  | 2.0 |  |",
        "| `old` | 1.0 |  |  |",
        "| all of it | 5.0 | 5.2 |  |",
        "| run | 2026-11-01, `0123abc`, 2 cores | 2026-11-03, `0123abc`, 2 cores | |",
    ]


def test_the_table_has_the_cpu_minutes_of_the_last_run(tmp_path: Path) -> None:
    runs = [
        _run("suites", 1, None, minutes={"unit": 4.0}, cpu_minutes={"unit": 3.0}, machine="2 cores"),
        _run("suites", 2, None, minutes={"unit": 9.0, "fuzz": 1.0}, cpu_minutes={"unit": 5.0, "fuzz": 1.5}, machine="2 cores"),
    ]
    assert table(["suites"], runs, _root(tmp_path)).splitlines()[2:-1] == [
        "| `unit` | 4.0 | 9.0 | 5.0 |",
        "| `fuzz` |  | 1.0 | 1.5 |",
        "| all of it | 4.0 | 10.0 | 6.5 |",
    ]


def test_steps_that_overlap_take_the_minutes_of_their_run(tmp_path: Path) -> None:
    minutes = {"unit": 9.0, "spark": 5.0, "all of it": 9.5}
    runs = [
        _run("suites", 1, None, minutes={"unit": 4.0}, machine="2 cores"),
        _run("suites", 2, None, minutes=minutes, machine="2 cores", passed=1_200, failed=0),
    ]
    *rows, run = table(["suites"], runs, _root(tmp_path)).splitlines()[2:]
    assert run == "| run | 2026-11-01, `0123abc`, 2 cores | 2026-11-02, `0123abc`, 2 cores, 1,200 passed, 0 failed | |"
    assert rows == [
        "| `unit` | 4.0 | 9.0 |  |",
        "| `spark` |  | 5.0 |  |",
        "| all of it | 4.0 | 9.5 |  |",
    ]
