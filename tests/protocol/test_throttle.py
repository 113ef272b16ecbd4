from __future__ import annotations

import threading

import pytest

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import LocationThrottledError
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.throttle import Throttle, throttle_seconds
from tests.support.locations import ManualClock


class WaitingClock(ManualClock):
    """A clock that moves with each wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waited.append(seconds)
        self.now += seconds
        return event.is_set()


@pytest.mark.parametrize(
    ("key", "version", "answer", "seconds"),
    [
        (ApiKey.FETCH, 12, b"\0\0\x04\xd2rest", 1.234),
        (ApiKey.FETCH, 8, b"\0\0\0\x01", 0.001),
        (ApiKey.FETCH, 7, b"\0\0\0\x01", 0.0),
        (ApiKey.LIST_OFFSETS, 3, b"\0\0\0\x01", 0.001),
        (ApiKey.LIST_OFFSETS, 2, b"\0\0\0\x01", 0.0),
        (ApiKey.METADATA, 6, b"\0\0\0\x01", 0.001),
        (ApiKey.METADATA, 5, b"\0\0\0\x01", 0.0),
        (ApiKey.API_VERSIONS, 4, b"\0\0\0\x01", 0.0),
        (32540, 0, b"\0\0\0\x01", 0.0),
        (ApiKey.FETCH, 12, b"\0\0\0\0", 0.0),
        (ApiKey.FETCH, 12, b"\xff\xff\xff\xff", 0.0),
        (ApiKey.FETCH, 12, b"\0\0\1", 0.0),
    ],
)
def test_an_answer_has_a_throttle_time_if_clients_must_obey_it(key: int, version: int, answer: bytes, seconds: float) -> None:
    assert throttle_seconds(key, version, memoryview(answer)) == seconds


def test_no_request_is_sent_until_the_longest_wait_is_over() -> None:
    clock = ManualClock()
    throttle = Throttle("the broker", clock)
    throttle.check()
    throttle.asked(0.0)
    throttle.asked(5.0)
    throttle.asked(2.0)
    clock.now += 4.5
    with pytest.raises(LocationThrottledError, match="the broker throttles this client") as told:
        throttle.check()
    assert told.value.retry_after == pytest.approx(0.5)
    clock.now += 0.5
    throttle.check()


def test_a_short_throttle_is_waited_out_and_a_long_one_raises() -> None:
    clock = WaitingClock()
    throttle = Throttle("the broker", clock)
    throttle.sit_out(Deadline(clock, 1.0))
    throttle.asked(0.25)
    throttle.sit_out(Deadline(clock, 1.0))
    assert clock.waited == [0.25]
    throttle.asked(1.0)
    with pytest.raises(LocationThrottledError):
        throttle.sit_out(Deadline(clock, 1.0))
    assert clock.waited == [0.25]


def test_closing_ends_a_wait() -> None:
    clock = WaitingClock()
    throttle = Throttle("the broker", clock)
    throttle.close()
    throttle.asked(0.25)
    throttle.sit_out(Deadline(clock, 1.0))
    assert throttle._closed.is_set()
