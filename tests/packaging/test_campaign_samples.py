"""Fixed samples of the campaigns that no other suite samples: one file of tests each, where the campaign runs all of them."""

from __future__ import annotations

import shutil

import pytest

from tests.packaging.test_confluent_versions import passes_on
from tests.packaging.test_pure_python import passes_without_the_kernel
from tests.records.kernel_coverage import figures, reached
from tests.support.artifacts import MissingPartError
from tests.support.confluent_versions import installed, lowest


def test_batches_are_read_alike_without_the_kernel() -> None:
    assert " passed" in passes_without_the_kernel("tests/records/test_batch.py")


def test_the_lowest_supported_version_has_the_same_surface() -> None:
    try:
        installed(lowest())
    except MissingPartError as error:
        pytest.skip(f"no other confluent-kafka: {error}")
    assert " passed" in passes_on(lowest(), "tests/consumer/test_surface.py")


def test_every_line_and_branch_of_the_aborted_filter_is_reached() -> None:
    if not (shutil.which("gcc") and shutil.which("gcov")):
        pytest.skip("gcc with gcov is not installed")
    lines, passed = reached("tests/records/test_aborted.py")
    counted = figures(lines)["_kernel_aborted.pxi"]
    assert passed
    assert counted["lines"] > 50
    assert counted["branches"] > 30
    assert (counted["missed"], counted["untaken"]) == (0, 0)
