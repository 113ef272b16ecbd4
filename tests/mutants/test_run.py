"""Every bug of the list is killed by the test that it names, and the runner tells what it cannot judge."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.mutant import CannotPlantError, Mutant, plant
from tests.mutants.run import MUTANTS

_ROOT = Path(__file__).resolve().parents[2]

_BY_HAND = """
import attrs
from tests.mutants.mutant import Mutant
from tests.mutants.run import run
wrong = Mutant(
    "keeps one value too many", "kafka_remote_client.location.remembered", old="> self._size:", new="> self._size + 1:",
    killed_by="location/test_remembered.py",
)
others = [
    attrs.evolve(wrong, killed_by="location/test_aborted_tail.py::test_an_unknown_list_is_asked_for_again"),
    attrs.evolve(
        wrong, old="not there", killed_by="location/test_aborted_tail.py::test_an_unknown_list_is_asked_for_again"
    ),
    attrs.evolve(wrong, killed_by="location/test_aborted_tail.py::test_that_is_not_there"),
]
for outcome in run(others, jobs=1) + run([wrong], whole_package=True):
    print("outcome:", str(outcome).split()[0], outcome.told)
"""


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which forks: neither threads of this one nor its coverage may be in the way."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    return subprocess.run(
        [sys.executable, "-X", "dev", *command], cwd=_ROOT, env=environment, text=True, capture_output=True, check=False
    )


_EVERY = 3


def test_planted_bugs_are_killed_by_the_tests_they_name() -> None:
    done = _run("-m", "tests.mutants.run", "--every", str(_EVERY))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("killed  ") == len(MUTANTS[::_EVERY])


def test_the_text_that_a_bug_replaces_is_there_once() -> None:
    assert [one.name for one in MUTANTS if one.source.count(one.old) != 1 or one.old == one.new] == []


def test_survivors_and_what_cannot_be_judged_are_told_apart() -> None:
    done = _run("-c", _BY_HAND)
    told = [line.removeprefix("outcome: ") for line in done.stdout.splitlines() if line.startswith("outcome: ")]
    assert [line.split()[0] for line in told] == ["SURVIVED", "BROKEN", "BROKEN", "killed"], done.stdout + done.stderr
    assert "occurs 0 times" in told[1]
    assert "there is no test" in told[2]
    assert "test_remembered.py::" in told[3]


def test_bugs_have_names_of_their_own_and_tests_of_their_package() -> None:
    assert [name for name, count in Counter(one.name for one in MUTANTS).items() if count > 1] == []
    assert [one.name for one in MUTANTS if not (_ROOT / "tests" / one.killed_by.partition("::")[0]).is_file()] == []


@pytest.mark.parametrize("old", ["no such text", "import"])
def test_a_text_that_does_not_occur_once_cannot_be_planted(old: str) -> None:
    with pytest.raises(CannotPlantError, match="times in"):
        plant(Mutant("m", "kafka_remote_client.location.remembered", old, "x", "location/test_remembered.py"))


def test_a_change_that_reaches_no_function_cannot_be_planted() -> None:
    with pytest.raises(CannotPlantError, match="reaches no function"):
        plant(Mutant("m", "kafka_remote_client.location.remembered", "A bounded memory", "A memory", "location/x.py"))
