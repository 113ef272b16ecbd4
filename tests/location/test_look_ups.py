"""Questions side by side: who takes long keeps nobody waiting, and nothing is looked up twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import LocationError
from kafka_remote_client.location.look_ups import LookUps
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import LocationPending, NotRemote
from tests.support.locations import ManualClock
from tests.support.questions import question
from tests.support.waiting import wait_until

FAST, SLOW = question("t", 0, 5), question("t", 1, 5)


class Answers:
    """Answers at once, but for SLOW, which waits until ``go`` is set. ``error`` is raised from both."""

    def __init__(self, clock: ManualClock | SystemClock) -> None:
        self.clock = clock
        self.go = threading.Event()
        self.asked: list[LocationQuestion] = []
        self.error: Exception | None = None
        self.look_ups = LookUps(self._answer, clock)

    def _answer(self, asked: LocationQuestion, deadline: Deadline) -> NotRemote:
        assert deadline.remaining() > 0
        self.asked.append(asked)
        if asked == SLOW:
            assert self.go.wait(60)
        if self.error is not None:
            raise self.error
        return NotRemote(f"answer {len(self.asked)}")

    def locate(self, *questions: LocationQuestion) -> list[object]:
        answers = self.look_ups.locate(questions, Deadline(SystemClock(), 60))
        assert list(answers) == list(questions)
        return list(answers.values())

    def ended(self) -> None:
        """Waits until the slow look-up is over."""
        future = self.look_ups._going[SLOW].future
        wait_until(future.done, "the look-up")


@pytest.fixture
def answers() -> Iterator[Answers]:
    made = Answers(SystemClock())
    yield made
    made.go.set()
    made.look_ups.close()


def test_who_takes_long_is_pending_and_keeps_nobody_waiting(answers: Answers) -> None:
    slow, fast = answers.locate(SLOW, FAST)
    assert slow == LocationPending()
    assert isinstance(fast, NotRemote)


def test_a_look_up_that_goes_on_is_joined(answers: Answers) -> None:
    assert answers.locate(SLOW) == answers.locate(SLOW) == [LocationPending()]
    answers.go.set()
    answers.ended()
    assert isinstance(answers.locate(SLOW)[0], NotRemote)
    assert answers.asked == [SLOW]


def test_an_answer_is_given_once(answers: Answers) -> None:
    assert answers.locate(FAST) != answers.locate(FAST)
    assert answers.asked == [FAST, FAST]


def test_an_error_is_an_answer(answers: Answers) -> None:
    answers.error = LocationError("gone")
    assert answers.locate(FAST) == [answers.error]


def test_a_defect_comes_through(answers: Answers) -> None:
    answers.error = KeyError("defect")
    with pytest.raises(KeyError):
        answers.locate(FAST)
    answers.error = None
    assert isinstance(answers.locate(FAST)[0], NotRemote)


def test_an_old_answer_is_forgotten() -> None:
    made = Answers(ManualClock())
    assert made.locate(SLOW) == [LocationPending()]
    made.go.set()
    made.ended()
    made.clock.now += 5.5
    assert isinstance(made.locate(SLOW)[0], NotRemote)
    assert made.asked == [SLOW, SLOW]
    made.look_ups.close()


def test_after_close_nothing_is_asked(answers: Answers) -> None:
    answers.look_ups.close()
    answers.look_ups.close()
    with pytest.raises(LocationError, match="is closed"):
        answers.locate(FAST)
    assert answers.asked == []


def test_a_look_up_that_close_overtook_is_an_error() -> None:
    made = Answers(SystemClock())
    made.look_ups = LookUps(made._answer, made.clock, concurrency=1)
    other = question("t", 2, 5)
    assert made.locate(SLOW, other) == [LocationPending()] * 2
    waiting = made.look_ups._going[other]
    made.look_ups.close()
    assert isinstance(waiting.answer, LocationError)
    assert waiting.ended_before(0.0)
    made.go.set()
