"""A location source that answers its questions one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import LocationAnswer

__all__ = ["OneByOne", "answer_each"]


def answer_each(
    questions: Iterable[LocationQuestion], answer: Callable[[LocationQuestion], LocationAnswer]
) -> dict[LocationQuestion, LocationAnswer]:
    """Returns the result of ``answer`` for each question; a DirectFetchError that it raises is the answer."""
    answers: dict[LocationQuestion, LocationAnswer] = {}
    for question in questions:
        try:
            answers[question] = answer(question)
        except DirectFetchError as error:
            answers[question] = error
    return answers


class OneByOne:
    """A base of a LocationSource. Subclasses have ``answer``: its result or error is the answer to one question."""

    answer: Any

    def locate(self, questions: Sequence[LocationQuestion], deadline: Any) -> Mapping[LocationQuestion, LocationAnswer]:
        return answer_each(questions, lambda question: self.answer(question, deadline))
