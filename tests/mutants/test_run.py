"""The named test of each bug in the list kills it, and the runner reports what it cannot judge."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.mutant import CannotPlantError, Mutant, plant
from tests.mutants.run import MUTANTS, rotating

_ROOT = Path(__file__).resolve().parents[2]

_BY_HAND = """
import attrs
from tests.mutants.mutant import Mutant
from tests.mutants.server import run
wrong = Mutant(
    "keeps one value too many", "kafka_remote_client.location.lru_cache", old="> self._size:", new="> self._size + 1:",
    killed_by="location/test_lru_cache.py",
)
others = [
    attrs.evolve(wrong, killed_by="location/test_aborted_tail.py::test_an_unknown_list_is_requested_again"),
    attrs.evolve(
        wrong, old="not there", killed_by="location/test_aborted_tail.py::test_an_unknown_list_is_requested_again"
    ),
    attrs.evolve(wrong, killed_by="location/test_aborted_tail.py::test_that_is_not_there"),
]
made = [
    attrs.evolve(wrong, killed_by=""),
    Mutant("a table", "kafka_remote_client.location.sasl_settings", '"plaintext": False', '"plaintext": True', killed_by=""),
]
hangs = attrs.evolve(
    wrong,
    old="value = self._values.get(key)",
    new="while True: pass",
    killed_by="location/test_lru_cache.py",
)
for outcome in run(others, jobs=1) + run([wrong], whole_package=True) + run([hangs, *made], seconds=5):
    print("outcome:", str(outcome).split()[0], outcome.detail)
"""

_NEVER_ENDS = """
from tests.mutants.mutant import Mutant
from tests.mutants.server import run
for killed_by in ("location/test_lru_cache.py", ""):
    blocks = Mutant(
        "blocks", "kafka_remote_client.location.lru_cache", old="value = self._values.get(key)", killed_by=killed_by,
        new="while True: __import__('signal').alarm(0); __import__('time').sleep(0.1)",
    )
    for outcome in run([blocks], seconds=1, budget=600):
        print("outcome:", str(outcome).split()[0], outcome.detail)
"""

_FAILS_ONCE = """
import sys
from tests.mutants.at_import import judged_at_import
from tests.mutants.mutant import Mutant
from tests.mutants.server import run
planted, imported = sys.argv[1:]
fails_once = Mutant(
    "fails once", "kafka_remote_client.location.lru_cache", old="value = self._values.get(key)",
    new=f"__import__('os').path.exists({planted!r}) or open({planted!r}, 'w').no_method; value = self._values.get(key)",
    killed_by="location/test_lru_cache.py",
)
for outcome in run([fails_once]):
    print("outcome:", outcome.killed, outcome.broken)
module, test = "kafka_remote_client.location.sasl_settings", "tests/location/test_sasl_settings.py"
once = f"not __import__('os').path.exists({imported!r}) and not open({imported!r}, 'x').close()"
text = Mutant("", module, "", "", "").source.replace('"plaintext": False', f'"plaintext": {once}')
print("outcome:", judged_at_import(module, text, ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"], [test]))
"""


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs in a separate process, which forks: threads and coverage of this one would disturb it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    return subprocess.run(
        [sys.executable, "-X", "dev", *command], cwd=_ROOT, env=environment, text=True, capture_output=True, check=False
    )


_ROTATING = 20


def test_rotating_bugs_are_killed_by_the_tests_they_name() -> None:
    done = _run("-m", "tests.mutants.run", "--kind", "hand", "--rotating", str(_ROTATING))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("killed  ") == _ROTATING


def test_rotating_bugs_are_the_same_for_the_same_code() -> None:
    assert rotating(MUTANTS, _ROTATING) == rotating(MUTANTS, _ROTATING)
    assert len(rotating(MUTANTS, _ROTATING)) == _ROTATING
    assert rotating(MUTANTS, 10_000) == list(MUTANTS)


def test_the_text_that_a_bug_replaces_occurs_once() -> None:
    assert [one.name for one in MUTANTS if one.source.count(one.old) != 1 or one.old == one.new] == []


def test_outcomes_are_distinguished_and_a_hang_is_a_failure() -> None:
    done = _run("-c", _BY_HAND)
    lines = [line.removeprefix("outcome: ") for line in done.stdout.splitlines() if line.startswith("outcome: ")]
    assert [line.split()[0] for line in lines] == [*("SURVIVED", "BROKEN", "BROKEN"), *["killed"] * 4], (
        done.stdout + done.stderr
    )
    assert "occurs 0 times" in lines[1]
    assert "there is no test" in lines[2]
    assert "test_lru_cache.py::" in lines[3]
    assert {line.split("::")[0].removeprefix("killed ") for line in lines[4:]} == {
        "tests/location/test_lru_cache.py",
        "at import: tests/location/test_sasl_settings.py",
    }


def test_a_test_that_its_time_limit_does_not_end_is_killed() -> None:
    """The bug takes away the limit's signal; in the end of ``asyncio.run``, which waits for threads, it has come before."""
    done = _run("-c", _NEVER_ENDS)
    lines = [line for line in done.stdout.splitlines() if line.startswith("outcome: ")]
    expected = "outcome: killed the process ended in: tests/location/test_lru_cache.py::"
    assert [line.startswith(expected) for line in lines] == [True, True], done.stdout + done.stderr


def test_a_test_that_fails_only_once_kills_no_bug(tmp_path: Path) -> None:
    has_failed = [tmp_path / "with the bug planted", tmp_path / "with the bug imported"]
    done = _run("-c", _FAILS_ONCE, *map(str, has_failed))
    lines = [line for line in done.stdout.splitlines() if line.startswith("outcome: ")]
    assert lines == ["outcome: False False", "outcome: None"], done.stdout + done.stderr
    assert all(path.exists() for path in has_failed)


def test_names_of_bugs_are_unique() -> None:
    assert [name for name, count in Counter(one.name for one in MUTANTS).items() if count > 1] == []


@functools.cache
def _tests(file: str) -> set[str]:
    """Returns the functions of a test file, those of classes as ``Class::function``."""
    tree = ast.parse((_ROOT / "tests" / file).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    alone = {node.name for node in tree.body if isinstance(node, functions)}
    return alone | {f"{owner.name}::{node.name}" for owner in classes for node in owner.body if isinstance(node, functions)}


def test_tests_named_by_bugs_exist() -> None:
    assert [one.killed_by for one in MUTANTS if not (_ROOT / "tests" / one.killed_by.partition("::")[0]).is_file()] == []
    named = [one.killed_by.partition("[")[0].partition("::") for one in MUTANTS]
    assert [f"{file}::{test}" for file, _, test in named if test and test not in _tests(file)] == []


@pytest.mark.parametrize("old", ["no such text", "import"])
def test_a_text_that_does_not_occur_once_cannot_be_planted(old: str) -> None:
    with pytest.raises(CannotPlantError, match="times in"):
        plant(Mutant("m", "kafka_remote_client.location.lru_cache", old, "x", "location/test_lru_cache.py"))


def test_a_change_that_reaches_no_function_cannot_be_planted() -> None:
    with pytest.raises(CannotPlantError, match="reaches no function"):
        plant(Mutant("m", "kafka_remote_client.location.lru_cache", "A bounded cache", "A cache", "location/x.py"))
