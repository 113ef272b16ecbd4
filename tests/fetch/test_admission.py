"""What the store may be asked for, by what its answers were."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import (
    Action,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
)
from kafka_remote_client.fetch.admission import Admission
from kafka_remote_client.fetch.grant_read import RangeRead
from kafka_remote_client.fetch.reader_values import LocateTask, RangeTask
from kafka_remote_client.fetch.room import Room
from kafka_remote_client.model import ByteRange, GrantedRange
from kafka_remote_client.plugin import LocationMetadata
from tests.support.locations import location

MIB = 1024 * 1024


def admission(**settings: Any) -> Admission:
    config = RemoteFetchConfig(enabled=True, **{"breaker_failures": 2, "retries": 1, **settings})
    return Admission(config, Room(config))


def task(host: str = "store", *, stop_at_local: bool = True, owned: bool = True) -> RangeTask:
    reader = SimpleNamespace(topic="orders", partition=0, stop_at_local=stop_at_local, owns=lambda _: owned)
    granted = GrantedRange(ByteRange(0, 1000), LocationMetadata(url=f"https://{host}/x?signature=1").encode())
    return RangeTask(cast("Any", reader), cast("Any", SimpleNamespace(location=location())), RangeRead(granted))


LOCATE = LocateTask(cast("Any", None), 0, -1, ahead=False)


def test_each_host_has_a_breaker_of_its_own() -> None:
    stores, error = admission(), RemoteStorageTimeoutError("slow")
    for _ in range(2):
        stores.landed(task("a"), 5.0, error, in_flight=1, now=100.0)
    assert stores.refusal(task("a"), 100.0) == "breaker-open"
    assert stores.refusal(task("b"), 100.0) is None
    assert stores.refusal(task("a"), 110.0) is None


def test_no_location_is_asked_for_while_the_last_host_is_left_alone() -> None:
    stores, error = admission(), RemoteStorageTimeoutError("slow")
    assert stores.refusal(LOCATE, 100.0) is None
    for _ in range(2):
        stores.landed(task("a"), 5.0, error, in_flight=1, now=100.0)
    stores.refusal(task("a"), 100.0)
    assert stores.refusal(LOCATE, 100.0) == "breaker-open"
    stores.refusal(task("b"), 100.0)
    assert stores.refusal(LOCATE, 100.0) is None


def test_only_what_speaks_against_the_store_opens_its_breaker() -> None:
    stores = admission()
    for _ in range(9):
        stores.landed(task(), 1.0, SegmentNotFoundError("gone"), in_flight=1, now=100.0)
    assert stores.refusal(task(), 100.0) is None


def test_a_store_that_asks_for_a_long_pause_is_left_alone_by_all_until_it_is_over() -> None:
    stores = admission()
    stores.landed(task("a"), 0.1, RemoteStorageThrottledError("slow down", retry_after=7.0), in_flight=1, now=100.0)
    assert stores.refusal(task("a"), 106.9) == "breaker-open"
    assert stores.refusal(LOCATE, 106.9) == "breaker-open"
    assert stores.refusal(task("b"), 106.9) is None
    assert stores.refusal(task("a"), 107.0) is None


def test_ranges_grow_as_they_come_and_shrink_as_they_time_out() -> None:
    config = RemoteFetchConfig(enabled=True)
    room = Room(config)
    stores = Admission(config, room)
    full = task()
    full.read.granted = GrantedRange(ByteRange(0, 4 * MIB))
    stores.landed(full, 0.1, None, in_flight=1, now=100.0)
    assert room.sizer.range_bytes == 8 * MIB
    assert room.read_ahead.is_measured
    stores.landed(full, 5.0, RemoteStorageTimeoutError("slow"), in_flight=1, now=105.0)
    assert room.sizer.range_bytes == 4 * MIB


def slow(stores: Admission, **kind: bool) -> str | None:
    """What is said to the next range after four slow ones."""
    for second in range(4):
        stores.landed(task(**kind), 1.0, None, in_flight=1, now=100.0 + second)
    return stores.refusal(task(**kind), 104.0)


def test_a_slow_store_is_left_for_the_broker() -> None:
    assert slow(admission()) == "slower-than-broker"


def test_a_slow_store_is_kept_where_the_setting_says_so() -> None:
    assert slow(admission(slow_bytes_per_second=0)) is None


@pytest.mark.parametrize("kind", ["stop_at_local", "owned"])
def test_ranges_of_who_has_no_broker_to_go_to_and_ranges_that_nobody_waits_for_tell_nothing(kind: str) -> None:
    assert slow(admission(), **{kind: False}) is None


def test_retries_are_those_of_the_setting_and_of_the_hosts_budget() -> None:
    stores, error, read = admission(), RemoteStorageUnavailableError("reset"), task().read
    read.attempts = 1
    assert stores.decide(read, error, relocated=False) is Action.RETRY
    read.attempts = 2
    assert stores.decide(read, error, relocated=False) is Action.BROKER
    read.attempts = 1
    actions = [stores.decide(read, error, relocated=False) for _ in range(100)]
    assert actions[-1] is Action.BROKER
    assert stores.decide(task("other").read, error, relocated=False) is Action.RETRY
