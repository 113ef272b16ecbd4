"""CI says no when it must: nothing skipped, nothing missing, nothing past its ceiling."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ALLOWED_SKIPS
from tests.packaging.tree import ROOT

_SKIPPING = """
import pytest

def test_skips():
    pytest.skip({reason!r})
"""


def _pytest(file: Path, *, ci: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)}
    # A run of its own: it makes and removes its own directory.
    for inherited in ("KAFKA_REMOTE_TEST_RUN", "COVERAGE_PROCESS_CONFIG", "PYTEST_ADDOPTS"):
        environment.pop(inherited, None)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-q", "-rs", str(file)]
    return subprocess.run(command, env=environment, cwd=file.parent, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(("ci", "reason", "status"), [("true", "", 1), ("", "", 0), ("true", ALLOWED_SKIPS[0], 0)])
def test_skip_fails_in_ci_unless_its_reason_is_listed(tmp_path: Path, ci: str, reason: str, status: int) -> None:
    file = tmp_path / "test_skipping.py"
    file.write_text(_SKIPPING.format(reason=reason or "no real part"))
    done = _pytest(file, ci=ci)
    assert done.returncode == status, done.stdout
    assert ("nothing may be skipped" in done.stdout) == bool(status)


def test_skip_of_a_whole_module_fails_in_ci(tmp_path: Path) -> None:
    file = tmp_path / "test_skipping.py"
    file.write_text("import pytest\npytest.importorskip('no_such_module')\n")
    done = _pytest(file, ci="true")
    assert done.returncode != 0
    assert "nothing may be skipped" in done.stdout


@pytest.mark.parametrize(("ci", "status"), [("true", 1), ("", 0)])
def test_broker_that_cannot_start_fails_in_ci_and_skips_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, status: int
) -> None:
    file = tmp_path / "test_needing.py"
    file.write_text("def test_needs_the_broker(kafka_broker):\n    raise AssertionError\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    done = _pytest(file, ci=ci)
    assert done.returncode == status, done.stdout
    assert "java is not on PATH" in done.stdout


def _suites(call: str) -> str:
    program = f"import runpy, os; s = runpy.run_path({str(ROOT / '.ci' / 'suites.py')!r}); print('=', {call})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.splitlines()[-1]


def _status(program: str, seconds: int) -> str:
    return _suites(f"s['_run']([s['sys'].executable, '-c', {program!r}], dict(os.environ), {seconds})[1]")


def test_suite_past_its_ceiling_is_ended_and_has_no_status() -> None:
    assert _status("import signal; signal.pause()", 1) == "= None"


def test_suite_that_fails_in_its_time_keeps_its_status() -> None:
    assert _status("raise SystemExit(3)", 60) == "= 3"


def test_last_closing_line_of_pytest_counts() -> None:
    assert _suites("s['_passed']('1 passed\\n== 1 failed, 12 passed, 2 warnings in 3s ==')") == "= 12"
