from __future__ import annotations

import pytest

from kafka_remote_client.spark.options.source_options import SourceOptions, parse_options
from kafka_remote_client.spark.reading.tier_health import KNOWN_TIERS, RETRY_SECONDS, TierHealth
from tests.support.locations import ManualClock


def options(**more: str) -> SourceOptions:
    return parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t", **more})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def health(clock: ManualClock) -> TierHealth:
    return TierHealth(clock)


def test_a_tier_is_asked_until_it_fails(health: TierHealth) -> None:
    assert health.failure(options()) is None
    health.failed(options(), "no answer")
    assert health.failure(options()) == "no answer"
    assert health.failure(options(subscribe="other", minPartitions="9")) == "no answer"


def test_other_tiers_are_asked_meanwhile(health: TierHealth) -> None:
    health.failed(options(), "no answer")
    assert health.failure(options(**{"kafka.bootstrap.servers": "c:1"})) is None
    assert health.failure(options(**{"fetch.remote.bootstrap.servers": "s:1"})) is None


def test_one_task_asks_again_after_a_while(health: TierHealth, clock: ManualClock) -> None:
    health.failed(options(), "no answer")
    clock.now += RETRY_SECONDS
    assert health.failure(options()) is None
    assert health.failure(options()) == "no answer"
    health.worked(options())
    assert health.failure(options()) is None


def test_another_failure_begins_another_pause(health: TierHealth, clock: ManualClock) -> None:
    health.failed(options(), "no answer")
    clock.now += RETRY_SECONDS
    assert health.failure(options()) is None
    health.failed(options(), "still no answer")
    clock.now += RETRY_SECONDS - 1
    assert health.failure(options()) == "still no answer"


def test_what_the_driver_says_counts_once(health: TierHealth, clock: ManualClock) -> None:
    assert health.failure(options(), "no answer") == "no answer"
    clock.now += RETRY_SECONDS
    assert health.failure(options(), "no answer") is None
    health.worked(options())
    assert health.failure(options(), "no answer") is None
    assert health.failure(options(), "another plan, and no answer") == "another plan, and no answer"


def test_a_tier_that_worked_lately_is_known(health: TierHealth, clock: ManualClock) -> None:
    assert not health.worked_lately(options())
    health.worked(options())
    assert health.worked_lately(options())
    clock.now += RETRY_SECONDS
    assert not health.worked_lately(options())
    health.worked(options())
    health.failed(options(), "no answer")
    assert not health.worked_lately(options())


def test_the_last_tiers_are_remembered(health: TierHealth) -> None:
    for number in range(KNOWN_TIERS + 1):
        health.failed(options(**{"kafka.bootstrap.servers": f"b:{number}"}), "no answer")
    assert repr(health) == f"TierHealth({KNOWN_TIERS} known)"
    assert health.failure(options(**{"kafka.bootstrap.servers": f"b:{KNOWN_TIERS}"})) == "no answer"
    assert health.failure(options(**{"kafka.bootstrap.servers": "b:0"})) is None


def test_a_forked_process_knows_nothing(health: TierHealth) -> None:
    health.failed(options(), "no answer")
    health.forget()
    assert health.failure(options()) is None
