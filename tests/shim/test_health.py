"""Frequent probes cause few checks of the dependencies."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_remote_client.shim.health import Check, Health, Kept
from tests.support.locations import ManualClock


class Told:
    """A check with a finding that a test sets; ``asked`` counts its calls."""

    def __init__(self) -> None:
        self.found: str | None = None
        self.asked = 0

    def __call__(self) -> str | None:
        self.asked += 1
        return self.found


def test_a_finding_is_kept_for_its_time() -> None:
    clock, told = ManualClock(), Told()
    kept = Kept(told, clock, 5.0)
    assert kept() is None
    told.found = "broken"
    clock.now += 4.9
    assert kept() is None
    clock.now += 0.1
    assert kept() == "broken"
    assert told.asked == 2


def test_a_check_that_hangs_holds_up_no_later_probe() -> None:
    clock, begun, ends = ManualClock(), threading.Event(), threading.Event()

    def hangs() -> str | None:
        begun.set()
        ends.wait(60)
        return "broken"

    kept = Kept(hangs, clock, 5.0)
    with ThreadPoolExecutor(1) as probes:
        first = probes.submit(kept)
        assert begun.wait(60)
        clock.now += 20.0
        assert kept() == "the check has not ended after 20 s"
        ends.set()
        assert first.result() == kept() == "broken"


def test_brokers_are_asked_each_5_s_and_the_tier_each_10_s() -> None:
    brokers, tier, clock = Told(), Told(), ManualClock()
    pages = Health(alive=Told(), listening=Told(), brokers=brokers, tier=tier, clock=clock).pages
    asked = []
    for seconds in (0, 4.9, 0.1, 4.9, 0.1):
        clock.now += seconds
        pages["/readyz"]()
        pages["/tierz"]()
        asked.append((brokers.asked, tier.asked))
    assert asked == [(1, 1), (1, 1), (2, 1), (2, 1), (3, 2)]


def test_tier_and_brokers_have_their_own_pages() -> None:
    names = ("alive", "listening", "brokers", "tier")
    checks = {name: Told() for name in names}
    given: dict[str, Check] = dict(checks)
    health = Health(**given, clock=ManualClock())
    checks["tier"].found = "the store is down"
    checks["brokers"].found = "no broker answers"
    assert {page: check() for page, check in health.pages.items()} == {
        "/livez": None,
        "/readyz": "no broker answers",
        "/tierz": "the store is down",
    }
    checks["listening"].found = "the shim is stopping"
    assert health.pages["/readyz"]() == "the shim is stopping"


@pytest.mark.parametrize(
    ("broken", "page"), [("alive", "/livez"), ("listening", "/readyz"), ("brokers", "/readyz"), ("tier", "/tierz")]
)
def test_an_exception_of_a_check_is_its_finding(broken: str, page: str) -> None:
    def raises() -> str | None:
        raise LookupError("https://store.example/?signature=canary")

    checks: dict[str, Check] = {name: Told() for name in ("alive", "listening", "brokers", "tier")}
    checks[broken] = raises
    pages = Health(**checks, clock=ManualClock()).pages
    found = str(pages[page]())
    assert found.startswith("the check failed with an unexpected LookupError in test_health.py, line ")
    assert found.endswith(", function raises")
    assert "canary" not in found
    assert [pages[one]() for one in pages if one != page] == [None, None]
