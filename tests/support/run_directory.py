"""The directory of a test run. All processes of the run inherit its name, and the process that began the run removes it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["RUN_VARIABLE", "leftovers", "run_directory", "separate_run"]

RUN_VARIABLE = "KAFKA_REMOTE_TEST_RUN"
"""The variable of the environment that has its name."""


def run_directory() -> Path:
    """Raises KeyError outside a run."""
    return Path(os.environ[RUN_VARIABLE])


def leftovers() -> str:
    """The directory for temporary files of programs that leave them there when they are killed.

    Outside a run, as in benchmarks, it is the system's.
    """
    return os.environ.get(RUN_VARIABLE) or tempfile.gettempdir()


def separate_run() -> dict[str, str]:
    """The environment of a pytest process that is a run of its own: it makes and removes its own directory."""
    inherited = {RUN_VARIABLE, "COVERAGE_PROCESS_CONFIG", "PYTEST_ADDOPTS"}
    return {name: value for name, value in os.environ.items() if name not in inherited}
