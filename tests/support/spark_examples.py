"""Runs programs of examples/ as their users do, with the newest Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.artifacts import ROOT
from tests.support.spark import NEWEST, environment, pyspark_home

__all__ = ["printed_by", "running_example"]

_SUBMIT = "--conf spark.ui.enabled=false --conf spark.driver.memory=512m --conf spark.driver.host=127.0.0.1 pyspark-shell"


def printed_by(program: str, *arguments: str) -> str:
    """What it prints until it ends well. Raises AssertionError with what it said of a failure."""
    done = subprocess.run(
        [sys.executable, program, *arguments],
        cwd=ROOT,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@contextmanager
def running_example(program: str, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The program, which is interrupted in the end; what it says goes to ``log``."""
    with log.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, program, *arguments],
            cwd=ROOT,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        # Java is in the same group, and would otherwise end later, at its leisure.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment() -> dict[str, str]:
    return environment(pyspark_home(NEWEST)) | {"PYSPARK_SUBMIT_ARGS": _SUBMIT, "PYTHONUNBUFFERED": "1"}
