"""A tier known by a listing: read in the background, and read again when it may have grown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import NoSegmentsError, RemoteStorageUnavailableError
from kafka_remote_client.location.listed_tier import ListedTier
from kafka_remote_client.model import IsolationLevel, NotRemote
from kafka_remote_client.remote_log.kept_only import NotKeptError, kept_only
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment
from tests.support.locations import ManualClock
from tests.support.questions import tier_question
from tests.support.tier import LAYOUT, TIP, Tier, batch
from tests.support.waiting import wait_until

PATIENCE = 60.0


class Setup:
    def __init__(self, patience: float = PATIENCE) -> None:
        self.clock = ManualClock()
        self.objects = Tier()
        self.objects.add([batch(0, 10), batch(10, 10)], number=1)
        self.resolver = RemoteSegmentResolver(self.objects.store, LAYOUT)
        self.tier = ListedTier(self.objects.store, LAYOUT, self.resolver, clock=self.clock, patience=patience, max_age=30)
        self.listed: list[str] = []
        self.listing = self.objects.store.list
        self.objects.store.list = self.list

    def list(self, prefix: str) -> Iterator[Any]:
        self.listed.append(prefix)
        return self.listing(prefix)

    def resolve(self, offset: int = 3, tip: Any = TIP) -> ResolvedSegment | NotRemote:
        level = IsolationLevel.READ_UNCOMMITTED
        return self.tier.resolve(tier_question(tip, offset, end_offset=1000, isolation_level=level))

    def next_offset(self, offset: int) -> int | str:
        found = self.resolve(offset)
        return found.reason if isinstance(found, NotRemote) else found.next_offset


@pytest.fixture
def setup() -> Iterator[Setup]:
    setup = Setup()
    yield setup
    setup.tier.close()


def test_a_listed_segment_is_resolved(setup: Setup) -> None:
    assert setup.next_offset(3) == 20
    assert setup.next_offset(13) == 20
    assert len(setup.listed) == 1
    assert setup.tier.cache_statistics() == setup.resolver.cache_statistics()


def test_a_topic_of_the_same_name_and_another_id_has_nothing(setup: Setup) -> None:
    other = attrs.evolve(TIP, topic_id=UUID(int=99))
    assert isinstance(setup.resolve(3), ResolvedSegment)
    found = setup.resolve(3, other)
    assert isinstance(found, NotRemote)
    assert found.reason == "nothing-tiered"
    assert len(setup.listed) == 1


def test_segments_uploaded_later_are_found_after_a_while(setup: Setup) -> None:
    assert setup.next_offset(25) == "local"
    setup.objects.add([batch(20, 10)], number=2)
    setup.clock.now += 29
    assert setup.next_offset(25) == "local"
    assert len(setup.listed) == 1
    setup.clock.now += 2
    wait_until(lambda: setup.next_offset(25) == 30, "the new segment")
    assert len(setup.listed) == 2
    setup.clock.now += 40
    assert setup.next_offset(5) == 20
    assert len(setup.listed) == 2


def test_a_partition_is_not_ready_until_it_is_read() -> None:
    setup = Setup(patience=0.0)
    go = threading.Event()
    listing = setup.listing

    def slow(prefix: str) -> Any:
        assert go.wait(60)
        return listing(prefix)

    setup.listing = slow
    assert setup.next_offset(3) == "listing-not-ready"
    assert setup.next_offset(3) == "listing-not-ready"
    go.set()
    wait_until(lambda: setup.next_offset(3) == 20, "the listing")
    assert len(setup.listed) == 1
    setup.tier.close()


def test_kept_only_does_not_wait_for_a_listing(setup: Setup) -> None:
    with kept_only(), pytest.raises(NotKeptError):
        setup.resolve(3)
    assert setup.listed == []
    assert setup.next_offset(3) == 20
    with kept_only():
        assert setup.next_offset(3) == 20


def test_a_failed_listing_is_an_error_once_and_is_retried(setup: Setup) -> None:
    listing = setup.listing

    def fails(prefix: str) -> Any:
        raise RemoteStorageUnavailableError("down")

    setup.listing = fails
    with pytest.raises(RemoteStorageUnavailableError):
        setup.resolve(3)
    setup.listing = listing
    assert setup.next_offset(3) == 20


def test_known_segments_are_read_although_a_later_listing_fails(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kafka_remote_client")
    assert setup.next_offset(25) == "local"
    failed: list[str] = []

    def fails(prefix: str) -> Any:
        failed.append(prefix)
        raise RemoteStorageUnavailableError("down")

    setup.listing = fails
    setup.clock.now += 31
    assert setup.next_offset(25) == "local"
    wait_until(lambda: setup.next_offset(3) == 20 and "cannot list the tier again" in caplog.text, "the end of the listing")
    assert len(failed) == 1
    assert caplog.text.count("cannot list the tier again") == 1


def test_nothing_is_listed_after_close(setup: Setup) -> None:
    setup.tier.close()
    assert setup.next_offset(3) == "listing-not-ready"
    assert setup.listed == []


def test_a_read_that_close_cancels_leaves_the_partition_not_ready() -> None:
    setup = Setup(patience=0.0)
    go = threading.Event()

    def slow(prefix: str) -> Any:
        assert go.wait(60)
        return iter(())

    setup.listing = slow
    tips = [attrs.evolve(TIP, partition=number) for number in range(5)]
    for tip in tips:
        assert setup.resolve(3, tip) == NotRemote("listing-not-ready")
    setup.tier.close()
    go.set()
    assert setup.resolve(3, tips[-1]) == NotRemote("listing-not-ready")


def test_a_partition_is_read_again_when_its_listing_is_old(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[object] = []
    submit = setup.tier._workers.submit

    def counting(*work: Any) -> Any:
        submitted.append(work)
        return submit(*work)

    monkeypatch.setattr(setup.tier._workers, "submit", counting)
    for _ in range(3):
        assert setup.next_offset(25) == "local"
    assert len(submitted) == 1
    setup.clock.now += 31
    assert setup.next_offset(25) == "local"
    assert len(submitted) == 2


def test_a_later_listing_reads_no_object_of_a_known_segment(setup: Setup) -> None:
    def reads() -> int:
        return sum("/00000000000000000000-" in key for _, key, _, _ in setup.objects.store.calls)

    assert setup.next_offset(25) == "local"
    before = reads()
    assert before
    setup.objects.add([batch(20, 10)], number=2)
    setup.clock.now += 31
    wait_until(lambda: setup.next_offset(25) == 30, "the new segment")
    assert reads() == before


def test_a_topic_without_segments_is_an_error_until_it_has_some(setup: Setup) -> None:
    other = attrs.evolve(TIP, topic="users")
    found = setup.resolve(3, other)
    assert isinstance(found, NotRemote)
    assert (found.reason, isinstance(found.error, NoSegmentsError)) == ("nothing-tiered", True)
    assert str(found.error).startswith("found no segments of topic users; the store has LocalTieredStorage segments below ")
    created_again = attrs.evolve(TIP, topic_id=UUID(int=9))
    known = setup.resolve(3, created_again)
    assert isinstance(known, NotRemote)
    assert (known.reason, known.error) == ("nothing-tiered", None)


def test_segments_are_those_of_the_listing(setup: Setup) -> None:
    setup.objects.add([batch(20, 10)], number=2)
    assert [(one.start, one.end) for one in setup.tier.segments(TIP) or ()] == [(0, 20), (20, 30)]
    assert len(setup.listed) == 1


def test_segments_are_unknown_until_the_listing_is_read() -> None:
    setup = Setup(patience=0)
    reading = threading.Event()
    listing, setup.listing = setup.listing, lambda prefix: reading.wait(60) and listing(prefix)
    assert setup.tier.segments(TIP) is None
    reading.set()
    wait_until(lambda: setup.tier.segments(TIP) is not None, "the listing")
    setup.tier.close()
