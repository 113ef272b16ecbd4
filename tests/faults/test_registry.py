"""Every fault has a test: a cell of the matrix or a test with the marker names every number of the registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.page import PAGE, marked, with_tables
from tests.faults.promises import PROMISES
from tests.faults.registry import FAULTS, STORE_FAULTS
from tests.faults.table import SCENARIOS


def test_faults_are_numbered_without_a_gap() -> None:
    assert list(FAULTS) == [f"F{number:02d}" for number in range(1, 80)]


def test_every_fault_has_a_test() -> None:
    named = {number for scenario in SCENARIOS for number in (*scenario.faults, scenario.about) if number} | set(marked())
    assert not set(FAULTS) - named, "faults that no test injects"
    assert not named - set(FAULTS) - set(PROMISES), "numbers that the registry does not have"


def test_every_promise_has_a_test() -> None:
    assert not set(PROMISES) - set(marked()), "promises that no test attacks"


def test_the_matrix_injects_every_fault_of_a_store() -> None:
    injected = {number for scenario in SCENARIOS for number in scenario.faults}
    assert injected == set(STORE_FAULTS)


def test_the_matrix_reads_all_unusual_valid_data() -> None:
    read = {scenario.about for scenario in SCENARIOS if not scenario.faults}
    assert [fault.number for fault in FAULTS.values() if not fault.injected and fault.number not in read] == []


def test_scenario_names_are_unique() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))


def test_the_reliability_page_has_the_current_tables() -> None:
    page = PAGE.read_text()
    assert page == with_tables(page), "python -m tests.faults.page writes them"
    assert all(f"| {number} |" in page for number in [*FAULTS, *PROMISES])


_MARKED = '@pytest.mark.fault("F01")\n'
_NAMED = {
    "a marker": (_MARKED + "def test_it():\n    assert done()", ["F01"]),
    "several": (
        '@pytest.mark.fault("F01", "F02")\n@pytest.mark.fault("S01")\nasync def test_it():\n    check()',
        ["F01", "F02", "S01"],
    ),
    "a name": ("def test_s01_holds():\n    assert done()", ["S01"]),
    "in a class": (f"class TestAll:\n    {_MARKED}    def test_it(self):\n        assert done()", ["F01"]),
    "a test that is skipped": (_MARKED + "@pytest.mark.skip\ndef test_it():\n    assert done()", []),
    "a test that may fail": (_MARKED + '@pytest.mark.xfail(reason="?")\ndef test_it():\n    assert done()', []),
    "a test that does nothing": (_MARKED + 'def test_it():\n    """What it would show."""\n    done = 1', []),
    "a marker in a comment": ('# pytest.mark.fault("F01")\ndef test_it():\n    assert done()', []),
    "a function in a test": ("def test_all():\n    check()\n\n    def test_f01_it():\n        check()", []),
}


@pytest.mark.parametrize("name", _NAMED)
def test_only_tests_that_can_fail_name_a_fault(tmp_path: Path, name: str) -> None:
    text, numbers = _NAMED[name]
    (tmp_path / "test_one.py").write_text(text)
    assert marked(tmp_path) == {number: ["test_one.py"] for number in numbers}


@pytest.mark.parametrize(
    "text",
    [
        _MARKED + "def helper():\n    check()",
        'pytestmark = pytest.mark.fault("F01")',
        "@pytest.mark.fault(FAULT)\ndef test_it():\n    check()",
        f"def helper():\n    {_MARKED}    def test_it():\n        check()",
    ],
)
def test_a_number_outside_a_test_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "test_one.py").write_text(text)
    with pytest.raises(AssertionError, match=r"test_one.py.* a fault's number"):
        marked(tmp_path)
