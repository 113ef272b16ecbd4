"""No two places share a run of code character by character; and the search finds such runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.repeats import Place, repeated_runs
from tests.packaging.tree import ROOT, source_modules, tracked_files

LENGTH = 6
BODY = [f"    value{number} = call({number})" for number in range(LENGTH)]
ONE, OTHER = Path("one.py"), Path("other.py")


def found(one: list[str], other: list[str]) -> list[tuple[Place, Place]]:
    return repeated_runs({ONE: "\n".join(one), OTHER: "\n".join(other)}, LENGTH)


def _texts(paths: list[Path]) -> dict[Path, str]:
    return {path: (ROOT / path).read_text() for path in paths}


def test_product_code_repeats_no_run_of_six_lines() -> None:
    repeated = repeated_runs(_texts(source_modules()), LENGTH)
    assert [f"{one} ~ {other}" for one, other in repeated] == []


def test_tests_and_tools_repeat_no_run_of_six_lines() -> None:
    product = set(source_modules())
    repeated = repeated_runs(_texts([path for path in tracked_files() if path.suffix == ".py" and path not in product]), LENGTH)
    assert [f"{one} ~ {other}" for one, other in repeated] == []


def test_a_run_is_found_in_any_surroundings() -> None:
    one = ["import os", "def f():", *BODY, "    return value0"]
    other = [
        "class C:",
        "    def g(self, name):",
        '        """Says."""',
        *(f"    {line}  # why" for line in BODY),
        "        done()",
    ]
    assert found(one, other) == [(Place(ONE, 3, 8), Place(OTHER, 4, 9))]


def test_a_longer_run_is_one_pair() -> None:
    longer = ["def f():", *BODY, "    more()", "    most()"]
    assert found(longer, longer) == [(Place(ONE, 2, 9), Place(OTHER, 2, 9))]


def test_two_runs_in_one_file_are_found() -> None:
    text = "\n".join(["def f():", *BODY, "def g():", *BODY])
    assert repeated_runs({ONE: text}, LENGTH) == [(Place(ONE, 2, 7), Place(ONE, 9, 14))]


def test_equal_lines_in_a_row_are_no_repeat() -> None:
    assert repeated_runs({ONE: "\n".join(["def f():", *["    call()"] * 9])}, LENGTH) == []


@pytest.mark.parametrize(
    "lines",
    [
        BODY[:-1],
        [*BODY[:3], "def g():", *BODY[3:]],
        [f"import module{number}" for number in range(9)],
        ["from module import (", *(f"    name{number}," for number in range(9)), ")"],
        ["__all__ = [", *(f'    "name{number}",' for number in range(9)), "]"],
        ['    """Says', *(f"    line {number}" for number in range(9)), '    """'],
        ["class C:", *(f"    field{number}: int" for number in range(9))],
        ["    return self"] * 9,
    ],
    ids=["short", "two functions", "imports", "long import", "all", "docstring", "fields", "thin"],
)
def test_lines_that_are_not_code_are_skipped(lines: list[str]) -> None:
    text = lines if lines[0].startswith(("import", "from", "class", "__all__")) else ["def f():", *lines]
    assert found(text, text) == []


def test_a_signature_is_not_a_run() -> None:
    text = [
        "@decorator",
        "def f(",
        *(f"    argument{number}: int = {number}," for number in range(9)),
        ") -> None:",
        "    one()",
    ]
    assert found(text, text) == []
