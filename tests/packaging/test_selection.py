"""``make test`` selects some of all tests: each package, promise and component has a test in it, and all named tests exist."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.faults.page import marked
from tests.faults.promises import PROMISES
from tests.packaging.tree import ROOT, source_modules
from tests.selection import CASES, NAMED, NOT_SELECTED, Component, component_of, spread
from tests.support.parts import skip_table

pytestmark = pytest.mark.xdist_group("selection")  # the tests are collected once

_NOT_TESTED_BY_NAME = {"kafka_remote_client/testing"}
"""Packages whose tests lie elsewhere: the shipped suite runs in tests/fetchers/test_conformance.py."""


@cache
def _selected() -> tuple[str, ...]:
    """Returns the names of all selected tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_", "COVERAGE_"))}
    command = [sys.executable, "-m", "pytest", "--selection", "all", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=240)
    return tuple(line for line in done.stdout.splitlines() if "::" in line)


def test_each_package_has_a_selected_test() -> None:
    folders = {str(path.parent) for path in source_modules()} - _NOT_TESTED_BY_NAME
    tested = {name.partition("/test_")[0] for name in _selected()}
    wanted = {folder: folder.replace("kafka_remote_client", "tests", 1) for folder in folders}
    wanted["fetchers/kafka_remote_fetchers"] = "tests/fetchers"
    wanted["fetchers/pyspark_kafka_remote"] = "tests/spark/source"
    assert {folder for folder, tests in wanted.items() if tests not in tested} == set()


def test_each_promise_has_a_selected_test() -> None:
    files = {name.partition("::")[0].removeprefix("tests/") for name in _selected()}
    assert {promise for promise in PROMISES if not files & set(marked()[promise])} == set()


def test_each_component_has_a_selected_test() -> None:
    assert {component_of(name) for name in _selected()} - {None} == set(Component)


def test_named_tests_exist() -> None:
    named = [beginning for names in NAMED.values() for beginning in names]
    assert [beginning for beginning in named if not any(name.startswith(beginning) for name in _selected())] == []


@pytest.mark.parametrize("name", [*NOT_SELECTED])
def test_tests_that_are_not_selected_exist(name: str) -> None:
    path, _, function = name.partition("::")
    assert (ROOT / path).exists()
    assert f"def {function}" in (ROOT / path).read_text() if function else not any(one.startswith(name) for one in _selected())


def test_cases_are_spread_evenly_from_the_first_to_the_last() -> None:
    assert spread(range(10), 4) == [0, 3, 6, 9]
    assert spread(range(CASES), CASES) == list(range(CASES))


def test_skipped_tests_are_listed_with_their_reason_and_a_command() -> None:
    lines = ['{"test": "a", "reason": "no real broker: java is not on PATH"}'] * 2
    lines += ['{"test": "b", "reason": "no IPv6 here"}']
    table = "\n".join(skip_table(lines))
    assert table.startswith("3 tests were skipped:\n     2  why:     no real broker: java is not on PATH\n")
    assert "command: apt-get install default-jdk-headless maven; make artifacts" in table
    assert skip_table([]) == ["No test was skipped."]


def test_the_table_is_printed_if_nothing_was_skipped(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.parts", "table", str(tmp_path / "none.jsonl")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "No test was skipped.\n"
