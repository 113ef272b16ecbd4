"""CI fails when it must: for skipped tests, missing tests and suites over their ceiling."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import ALLOWED_SKIPS
from tests.packaging.tree import ROOT
from tests.support.run_directory import separate_run

_SKIPPING = """
import pytest

def test_skips():
    pytest.skip({reason!r})
"""


def _pytest(file: Path, *, ci: str, more: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    environment = {**separate_run(), "CI": ci, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-q", "-rs", *more, str(file)]
    return subprocess.run(command, env=environment, cwd=file.parent, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(("ci", "reason", "status"), [("true", "", 1), ("", "", 0), ("true", ALLOWED_SKIPS[0], 0)])
def test_a_skip_fails_in_ci_unless_its_reason_is_listed(tmp_path: Path, ci: str, reason: str, status: int) -> None:
    file = tmp_path / "test_skipping.py"
    file.write_text(_SKIPPING.format(reason=reason or "no real part"))
    done = _pytest(file, ci=ci)
    assert done.returncode == status, done.stdout
    assert ("nothing may be skipped" in done.stdout) == bool(status)


def test_a_skipped_module_fails_in_ci(tmp_path: Path) -> None:
    file = tmp_path / "test_skipping.py"
    file.write_text("import pytest\npytest.importorskip('no_such_module')\n")
    done = _pytest(file, ci="true")
    assert done.returncode != 0
    assert "nothing may be skipped" in done.stdout


@pytest.mark.parametrize(("ci", "status"), [("true", 1), ("", 0)])
def test_a_broker_that_cannot_start_fails_in_ci_and_skips_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, status: int
) -> None:
    file = tmp_path / "test_needing.py"
    file.write_text("def test_needs_the_broker(kafka_broker):\n    raise AssertionError\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    done = _pytest(file, ci=ci)
    assert done.returncode == status, done.stdout
    assert "java is not on PATH" in done.stdout


_DRAWING = """
import hypothesis
from hypothesis import strategies as st

@hypothesis.given(st.integers())
def test_draws(number):
    print("drew", number)
"""


@pytest.mark.parametrize("ci", ["true", ""])
def test_every_run_of_a_commit_tries_the_same_examples(tmp_path: Path, ci: str) -> None:
    file = tmp_path / "test_drawing.py"
    file.write_text(_DRAWING)
    drawn = [[line for line in _pytest(file, ci=ci, more=["-s"]).stdout.splitlines() if "drew" in line] for _ in range(2)]
    assert len(drawn[0]) > 50
    assert drawn[0] == drawn[1]


def test_a_campaign_tries_other_examples(tmp_path: Path) -> None:
    file = tmp_path / "test_drawing.py"
    file.write_text(_DRAWING)
    campaign = ["-s", "--hypothesis-profile=campaign"]
    first, second = (_pytest(file, ci="", more=[*campaign, f"--campaign-seed={seed}"]).stdout for seed in (1, 2))
    assert first.count("drew") > 50
    assert second.count("drew") > 50
    assert first != second


_FAILING = """
import hypothesis
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

@hypothesis.settings(database=DirectoryBasedExampleDatabase("examples"))
@hypothesis.given(st.integers())
def test_fails_for_large_numbers(number):
    print("drew", number)
    assert number < 1000
"""


def test_a_campaign_first_tries_examples_found_earlier(tmp_path: Path) -> None:
    file = tmp_path / "test_failing.py"
    file.write_text(_FAILING)
    campaign = ["-s", "--hypothesis-profile=campaign"]
    first, second = (_pytest(file, ci="", more=[*campaign, f"--campaign-seed={seed}"]).stdout for seed in (1, 2))
    drawn = [[line.split("drew ")[1] for line in text.splitlines() if "drew " in line] for text in (first, second)]
    assert drawn[0][0] != "1000"
    assert drawn[1][0] == "1000"


_NEEDING_TWICE = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_needs_the_store(s3_server, number):
    raise AssertionError
"""


