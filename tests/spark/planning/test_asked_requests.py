from __future__ import annotations

import threading
from typing import Any

import attrs

from kafka_remote_client.errors import LocationError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import ByteRange, GrantedRange, IsolationLevel, NotRemote, TopicPartition
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.planning.asked_requests import AskedRequests, ask_requests
from tests.support.locations import ManualClock, location, segment
from tests.support.one_by_one import OneByOne

TP = TopicPartition("t", 3)
WINDOW = (400, 200)


class Source(OneByOne):
    """Windows of 40 offsets in ranges of 20, of 10 bytes an offset; answers of ``others`` by offset come first."""

    def __init__(self, **others: Any) -> None:
        self.others = {int(name.removeprefix("at_")): answer for name, answer in others.items()}
        self.asked: list[LocationQuestion] = []
        self._lock = threading.Lock()

    def answer(self, question: LocationQuestion, _deadline: object) -> Any:
        with self._lock:
            self.asked.append(question)
        start = question.offset
        other = self.others.get(start)
        if isinstance(other, Exception):
            raise other
        if other is not None:
            return other
        ranges = tuple(GrantedRange(ByteRange(10 * at, 10 * at + 200), first_offset=at) for at in (start, start + 20))
        metadata = segment(end_offset=999, segment_size_in_bytes=10_000)
        return location(metadata=metadata, fetch_offset=start, ranges=ranges, next_offset=start + 40)


def asked(source: Source, *splits: Split, budget: int = 100) -> list[AskedRequests]:
    given: Any = source
    return ask_requests(
        given,
        splits,
        isolation_level=IsolationLevel.READ_COMMITTED,
        window=WINDOW,
        clock=ManualClock(),
        timeout=1.0,
        budget=budget,
    )


def split(start: int, end: int, tiered_end: int | None = None) -> Split:
    return Split(TP, start, end, 10 * (end - start), tiered_end)


def test_locations_of_a_split_are_requested_window_by_window() -> None:
    source = Source()
    assert asked(source, split(0, 100)) == [AskedRequests(100, 5, 1000)]
    assert [question.offset for question in source.asked] == [0, 40, 80]
    assert source.asked[1] == LocationQuestion(
        topic="t",
        partition=3,
        offset=40,
        isolation_level=IsolationLevel.READ_COMMITTED,
        max_bytes=400,
        range_bytes=200,
        read_end_offset=100,
    )


def test_ranges_after_the_end_of_a_split_are_not_counted() -> None:
    assert asked(Source(), split(0, 15), split(100, 121)) == [AskedRequests(15, 1, 200), AskedRequests(121, 2, 400)]


def test_no_location_after_the_tier_is_requested() -> None:
    source = Source()
    assert asked(source, split(0, 100, 40), split(100, 200, 40)) == [AskedRequests(40, 2, 400), AskedRequests(100)]
    assert len(source.asked) == 1


def test_first_windows_come_first_until_the_budget_is_used_up() -> None:
    source = Source()
    found = asked(source, split(0, 100), split(100, 200), split(200, 300), budget=4)
    assert [one.end for one in found] == [80, 140, 240]
    assert [question.offset for question in source.asked[3:]] == [40]


def test_splits_beyond_the_budget_are_skipped_evenly() -> None:
    splits = [split(100 * n, 100 * n + 10) for n in range(6)]
    assert [one.gets for one in asked(Source(), *splits, budget=3)] == [1, 0, 1, 0, 1, 0]
    assert asked(Source(), *splits, budget=0) == [AskedRequests(one.start) for one in splits]


def test_without_an_answer_a_split_is_known_up_to_that_offset() -> None:
    source = Source(at_40=LocationError("no"))
    assert asked(source, split(0, 100), split(100, 120)) == [AskedRequests(40, 2, 400), AskedRequests(120, 1, 200)]


def test_a_refused_location_needs_no_request_to_the_store() -> None:
    source = Source(at_40=NotRemote("not-granted"))
    assert asked(source, split(0, 100)) == [AskedRequests(100, 2, 400)]
    assert asked(Source(at_0=NotRemote("undecided")), split(0, 100)) == [AskedRequests(100)]
    assert attrs.asdict(AskedRequests(5)) == {"end": 5, "gets": 0, "read_bytes": 0}
