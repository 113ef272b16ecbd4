"""A part that cannot be downloaded or built is reported as missing, and no process continues to build it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.artifacts import MissingPartError, run_or_missing
from tests.support.processes import is_running
from tests.support.waiting import wait_until

_STARTS_A_CHILD = """
import pathlib, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
signal.pause()
"""


def test_slow_command_is_a_missing_part_and_ends_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child.pid"
    with pytest.raises(MissingPartError, match=r"cannot build it: not done after 1\.5 s"):
        run_or_missing([sys.executable, "-c", _STARTS_A_CHILD, str(child)], "cannot build it", seconds=1.5)
    wait_until(lambda: not is_running(int(child.read_text())), "the child to end")


def test_failing_command_is_a_missing_part_with_its_last_output() -> None:
    with pytest.raises(MissingPartError, match="cannot build it: no compiler"):
        run_or_missing([sys.executable, "-c", "raise SystemExit('no compiler')"], "cannot build it")


def test_command_gets_the_given_environment() -> None:
    program = "import os; raise SystemExit(os.environ['ONLY'])"
    with pytest.raises(MissingPartError, match="it: this"):
        run_or_missing([sys.executable, "-c", program], "it", environment={"ONLY": "this"})
