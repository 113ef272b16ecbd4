"""Which requests the store may get, given its previous answers."""

from __future__ import annotations

from typing import Any

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import (
    Action,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
)
from kafka_remote_client.fetch.admission import Admission
from kafka_remote_client.fetch.fetch_budget import FetchBudget
from kafka_remote_client.fetch.grant_read import RangeRead
from kafka_remote_client.model import ByteRange, GrantedRange
from kafka_remote_client.plugin import LocationMetadata
from tests.support.locations import segment

MIB = 1024 * 1024


def admission(**settings: Any) -> Admission:
    config = RemoteFetchConfig(enabled=True, **{"breaker_failures": 2, "retries": 1, **settings})
    return Admission(config, FetchBudget(config))


def wanted(host: str = "store") -> RangeRead:
    return RangeRead(GrantedRange(ByteRange(0, 1000), LocationMetadata(url=f"https://{host}/x?signature=1").encode()))


def test_each_host_has_a_breaker_of_its_own() -> None:
    stores, error = admission(), RemoteStorageTimeoutError("slow")
    for _ in range(2):
        stores.failed(wanted("a"), error, 100.0)
    assert stores.refuses_range(wanted("a"), None, 100.0) == "breaker-open"
    assert stores.refuses_range(wanted("b"), None, 100.0) is None
    assert stores.refuses_range(wanted("a"), None, 110.0) is None


def test_no_location_is_requested_while_the_breaker_is_open() -> None:
    stores, error = admission(), RemoteStorageTimeoutError("slow")
    assert (stores.refuses_location(100.0), stores.suspended_until(100.0)) == (None, 100.0)
    for _ in range(2):
        stores.failed(wanted("a"), error, 100.0)
    stores.refuses_range(wanted("a"), None, 100.0)
    assert (stores.refuses_location(100.0), stores.suspended_until(100.0)) == ("breaker-open", 110.0)
    stores.refuses_range(wanted("b"), None, 100.0)
    assert (stores.refuses_location(100.0), stores.suspended_until(100.0)) == (None, 100.0)


def test_only_failures_of_the_store_open_its_breaker() -> None:
    stores = admission()
    for _ in range(9):
        stores.failed(wanted(), SegmentNotFoundError("gone"), 100.0)
    assert stores.refuses_range(wanted(), None, 100.0) is None


def test_no_range_is_requested_during_a_pause_of_the_store() -> None:
    stores = admission()
    stores.failed(wanted("a"), RemoteStorageThrottledError("slow down", retry_after=7.0), 100.0)
    assert stores.refuses_range(wanted("a"), None, 106.9) == "breaker-open"
    assert stores.refuses_location(106.9) == "breaker-open"
    assert stores.refuses_range(wanted("b"), None, 106.9) is None
    assert stores.refuses_range(wanted("a"), None, 107.0) is None


def test_503s_within_half_a_second_count_once() -> None:
    stores, error = admission(), RemoteStorageThrottledError("slow down")
    for _ in range(9):
        stores.failed(wanted(), error, 100.0)
    assert stores.refuses_range(wanted(), None, 100.0) is None
    stores.failed(wanted(), error, 100.6)
    assert stores.refuses_range(wanted(), None, 100.6) == "breaker-open"


def test_a_hedge_needs_a_closed_breaker() -> None:
    stores = admission()
    assert stores.allows_hedge(wanted())
    for _ in range(2):
        stores.failed(wanted(), RemoteStorageTimeoutError("slow"), 100.0)
    assert not stores.allows_hedge(wanted())
    assert stores.allows_hedge(wanted("another"))


def test_ranges_grow_with_fast_answers_and_shrink_with_time_outs() -> None:
    config = RemoteFetchConfig(enabled=True, max_in_flight=8, buffer_memory=32 * MIB)
    room = FetchBudget(config)
    stores = Admission(config, room)
    full = wanted()
    full.granted = GrantedRange(ByteRange(0, 4 * MIB))
    stores.succeeded(full, 0.1, 0.1)
    room.read_ahead.used(MIB, 1.0, 2.0)
    stores.succeeded(full, 0.1, 0.1)
    assert room.sizer.range_bytes == 8 * MIB
    stores.failed(full, RemoteStorageTimeoutError("slow"), 105.0)
    assert room.sizer.range_bytes == 4 * MIB


PARTITION = ("orders", 0)


def slow(stores: Admission, partition: tuple[str, int] | None = PARTITION) -> str | None:
    """Returns the decision for the next range after four slow ones."""
    for second in range(4):
        stores.preference.landed(PARTITION, segment(), 1000, 1.0, in_flight=1, now=100.0 + second)
    return stores.refuses_range(wanted(), partition, 104.0)


def test_a_slow_store_sends_the_read_to_the_broker() -> None:
    assert slow(admission()) == "slower-than-broker"


def test_a_slow_store_is_kept_if_the_setting_is_zero() -> None:
    assert slow(admission(slow_bytes_per_second=0)) is None


def test_a_slow_store_is_kept_if_no_broker_can_take_over() -> None:
    assert slow(admission(), None) is None


def test_the_setting_and_the_hosts_budget_limit_retries() -> None:
    stores, error, read = admission(), RemoteStorageUnavailableError("reset"), wanted()
    read.attempts = 1
    assert stores.decide(read, error, relocated=False) is Action.RETRY
    read.attempts = 2
    assert stores.decide(read, error, relocated=False) is Action.BROKER
    read.attempts = 1
    actions = [stores.decide(read, error, relocated=False) for _ in range(100)]
    assert actions[-1] is Action.BROKER
    assert stores.decide(wanted("other"), error, relocated=False) is Action.RETRY
