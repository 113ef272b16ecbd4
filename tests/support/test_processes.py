"""A process counts as running until it ends: also across exec, and not as a zombie."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.processes import end_group, is_running, process_group
from tests.support.waiting import wait_until

_AGAIN = 'if [ "$1" -gt 0 ]; then exec bash -c "$0" "$0" $(($1 - 1)); fi; read -r _'
"""Replaces itself by a new run as often as requested, and then waits for a line."""


def test_process_counts_as_running_across_exec_until_it_ends() -> None:
    with subprocess.Popen(["bash", "-c", _AGAIN, _AGAIN, "300"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert all(is_running(process.pid) for _ in range(10_000))
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_running(process.pid), "ended, and nobody has waited for it"
    assert not is_running(process.pid), "gone"


_WITH_A_CHILD = """
import signal, subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]).pid, flush=True)
signal.pause()
"""


def test_group_is_killed_when_its_block_raises() -> None:
    children: list[int] = []
    with pytest.raises(ZeroDivisionError):
        _fail_with_a_child(children)
    leader, child = children
    wait_until(lambda: not is_running(child), "the child to end")
    assert not is_running(leader)
    end_group(leader)  # nothing is left, and that is no error


def _fail_with_a_child(children: list[int]) -> None:
    with process_group([sys.executable, "-c", _WITH_A_CHILD], stdout=subprocess.PIPE, text=True) as leader:
        assert leader.stdout is not None
        children += [leader.pid, int(leader.stdout.readline())]
        assert all(map(is_running, children))
        raise ZeroDivisionError


_WITH_A_GROUP = """
import signal, subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True).pid, flush=True)
signal.pause()
"""


def test_groups_that_a_group_started_are_killed_with_it() -> None:
    with process_group([sys.executable, "-c", _WITH_A_GROUP], stdout=subprocess.PIPE, text=True) as leader:
        assert leader.stdout is not None
        other = int(leader.stdout.readline())
        assert is_running(other)
        end_group(leader.pid)
        wait_until(lambda: not is_running(other), "the group below to end")


def test_group_runs_to_its_end_when_its_block_ends() -> None:
    with process_group([sys.executable, "-c", "print(input())"], stderr=subprocess.PIPE, text=True) as leader:
        assert leader.stderr is not None
        assert "EOFError" in leader.stderr.read(), "it has no input"
    assert leader.returncode == 1
