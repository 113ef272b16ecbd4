"""Sizes of grants: the requested size within the limits of settings and the topic's policy."""

from __future__ import annotations

import attrs
import pytest

from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.shim.grant_limits import GrantLimits
from kafka_remote_client.shim.topic_policies import topic_policies
from tests.support.shim_fakes import TIP

KIB = 1 << 10
QUESTION = LocationQuestion(
    topic="",
    topic_id=TIP.topic_id,
    partition=0,
    offset=0,
    isolation_level=IsolationLevel.READ_COMMITTED,
    max_bytes=1024 * KIB,
    range_bytes=128 * KIB,
    log_start_offset=0,
    end_offset=10,
)


@pytest.mark.parametrize(
    ("wanted", "window"), [((0, 0), (3000, 3000)), ((4000, 0), (4000, 3000)), ((9000, 9000), (5000, 3000))]
)
def test_a_window_has_the_requested_size_within_the_limits(wanted: tuple[int, int], window: tuple[int, int]) -> None:
    assert GrantLimits(3000, 5000).window(*wanted) == window


@pytest.mark.parametrize(("partitions", "ranges"), [(1, 4096), (2, 2048), (128, 32)])
def test_partitions_of_a_batch_share_the_ranges_of_an_answer(partitions: int, ranges: int) -> None:
    limits = GrantLimits()
    assert limits.window(1 << 40, 1, partitions) == (64 * KIB * ranges, 64 * KIB)
    assert limits.window(2048 * KIB, 64 * KIB, partitions) == (2048 * KIB, 64 * KIB), "windows of 32 ranges are never cut"
    assert limits.window(1 << 40, 0, partitions) == (limits.max_grant_bytes, limits.range_bytes)


def test_a_policy_makes_windows_smaller_and_never_larger() -> None:
    limits = GrantLimits(topics=topic_policies({"small.max_grant_bytes": 64 * KIB, "large.max_grant_bytes": 2048 * KIB}))
    assert limits.within(QUESTION, "small") == attrs.evolve(QUESTION, topic="small", max_bytes=64 * KIB, range_bytes=64 * KIB)
    assert limits.within(QUESTION, "large") == attrs.evolve(QUESTION, topic="large")
    assert limits.within(QUESTION, "other") == attrs.evolve(QUESTION, topic="other")


def test_a_policy_may_permit_nothing() -> None:
    limits = GrantLimits(topics=topic_policies({"a.grant": "never", "b.grant": "whole-object"}), whole_objects=True)
    assert limits.within(QUESTION, "a") is None
    assert limits.within(QUESTION, "b") is not None
    assert limits.within(QUESTION, "c") is None


def test_the_longest_life_of_a_url_is_that_of_any_topic() -> None:
    assert GrantLimits(url_ttl=60).longest_url_ttl == 60
    assert GrantLimits(url_ttl=60, topics=topic_policies({"a.url_ttl": 90, "b.grant": "never"})).longest_url_ttl == 90
