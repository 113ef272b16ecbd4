"""The log reports once for each change whether a shim is ready and whether it can grant."""

from __future__ import annotations

import logging
import threading

import pytest

from kafka_remote_client.shim.health import Health
from kafka_remote_client.shim.health_log import HealthLog
from tests.shim.test_health import Told
from tests.support.locations import ManualClock

LOGGER = "kafka_remote_client.shim.health_log"


class Script(ManualClock):
    """Each wait activates the next findings; after the last ones the log is stopped."""

    def __init__(self, brokers: Told, tier: Told, later: list[tuple[str | None, str | None]]) -> None:
        super().__init__()
        self.brokers, self.tier, self.later = brokers, tier, later

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.now += 60
        if not self.later:
            event.set()
        else:
            self.brokers.found, self.tier.found = self.later.pop(0)
        return event.is_set()


def lines(caplog: pytest.LogCaptureFixture, *findings: tuple[str | None, str | None]) -> list[str]:
    brokers, tier = Told(), Told()
    (brokers.found, tier.found), *later = findings
    clock = Script(brokers, tier, later)
    health = Health(alive=Told(), listening=Told(), brokers=brokers, tier=tier, clock=clock)
    with caplog.at_level(logging.INFO, LOGGER):
        HealthLog(health, lambda _seconds: True, clock).run()
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records if record.name == LOGGER]


def test_a_shim_without_its_broker_is_not_announced_as_ready(caplog: pytest.LogCaptureFixture) -> None:
    assert lines(caplog, ("no broker answers", "no metadata"), ("no broker answers", "no metadata")) == [
        "WARNING not ready: no broker answers",
        "WARNING locations of some or all partitions are not granted: no metadata",
    ]


def test_each_change_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    told = lines(caplog, ("gone", None), (None, None), (None, "store down"), (None, "store down"), (None, None))
    assert told == [
        "WARNING not ready: gone",
        "INFO the tier can be read: locations are granted",
        "INFO ready: a broker answers",
        "WARNING locations of some or all partitions are not granted: store down",
        "INFO the tier can be read: locations are granted",
    ]


def test_the_tier_is_checked_after_its_metadata_or_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    waits: list[float] = []
    health = Health(alive=Told(), listening=Told(), brokers=Told(), tier=Told(), clock=ManualClock())
    log = HealthLog(health, lambda seconds: bool(waits.append(seconds)), Script(Told(), Told(), []))
    with caplog.at_level(logging.INFO, LOGGER):
        log.run()
    assert sum(waits) == 10
    assert "the tier can be read" in caplog.text


def test_the_log_ends_during_a_check_and_ignores_its_failure(caplog: pytest.LogCaptureFixture) -> None:
    entered, stopped = threading.Event(), threading.Event()

    def slow() -> str | None:
        entered.set()
        assert stopped.wait(60)
        raise OSError("closed")

    health = Health(alive=Told(), listening=Told(), brokers=slow, tier=Told(), clock=ManualClock())
    log = HealthLog(health, lambda _seconds: True)
    with caplog.at_level(logging.INFO, LOGGER):
        with log:
            assert entered.wait(60)
            log._stopped.set()
            stopped.set()
        assert log._thread is not None
        log._thread.join(60)
        assert not log._thread.is_alive()
    assert not caplog.records


def test_an_exception_of_a_check_is_logged_once_and_checked_again(caplog: pytest.LogCaptureFixture) -> None:
    tier = Told()

    def broken_at_first() -> str | None:
        if clock.now < 1150:
            raise RuntimeError("canary")
        return tier()

    unused: list[tuple[str | None, str | None]] = [(None, None)] * 6
    clock = Script(Told(), tier, unused)
    health = Health(alive=Told(), listening=Told(), brokers=Told(), tier=broken_at_first, clock=clock)
    with caplog.at_level(logging.INFO, LOGGER):
        HealthLog(health, lambda _seconds: True, clock).run()
    told = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert len(told) == 3
    assert told[0] == "ready: a broker answers"
    assert "unexpected RuntimeError in test_health_log.py" in told[1]
    assert told[2] == "the tier can be read: locations are granted"
    assert tier.asked > 1
    assert "canary" not in caplog.text
