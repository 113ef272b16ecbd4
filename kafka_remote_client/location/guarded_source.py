"""Guards the engine against defects of location sources: it returns only valid answers, or a DirectFetchError.

A defect of a source must cost only speed, never a partition or a thread. So any undocumented exception or answer
becomes a LocationError here. The log has the traceback. The error names the type of the exception, has it as
its ``__cause__``, and does not repeat its text.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import DirectFetchError, LocationError
from kafka_remote_client.location.source import LocationSource, SegmentListingSource
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import LocationAnswer, LocationPending, NotRemote, PartitionOffsets, SegmentLocation
from kafka_remote_client.segment_spans import SegmentSpans

__all__ = ["GuardedLocationSource"]

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class GuardedLocationSource:
    """A LocationSource that raises only DirectFetchError kinds. Owns ``inner``. Thread safe if that is."""

    def __init__(self, inner: LocationSource) -> None:
        self.inner = inner

    def locate(self, questions: Sequence[LocationQuestion], deadline: Deadline) -> Mapping[LocationQuestion, LocationAnswer]:
        """As LocationSource, and never raises: each question has an answer or an error."""

        def ask() -> dict[LocationQuestion, LocationAnswer]:
            answers = self.inner.locate(questions, deadline)
            kinds = (SegmentLocation, NotRemote, LocationPending, DirectFetchError)
            return {question: _known(answers[question], *kinds) for question in questions}

        names = ", ".join(f"{question.topic}-{question.partition}" for question in questions)
        try:
            answers = _guarded(f"asking for the location of {names}", ask)
        except DirectFetchError as error:
            answers = dict.fromkeys(questions, error)
        errors = Counter(id(answer) for answer in answers.values())
        for question, answer in answers.items():
            if isinstance(answer, DirectFetchError) and errors[id(answer)] == 1:  # otherwise it concerns several
                answer.with_context(topic=question.topic, partition=question.partition, offset=question.offset)
        return answers

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        """As LocationSource."""
        try:
            return _guarded(
                f"asking for the bounds of {topic}-{partition}",
                lambda: _known(self.inner.offsets(topic, partition, deadline), PartitionOffsets),
            )
        except DirectFetchError as error:
            error.with_context(topic=topic, partition=partition)
            raise

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        """As LocationSource, and never raises: each partition has an answer or an error."""

        def ask() -> dict[tuple[str, int], PartitionOffsets | DirectFetchError]:
            answers = self.inner.offsets_of(partitions, deadline)
            return {key: _known(answers[key], PartitionOffsets, DirectFetchError) for key in partitions}

        try:
            return _guarded("asking for the bounds of tiers", ask)
        except DirectFetchError as error:
            return dict.fromkeys(partitions, error)

    def segments_of(self, partitions: Sequence[tuple[str, int]], deadline: Deadline) -> Mapping[tuple[str, int], SegmentSpans]:
        """As SegmentListingSource, and never raises. Nothing is known where the source lists no segments, or fails."""
        inner = self.inner
        if not isinstance(inner, SegmentListingSource):
            return {}

        def ask() -> dict[tuple[str, int], SegmentSpans]:
            answers = inner.segments_of(partitions, deadline)
            return {key: _known(answers[key], SegmentSpans) for key in partitions if key in answers}

        try:
            return _guarded("asking for the segments of partitions", ask)
        except DirectFetchError as error:
            _log.debug("no segments are listed: %s", error)
            return {}

    def close(self) -> None:
        """As LocationSource. Never raises."""
        try:
            _guarded("closing the location source", self.inner.close)
        except DirectFetchError as error:
            _log.debug("the location source is closed with an error: %s", error.cause)


def _known(answer: _T, *kinds: type) -> _T:
    if not isinstance(answer, kinds):
        raise TypeError(f"the location source answered with a {type(answer).__name__}")
    return answer


def _guarded(doing: str, ask: Callable[[], _T]) -> _T:
    try:
        return ask()
    except DirectFetchError:
        raise
    except Exception as error:
        _log.exception("%s failed; the broker takes over", doing)
        text = f"{doing} failed: the location source raised {type(error).__name__}; see the traceback in the log"
        raise LocationError(text) from error
