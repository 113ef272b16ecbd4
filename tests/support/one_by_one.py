"""A location source that answers its questions one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_remote_client.location.source import answer_each
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import LocationAnswer

__all__ = ["OneByOne"]


class OneByOne:
    """Half of a LocationSource. The other half is ``answer``: its result or error is the answer to one question."""

    answer: Any

    def locate(self, questions: Sequence[LocationQuestion], deadline: Any) -> Mapping[LocationQuestion, LocationAnswer]:
        return answer_each(questions, lambda question: self.answer(question, deadline))