def test_a_missing_part_skips_its_own_tests_and_is_tried_once(tmp_path: Path) -> None:
    file = tmp_path / "test_needing.py"
    broken = (
        "class S3Server:\n    def __init__(self, _):\n        raise tests.conftest.MissingPartError(f'try {next(tries)}')\n"
    )
    modules = "itertools, tests.conftest, tests.support.s3_server, tests.support.seaweedfs_server"
    prelude = f"import {modules}\ntries = itertools.count(1)\n{broken}"
    prelude += "tests.support.s3_server.S3Server = tests.support.seaweedfs_server.SeaweedServer = S3Server\n"
    file.write_text(prelude + _NEEDING_TWICE + "\n\ndef test_needs_nothing():\n    pass\n")
    done = _pytest(file, ci="", more=["-n", "2", "--dist=load"])
    assert done.returncode == 0, done.stdout
    assert "1 passed, 3 skipped" in done.stdout
    assert "try 2" not in done.stdout


def _suites(call: str) -> str:
    program = f"import runpy, os; s = runpy.run_path({str(ROOT / '.ci' / 'suites.py')!r}); print('=', {call})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.splitlines()[-1]


def _status(program: str, seconds: int) -> str:
    return _suites(f"s['_run']([s['sys'].executable, '-c', {program!r}], dict(os.environ), {seconds})[1]")


def test_a_suite_over_its_ceiling_is_ended_without_a_status() -> None:
    assert _status("import signal; signal.pause()", 1) == "= None"


def test_the_time_limit_of_a_step_is_longer_on_a_busy_machine() -> None:
    ran = "(r := s['Report'](3)).run('ends', 5, [[s['sys'].executable, '-c', '']], dict(os.environ))"
    assert _suites(f"({ran}, r.steps[0].ceiling)[1]") == "= 15"


def test_a_suite_that_fails_in_time_keeps_its_status() -> None:
    assert _status("raise SystemExit(3)", 60) == "= 3"


def test_the_last_summary_line_of_pytest_counts() -> None:
    assert _suites("s['passed_in']('1 passed\\n== 1 failed, 12 passed, 2 warnings in 3s ==')") == "= 12"


def test_the_report_names_failed_tests_and_the_stack_of_a_hung_one() -> None:
    stack = ["Timeout (0:05:30)!", "Thread 0x1 (most recent call first):", "  File a.py, line 1 in b"]
    text = "\n".join(["x", *stack, "other", "FAILED t.py::test_c - Boom", ""])
    assert _suites(f"s['failures_in']({text!r})") == f"= {['FAILED t.py::test_c - Boom', *stack]}"


def test_the_report_has_the_cpu_minutes_of_a_step() -> None:
    busy = "import time\nwhile time.process_time() < 1: pass"
    ran = "(r := s['Report']()).run('busy', 5, [[s['sys'].executable, '-c', {busy!r}]], dict(os.environ))"
    cpu_minutes = float(_suites(f"({ran.format(busy=busy)}, r.steps[0].cpu_minutes)[1]").removeprefix("= "))
    assert cpu_minutes > 0.9 / 60


_LANE = """
import json, pathlib, sys
file, suites = pathlib.Path(sys.argv[2]), sys.argv[7:]
pathlib.Path({started!r}).touch()
if suites != ["dies"]:
    step = [suites[0], 2.0, 1.5, 9 * float(sys.argv[4]), "exit status 1"]
    file.write_text(json.dumps([[step], ["FAILED t.py::test_a"], True, 7]))
"""
_BESIDE = """
import runpy, os, pathlib, sys, time
s = runpy.run_path({suites!r})
s["_beside"].__wrapped__.__globals__.update(__file__={lane!r}, ROOT=pathlib.Path({lane!r}).parent)
report = s["Report"](3)
report.passed = 1
with s["_beside"](report, dict(os.environ), [{suite!r}]):
    deadline = time.monotonic() + 100
    while not pathlib.Path({started!r}).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
print("=", report.passed, report.failed, [tuple(step) for step in report.steps], report.failures)
"""


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        ("spark", "= 8 True [('spark', 2.0, 1.5, 27.0, 'exit status 1')] ['FAILED t.py::test_a']"),
        ("dies", "= 1 True [] ['the lane dies ended without a report']"),
    ],
)
def test_a_lane_runs_beside_the_other_steps_and_adds_its_own(tmp_path: Path, suite: str, said: str) -> None:
    lane, started = tmp_path / "lane.py", str(tmp_path / "started")
    lane.write_text(_LANE.format(started=started))
    program = _BESIDE.format(suites=str(ROOT / ".ci" / "suites.py"), lane=str(lane), suite=suite, started=started)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-1] == said


