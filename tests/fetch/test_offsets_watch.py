import threading
from collections.abc import Iterable, Mapping, Sequence

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


ORDERS = ("orders", 0)


class RecordingSource(GoldenTierSource):
    """A source that records the partitions of each request for bounds."""

    def __init__(self, bounds: PartitionOffsets) -> None:
        super().__init__(bounds)
        self.asked: list[list[tuple[str, int]]] = []

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        self.asked.append(list(partitions))
        return super().offsets_of(partitions, deadline)


def watching(source: LocationSource) -> OffsetsWatch:
    return OffsetsWatch(GuardedLocationSource(source), SystemClock(), 5.0)


def test_answers_arrive_in_the_background_and_once() -> None:
    watch = watching(GoldenTierSource(BOUNDS))
    assert not watch.offsets_of([ORDERS])
    assert wait_until(lambda: watch.offsets_of([ORDERS]), "the answer") == {ORDERS: BOUNDS}
    assert not watch.offsets_of([ORDERS])
    assert wait_until(lambda: watch.answer(ORDERS), "the answer to one question") == BOUNDS
    assert watch.answer(ORDERS) is None
    watch.close(5.0)


def test_a_failure_is_an_answer_too() -> None:
    class Gone(GoldenTierSource):
        def offsets_of(
            self, partitions: Sequence[tuple[str, int]], deadline: Deadline
        ) -> dict[tuple[str, int], PartitionOffsets | DirectFetchError]:
            return {key: LocationError("gone") for key in partitions}

    source = Gone(BOUNDS)
    watch = watching(source)
    assert not watch.offsets_of([ORDERS])
    assert isinstance(wait_until(lambda: watch.offsets_of([ORDERS]), "the answer")[ORDERS], LocationError)
    assert not watch.offsets_of([ORDERS])
    watch.close(5.0)


def test_a_closed_watch_sends_no_requests() -> None:
    watch = watching(GoldenTierSource(BOUNDS))
    watch.close(5.0)
    before = threading.active_count()
    assert not watch.offsets_of([ORDERS])
    assert threading.active_count() == before


def test_after_a_failed_thread_start_the_next_question_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = watching(GoldenTierSource(BOUNDS))
    with monkeypatch.context() as refused:
        refused.setattr("kafka_remote_client.fetch.offsets_watch.start_thread", lambda *_: None)
        assert not watch.offsets_of([ORDERS])
        watch_closed = watching(GoldenTierSource(BOUNDS))
        assert not watch_closed.offsets_of([ORDERS])
        watch_closed.close(5.0)
    assert wait_until(lambda: watch.offsets_of([ORDERS]), "the answer") == {ORDERS: BOUNDS}
    watch.close(5.0)


def test_the_first_of_many_partitions_have_their_bounds_early() -> None:
    partitions = [("orders", number) for number in range(400)]
    source = RecordingSource(BOUNDS)
    watch, asked = watching(source), source.asked
    for _ in range(2):
        asked.clear()
        watch.ask(partitions)
        assert wait_until(lambda: watch.answer(partitions[-1]), "the last answer") == BOUNDS
        assert asked == [partitions[:32], partitions[32:160], partitions[160:]]
    watch.close(5.0)


