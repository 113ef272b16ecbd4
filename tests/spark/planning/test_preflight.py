from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kafka_remote_client.errors import (
    DirectFetchError,
    ForbiddenLocationError,
    LocationError,
    LocationNotGrantedError,
    NotAnnouncedError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
)
from kafka_remote_client.fetch.storage_formats import RestoringFetcher
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import NotRemote, PartitionOffsets, SegmentLocation, TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange
from kafka_remote_client.spark.planning.preflight import ATTEMPTS, preflight, unanswered
from tests.support.locations import ManualClock, location
from tests.support.one_by_one import OneByOne

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TIERED = PartitionOffsets(log_start=0, latest_tiered=99)
RANGES = [OffsetRange(T0, 100, 200), OffsetRange(T1, 10, 10), OffsetRange(T1, 40, 200)]
OFFSETS: Mapping[tuple[str, int], PartitionOffsets | DirectFetchError] = {T0: TIERED, T1: TIERED}


class Store(OneByOne):
    """A location source and a fetcher. ``answers`` come in turn, the last one repeatedly: to ``locate``, or for the byte."""

    def __init__(self, *answers: object, sent: int = 1) -> None:
        self._answers = list(answers)
        self._sent = sent
        self.located: list[tuple[str, int, int]] = []
        self.read: list[tuple[int, int]] = []
        self.closed = 0

    def _next(self) -> object:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def answer(self, question: LocationQuestion, deadline: object) -> SegmentLocation | NotRemote:
        self.located.append((question.topic, question.partition, question.offset))
        if self._answers and isinstance(self._answers[0], LocationError):
            raise self._answers[0]
        if self._answers and isinstance(self._answers[0], NotRemote):
            return self._answers[0]
        return location()

    def fetch_log_segment(self, metadata: object, start: int, end: int) -> Store:
        self.read.append((start, end))
        if self._answers:
            answer = self._next()
            if isinstance(answer, Exception):
                raise answer
        return self

    def readinto(self, buffer: bytearray) -> int:
        assert len(buffer) == 1
        return self._sent

    def close(self) -> None:
        self.closed += 1


def tried(
    store: Store,
    ranges: Sequence[OffsetRange] = RANGES,
    offsets: Mapping[tuple[str, int], PartitionOffsets | DirectFetchError] = OFFSETS,
) -> DirectFetchError | None:
    given: Any = store
    return preflight(given, given, ranges, offsets, clock=ManualClock(), timeout=1)


def test_one_location_and_one_byte_of_it_are_requested() -> None:
    store = Store()
    assert tried(store) is None
    assert store.located == [("t", 1, 40)]
    assert len(store.read) == store.closed == 1


def test_the_byte_is_read_by_the_fetcher_of_the_locations_format(monkeypatch: pytest.MonkeyPatch) -> None:
    store, restoring = Store(), Store()
    fetching: Any = store
    fetcher: Any = RestoringFetcher(fetching, {})
    monkeypatch.setattr(fetcher, "of_format", {location().format: restoring}.__getitem__)
    assert preflight(fetching, fetcher, RANGES, OFFSETS, clock=ManualClock(), timeout=1) is None
    assert (len(store.read), len(restoring.read)) == (0, 1)


@pytest.mark.parametrize("of_t0", [PartitionOffsets(), LocationError("?")])
def test_nothing_is_requested_if_nothing_is_known_to_be_tiered(of_t0: Any) -> None:
    store = Store()
    assert tried(store, offsets={T0: of_t0, T1: PartitionOffsets()}) is None
    assert store.located == []


def test_a_location_that_does_not_arrive_is_the_failure() -> None:
    error = LocationError("no answer")
    store = Store(error)
    assert tried(store) is error
    assert len(store.located) == 1
    assert store.read == []


def test_a_peer_that_grants_nothing_is_a_failure_if_it_is_a_mistake() -> None:
    error = NotAnnouncedError("b:1")
    assert tried(Store(NotRemote("not-announced", error=error))) is error
    assert tried(Store(NotRemote("out-of-range"))) is None


def test_a_tiered_offset_that_is_not_granted_is_a_failure_after_attempts() -> None:
    store = Store(NotRemote("not-granted"))
    failure = tried(store)
    assert isinstance(failure, LocationNotGrantedError)
    assert "the shim grants no location of t-1 at offset 40, although that offset is tiered" in str(failure)
    assert len(store.located) == ATTEMPTS


def test_the_pauses_between_attempts_are_short_on_the_clock() -> None:
    given: Any = Store(NotRemote("not-granted"))
    clock = ManualClock()
    preflight(given, given, RANGES, OFFSETS, clock=clock, timeout=1)
    assert 1000 < clock.now < 1001, "a query is planned meanwhile"


def test_a_forbidden_byte_is_the_failure() -> None:
    error = ForbiddenLocationError("not allowed")
    store = Store(error)
    assert tried(store) is error
    assert error.host == "store"
    assert len(store.read) == 1


@pytest.mark.parametrize("error", [RemoteStorageUnavailableError("503"), SegmentNotFoundError("404")])
def test_transient_errors_are_retried(error: DirectFetchError) -> None:
    store = Store(error, None)
    assert tried(store) is None
    assert (len(store.located), len(store.read)) == (2, 2)
    store = Store(error)
    assert tried(store) is error
    assert len(store.read) == ATTEMPTS


def test_a_store_that_sends_nothing_is_a_failure() -> None:
    store = Store(sent=0)
    assert "the store sent nothing" in str(tried(store))
    assert store.closed == ATTEMPTS


def test_a_plugins_exception_is_named_without_its_text() -> None:
    failure = tried(Store(ValueError("https://store.example/secret")))
    assert failure is not None
    assert "the fetcher raised ValueError" in str(failure)
    assert failure.__context__ is None
    assert "secret" not in repr(failure)


def test_a_source_without_an_answer_for_a_partition_is_reported() -> None:
    error = LocationError("no answer")
    assert unanswered({T0: error, T1: LocationError("neither")}) is error
    assert unanswered({T0: error, T1: TIERED}) is None
    assert unanswered({}) is None
