from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import RemoteStorageTimeoutError
from kafka_remote_client.fetch.flights import Flights
from kafka_remote_client.fetch.grant_read import RangeRead
from kafka_remote_client.fetch.memory import Lease
from kafka_remote_client.fetch.partition_read import Fetch
from kafka_remote_client.model import ByteRange, GrantedRange
from tests.support.locations import location

CONFIG = attrs.evolve(RemoteFetchConfig(enabled=True), read_timeout_ms=2000, connect_timeout_ms=1000)
ALLOWED = 3.5
"""Both time-outs, and half a second of grace."""


def flight(*, leased: bool = True) -> Fetch:
    read = RangeRead(GrantedRange(ByteRange(0, 10), b""))
    if leased:
        read.lease = Lease(10, lambda _: None, memoryview(bytearray(10)))
    read.attempts = 2
    return Fetch(cast("Any", None), cast("Any", SimpleNamespace(location=location())), read)


def test_a_range_that_ends_in_time_is_in_flight_no_more() -> None:
    flights, task = Flights(CONFIG), flight()
    flights.begin(task, 10.0)
    assert len(flights) == 1
    assert flights.give_up(10.0 + ALLOWED) is None
    assert flights.end(task)
    assert (len(flights), flights.stuck) == (0, 0)


@pytest.mark.parametrize("leased", [True, False])
def test_an_overdue_range_is_given_up_once_and_without_its_buffer(leased: bool) -> None:
    flights, task, other = Flights(CONFIG), flight(leased=leased), flight()
    flights.begin(task, 10.0)
    flights.begin(other, 11.0)
    overdue = flights.give_up(10.1 + ALLOWED)
    assert overdue is not None
    given_up, error = overdue
    assert given_up is task
    assert isinstance(error, RemoteStorageTimeoutError)
    assert str(error) == "the fetcher did not return bytes [0, 10) of store in time"
    assert (error.byte_range, error.host, error.attempt, error.topic) == ((0, 10), "store", 2, "orders")
    assert error.elapsed_seconds == pytest.approx(0.1 + ALLOWED)
    assert flights.give_up(10.1 + ALLOWED) is None
    assert (len(flights), flights.stuck) == (1, 1)
    assert task.range.lease is None or task.range.lease.buffer is None
    assert other.range.lease is not None
    assert other.range.lease.buffer is not None


def test_a_thread_that_comes_back_late_is_stuck_no_more() -> None:
    flights, task = Flights(CONFIG), flight()
    flights.begin(task, 0.0)
    flights.give_up(100.0)
    assert not flights.end(task)
    assert flights.stuck == 0


def test_a_range_that_is_not_read_after_all_leaves_no_trace() -> None:
    flights, task = Flights(CONFIG), flight()
    flights.begin(task, 0.0)
    flights.discard(task)
    flights.discard(task)
    assert (len(flights), flights.stuck, flights.give_up(100.0)) == (0, 0, None)
