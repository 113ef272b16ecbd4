"""Fallbacks as values and as log lines: one warning for each cause and host, then at most one a minute with a count."""

from __future__ import annotations

import logging

import pytest

from kafka_remote_client.errors import DirectFetchError, ForbiddenLocationError
from kafka_remote_client.fallback import Fallback, FallbackLog
from tests.support.locations import ManualClock


def fallback(
    cause: str = "forbidden-location", host: str = "store:9000", partition: int = 0, *, error: bool = True
) -> Fallback:
    failure: DirectFetchError | None = None
    if error:
        failure = ForbiddenLocationError(f"URL host '{host}' is not in remote.storage.fetcher.allowed.hosts")
        failure.host = host
    return Fallback(cause, failure, "orders", partition, 7)


class Lines:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        self._caplog = caplog
        self.clock = ManualClock()
        self.log = FallbackLog(logging.getLogger("fallbacks"), self.clock)

    def at(self, level: int) -> list[str]:
        return [record.getMessage() for record in self._caplog.records if record.levelno == level]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    return Lines(caplog)


def test_the_warning_names_partition_host_and_setting(lines: Lines) -> None:
    lines.log.write(fallback())
    (line,) = lines.at(logging.WARNING)
    assert line == (
        "direct fetch disabled for orders-0: URL host 'store:9000' is not in remote.storage.fetcher.allowed.hosts; "
        "the broker continues at offset 7 (forbidden-location)"
    )


def test_the_same_cause_and_host_warn_once_a_minute_with_a_count(lines: Lines) -> None:
    for partition in range(4):
        lines.log.write(fallback(partition=partition))
    lines.clock.now += 59
    lines.log.write(fallback())
    assert len(lines.at(logging.WARNING)) == 1
    lines.clock.now += 1
    lines.log.write(fallback())
    assert lines.at(logging.WARNING)[1].endswith("(forbidden-location; 4 more since the last warning)")
    lines.clock.now += 60
    lines.log.write(fallback())
    assert lines.at(logging.WARNING)[2].endswith("(forbidden-location)")


def test_another_cause_or_host_warns_at_once(lines: Lines) -> None:
    for each in (fallback(), fallback(host="other:1"), fallback("access-denied")):
        lines.log.write(each)
    assert len(lines.at(logging.WARNING)) == 3


def test_a_fallback_without_an_error_is_no_warning(lines: Lines) -> None:
    lines.log.write(fallback("slower-than-broker", error=False))
    assert lines.at(logging.WARNING) == []
    assert lines.at(logging.INFO) == ["orders-0 goes on by the broker from offset 7: slower-than-broker"]


def test_an_error_without_text_shows_its_cause() -> None:
    assert str(Fallback("error", DirectFetchError(), "orders", 0, 7)) == "direct fetch disabled for orders-0: error"
    assert Fallback("error", DirectFetchError(), "orders", 0, 7).host == ""
