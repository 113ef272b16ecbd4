"""Requests to a location source: each failure becomes an answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import LocationError
from kafka_remote_client.fetch.locate import Located, locate
from kafka_remote_client.fetch.partition_read import Locate, PartitionRead
from kafka_remote_client.location.source import LocationSource
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import (
    IsolationLevel,
    LocationPending,
    NotRemote,
    PartitionOffsets,
    SegmentLocation,
    TopicIdPartition,
)
from tests.support.locations import ManualClock, location
from tests.support.one_by_one import OneByOne


class Source(OneByOne):
    """Gives each question the same answer, or raises it. ``bounds`` are those of all partitions."""

    def __init__(self, answer: object, bounds: PartitionOffsets | Exception | None = None) -> None:
        self._answer = answer
        self._bounds = bounds
        self.asked: list[object] = []

    def offsets_of(self, partitions: Any, _deadline: Any) -> Any:
        self.asked.append(list(partitions))
        return dict.fromkeys(partitions, self._bounds)

    def answer(self, question: LocationQuestion, _deadline: Any) -> Any:
        self.asked.append(question)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def command(offset: int = 10, *, stop_at_local: bool = False, topic: str = "orders", met_gap: bool = False) -> Locate:
    read = SimpleNamespace(
        topic=topic,
        partition=0,
        offsets=PartitionOffsets(earliest_local=5),
        stop_at_local=stop_at_local,
        isolation_level=IsolationLevel.READ_COMMITTED,
        end_offset=70,
        met_gap=met_gap,
    )
    return Locate(cast("PartitionRead", read), offset, -1, 1000, 500, ahead=False, asked_at=0.0)


def located(source: Source, *commands: Locate) -> list[Located]:
    clock = ManualClock()
    deadline = Deadline(clock, 1.0)

    def compacted(partition: TopicIdPartition, asked_until: Deadline) -> bool:
        assert asked_until is deadline
        source.asked.append(partition)
        return True

    return locate(cast("LocationSource", source), commands, ("ApacheKafkaV1",), deadline, clock, compacted)


@pytest.mark.parametrize("source", [Source(None, LocationError("gone")), Source(LocationError("gone"), PartitionOffsets())])
def test_a_documented_error_becomes_the_answer(source: Source) -> None:
    (found,) = located(source, command(stop_at_local=True))
    assert str(found.answer) == "gone"
    assert found.offset == 10


def test_one_error_for_all_questions_answers_each_of_them() -> None:
    class Closed(Source):
        def locate(self, *_: Any) -> Any:
            raise LocationError("closed")

    found = located(Closed(None), command(), command(20))
    assert [(str(one.answer), one.offset) for one in found] == [("closed", 10), ("closed", 20)]


@pytest.mark.parametrize(("offset", "asked"), [(4, 1), (5, 2), (6, 2)])
def test_bounds_are_requested_again_from_the_local_start_on(offset: int, asked: int) -> None:
    source = Source(NotRemote("missing"), PartitionOffsets(earliest_local=9))
    located(source, command(offset, stop_at_local=True))
    assert len(source.asked) == asked


def test_bounds_of_many_partitions_are_one_request() -> None:
    source = Source(NotRemote("missing"), PartitionOffsets(log_start=3, earliest_local=9, high_watermark=20))
    wanted = [
        command(8, stop_at_local=True, topic="a"),
        command(9, stop_at_local=True, topic="b"),
        command(-2, topic="c"),
        command(7, topic="d"),
    ]
    found = located(source, *wanted)
    assert source.asked[0] == [("a", 0), ("b", 0), ("c", 0)]
    questions = [question for question in source.asked[1:] if isinstance(question, LocationQuestion)]
    assert [(question.topic, question.offset, question.read_end_offset) for question in questions] == [
        ("a", 8, 70),
        ("c", 3, 70),
        ("d", 7, 70),
    ]
    reasons = [one.answer.reason for one in found if isinstance(one.answer, NotRemote)]
    assert reasons == ["missing", "local", "missing", "missing"]
    assert [one.offset for one in found] == [8, 9, 3, 7]


@pytest.mark.parametrize(("end", "reason"), [(9, "local"), (10, "local"), (8, "missing"), (-1, "local")])
def test_a_leader_whose_log_ends_before_the_offset_is_asked(end: int, reason: str) -> None:
    """Its log was cut, or is another topic's. Bounds are asked for by name, and locations by the topic's id."""
    source = Source(NotRemote("missing"), PartitionOffsets(log_start=3, earliest_local=5, high_watermark=end))
    (found,) = located(source, command(9, stop_at_local=True))
    assert isinstance(found.answer, NotRemote)
    assert found.answer.reason == reason


def test_a_log_with_unknown_start_is_not_located() -> None:
    (found,) = located(Source(None, PartitionOffsets()), command(-2))
    assert isinstance(found.answer, NotRemote)
    assert found.answer.reason == "log-start-unknown"


def test_a_location_is_checked_and_a_pending_one_passes() -> None:
    assert located(Source(location()), command(100))[0].answer == location()
    (found,) = located(Source(location()), command(99))
    assert found.answer == NotRemote("other-offset", PartitionOffsets(earliest_local=5))
    assert located(Source(LocationPending()), command())[0].answer == LocationPending()


def test_only_after_a_gap_a_location_says_whether_the_topic_is_compacted() -> None:
    source = Source(location())
    before, after = (located(source, command(100, met_gap=met))[0].answer for met in (False, True))
    assert isinstance(before, SegmentLocation)
    assert before == location()
    assert after == attrs.evolve(before, compacted=True)
    assert [one for one in source.asked if isinstance(one, TopicIdPartition)] == [before.metadata.topic_id_partition]
