"""The examples of a property do not depend on the modules that are imported."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[list[int]]:
    examples: list[list[int]] = []

    @settings(derandomize=True, database=None, max_examples=200)
    @given(st.lists(st.integers(0, 1 << 40)))
    def draw(numbers: list[int]) -> None:
        examples.append(numbers)

    draw()
    return examples


def test_examples_do_not_depend_on_imported_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    path = tmp_path / "application_with_numbers.py"
    path.write_text("".join(f"NUMBER_{n} = {(1 << 30) + n * 7919}\n" for n in range(500)))
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.import_module("application_with_numbers").NUMBER_0 == 1 << 30
    try:
        assert drawn() == before
    finally:
        del sys.modules["application_with_numbers"]
