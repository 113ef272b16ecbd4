"""Which figures of a large metadata topic miss their targets, and that a small one has all figures."""

from __future__ import annotations

import pytest

from tests.benchmarks.metadata_scale import KEYS, TARGETS, measured, missed


@pytest.mark.parametrize("name", TARGETS)
def test_each_target_of_the_metadata_can_be_missed(name: str) -> None:
    assert missed(TARGETS) == []
    (line,) = missed(TARGETS | {name: 2 * TARGETS[name]})
    assert line.startswith(f"missed: {name} is ")


@pytest.mark.parametrize("keys", KEYS)
def test_a_small_metadata_topic_has_all_figures(keys: str) -> None:
    assert measured(200, keys).keys() == TARGETS.keys()
