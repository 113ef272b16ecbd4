"""The version that the package names."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

import pytest
from packaging.version import Version

import kafka_remote_client
from kafka_remote_client import version as own


def test_the_version_is_that_of_the_installed_distribution() -> None:
    assert kafka_remote_client.__version__ == version("kafka-remote-client")


def test_sources_without_an_installation_have_a_version_below_all_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    try:
        assert importlib.reload(own).__version__ == own.UNKNOWN
    finally:
        monkeypatch.undo()
        importlib.reload(own)
    assert Version(own.UNKNOWN) < Version("0.0.1.dev1")


def test_the_version_loads_no_other_package() -> None:
    program = "import kafka_remote_client as k, sys; k.__version__; print(*(n.partition('.')[0] for n in sys.modules))"
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert set(found) - sys.stdlib_module_names == {"__main__", "kafka_remote_client"}
