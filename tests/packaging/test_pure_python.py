"""The record decoder's tests in a process that may not use the compiled decoder."""

from __future__ import annotations

import subprocess
import sys

from tests.packaging.tree import ROOT
from tests.support.run_directory import separate_run

# They compare the two decoders, or always use both and take long, or are about the compiled one.
_NOT_ABOUT_PYTHON = ("test_any_bytes.py", "test_differential.py", "test_kernel.py", "test_parity.py")


def passes_without_the_kernel(*arguments: str) -> str:
    """Runs pytest with the arguments, and returns its last line."""
    environment = {**separate_run(), "KAFKA_REMOTE_CLIENT_PURE": "1", "CI": ""}  # the one test of the kernel's presence skips
    command = [sys.executable, "-X", "dev", "-m", "pytest", "-q", "-k", "not compiled", *arguments]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout
    assert " failed" not in done.stdout
    return done.stdout.splitlines()[-1]


def test_records_are_read_alike_if_python_is_forced() -> None:
    ignored = [f"--ignore=tests/records/{name}" for name in _NOT_ABOUT_PYTHON]
    assert " passed, 1 skipped" in passes_without_the_kernel(*ignored, "tests/records")
