"""A campaign stores failed programs and runs them first, whatever its seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.state_machine.run import run


class FailingMachine(RuleBasedStateMachine):
    """A machine that fails at the first number of 1,000 or more."""

    failures: list[AssertionError]
    drawn: list[int]

    @rule(number=st.integers(0, 1_000_000))
    def add(self, number: int) -> None:
        self.drawn.append(number)
        assert number < 1000


def _drawn(kept: Path | None, number: int) -> list[int]:
    machine = type("FailingMachine", (FailingMachine,), {"drawn": []})
    with pytest.raises(AssertionError):
        run(machine, examples=200, number=number, shrinks=True, steps=1, kept=kept)
    return list(machine.drawn)


def test_a_failed_program_runs_first_with_any_seed(tmp_path: Path) -> None:
    assert _drawn(tmp_path, 1)[0] != 1000
    assert _drawn(tmp_path, 2)[0] == 1000


def test_a_suite_stores_no_programs() -> None:
    assert _drawn(None, 1) == _drawn(None, 1)
