from __future__ import annotations

import logging

import pytest

from kafka_remote_client.shim.peer_log import PeerLog
from tests.support.locations import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = list(caplog.messages)
    caplog.clear()
    return found


def test_a_peer_has_one_line_a_minute_of_each_kind(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = PeerLog(clock)
    for number in range(3):
        log.closing("192.0.2.7", "protocol", f"frame {number}")
    log.closing("192.0.2.7", "tls", "no ClientHello in time")
    log.closing("192.0.2.8", "protocol", "frame")
    assert told(caplog) == [
        "closing the connection of 192.0.2.7: frame 0",
        "closing the connection of 192.0.2.7: no ClientHello in time",
        "closing the connection of 192.0.2.8: frame",
    ]
    clock.now += 60
    log.closing("192.0.2.7", "protocol", "frame 3")
    log.closing("192.0.2.8", "protocol", "frame")
    assert told(caplog) == [
        "closing the connection of 192.0.2.7: frame 3; 2 more in the last minute",
        "closing the connection of 192.0.2.8: frame",
    ]


def test_lines_of_a_minute_long_ago_are_not_counted(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = PeerLog(clock)
    for _ in range(3):
        log.closing("192.0.2.7", "protocol", "frame")
    clock.now += 120
    caplog.clear()
    log.closing("192.0.2.7", "protocol", "frame")
    assert told(caplog) == ["closing the connection of 192.0.2.7: frame"]


def test_many_peers_have_a_hundred_lines_a_minute(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = PeerLog(clock)
    for number in range(5_000):
        log.closing(f"2001:db8::{number:x}", "protocol", "frame")
    assert len(told(caplog)) == 100
    clock.now += 60
    log.closing("192.0.2.7", "protocol", "frame")
    assert told(caplog) == [
        "4900 log lines about other peers were left out in the last minute",
        "closing the connection of 192.0.2.7: frame",
    ]
