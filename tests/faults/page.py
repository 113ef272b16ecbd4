"""The tables of docs/reliability.md: the registries, and the tests that name their numbers. ``python -m tests.faults.page``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.faults.promises import PROMISES
from tests.faults.registry import FAULTS
from tests.faults.table import SCENARIOS

__all__ = ["PAGE", "marked", "tables", "with_tables"]

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "reliability.md"
_IN_A_NAME = re.compile(r"def test_\w*[fs]\d\d_")
_PLACE = re.compile(r"(<!-- (?P<name>[a-z]+) -->\n).*?(<!-- /(?P=name) -->\n)", re.DOTALL)


def marked() -> dict[str, list[str]]:
    """The numbers that tests name with the marker, or in their own names (``test_s01_…``), and the files of these tests."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        if "mark.fault(" not in text and not _IN_A_NAME.search(text):
            continue
        numbers: set[str] = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                numbers |= {part for part in node.name.upper().split("_") if part in FAULTS or part in PROMISES}
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fault":
                for number in node.args:
                    assert isinstance(number, ast.Constant), f"{path}: a fault's number is written out"
                    numbers.add(str(number.value))
        for number in numbers:
            found.setdefault(number, []).append(str(path.relative_to(TESTS)))
    return found


def _tests_of(number: str, files: Mapping[str, list[str]]) -> str:
    in_the_matrix = any(number in scenario.faults for scenario in SCENARIOS)
    named = ["faults/test_matrix.py"] if in_the_matrix else []
    return ", ".join(f"`{file}`" for file in [*named, *files.get(number, [])])


def tables() -> dict[str, str]:
    """The tables by the names of their places in the page."""
    files = marked()
    faults = (f"| {f.number} | {f.what} | {f.sees} | {f.within} | {_tests_of(f.number, files)} |" for f in FAULTS.values())
    promises = (f"| {p.number} | {p.threat} | {p.outcome} | {_tests_of(p.number, files)} |" for p in PROMISES.values())
    return {
        "faults": _table(("fault", "what goes wrong", "what the user sees", "within", "tests"), faults),
        "promises": _table(("promise", "threat", "what comes of it", "tests"), promises),
    }


def _table(head: tuple[str, ...], rows: Iterable[str]) -> str:
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows]) + "\n"


def with_tables(page: str) -> str:
    """The page with its tables as they are to be."""
    made = tables()
    return _PLACE.sub(lambda found: found[1] + made[found["name"]] + found[3], page)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
