"""The place of temporary files that killed processes leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.run_directory import RUN_VARIABLE, leftovers, run_directory


def test_in_a_run_temporary_files_are_in_its_directory() -> None:
    assert leftovers() == str(run_directory())


def test_outside_a_run_temporary_files_are_in_the_systems_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(RUN_VARIABLE)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert leftovers() == str(tmp_path)
