"""Look-ups side by side: a slow look-up delays no other, and each is read once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import LocationError
from kafka_remote_client.location.look_ups import LookUps
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import LocationPending, NotRemote
from kafka_remote_client.remote_log.kept_only import about_to_read
from tests.support.locations import ManualClock
from tests.support.questions import question
from tests.support.waiting import wait_until

FAST, SLOW, ALSO_SLOW = (question("t", partition, 5) for partition in range(3))


class Answers:
    """Answers FAST at once from its cache; reads the others, which takes until ``go`` is set. All raise ``error`` if set."""

    def __init__(self, clock: ManualClock | SystemClock, **options: int) -> None:
        self.clock = clock
        self.go = threading.Event()
        self.asked: list[LocationQuestion] = []
        self.error: Exception | None = None
        self.look_ups = LookUps(self._answer, clock, **options)

    def _answer(self, asked: LocationQuestion, deadline: Deadline) -> NotRemote:
        assert deadline.remaining() > 0
        if asked != FAST:
            about_to_read()
        self.asked.append(asked)
        if asked != FAST:
            assert self.go.wait(60)
        if self.error is not None:
            raise self.error
        return NotRemote(f"answer {len(self.asked)}")

    def locate(self, *questions: LocationQuestion) -> list[object]:
        answers = self.look_ups.locate(questions, Deadline(SystemClock(), 60))
        assert list(answers) == list(questions)
        return list(answers.values())

    def ended(self) -> None:
        """Waits until the slow look-up has ended."""
        future = self.look_ups._going[SLOW].future
        wait_until(future.done, "the look-up")


@pytest.fixture
def answers() -> Iterator[Answers]:
    made = Answers(SystemClock())
    yield made
    made.go.set()
    made.look_ups.close()


def test_a_slow_look_up_is_pending_and_delays_no_other(answers: Answers) -> None:
    slow, fast = answers.locate(SLOW, FAST)
    assert slow == LocationPending()
    assert isinstance(fast, NotRemote)


def test_a_look_up_in_progress_is_joined(answers: Answers) -> None:
    assert answers.locate(SLOW) == answers.locate(SLOW) == [LocationPending()]
    answers.go.set()
    answers.ended()
    assert isinstance(answers.locate(SLOW)[0], NotRemote)
    assert answers.asked == [SLOW]


def test_cached_answers_never_queue_behind_reads() -> None:
    made = Answers(SystemClock(), concurrency=1)
    assert made.locate(SLOW, ALSO_SLOW) == [LocationPending()] * 2
    assert isinstance(made.locate(FAST)[0], NotRemote)
    assert made.asked == [SLOW, FAST]
    made.go.set()
    made.look_ups.close()


def test_a_look_up_past_its_deadline_is_refused_and_not_started() -> None:
    made = Answers(ManualClock(), concurrency=1, timeout=7)
    assert made.locate(SLOW, ALSO_SLOW) == [LocationPending()] * 2
    made.clock.now += 6.5
    assert made.locate(SLOW, ALSO_SLOW) == [LocationPending()] * 2
    made.clock.now += 1
    assert made.locate(SLOW, ALSO_SLOW) == [NotRemote("location-pending")] * 2
    assert made.asked == [SLOW]  # its thread cannot be stopped, so the question joins it
    also_slow = made.look_ups._going[ALSO_SLOW].future
    made.go.set()
    wait_until(also_slow.done, "the other look-up")
    assert made.asked == [SLOW]
    made.look_ups.close()


def test_an_answer_is_given_once(answers: Answers) -> None:
    assert answers.locate(FAST) != answers.locate(FAST)
    assert answers.asked == [FAST, FAST]


def test_an_error_is_an_answer(answers: Answers) -> None:
    answers.error = LocationError("gone")
    assert answers.locate(FAST) == [answers.error]


def test_a_defect_is_raised(answers: Answers) -> None:
    answers.error = KeyError("defect")
    with pytest.raises(KeyError):
        answers.locate(FAST)
    answers.error = None
    assert isinstance(answers.locate(FAST)[0], NotRemote)


def test_an_old_answer_is_dropped() -> None:
    made = Answers(ManualClock())
    assert made.locate(SLOW) == [LocationPending()]
    made.go.set()
    made.ended()
    made.clock.now += 5.5
    assert isinstance(made.locate(SLOW)[0], NotRemote)
    assert made.asked == [SLOW, SLOW]
    made.look_ups.close()


def test_no_look_up_starts_after_close(answers: Answers) -> None:
    answers.look_ups.close()
    answers.look_ups.close()
    with pytest.raises(LocationError, match="is closed"):
        answers.locate(FAST)
    assert answers.asked == []


def test_a_look_up_that_close_cancels_is_an_error() -> None:
    made = Answers(SystemClock(), concurrency=1)
    assert made.locate(SLOW, ALSO_SLOW) == [LocationPending()] * 2
    waiting = made.look_ups._going[ALSO_SLOW]
    made.look_ups.close()
    assert isinstance(waiting.answer, LocationError)
    assert waiting.ended_before(0.0)
    made.go.set()


def test_a_look_up_that_close_cancels_reads_nothing() -> None:
    made = Answers(SystemClock())
    began, closed = threading.Event(), threading.Event()

    def answer(_asked: LocationQuestion, _deadline: Deadline) -> NotRemote:
        began.set()
        assert closed.wait(60)
        about_to_read()
        return NotRemote("read")

    made.look_ups = LookUps(answer, made.clock)
    asking = threading.Thread(target=made.look_ups.locate, args=([SLOW], Deadline(made.clock, 60)))
    asking.start()
    assert began.wait(60)
    under_way = made.look_ups._going[SLOW]
    made.look_ups.close()
    closed.set()
    asking.join()
    wait_until(under_way.future.done, "the look-up")
    assert isinstance(under_way.answer, LocationError)


def test_a_question_after_a_refused_look_up_starts_a_new_one() -> None:
    made = Answers(ManualClock(), concurrency=1, timeout=7)
    assert made.locate(SLOW, ALSO_SLOW) == [LocationPending()] * 2
    refused = made.look_ups._going[ALSO_SLOW]
    made.clock.now += 8
    made.go.set()
    wait_until(refused.future.done, "the other look-up")
    assert refused.answer == NotRemote("location-pending")
    assert made.locate(ALSO_SLOW) == [NotRemote("answer 2")]
    assert made.asked == [SLOW, ALSO_SLOW]
    made.look_ups.close()


class _SwappedInTheMeantime(Future[object]):
    """The caller asks whether this future is done just before the look-up starts its read."""

    def __init__(self, go_on: threading.Event) -> None:
        super().__init__()
        self._go_on = go_on
        self._ended = threading.Event()
        self.add_done_callback(lambda _: self._ended.set())

    def done(self) -> bool:
        self._go_on.set()
        self._ended.wait(0.2)
        return super().done()


def test_a_read_that_begins_late_delays_no_answer() -> None:
    made = Answers(SystemClock())
    needs_a_read, read, asked = threading.Event(), threading.Event(), Deadline(SystemClock(), 60)

    def answer(_asked: LocationQuestion, _deadline: Deadline) -> NotRemote:
        assert needs_a_read.wait(60)
        about_to_read()
        assert read.wait(60)
        return NotRemote("read")

    class Kept(ThreadPoolExecutor):
        def submit(self, call: Callable[..., object], /, *args: object) -> Future[object]:
            future = _SwappedInTheMeantime(needs_a_read)
            super().submit(lambda: future.set_result(call(*args)))
            return future

    look_ups = LookUps(answer, made.clock)
    look_ups._kept_workers.shutdown()
    look_ups._kept_workers = Kept(1)
    told: list[object] = []
    asking = threading.Thread(target=lambda: told.append(look_ups.locate([SLOW], asked)))
    asking.start()
    asking.join(5)
    waits = asking.is_alive()
    read.set()
    asking.join(60)
    look_ups.close()
    assert not waits
    assert told == [{SLOW: LocationPending()}]
