"""No fault without a test: every number of the registry is named by a cell of the matrix or by a test with the marker."""

from __future__ import annotations

from tests.faults.page import PAGE, marked, with_tables
from tests.faults.promises import PROMISES
from tests.faults.registry import FAULTS
from tests.faults.table import SCENARIOS


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


def test_the_page_on_reliability_has_the_tables_as_they_are() -> None:
    page = PAGE.read_text()
    assert page == with_tables(page), "python -m tests.faults.page writes them"
    assert all(f"| {number} |" in page for number in [*FAULTS, *PROMISES])
