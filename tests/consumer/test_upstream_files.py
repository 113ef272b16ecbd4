"""Each of confluent-kafka-python's scenarios of Consumer has an existing test here, or a reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.consumer.upstream_files import ELSEWHERE, FILES, READ_AT

_TESTS = Path(__file__).resolve().parents[1]
_ROOT = _TESTS.parent
_HERE = "consumer/test_upstream_scenarios.py::"


@pytest.mark.parametrize("file", FILES)
def test_each_scenario_names_a_test_that_exists_or_says_why_not(file: str) -> None:
    assert FILES[file]
    for name, covered_by in FILES[file].items():
        if covered_by.startswith("not ours: "):
            continue
        path, _, test = (covered_by or _HERE + name).partition("::")
        assert f"def {test}(" in (_TESTS / path).read_text(), f"{name}: {covered_by}"


def test_what_is_about_something_else_says_about_what() -> None:
    assert all(ELSEWHERE.values())


def test_the_list_is_of_the_version_that_is_pinned() -> None:
    """If a newer version is pinned, read its tests again."""
    assert f"confluent-kafka=={READ_AT}." in (_ROOT / ".ci" / "constraints.txt").read_text()
