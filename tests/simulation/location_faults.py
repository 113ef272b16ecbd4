"""A client's location source that is sometimes late, fails, or answers with a location that the client must refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import attrs

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import DirectFetchError, LocationError, LocationThrottledError
from kafka_remote_client.location.source import LocationSource
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import (
    ByteRange,
    GrantedRange,
    IsolationLevel,
    LocationAnswer,
    LocationPending,
    NotRemote,
    PartitionOffsets,
    SegmentLocation,
)

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["FaultySource", "RefusedRange"]

_CUT_ANYWHERE = 0.5
_THROTTLE_SECONDS = (0.05, 0.5, 40.0)


@attrs.frozen
class RefusedRange(GrantedRange):
    """A range of a location that a client must refuse."""


class FaultySource:
    """A LocationSource over ``inner``, with the faults of the world's scenario. Notes what a location shows.

    ``ranged`` gives another range of the segment that a granted range is of: its start and its end.
    """

    def __init__(
        self, world: World, inner: LocationSource, ranged: Callable[[GrantedRange, int, int], GrantedRange] | None = None
    ) -> None:
        self._world = world
        self._inner = inner
        self._ranged = self._signed if ranged is None else ranged
        self._pending_until: dict[int, float] = {}

    def locate(self, questions: Sequence[LocationQuestion], deadline: Deadline) -> Mapping[LocationQuestion, LocationAnswer]:
        """See LocationSource."""
        answers = {question: answer for question in questions if (answer := self._failure(question.partition)) is not None}
        rest = [question for question in questions if question not in answers]
        found = self._inner.locate(rest, deadline) if rest else {}
        answers |= {question: self._passed_on(question, found[question]) for question in rest}
        if any(isinstance(answer, LocationPending) for answer in answers.values()):
            self._world.seen.saw("location-pending")
        return answers

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        """See LocationSource."""
        return self._inner.offsets(topic, partition, deadline)

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        """See LocationSource."""
        if self._world.happens(self._world.scenario.locations_fail):
            raise LocationError("no peer answers")
        return self._inner.offsets_of(partitions, deadline)

    def close(self) -> None:
        """See LocationSource."""
        self._inner.close()

    def _failure(self, partition: int) -> LocationAnswer | None:
        world, scenario = self._world, self._world.scenario
        if world.happens(scenario.locations_pending):
            self._pending_until[partition] = world.clock.now + world.some(0.5)
        if world.clock.now < self._pending_until.get(partition, 0.0):
            return LocationPending()
        if world.happens(scenario.locations_fail):
            world.seen.saw("location-failed")
            return LocationError("the look-up failed")
        if world.happens(scenario.locations_throttled):
            world.seen.saw("location-throttled")
            return LocationThrottledError("later", world.chance.choice(_THROTTLE_SECONDS))
        return None

    def _passed_on(self, question: LocationQuestion, answer: LocationAnswer) -> LocationAnswer:
        if isinstance(answer, NotRemote) and answer.out_of_range:
            self._world.seen.saw("log-start-passed")
        if not isinstance(answer, SegmentLocation):
            return answer
        self._note(question, answer)
        if self._world.happens(_CUT_ANYWHERE):
            answer = self._cut_anywhere(answer)
        spoils = self._world.happens(self._world.scenario.locations_bad)
        return self._spoiled(question, answer) if spoils else answer

    def _note(self, question: LocationQuestion, location: SegmentLocation) -> None:
        seen, log = self._world.seen, self._world.brokers.partitions[question.partition].log
        if log.is_inside_batch(question.offset):
            seen.saw("start-inside-batch")
        for one in location.aborted_transactions or ():
            if log.aborted_until(one.producer_id, one.first_offset) >= location.next_offset:
                seen.saw("aborted-across-grants")

    def _cut_anywhere(self, location: SegmentLocation) -> SegmentLocation:
        """The same window in other ranges: the shim cuts between batches, a peer may cut batches too."""
        first, size = location.ranges[0], max(one.range.size for one in location.ranges)
        cuts, end = [first.range.start], location.ranges[-1].range.end
        while end - cuts[-1] > size:
            cuts.append(cuts[-1] + self._world.chance.randint(size // 2 + 1, size))
        return attrs.evolve(location, ranges=tuple(self._ranged(first, *cut) for cut in pairwise([*cuts, end])))

    def _signed(self, like: GrantedRange, start: int, end: int) -> GrantedRange:
        place, signer = LocationMetadata.decode(like.custom_metadata), self._world.brokers.signer
        path, _, query = str(place.url).removeprefix(signer.base_url).partition("?")
        seconds = int(query.partition("&")[0].removeprefix("expires=")) / 1000 - self._world.clock.now
        url = signer.sign(path[1:], ByteRange(start, end), max(seconds, 0.001)).url
        return GrantedRange(ByteRange(start, end), attrs.evolve(place, url=url).encode())

    def _spoiled(self, question: LocationQuestion, location: SegmentLocation) -> SegmentLocation:
        self._world.seen.saw("location-bad")
        wrong: list[dict[str, Any]] = [
            {"expires_at": self._world.clock.now},
            {"fetch_offset": location.fetch_offset + 1},
            {"log_start_offset": question.offset + 1},
            {"next_offset": question.offset},
            {"format": "unknown"},
        ]
        if question.isolation_level is IsolationLevel.READ_COMMITTED:
            wrong.append({"aborted_transactions": None})
        ranges = tuple(RefusedRange(one.range, one.custom_metadata, one.first_offset) for one in location.ranges)
        return attrs.evolve(location, ranges=ranges, **self._world.chance.choice(wrong))
