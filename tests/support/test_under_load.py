"""Suites are repeated under load, and the name of each failed test is printed."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.suites import SUITES
from tests.support import under_load
from tests.support.artifacts import ROOT
from tests.support.processes import end_group, is_running
from tests.support.under_load import ALL, busy, command_of, main, outcome_of, rotate, run
from tests.support.waiting import wait_until


def test_outcome_has_the_tests_that_passed_and_the_names_of_others() -> None:
    assert outcome_of("== 12 passed in 3s ==", 0) == (12, [])
    assert outcome_of("FAILED tests/a.py::test_b - x\nERROR tests/c.py::test_d\n= 2 failed, 7 passed in 1s", 1) == (
        7,
        ["tests/a.py::test_b", "tests/c.py::test_d"],
    )


def test_a_failed_test_counts_once_in_make_test_all() -> None:
    output = "FAILED tests/a.py::test_b - x\n1 failed, 7 passed\n4 passed\nin all suites: 11 passed, with failures\n"
    assert outcome_of(f"{output}FAILED tests/a.py::test_b - x\n", 1) == (11, ["tests/a.py::test_b"])


@pytest.mark.parametrize("name", [*SUITES, ALL])
def test_each_run_has_a_command_and_a_time_limit(name: str) -> None:
    (_, *command), ceiling = command_of(name)
    assert command == [".ci/suites.py", "--slower-by", "3"] if name == ALL else name in command
    assert ceiling == (90 if name == ALL else SUITES[name].ceiling) * 180


def test_run_does_not_give_the_ledger_to_its_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_REMOTE_LEDGER_FILE", "lines.jsonl")
    code = "import os; print(len(os.environ.get('KAFKA_REMOTE_LEDGER_FILE', '')), 'passed')"
    assert run([sys.executable, "-c", code], 60) == (0, [])


def test_run_that_ends_without_a_report_has_failed() -> None:
    assert outcome_of("Segmentation fault", -11) == (0, ["exit status -11"])


def test_run_reports_passed_tests() -> None:
    assert run([sys.executable, "-c", "print('= 3 passed in 1s')"], 60) == (3, [])


def test_first_failures_of_a_run_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    text = "x" * 30_000 + "\n=== ERRORS ===\nthe cause\n" + "y" * 30_000 + "\nERROR tests/a.py::test_b\n"
    assert run([sys.executable, "-c", f"print({text!r}); raise SystemExit(1)"], 60) == (0, ["tests/a.py::test_b"])
    assert capsys.readouterr().out.startswith("=== ERRORS ===\nthe cause\n")


@pytest.mark.parametrize("first", ["Timeout (0:05:30)!", "Fatal Python error: Aborted"])
def test_stacks_of_a_worker_that_died_are_printed(first: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{'x' * 30_000}\n{first}\nThread 1\n{'y' * 30_000}\n=== FAILURES ===\nworker 'gw3' crashed\nFAILED a.py::b\n"
    run([sys.executable, "-c", f"print({text!r}); exit(1)"], 60)
    printed = capsys.readouterr().out
    assert printed.startswith(f"{first}\nThread 1\n")
    assert "=== FAILURES ===\nworker 'gw3' crashed\n" in printed


def test_run_past_its_ceiling_has_failed() -> None:
    assert run([sys.executable, "-c", "while True: pass"], 0.2) == (0, ["past 0 s"])


def test_suites_take_turns_and_each_run_leaves_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def fake(command: Sequence[str], ceiling: float) -> tuple[int, list[str]]:
        ran.append(command[command.index("--suite") + 1])
        return 2, ["tests/a.py::test_b"] if len(ran) == 3 else []

    monkeypatch.delenv("KAFKA_REMOTE_LEDGER_FILE", raising=False)
    monkeypatch.setattr(under_load, "run", fake)
    monkeypatch.setattr(os, "getloadavg", lambda: (7.4, 0.0, 0.0))
    assert rotate(["shim", "faults"], 2, 4, math.inf) == ["tests/a.py::test_b"]
    assert ran == ["shim", "faults", "shim", "faults"]
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" suite=")[2].partition(" seconds=")[0] for line in lines] == [
        f"{suite} load=4 load_average=7 passed=2 failed={failed}"
        for suite, failed in (("shim", 0), ("faults", 0), ("shim", 1), ("faults", 0))
    ]


def test_no_run_begins_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_load, "run", lambda command, ceiling: pytest.fail("a run began"))
    monkeypatch.delenv("KAFKA_REMOTE_LEDGER_FILE", raising=False)
    assert main(["shim", "--load", "0", "--minutes", "0"]) == 0


def test_other_load_ends_with_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def popen(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(real(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    with busy(2):
        assert [process.poll() for process in started] == [None, None]
    assert all(process.poll() is not None for process in started)


def test_command_of_the_load_runs_again_until_the_end(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with busy(1, f"sh -c 'echo $$; exec sleep 0.01' >> '{runs}'"):
        wait_until(lambda: runs.exists() and len(runs.read_text().splitlines()) > 2, "the command runs a third time")
    pids = [int(pid) for pid in runs.read_text().split()]
    wait_until(lambda: not any(map(is_running, pids)), "no command of the load to run")


@pytest.mark.parametrize(("failed", "status"), [([], 0), (["tests/a.py::test_b"], 1)])
def test_failed_test_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failed: list[str], status: int
) -> None:
    monkeypatch.delenv("KAFKA_REMOTE_LEDGER_FILE", raising=False)
    monkeypatch.setattr(under_load, "run", lambda command, ceiling: (1, list(failed)))
    assert main(["shim", "--runs", "1", "--load", "0"]) == status
    output = capsys.readouterr().out
    assert f"passed=1 failed={len(failed)}" in output
    assert ("failed: tests/a.py::test_b" in output) == bool(failed)


def test_a_terminated_campaign_leaves_no_process(tmp_path: Path) -> None:
    """Neither its load nor the tests that run continue."""
    pytest_stand_in = tmp_path / "python"
    pytest_stand_in.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/tests.pid\nsleep 600\n")
    pytest_stand_in.chmod(0o700)
    program = (
        "import runpy, sys\n"
        f"sys.executable, sys.argv[1:] = {str(pytest_stand_in)!r}, ['unit', '--load', '1', '--load-command', sys.argv[1]]\n"
        "runpy.run_module('tests.support.under_load', run_name='__main__')\n"
    )
    load = f"echo $$ > {tmp_path}/load.pid; sleep 600"
    campaign = subprocess.Popen([sys.executable, "-c", program, load], cwd=ROOT)
    pids = []
    try:
        for name in ("load", "tests"):
            file = tmp_path / f"{name}.pid"
            pids.append(int(wait_until(lambda file=file: file.exists() and file.read_text(), f"the pid of the {name}")))
        campaign.terminate()
        assert campaign.wait(60) == 128 + signal.SIGTERM
        wait_until(lambda: not any(map(is_running, pids)), "all processes to end")
    finally:
        campaign.kill()
        campaign.wait()
        for pid in pids:
            end_group(pid)
