"""The tests of the compiled kernel cover all its lines and branches, as ``make kernel-coverage`` reports."""

from __future__ import annotations

import shutil

import pytest

from tests.records import kernel_coverage


def test_every_line_and_branch_of_the_kernel_is_reached(capfd: pytest.CaptureFixture[str]) -> None:
    if not (shutil.which("gcc") and shutil.which("gcov")):
        pytest.skip("gcc with gcov is not installed")
    complete = kernel_coverage.run()
    assert complete, capfd.readouterr().out
