"""The list of tests without coverage: it names tests that exist, it is the only one, and it is followed by their processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.tree import ROOT, tracked_files
from tests.suites import SUITES, is_elsewhere
from tests.uncounted import UNCOUNTED

_SETTINGS = """
[run]
patch = subprocess
"""
_BOTH = """
import os
import sys
import threading
import pytest
import tests.uncounted

tests.uncounted.UNCOUNTED = ("test_both.py::test_is_uncounted",)


def test_is_uncounted(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("no_cover")
    assert "COVERAGE_PROCESS_CONFIG" not in os.environ
    assert sys.gettrace() is None
    assert threading.gettrace() is None


def test_is_counted_again(request: pytest.FixtureRequest) -> None:
    assert not request.node.get_closest_marker("no_cover")
    assert "COVERAGE_PROCESS_CONFIG" in os.environ
    assert sys.gettrace() is not None
    assert threading.gettrace() is not None
"""


@pytest.mark.parametrize("name", UNCOUNTED)
def test_an_uncounted_test_exists_in_a_counted_suite(name: str) -> None:
    file, _, function = name.partition("::")
    function, _, case = function.partition("[")
    text = (ROOT / file).read_text()
    assert not function or f"def {function}(" in text
    assert not case or f'"{case}"' in text
    assert any(suite.counted and not is_elsewhere(ROOT / file, suite_name) for suite_name, suite in SUITES.items())


def test_no_test_file_has_a_list_of_its_own() -> None:
    files = [path for path in tracked_files() if path.parts[0] == "tests" and path.suffix == ".py"]
    files.remove(Path(__file__).relative_to(ROOT))
    files.remove(Path("tests/conftest.py"))
    assert [str(path) for path in files if "no_cover" in (ROOT / path).read_text()] == []


@pytest.mark.parametrize("workers", [[], ["--numprocesses=1"]], ids=["alone", "worker"])
def test_coverage_is_off_for_an_uncounted_test_and_its_processes(workers: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_both.py").write_text(_BOTH)
    (tmp_path / ".coveragerc").write_text(_SETTINGS)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV", "KAFKA_REMOTE_"))
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "-p", "no:randomly"]
    command += [f"--rootdir={tmp_path}", "--cov=.", "--cov-report=", *workers, "test_both.py"]
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert "2 passed" in done.stdout, done.stdout
