import threading
from collections.abc import Mapping, Sequence

import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import DirectFetchError, LocationError
from kafka_remote_client.fetch.offsets_watch import OffsetsWatch
from kafka_remote_client.location.guarded_source import GuardedLocationSource
from kafka_remote_client.location.source import LocationSource
from kafka_remote_client.model import PartitionOffsets
from tests.support.golden_tier import GoldenTierSource
from tests.support.waiting import wait_until

BOUNDS = PartitionOffsets(log_start=0, earliest_local=10)


def watching(source: LocationSource) -> OffsetsWatch:
    return OffsetsWatch(GuardedLocationSource(source), SystemClock(), 5.0)


def test_answers_come_in_the_background_and_once() -> None:
    watch = watching(GoldenTierSource(BOUNDS))
    assert watch.offsets("orders", 0) is None
    assert wait_until(lambda: watch.offsets("orders", 0), "the answer") == BOUNDS
    assert watch.offsets("orders", 0) is None
    watch.close(5.0)


def test_a_failure_is_an_answer_too() -> None:
    class Gone(GoldenTierSource):
        def offsets_of(
            self, partitions: Sequence[tuple[str, int]], deadline: Deadline
        ) -> dict[tuple[str, int], PartitionOffsets | DirectFetchError]:
            return {key: LocationError("gone") for key in partitions}

    source = Gone(BOUNDS)
    watch = watching(source)
    assert watch.offsets("orders", 0) is None
    assert isinstance(wait_until(lambda: watch.offsets("orders", 0), "the answer"), LocationError)
    assert watch.offsets("orders", 0) is None
    watch.close(5.0)


def test_a_closed_watch_asks_nobody() -> None:
    watch = watching(GoldenTierSource(BOUNDS))
    watch.close(5.0)
    before = threading.active_count()
    assert watch.offsets("orders", 0) is None
    assert threading.active_count() == before


def test_without_a_thread_nobody_answers_and_the_next_question_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = watching(GoldenTierSource(BOUNDS))
    with monkeypatch.context() as refused:
        refused.setattr("kafka_remote_client.fetch.offsets_watch.start_thread", lambda *_: None)
        assert watch.offsets("orders", 0) is None
        watch_closed = watching(GoldenTierSource(BOUNDS))
        assert watch_closed.offsets("orders", 0) is None
        watch_closed.close(5.0)
    assert wait_until(lambda: watch.offsets("orders", 0), "the answer") == BOUNDS
    watch.close(5.0)


def test_each_question_is_asked_once() -> None:
    asked: list[list[tuple[str, int]]] = []

    class Counting(GoldenTierSource):
        def offsets_of(
            self, partitions: Sequence[tuple[str, int]], deadline: Deadline
        ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
            asked.append(list(partitions))
            return super().offsets_of(partitions, deadline)

    watch = watching(Counting(BOUNDS))
    for topic in ("orders", "others"):
        assert watch.offsets(topic, 0) is None
        assert wait_until(lambda topic=topic: (topic, 0) in watch._answers, "the answer")
    watch.close(5.0)
    assert asked == [[("orders", 0)], [("others", 0)]]