def test_a_lane_saves_what_the_first_process_adds(tmp_path: Path) -> None:
    ran = "(r := s['Report']()).run('fails', 5, [[s['sys'].executable, '-c', 'raise SystemExit(3)']], dict(os.environ))"
    save = f"r.save(s['Path']({str(tmp_path / 'report.json')!r}))"
    add = f"(n := s['Report']()).add('one', s['Path']({str(tmp_path / 'report.json')!r}))"
    assert _suites(f"({ran}, {save}, {add}, n.failed, n.steps == r.steps, n.steps[0].outcome)[3:]") == (
        "= (True, True, 'exit status 3')"
    )


_AFTER = """
import runpy, pathlib, subprocess, sys, types
s = runpy.run_path({suites!r})
parts = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
end = lambda seconds: (parts.kill(), parts.wait())
s["_lane"].__globals__.update(
    time=types.SimpleNamespace(sleep=end, monotonic=s["time"].monotonic),
    _in_turn=lambda report, environment, names: print("=", names, parts.returncode),
)
s["_lane"](pathlib.Path({file!r}), s["Report"](), parts.pid, ["spark"])
"""


def test_a_lane_begins_when_the_process_that_makes_parts_has_ended(tmp_path: Path) -> None:
    program = _AFTER.format(suites=str(ROOT / ".ci" / "suites.py"), file=str(tmp_path / "report.json"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "= ['spark'] -9"


def test_commands_of_make_keep_bytecode() -> None:
    probe = "probe: ; @printenv PYTHONDONTWRITEBYTECODE || echo kept"
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    command = ["make", "--silent", "--no-print-directory", f"--eval={probe}", "probe"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "kept\n"


_GROUPED = """
import os
import pathlib
import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(6))
def test_notes_its_process(number):
    pathlib.Path(f"{number}.pid").write_text(str(os.getpid()))
"""


def test_tests_of_a_group_run_in_one_process(tmp_path: Path) -> None:
    file = tmp_path / "test_grouped.py"
    file.write_text(_GROUPED)
    done = _pytest(file, ci="", more=["-n", "2", "--dist", "loadgroup"])
    assert done.returncode == 0, done.stdout
    assert len({note.read_text() for note in tmp_path.glob("*.pid")}) == 1


_STUCK = """
import ctypes


def test_stuck():
    mutex = ctypes.create_string_buffer(256)
    lock = ctypes.CDLL(None).pthread_mutex_lock
    lock(mutex)
    lock(mutex)  # does not return, and no signal interrupts it


def test_fine():
    pass
"""


def test_a_test_that_never_returns_to_python_ends_alone(tmp_path: Path) -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert options["timeout"] < options["faulthandler_timeout"]
    ends = f"faulthandler_exit_on_timeout={options['faulthandler_exit_on_timeout']}"
    file = tmp_path / "test_stuck.py"
    file.write_text(_STUCK)
    done = _pytest(file, ci="", more=["-n", "1", "-o", "timeout=1", "-o", "faulthandler_timeout=2", "-o", ends])
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "test_stuck.py::test_stuck" in done.stdout
    assert "in test_stuck" in done.stderr


_LONG = """
import time

import pytest


@pytest.mark.timeout(60)
def test_long():
    time.sleep(2)
"""


def test_a_test_with_a_longer_time_out_is_not_ended_before_it(tmp_path: Path) -> None:
    file = tmp_path / "test_long.py"
    file.write_text(_LONG)
    ends = ["-o", "timeout=0.5", "-o", "faulthandler_timeout=1", "-o", "faulthandler_exit_on_timeout=true"]
    done = _pytest(file, ci="", more=["-n", "1", *ends])
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout
