"""An input is kept for a new kind of error."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.fuzz import run
from tests.fuzz.outcomes import Outcomes
from tests.fuzz.registry import TARGETS


class Program:
    """A program whose functions raise errors of two classes."""

    def __init__(self) -> None:
        self.refused = type("RefusedError", (Exception,), {})
        self.late = type("LateError", (self.refused,), {})

    def target(self, data: bytes) -> None:
        if data:
            with contextlib.suppress(self.refused):
                self.refuse(data)

    def refuse(self, data: bytes) -> None:
        if data.startswith(b"l"):
            raise self.late("late")
        raise self.refused(data[-1])

    def other(self, data: bytes) -> None:
        self.refused(data[-1])


@pytest.fixture
def program() -> Program:
    return Program()


@pytest.fixture
def outcomes(tmp_path: Path, program: Program) -> Outcomes:
    outcomes = Outcomes(tmp_path)
    outcomes.watch([program.refused])
    return outcomes


def test_the_smallest_input_of_each_kind_is_kept_over_all_rounds(tmp_path: Path, program: Program, outcomes: Outcomes) -> None:
    for data in (b"", b"latest", b"left", b"long ago", b"so", b"no"):
        outcomes.of(program.target)(data)
    another, again = Outcomes(tmp_path), Program()
    another.watch([again.refused])
    another.of(again.target)(b"two")
    another.of(again.target)(b"leave")
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == [b"left", b"so"]


def test_kinds_differ_by_the_running_functions(tmp_path: Path, program: Program, outcomes: Outcomes) -> None:
    for judge in (program.target, program.other, program.refused):
        outcomes.of(judge)(b"1")
    assert len(list(tmp_path.iterdir())) == 3


def test_kinds_differ_by_the_fault(tmp_path: Path, program: Program, outcomes: Outcomes) -> None:
    for data in (b"1", b"2", b"21"):
        outcomes.of(program.target)(data)
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == [b"1", b"2"]


def test_a_campaign_adds_an_input_for_its_kind_of_error() -> None:
    target, not_utf8, too_long = TARGETS["location_metadata"], b"\x01\x00\x02\xc3\x28", b"\xff" * 9
    led = run.kinds_of(target, [not_utf8, too_long])
    assert led.keys() > run.kinds_of(target, [not_utf8]).keys()
    assert run.new_inputs(target, [not_utf8], [], led) == [too_long]
    assert run.new_inputs(target, [not_utf8, too_long], [], led) == []
