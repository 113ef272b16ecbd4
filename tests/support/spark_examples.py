"""Runs programs of examples/ as their users do, with the newest Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.artifacts import ROOT
from tests.support.processes import end_group, process_group
from tests.support.spark import NEWEST, environment, pyspark_home

__all__ = ["output_of", "printed_by", "running_example"]

_SUBMIT = "--conf spark.ui.enabled=false --conf spark.driver.memory=512m --conf spark.driver.host=127.0.0.1 pyspark-shell"


def printed_by(program: str, *arguments: str) -> str:
    """Returns its output after it succeeded. Raises AssertionError with its error output."""
    return output_of([sys.executable, program, *arguments], cwd=ROOT, env=_environment())


def output_of(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> str:
    """Returns the output of a command that succeeds within 400 s. Raises AssertionError with its error output."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
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
    """Runs the program, and interrupts it at the end; its output goes to ``log``."""
    with log.open("wb") as said:
        output = {"stdout": said, "stderr": subprocess.STDOUT}
        with process_group([sys.executable, program, *arguments], cwd=ROOT, env=_environment(), **output) as process:
            try:
                yield process
            finally:
                end_group(process.pid)  # Java is in the same group, and would otherwise end later


def _environment() -> dict[str, str]:
    return environment(pyspark_home(NEWEST)) | {"PYSPARK_SUBMIT_ARGS": _SUBMIT, "PYTHONUNBUFFERED": "1"}
