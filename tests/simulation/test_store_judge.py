"""Each rule about requests to the store and to the peer can fire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import (
    LocationError,
    LocationThrottledError,
    RemoteStorageError,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.fetch.fetch_budget import FetchBudget
from kafka_remote_client.fetch.grant_read import RangeRead
from kafka_remote_client.fetch.partition_read import Fetch, Locate, PartitionRead
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.scheduler import Scheduler
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import ByteRange, GrantedRange, LocationPending
from tests.simulation.breaker_judge import BreakerJudge
from tests.simulation.judge import ViolationError
from tests.simulation.pace_judge import PaceJudge
from tests.simulation.store_judge import StoreJudge
from tests.support.locations import ManualClock

CONFIG = RemoteFetchConfig(
    enabled=True, retries=2, breaker_failures=3, breaker_reset_ms=2_000, hedge_max_percent=5, pending_timeout_ms=1_000
)
UNAVAILABLE = RemoteStorageUnavailableError("500")


class Requests:
    """A judge and the requests that it sees."""

    def __init__(self) -> None:
        scheduler = Scheduler(CONFIG, FetchBudget(CONFIG), FetchMetrics(ManualClock(0.0)), lambda _buffer: None)
        self.read = PartitionRead(scheduler.shared, ReadRequest("orders", 0, 0))
        self.judge = StoreJudge(CONFIG)

    def range(self) -> RangeRead:
        return RangeRead(GrantedRange(ByteRange(0, 1000)))

    def get(self, wanted: RangeRead, at: float, *, hedges: bool = False) -> Fetch:
        grant: Any = None
        command = Fetch(self.read, grant, wanted, hedges=hedges)
        self.judge.sends(command, at)
        return command

    def got(self, wanted: RangeRead, at: float, error: RemoteStorageError | None) -> None:
        self.judge.returned(self.get(wanted, at), error, at, at)

    def located(self, at: float, answer: LocationPending | LocationError) -> None:
        command = Locate(self.read, 0, 0, 1, 1, ahead=False, asked_at=0.0)
        self.judge.asks(command, at)
        self.judge.located(command, answer, at)


@pytest.fixture
def requests() -> Requests:
    return Requests()


def broken(rule: str) -> pytest.RaisesExc[ViolationError]:
    return pytest.raises(ViolationError, match=f"^{rule}: ")


def test_a_store_that_has_failed_gets_one_get_until_the_reset(requests: Requests) -> None:
    for number in range(3):
        requests.got(requests.range(), number / 10, UNAVAILABLE)
    requests.get(requests.range(), 1.0)
    with broken("J11"):
        requests.get(requests.range(), 1.1)
    requests.get(requests.range(), 2.3)


def test_a_success_ends_a_series_of_failures(requests: Requests) -> None:
    for number in range(9):
        requests.got(requests.range(), number / 10, None if number % 3 == 2 else UNAVAILABLE)


def test_failures_of_more_than_ten_seconds_ago_do_not_count(requests: Requests) -> None:
    for number in range(9):
        requests.got(requests.range(), number * 6.0, UNAVAILABLE)


def test_a_get_before_a_long_retry_after_is_found(requests: Requests) -> None:
    requests.got(requests.range(), 0.0, RemoteStorageThrottledError("503", 5.0))
    with broken("J11"):
        requests.get(requests.range(), 4.9)
    requests.get(requests.range(), 5.0)


def test_a_range_whose_part_is_damaged_comes_once_more(requests: Requests) -> None:
    wanted = requests.range()
    for number in range(3):
        requests.got(wanted, number * 6.0, UNAVAILABLE)
    requests.judge.damaged(wanted)
    requests.got(wanted, 18.0, UNAVAILABLE)
    with broken("J12"):
        requests.get(wanted, 24.0)


def test_a_range_that_is_damaged_twice_is_not_requested_again(requests: Requests) -> None:
    wanted = requests.range()
    for _ in range(2):
        requests.got(wanted, 0.0, UNAVAILABLE)
        requests.judge.damaged(wanted)
    with broken("J12"):
        requests.get(wanted, 0.0)


def test_a_repeated_get_before_a_short_retry_after_is_found(requests: Requests) -> None:
    wanted = requests.range()
    requests.got(wanted, 0.0, RemoteStorageThrottledError("503", 0.2))
    requests.get(requests.range(), 0.1)
    with broken("J12"):
        requests.get(wanted, 0.1)
    requests.get(wanted, 0.2)


def unavailable_too_often(requests: Requests) -> None:
    wanted = requests.range()
    for number in range(4):
        requests.got(requests.range(), number * 20.0, None)
        requests.got(wanted, number * 20.0, UNAVAILABLE)


def repeated_after_a_time_out(requests: Requests) -> None:
    wanted = requests.range()
    for number in range(2):
        requests.got(wanted, number * 20.0, RemoteStorageTimeoutError("no bytes"))


def whole_three_times(requests: Requests) -> None:
    wanted = requests.range()
    for number in range(3):
        requests.got(wanted, number * 20.0, None)


def location_before_the_throttle_time(requests: Requests) -> None:
    requests.located(0.0, LocationThrottledError("later", 0.5))
    requests.located(0.4, LocationError("no"))


def location_after_a_long_wait(requests: Requests) -> None:
    for at in (0.0, 0.9, 1.1, 1.2):
        requests.located(at, LocationPending())


@pytest.mark.parametrize(
    "wrong",
    [
        unavailable_too_often,
        repeated_after_a_time_out,
        whole_three_times,
        location_before_the_throttle_time,
        location_after_a_long_wait,
    ],
)
def test_a_request_too_many_or_too_soon_is_found(requests: Requests, wrong: Callable[[Requests], None]) -> None:
    with broken("J12"):
        wrong(requests)


def test_a_location_that_was_answered_may_be_pending_again(requests: Requests) -> None:
    requests.located(0.0, LocationPending())
    requests.located(0.9, LocationError("no"))
    requests.located(1.1, LocationPending())
    requests.located(2.0, LocationPending())


def test_a_hedge_that_comes_at_once_is_found(requests: Requests) -> None:
    wanted = requests.range()
    requests.get(wanted, 1.0)
    with broken("J13"):
        requests.get(wanted, 1.01, hedges=True)


def test_more_hedges_than_their_share_are_found(requests: Requests) -> None:
    for number in range(5):
        wanted = requests.range()
        requests.get(wanted, float(number))
        requests.get(wanted, number + 0.5, hedges=True)
    wanted = requests.range()
    requests.get(wanted, 6.0)
    with broken("J13"):
        requests.get(wanted, 6.5, hedges=True)


@pytest.fixture
def pace() -> PaceJudge:
    return PaceJudge(1_000)


def test_a_partition_that_leaves_a_fast_store_is_found(pace: PaceJudge) -> None:
    for number in range(9):
        pace.landed(0, 1_000, 0.5 if number % 5 else 2.0, 1)
    with broken("J14"):
        pace.left(0)


def test_a_partition_may_leave_when_half_of_its_last_ranges_were_slow(pace: PaceJudge) -> None:
    for number in range(4):
        pace.landed(0, 1_000, 0.5 if number % 2 else 2.0, 1)
    pace.left(0)
    with broken("J14"):
        pace.left(0)


def test_ranges_in_flight_together_share_their_time(pace: PaceJudge) -> None:
    for _ in range(4):
        pace.landed(0, 1_000, 2.0, 4)
    with broken("J14"):
        pace.left(0)


@pytest.fixture
def breaker() -> BreakerJudge:
    judge = BreakerJudge(2, 2.0)
    judge.failed(0.0)
    judge.failed(1.0)
    return judge


def test_a_get_to_a_store_with_an_open_breaker_is_found(breaker: BreakerJudge) -> None:
    with broken("J11"):
        breaker.sends("a read", 2.9)


def test_a_second_try_of_a_store_with_an_open_breaker_is_found(breaker: BreakerJudge) -> None:
    breaker.sends("a read", 3.0)
    with broken("J11"):
        breaker.sends("a read", 4.9)
    breaker.sends("a read", 5.0)


def test_only_the_success_of_a_try_closes_a_breaker(breaker: BreakerJudge) -> None:
    breaker.succeeded(1.5)
    with broken("J11"):
        breaker.sends("a read", 2.0)
    breaker.sends("a read", 3.0)
    breaker.succeeded(3.1)
    breaker.sends("a read", 3.2)


def test_a_try_that_fails_opens_the_breaker_again(breaker: BreakerJudge) -> None:
    breaker.failed(2.0)
    breaker.sends("a read", 3.0)
    breaker.failed(3.5)
    with broken("J11"):
        breaker.sends("a read", 5.4)


def test_a_read_that_ends_at_a_breaker_whose_time_is_over_is_found(breaker: BreakerJudge) -> None:
    breaker.refused("a read", 2.5)
    with broken("J11"):
        breaker.refused("a read", 3.5)


def test_failures_of_more_than_ten_seconds_ago_open_no_breaker() -> None:
    breaker = BreakerJudge(2, 2.0)
    breaker.failed(0.0)
    breaker.failed(11.0)
    with broken("J11"):
        breaker.refused("a read", 11.5)


def test_a_get_that_was_given_up_says_nothing(requests: Requests) -> None:
    for number in range(3):
        late = requests.get(requests.range(), 10.0 * number)
        requests.judge.returned(late, UNAVAILABLE, 10.0 * number, 10.0 * number + 5)
    for _ in range(3):
        requests.get(requests.range(), 40.0)
