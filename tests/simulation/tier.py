"""The tier of a simulated world: which segments it holds, where the logs begin, and the peer that locates records in it.

The peer answers as a broker or shim does (KIP-1254): it grants a window from the batch before an offset on, cut into ranges,
with the aborted transactions of the window. Sometimes it answers late, not at all, or with URLs that expire soon.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import attrs

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import (
    DirectFetchError,
    LocationError,
    LocationExpiredError,
    LocationThrottledError,
    RemoteStorageError,
    SegmentNotFoundError,
)
from kafka_remote_client.fetch.partition_read import Fetch
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import (
    NO_EXPIRY,
    ByteRange,
    GrantedRange,
    IsolationLevel,
    LocationAnswer,
    LocationPending,
    NotRemote,
    PartitionOffsets,
    RemoteLogSegmentId,
    SegmentLocation,
)
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT
from tests.simulation.judge import ReadJudge
from tests.simulation.model_log import LogSegment, ModelLog, model_log
from tests.simulation.occurrences import Occurrences
from tests.simulation.scenario import Scenario
from tests.support.locations import ManualClock

__all__ = ["Partition", "SignedRange", "Tier"]

_LOGS = 64
_EARLY = 2
"""Batches before the requested one with which a window may begin: an index does not name each batch."""


@attrs.frozen
class SignedRange(GrantedRange):
    """A range with what its URL would say. Parsing of URLs is not simulated.

    ``url_expires_at``: when the store stops accepting the URL. ``refuse``: a client must refuse the location of the range.
    """

    url_expires_at: float = NO_EXPIRY
    refuse: bool = False


@attrs.define(eq=False)
class Partition:
    """``tiered``: how many segments are in the tier. ``local``: the first one that the broker has as well."""

    number: int
    log: ModelLog
    tiered: int
    local: int
    log_start: int = 0

    def judge(self, name: str, level: IsolationLevel, position: int, end: int | None) -> ReadJudge:
        """Returns the judge of a read of it."""
        return ReadJudge(name, self.log, level, position, end)

    @property
    def tiered_end(self) -> int:
        """The first offset that is not in the tier."""
        return self.log.segments[self.tiered - 1].end

    @property
    def local_start(self) -> int:
        """The first offset that the broker has."""
        return self.log.segments[self.local].start if self.local < len(self.log.segments) else self.log.end

    @property
    def offsets(self) -> PartitionOffsets:
        """The bounds as the peer tells them."""
        local = max(self.log_start, self.local_start)
        return PartitionOffsets(self.log_start, local, self.tiered_end - 1, self.log.end, self.log.end)


class Tier:
    """The partitions of a world and the location source over them."""

    def __init__(self, scenario: Scenario, clock: ManualClock, chance: random.Random, seen: Occurrences) -> None:
        self._scenario = scenario
        self._clock = clock
        self._chance = chance
        self._seen = seen
        self._pending_until: dict[int, float] = {}
        self.deleted: set[RemoteLogSegmentId] = set()
        self.partitions: list[Partition] = []
        for number in range(scenario.partitions):
            log = model_log(chance.randrange(_LOGS))
            tiered = max(1, round(len(log.segments) * scenario.segments_tiered))
            self.partitions.append(Partition(number, log, tiered, chance.randint(0, tiered)))

    # -- what the world does ---------------------------------------------------------------------------------------------

    def grow(self, partition: Partition) -> bool:
        """One more segment reaches the tier, and the broker may delete old local ones. False if all are there."""
        partition.local = self._chance.randint(partition.local, partition.tiered)
        if partition.tiered == len(partition.log.segments):
            return False
        partition.tiered += 1
        return True

    def delete_records(self, partition: Partition) -> None:
        """The log's start moves. Segments below it will disappear from the store."""
        partition.log_start = self._chance.randint(partition.log_start, partition.tiered_end - 1)
        for segment in partition.log.segments:
            if segment.end <= partition.log_start:
                self.deleted.add(segment.metadata.remote_log_segment_id)

    def opened(self, command: Fetch, now: float) -> bytes | RemoteStorageError:
        """Returns the bytes of a granted range, or why its URL opens nothing."""
        granted, metadata = command.range.granted, command.grant.location.metadata
        assert isinstance(granted, SignedRange)
        if metadata.remote_log_segment_id in self.deleted:
            return SegmentNotFoundError("404")
        if granted.url_expires_at <= now:
            return LocationExpiredError("403 expired")
        segment = self.partitions[command.read.partition].log.segment_of(metadata.start_offset)
        assert segment is not None
        return segment.data[granted.range.start : granted.range.end]

    # -- as a location source --------------------------------------------------------------------------------------------

    def locate(self, questions: Sequence[LocationQuestion], deadline: Deadline) -> Mapping[LocationQuestion, LocationAnswer]:
        """See LocationSource."""
        if self._happens(self._scenario.locations_fail / 2):
            self._seen.saw("location-failed")
            raise LocationError("no peer answers")
        return {question: self._answer(question) for question in questions}

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        """See LocationSource."""
        return self.partitions[partition].offsets

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        """See LocationSource."""
        return {(topic, number): self.offsets(topic, number, deadline) for topic, number in partitions}

    def close(self) -> None:
        """See LocationSource."""

    def _happens(self, share: float) -> bool:
        return share > 0 and self._chance.random() < share

    def _is_pending(self, partition: int) -> bool:
        """A look-up that is not finished stays so for a while."""
        if self._happens(self._scenario.locations_pending):
            self._pending_until[partition] = self._clock.now + self._chance.expovariate(2.0)
        return self._clock.now < self._pending_until.get(partition, 0.0)

    def _answer(self, question: LocationQuestion) -> LocationAnswer:
        if self._is_pending(question.partition):
            self._seen.saw("location-pending")
            return LocationPending()
        if self._happens(self._scenario.locations_fail):
            self._seen.saw("location-failed")
            return LocationError("the look-up failed")
        if self._happens(self._scenario.locations_throttled):
            self._seen.saw("location-throttled")
            return LocationThrottledError("later", self._chance.choice((0.05, 0.5, 40.0)))
        partition = self.partitions[question.partition]
        if question.offset < partition.log_start:
            self._seen.saw("log-start-passed")
            return NotRemote("out-of-range", partition.offsets, out_of_range=True)
        if question.offset >= partition.tiered_end:
            return NotRemote("local", partition.offsets)
        segment = partition.log.segment_of(question.offset)
        assert segment is not None
        location = self._grant(partition, segment, question)
        return self._spoiled(location, question) if self._happens(self._scenario.locations_bad) else location

    def _spoiled(self, location: SegmentLocation, question: LocationQuestion) -> SegmentLocation:
        """A location that a client must not use."""
        self._seen.saw("location-bad")
        ranges = tuple(attrs.evolve(one, refuse=True) for one in location.ranges)
        wrong: list[dict[str, object]] = [
            {"expires_at": self._clock.now},
            {"fetch_offset": location.fetch_offset + 1},
            {"log_start_offset": question.offset + 1},
            {"next_offset": question.offset},
            {"format": "unknown"},
        ]
        if question.isolation_level is IsolationLevel.READ_COMMITTED:
            wrong.append({"aborted_transactions": None})
        return attrs.evolve(location, ranges=ranges, **self._chance.choice(wrong))

    def _grant(self, partition: Partition, segment: LogSegment, question: LocationQuestion) -> SegmentLocation:
        holding = segment.batch_of(question.offset)
        if segment.batches[holding].base < question.offset:
            self._seen.saw("start-inside-batch")
        first = max(0, holding - self._chance.randint(0, _EARLY))
        last = holding
        window = min(question.max_bytes or self._scenario.grant_bytes, self._scenario.grant_bytes)
        start = segment.batches[first].position
        while last + 1 < len(segment.batches) and segment.batches[last + 1].position - start < window:
            last += 1
        next_offset = segment.batches[last].last + 1
        aborted = partition.log.aborted_in(question.offset, next_offset)
        if any(end >= next_offset for one, end in partition.log.aborted if one in aborted):
            self._seen.saw("aborted-across-grants")
        expires_at = NO_EXPIRY
        if self._scenario.urls_expire:
            expires_at = self._clock.now + self._chance.uniform(0.5, 1.0) * self._scenario.url_seconds
        return SegmentLocation(
            segment.metadata,
            ORIGINAL_FORMAT,
            question.offset,
            self._ranges(segment, first, last, question.range_bytes, expires_at),
            next_offset,
            aborted,
            high_watermark=partition.log.end,
            last_stable_offset=partition.log.end,
            log_start_offset=partition.log_start,
            expires_at=expires_at,
            range_signed=True,
        )

    def _ranges(self, segment: LogSegment, first: int, last: int, wanted: int, expires_at: float) -> tuple[SignedRange, ...]:
        """Cuts a window at ends of batches, or anywhere."""
        size = min(wanted or self._scenario.range_bytes, self._scenario.range_bytes)
        at, end = segment.batches[first].position, segment.batches[last].position + segment.batches[last].size
        if self._happens(self._scenario.urls_expire):  # the store's clock is ahead
            expires_at = self._clock.now + self._chance.uniform(0.0, 1.0) * self._scenario.url_seconds
        cuts, offsets = [at], [segment.batches[first].base]
        if self._chance.random() < 0.5:
            for one in segment.batches[first : last + 1]:
                if one.position - cuts[-1] >= size:
                    cuts.append(one.position)
                    offsets.append(one.base)
            named = self._chance.random() < 0.5
        else:
            cuts += range(at + size, end, size)
            named = False
            self._seen.saw("range-cuts-batch")
        ends = [*cuts[1:], end]
        return tuple(
            SignedRange(ByteRange(start, stop), None, offsets[number] if named else None, expires_at)
            for number, (start, stop) in enumerate(zip(cuts, ends, strict=True))
        )
