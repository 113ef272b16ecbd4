"""Spark's processes write their temporary files into the directory of the run, so that none is left when one is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.artifacts import MissingPartError, java
from tests.support.run_directory import run_directory
from tests.support.spark import environment

pytestmark = pytest.mark.spark


def test_temporary_files_of_spark_are_in_the_runs_directory() -> None:
    try:
        of_java = [java(), "-XshowSettings:properties", "-version"]
    except MissingPartError as error:
        pytest.skip(f"no Spark: {error}")
    of_python = [sys.executable, "-c", "import tempfile; print('tmpdir =', tempfile.gettempdir())"]
    for command in (of_java, of_python):
        shown = subprocess.run(command, env=environment(Path()), capture_output=True, text=True, check=True)
        assert f"tmpdir = {run_directory()}\n" in shown.stderr + shown.stdout
