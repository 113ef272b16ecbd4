"""A process runs until it ends: while it changes into other programs, too, and not while it waits to be waited for."""

from __future__ import annotations

import os
import subprocess

from tests.support.processes import is_running

_AGAIN = 'if [ "$1" -gt 0 ]; then exec bash -c "$0" "$0" $(($1 - 1)); fi; read -r _'
"""Runs itself anew in its place, as often as it is told, and then waits for a line."""


def test_runs_while_it_turns_into_another_program_and_not_once_it_ended() -> None:
    with subprocess.Popen(["bash", "-c", _AGAIN, _AGAIN, "300"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert all(is_running(process.pid) for _ in range(10_000))
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_running(process.pid), "ended, and nobody has waited for it"
    assert not is_running(process.pid), "gone"
