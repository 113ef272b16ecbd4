"""The guard turns anything that a location source raises or returns into an answer that the engine knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import DirectFetchError, LocationError, RemoteLogError
from kafka_remote_client.location.guarded_source import GuardedLocationSource
from kafka_remote_client.location.source import LocationSource
from kafka_remote_client.model import NotRemote, PartitionOffsets
from kafka_remote_client.segment_spans import SegmentSpan, SegmentSpans
from tests.support.locations import ManualClock, location
from tests.support.questions import question

KEY, OTHER = ("orders", 0), ("orders", 1)
DEADLINE = Deadline(ManualClock(), 1.0)
METHODS = ("locate", "offsets", "offsets_of", "close")
QUESTION = question(*KEY, 7, leader_epoch=3, max_bytes=9)


class Source:
    """Gives each question the same answer, or raises it."""

    def __init__(self, answer: object) -> None:
        self.asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._answer = answer

    def __getattr__(self, name: str) -> Callable[..., object]:
        def ask(*args: Any, **kwargs: Any) -> object:
            self.asked.append((name, args, kwargs))
            if isinstance(self._answer, BaseException) and name in METHODS:
                raise self._answer
            return dict.fromkeys(args[0], self._answer) if name == "locate" else self._answer

        return ask


def ask(answer: object, method: str) -> tuple[Any, Source]:
    """Returns the guard's answer: a value, or the error that it raises."""
    source = Source(answer)
    guarded = GuardedLocationSource(cast("LocationSource", source))
    try:
        if method == "locate":
            got: Any = guarded.locate([QUESTION], DEADLINE)[QUESTION]
        elif method == "offsets":
            got = guarded.offsets(*KEY, DEADLINE)
        elif method == "offsets_of":
            got = guarded.offsets_of([KEY, OTHER], DEADLINE)
        else:
            got = guarded.close()  # type: ignore[func-returns-value] # the claim is that it returns None
    except DirectFetchError as error:
        got = error
    return got, source


@pytest.mark.parametrize("answer", [location(), NotRemote("local")], ids=["location", "not-remote"])
def test_a_location_and_a_reason_for_none_pass(answer: object) -> None:
    got, source = ask(answer, "locate")
    assert got is answer
    assert source.asked == [("locate", ([QUESTION], DEADLINE), {})]


def test_bounds_pass() -> None:
    bounds = PartitionOffsets(log_start=1)
    got, source = ask(bounds, "offsets")
    assert got is bounds
    assert source.asked == [("offsets", (*KEY, DEADLINE), {})]


def test_bounds_of_many_pass_with_errors_in_their_places() -> None:
    answers = {KEY: PartitionOffsets(log_start=1), OTHER: LocationError("gone")}
    got, source = ask(answers, "offsets_of")
    assert got == answers
    assert source.asked == [("offsets_of", ([KEY, OTHER], DEADLINE), {})]


@pytest.mark.parametrize("error", [LocationError("gone"), RemoteLogError("damaged")], ids=["location", "remote-log"])
@pytest.mark.parametrize("method", ["locate", "offsets"])
def test_a_documented_error_passes(method: str, error: DirectFetchError) -> None:
    got, _ = ask(error, method)
    assert got is error


def test_one_error_for_all_is_the_answer_to_each() -> None:
    error = LocationError("gone")
    got, _ = ask(error, "offsets_of")
    assert got == {KEY: error, OTHER: error}


@pytest.mark.parametrize("answer", [KeyError("secret"), None, "secret"], ids=["raised", "nothing", "other"])
@pytest.mark.parametrize("method", ["locate", "offsets", "offsets_of"])
def test_a_forbidden_answer_of_a_source_is_a_logged_location_error(
    method: str, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    got, _ = ask(answer, method)
    errors = [got[KEY], got[OTHER]] if method == "offsets_of" else [got]
    for error in errors:
        assert type(error) is LocationError
        assert "secret" not in str(error)
        assert isinstance(error.__cause__, KeyError if isinstance(answer, KeyError) else TypeError)
        if method != "offsets_of":
            assert (error.topic, error.partition, error.offset) == (*KEY, 7 if method == "locate" else None)
    assert "the broker takes over" in caplog.text


@pytest.mark.parametrize(
    "answers", [{KEY: PartitionOffsets()}, {KEY: PartitionOffsets(), OTHER: None}], ids=["left out", "nothing"]
)
def test_a_missing_answer_becomes_an_error_of_its_partition(answers: object) -> None:
    got, _ = ask(answers, "offsets_of")
    assert got.keys() == {KEY, OTHER}
    assert isinstance(got[OTHER], LocationError)


@pytest.mark.parametrize("error", [KeyError("defect"), LocationError("gone")], ids=["defect", "documented"])
def test_closing_never_raises(error: Exception) -> None:
    got, source = ask(error, "close")
    assert got is None
    assert source.asked == [("close", (), {})]


def test_exceptions_that_end_the_process_pass() -> None:
    with pytest.raises(KeyboardInterrupt):
        ask(KeyboardInterrupt(), "locate")


def listed(answer: object) -> object:
    source = Source(answer)
    return GuardedLocationSource(cast("LocationSource", source)).segments_of([KEY, OTHER], DEADLINE)


def test_listed_segments_of_the_asked_partitions_pass() -> None:
    segments = SegmentSpans([SegmentSpan(0, 10, 100)])
    assert listed({KEY: segments, ("other", 3): segments}) == {KEY: segments}


@pytest.mark.parametrize("answer", [None, {KEY: [5]}, {KEY: 5}], ids=repr)
def test_a_forbidden_list_of_segments_is_no_list(answer: object) -> None:
    assert listed(answer) == {}


@pytest.mark.parametrize("error", [LocationError("no leader"), ValueError("defect")], ids=repr)
def test_a_source_that_cannot_list_segments_lists_none(error: Exception) -> None:
    class Failing:
        def segments_of(self, partitions: object, deadline: object) -> object:
            raise error

    assert GuardedLocationSource(cast("LocationSource", Failing())).segments_of([KEY], DEADLINE) == {}


def test_a_source_without_the_method_lists_no_segments() -> None:
    assert GuardedLocationSource(cast("LocationSource", object())).segments_of([KEY], DEADLINE) == {}
