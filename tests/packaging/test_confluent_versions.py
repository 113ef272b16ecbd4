"""The consumer's tests with other versions of confluent-kafka: the lowest supported one, and the newest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.packaging.tree import ROOT
from tests.support.confluent_versions import installed, lowest, newest, pinned
from tests.support.run_directory import separate_run

TESTS = tuple(
    f"tests/consumer/test_{name}.py" for name in ("aio", "consumer", "deserializing", "surface", "upstream_scenarios")
)


def passes_on(version: str, *tests: str) -> str:
    """Runs the test files with a version, and returns the last line of pytest."""
    environment = {**separate_run(), "CI": "", "PYTHONPATH": str(installed(version))}
    program = "import confluent_kafka as c; print(c.__version__, c.__file__)"
    told = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert told.stdout.startswith(f"{version} {installed(version)}"), told.stdout
    command = [sys.executable, "-X", "dev", "-m", "pytest", "-q", *tests]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout
    assert " failed" not in done.stdout
    return done.stdout.splitlines()[-1]


def test_the_lowest_supported_version_works() -> None:
    print(f"confluent-kafka {lowest()}: {passes_on(lowest(), *TESTS)}")


def test_the_newest_version_works() -> None:
    try:
        version = newest()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the registry does not say what is newest: {error}")
    if version == pinned():
        print(f"confluent-kafka {version} is the newest, and all other tests run on it")
    else:
        print(f"confluent-kafka {version}: {passes_on(version, *TESTS)}")


def test_the_lowest_version_is_not_above_the_pin() -> None:
    assert tuple(map(int, lowest().split("."))) <= tuple(map(int, pinned().split(".")))
