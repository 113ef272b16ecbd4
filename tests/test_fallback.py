"""Fallbacks as values and log lines: one warning for each cause and host, then at most one a minute with a count."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, OFFSET_STORED

from kafka_remote_client.errors import DirectFetchError, ForbiddenLocationError, LocationError
from kafka_remote_client.fallback import Fallback, FallbackLog
from kafka_remote_client.fetch.read_end import ReadEnd
from tests.support.locations import ManualClock


def fallback(
    cause: str = "forbidden-location", host: str = "store:9000", partition: int = 0, *, error: bool = True
) -> Fallback:
    failure: DirectFetchError | None = None
    if error:
        failure = ForbiddenLocationError(f"URL host '{host}' is not in remote.storage.fetcher.allowed.hosts")
        failure.with_context(host=host or None)
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


def test_a_fallback_that_another_process_logged_is_info(lines: Lines) -> None:
    lines.log.write(fallback(), warned=True)
    assert lines.at(logging.WARNING) == []
    assert lines.at(logging.INFO)[0].startswith("direct fetch disabled for orders-0: ")
    lines.log.write(fallback())
    lines.log.write(fallback(), warned=True)
    assert len(lines.at(logging.WARNING)) == 1
    lines.clock.now += 60
    lines.log.write(fallback())
    assert lines.at(logging.WARNING)[1].endswith("; 1 more since the last warning)")


def test_another_cause_or_host_warns_at_once(lines: Lines) -> None:
    for each in (fallback(), fallback(host="other:1"), fallback("access-denied")):
        lines.log.write(each)
    assert len(lines.at(logging.WARNING)) == 3


@pytest.mark.parametrize(("first", "second"), [("", "store:9000"), ("store:9000", "")])
def test_an_error_without_a_host_counts_for_all_hosts(lines: Lines, first: str, second: str) -> None:
    lines.log.write(fallback(host=first))
    lines.log.write(fallback(host=second))
    assert len(lines.at(logging.WARNING)) == 1
    lines.log.write(fallback("timeout", second))
    assert len(lines.at(logging.WARNING)) == 2, "another cause"


def test_the_newest_warning_of_a_cause_counts(lines: Lines) -> None:
    lines.log.write(fallback(host=""))
    lines.clock.now += 60
    lines.log.write(fallback(host="store:9000"))
    lines.clock.now += 59
    lines.log.write(fallback(host=""))
    assert len(lines.at(logging.WARNING)) == 2


def test_a_fallback_without_an_error_is_no_warning(lines: Lines) -> None:
    lines.log.write(fallback("slower-than-broker", error=False))
    assert lines.at(logging.WARNING) == []
    assert lines.at(logging.INFO) == ["direct fetch ended for orders-0: slower-than-broker; the broker continues at offset 7"]


def test_a_fallback_means_the_broker_took_over_by_default() -> None:
    assert fallback().taken_over
    assert fallback().segment is None


def test_an_error_without_text_shows_its_cause() -> None:
    assert str(Fallback("error", DirectFetchError(), "orders", 0, 7)) == "direct fetch disabled for orders-0: error"
    assert Fallback("error", DirectFetchError(), "orders", 0, 7).host == ""


@pytest.mark.parametrize(
    ("offset", "place"),
    [
        (7, "at offset 7"),
        (OFFSET_BEGINNING, "at the beginning"),
        (OFFSET_END, "at the end"),
        (OFFSET_STORED, "at the committed offset"),
        (OFFSET_INVALID, "at the offset that auto.offset.reset selects"),
    ],
)
def test_the_warning_names_the_offset_where_the_broker_continues(lines: Lines, offset: int, place: str) -> None:
    lines.log.write(Fallback("timeout", LocationError("shim:9192 did not answer"), "orders", 0, offset))
    said = f"direct fetch disabled for orders-0: shim:9192 did not answer; the broker continues {place} (timeout)"
    assert lines.at(logging.WARNING) == [said]


def test_a_refused_location_of_a_tiered_offset_is_a_warning(lines: Lines) -> None:
    lines.log.write(ReadEnd("not-granted", 30).fallback("orders", 0))
    said = (
        "direct fetch disabled for orders-0: the shim grants no location of orders-0 at offset 30, although that offset is "
        "tiered; see the shim's counters locations_refused for the reason; the broker continues at offset 30 (not-granted)"
    )
    assert lines.at(logging.WARNING) == [said]
