"""Processes that a test run starts do not outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.keeper import __file__ as keeper
from tests.support.waiting import wait_until


def test_processes_and_files_of_a_killed_owner_are_removed(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    directory.mkdir()
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as owner:
        command = [
            sys.executable,
            keeper,
            str(owner.pid),
            str(directory),
            sys.executable,
            "-c",
            "import signal; signal.pause()",
        ]
        kept = int(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=30).stdout)
        assert Path("/proc", str(kept)).exists()
        os.kill(owner.pid, signal.SIGKILL)
    wait_until(lambda: not Path("/proc", str(kept)).exists(), "the kept process to be ended")
    wait_until(lambda: not directory.exists(), "its directory to be removed")