def test_large_questions_wait_until_the_first_partitions_began(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_remote_client.fetch.offsets_watch._PAUSE_SECONDS", 300.0)
    few, many = RecordingSource(BOUNDS), RecordingSource(BOUNDS)
    for source, count in ((few, 160), (many, 161)):
        watch = watching(source)
        partitions = [("orders", number) for number in range(count)]
        watch.ask(partitions)
        last = partitions[31 if source is many else -1]
        assert wait_until(lambda watch=watch, last=last: watch.answer(last), "an answer") == BOUNDS
        watch.close(5.0)
        assert watch._thread is not None
        assert not watch._thread.is_alive(), "it closes during the pause"
    assert [len(asked) for asked in few.asked] == [32, 128]
    assert [len(asked) for asked in many.asked] == [32]


def test_each_question_is_asked_once() -> None:
    source = RecordingSource(BOUNDS)
    watch, asked = watching(source), source.asked
    for topic in ("orders", "others"):
        assert not watch.offsets_of([(topic, 0)])
        assert wait_until(lambda topic=topic: (topic, 0) in watch._answers, "the answer")
    watch.close(5.0)
    assert asked == [[("orders", 0)], [("others", 0)]]


class SlowSource(RecordingSource):
    """Its answers come when the test allows them. The first one has no bounds."""

    def __init__(self) -> None:
        super().__init__(BOUNDS)
        self.begun = [threading.Event(), threading.Event()]
        self.go = [threading.Event(), threading.Event()]

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        answers, number = super().offsets_of(partitions, deadline), len(self.asked) - 1
        self.begun[number].set()
        assert self.go[number].wait(60)
        return answers if number else dict.fromkeys(answers, PartitionOffsets())


def test_an_answer_to_an_earlier_question_does_not_count() -> None:
    source = SlowSource()
    watch = watching(source)
    watch.ask([ORDERS])
    assert source.begun[0].wait(60)
    watch.ask([ORDERS])
    source.go[0].set()
    assert source.begun[1].wait(60)
    assert watch.answer(ORDERS) is None
    source.go[1].set()
    assert wait_until(lambda: watch.answer(ORDERS), "the answer") == BOUNDS
    watch.close(5.0)


def test_what_is_being_asked_is_not_asked_again() -> None:
    source = SlowSource()
    watch = watching(source)
    assert not watch.offsets_of([ORDERS])
    assert source.begun[0].wait(60)
    assert not watch.offsets_of([ORDERS])
    for go in source.go:
        go.set()
    assert wait_until(lambda: watch.offsets_of([ORDERS]), "the answer") == {ORDERS: PartitionOffsets()}
    watch.close(5.0)
    assert source.asked == [[ORDERS]]


def test_known_offsets_are_returned_and_the_others_requested() -> None:
    watch = watching(GoldenTierSource(BOUNDS))
    wait_until(lambda: watch.offsets_of([ORDERS]), "the answer")
    watch.ask([ORDERS])
    wait_until(lambda: ORDERS in watch._answers, "the answer")
    assert watch.offsets_of([("others", 0), ORDERS]) == {ORDERS: BOUNDS}
    assert wait_until(lambda: watch.offsets_of([("others", 0)]), "the answer") == {("others", 0): BOUNDS}
    watch.close(5.0)


def test_an_answer_that_arrives_while_others_are_asked_about_is_kept() -> None:
    begun, go = threading.Event(), threading.Event()
    asked: list[list[tuple[str, int]]] = []

    class Late(GoldenTierSource):
        def offsets_of(
            self, partitions: Sequence[tuple[str, int]], deadline: Deadline
        ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
            asked.append(list(partitions))
            begun.set()
            assert go.wait(60)
            return super().offsets_of(partitions, deadline)

    class AnsweredBeforeItAsks(OffsetsWatch):
        def ask(self, partitions: Iterable[tuple[str, int]]) -> None:
            if begun.is_set() and not go.is_set():
                go.set()
                if not self._changed._is_owned():  # type: ignore[attr-defined] # else the answer waits for the lock
                    wait_until(lambda: ORDERS in self._answers, "the answer")
            super().ask(partitions)

    watch = AnsweredBeforeItAsks(GuardedLocationSource(Late(BOUNDS)), SystemClock(), 5.0)
    assert not watch.offsets_of([ORDERS])
    assert begun.wait(60)
    assert not watch.offsets_of([ORDERS])
    assert wait_until(lambda: watch.offsets_of([ORDERS]), "the answer") == {ORDERS: BOUNDS}
    watch.close(5.0)
    assert asked == [[ORDERS]]
