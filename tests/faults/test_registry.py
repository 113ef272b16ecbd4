"""No fault without a test: every number of the registry is named by a cell of the matrix or by a test with the marker."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.faults.promises import PROMISES
from tests.faults.registry import FAULTS
from tests.faults.table import SCENARIOS

TESTS = Path(__file__).resolve().parents[1]
_IN_A_NAME = re.compile(r"def test_\w*[fs]\d\d_")


def marked() -> dict[str, list[str]]:
    """The numbers that tests name with the marker, or in their own names (``test_s01_…``), and where."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        if "mark.fault(" not in text and not _IN_A_NAME.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for part in node.name.upper().split("_"):
                    if part in FAULTS or part in PROMISES:
                        found.setdefault(part, []).append(path.name)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fault":
                for number in node.args:
                    assert isinstance(number, ast.Constant), f"{path}: a fault's number is written out"
                    found.setdefault(str(number.value), []).append(path.name)
    return found


def test_faults_are_numbered_without_a_gap() -> None:
    assert list(FAULTS) == [f"F{number:02d}" for number in range(1, 76)]


def test_every_fault_has_a_test() -> None:
    named = {number for scenario in SCENARIOS for number in scenario.faults} | set(marked())
    assert not set(FAULTS) - named, "faults that no test injects"
    assert not named - set(FAULTS) - set(PROMISES), "numbers that the registry does not have"


def test_every_promise_has_a_test() -> None:
    assert not set(PROMISES) - set(marked()), "promises that no test attacks"


def test_the_matrix_has_a_scenario_for_every_fault_of_a_store() -> None:
    named = {number for scenario in SCENARIOS for number in scenario.faults}
    assert [number for number in FAULTS if number <= "F49" and number not in named] == []


def test_scenarios_have_names_of_their_own() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))
