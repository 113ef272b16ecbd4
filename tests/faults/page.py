"""The tables of docs/reliability.md: the registries, the tests that name their numbers, and a planted bug for each invariant.

``python -m tests.faults.page`` writes them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from tests.faults.bugs import BUGS
from tests.faults.promises import PROMISES
from tests.faults.registry import FAULTS
from tests.faults.table import SCENARIOS
from tests.support.invariants.checker import INVARIANTS

__all__ = ["PAGE", "marked", "tables", "with_tables"]

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "reliability.md"
_IN_A_NAME = re.compile(r"def test_\w*[fs]\d\d_")
_SOUND = " (sound data: nothing is injected)"
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_PLACE = re.compile(r"(<!-- (?P<name>[a-z]+) -->\n).*?(<!-- /(?P=name) -->\n)", re.DOTALL)


def marked(tests: Path = TESTS) -> dict[str, list[str]]:
    """Returns the numbers that tests name with the marker or in their own names (``test_s01_…``), with the tests' files.

    Raises AssertionError if something other than a test has a number.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text()
        if "mark.fault(" not in text and not _IN_A_NAME.search(text):
            continue
        for number in sorted(_numbers(ast.parse(text), str(path.relative_to(tests)))):
            found.setdefault(number, []).append(str(path.relative_to(tests)))
    return found


def _numbers(module: ast.Module, where: str) -> set[str]:
    """Returns the numbers that a module's tests name. Skipped tests, xfail tests and tests without a body do not count."""
    numbers: set[str] = set()
    on_tests: set[ast.Call] = set()
    for test in _tests(module):
        marks = {mark: [one for one in test.decorator_list if _is_mark(one, mark)] for mark in ("fault", "skip", "xfail")}
        given = [one for one in marks["fault"] if isinstance(one, ast.Call)]
        on_tests |= set(given)
        if marks["skip"] or marks["xfail"] or _does_nothing(test):
            continue
        numbers |= {part for part in test.name.upper().split("_") if part in FAULTS or part in PROMISES}
        for number in (one for call in given for one in call.args):
            assert isinstance(number, ast.Constant), f"{where}: a fault's number must be a literal"
            numbers.add(str(number.value))
    elsewhere = [
        one for one in ast.walk(module) if isinstance(one, ast.Call) and _is_mark(one, "fault") and one not in on_tests
    ]
    assert not elsewhere, f"{where}, line {elsewhere[0].lineno}: only a test may have a fault's number"
    return numbers


def _tests(module: ast.Module) -> Iterator[_Function]:
    """The functions that pytest collects."""
    for node in module.body:
        inside = node.body if isinstance(node, ast.ClassDef) and node.name.startswith("Test") else [node]
        for one in inside:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_"):
                yield one


def _is_mark(node: ast.expr, name: str) -> bool:
    """Returns whether the node is ``pytest.mark.name``, called or not."""
    marked_with = node.func if isinstance(node, ast.Call) else node
    return (
        isinstance(marked_with, ast.Attribute)
        and marked_with.attr == name
        and isinstance(marked_with.value, ast.Attribute)
        and marked_with.value.attr == "mark"
    )


def _does_nothing(test: _Function) -> bool:
    """Returns whether the body has neither a call nor an assertion."""
    return not any(isinstance(node, ast.Call | ast.Assert) for line in test.body for node in ast.walk(line))


def _tests_of(number: str, files: Mapping[str, list[str]]) -> str:
    in_the_matrix = any(number in (*scenario.faults, scenario.about) for scenario in SCENARIOS)
    named = ["faults/test_matrix.py"] if in_the_matrix else []
    return ", ".join(f"`{file}`" for file in [*named, *files.get(number, [])])


def tables() -> dict[str, str]:
    """Returns the tables by the names of their places in the page."""
    files = marked()
    faults = (
        f"| {f.number} | {f.what}{'' if f.injected else _SOUND} | {f.sees} | {f.within} | {_tests_of(f.number, files)} |"
        for f in FAULTS.values()
    )
    promises = (f"| {p.number} | {p.threat} | {p.outcome} | {_tests_of(p.number, files)} |" for p in PROMISES.values())
    return {
        "invariants": _table(("invariant", "a planted bug", "replaced function", "run", "violated"), map(_bug_of, INVARIANTS)),
        "faults": _table(("fault", "what goes wrong", "what the user sees", "within", "tests"), faults),
        "promises": _table(("promise", "threat", "outcome", "tests"), promises),
    }


def _bug_of(invariant: str) -> str:
    """Returns the row of an invariant, with the bug that violates it and the fewest others."""
    bug = min((bug for bug in BUGS if invariant in bug.caught_by), key=lambda bug: (len(bug.caught_by), bug.name))
    fires = ", ".join(sorted(bug.caught_by))
    return f"| {invariant} | {bug.name} | `{bug.place.removeprefix('kafka_remote_client.')}` | `{bug.scenario}` | {fires} |"


def _table(head: tuple[str, ...], rows: Iterable[str]) -> str:
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows]) + "\n"


def with_tables(page: str) -> str:
    """Returns the page with current tables."""
    made = tables()
    return _PLACE.sub(lambda found: found[1] + made[found["name"]] + found[3], page)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
