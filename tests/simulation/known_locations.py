"""Locations without a shim: a client's source that knows the logs, for worlds that spend their time on reads.

It has no threads, requests or signatures, so that an event costs a fraction of one with the real shim. The tier is that of the
simulated brokers. Windows end between batches, at the largest size of the scenario, at the end of their segment, and where the
reader may not read on. The list of aborted transactions is that of the log by which reads are judged.

References: KIP-1254; docs/wire-format.md.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import (
    DirectFetchError,
    LocationExpiredError,
    RemoteStorageError,
    SegmentNotFoundError,
)
from kafka_remote_client.fetch.commands import LocationBatch
from kafka_remote_client.fetch.locate import Located, locate
from kafka_remote_client.fetch.partition_read import Fetch
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import (
    ByteRange,
    GrantedRange,
    IsolationLevel,
    LocationAnswer,
    NotRemote,
    PartitionOffsets,
    RemoteLogSegmentMetadata,
    SegmentLocation,
)
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT
from kafka_remote_client.tiered_cluster.segment_files import FileKind
from tests.simulation.location_faults import FaultySource
from tests.simulation.scenario import LOCATION_SECONDS

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["KnownLocations", "NearClient"]

_HEAD = struct.Struct(">qi")
_HEAD_BYTES = 12
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_BEGINS_BEFORE = 0.2
"""The share of windows that begin with batches before the offset, as those at an entry of an offset index do."""
_MOST_BEFORE = 4

_Span = tuple[int, int, int]
"""The last offset of a batch, and where it begins and ends."""


def _spans(data: bytes) -> Iterator[_Span]:
    """Yields the batches of a segment."""
    at = 0
    while at < len(data):
        base, size = _HEAD.unpack_from(data, at)
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, at + _LAST_OFFSET_DELTA_AT)
        yield base + delta, at, (at := at + _HEAD_BYTES + size)


@attrs.frozen(kw_only=True)
class _KnownRange(GrantedRange):
    """A range whose object needs no URL. ``expires_at``: when the store refuses it, on the world's clock."""

    key: str
    expires_at: float


class KnownLocations:
    """A LocationSource, and the store that opens its ranges."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._brokers = world.brokers

    def locate(self, questions: Sequence[LocationQuestion], deadline: Deadline) -> Mapping[LocationQuestion, LocationAnswer]:
        """See LocationSource."""
        return {question: self._answer(question) for question in questions}

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        """See LocationSource."""
        return self._brokers.partitions[partition].offsets

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        """See LocationSource."""
        return {key: self._brokers.partitions[key[1]].offsets for key in partitions}

    def close(self) -> None:
        """Nothing is open."""

    def opened(self, command: Fetch, now: float) -> bytes | RemoteStorageError:
        """Returns the bytes of a granted range, or why the store refuses it."""
        granted = command.range.granted
        assert isinstance(granted, _KnownRange)
        if now >= granted.expires_at or self._world.happens(self._world.scenario.urls_expire):
            return LocationExpiredError("403 expired")
        if granted.key not in self._brokers.objects:
            return SegmentNotFoundError("404")
        return self._brokers.objects[granted.key][granted.range.start : granted.range.end]

    def ranged(self, like: GrantedRange, start: int, end: int) -> GrantedRange:
        """Returns another range of the same segment."""
        assert isinstance(like, _KnownRange)
        return _KnownRange(ByteRange(start, end), key=like.key, expires_at=like.expires_at)

    def _answer(self, question: LocationQuestion) -> LocationAnswer:
        partition, offset = self._brokers.partitions[question.partition], question.offset
        offsets = partition.offsets
        if offset < offsets.log_start:
            return NotRemote("out-of-range", offsets, out_of_range=True)
        bound = partition.log.stable_end(question.isolation_level)
        segment = partition.tiered_segment(offset)
        if segment is None or offset >= bound:
            return NotRemote("local" if segment is None else "beyond-end", offsets)
        key, batches = self._batches(segment)
        window = self._window(batches, question, bound)
        next_offset = window[-1][0] + 1
        expires_at = self._world.clock.now + self._world.scenario.url_seconds
        committed = question.isolation_level is IsolationLevel.READ_COMMITTED
        return SegmentLocation(
            metadata=segment,
            format=ORIGINAL_FORMAT,
            fetch_offset=offset,
            ranges=tuple(_KnownRange(ByteRange(*cut), key=key, expires_at=expires_at) for cut in self._cut(window)),
            next_offset=next_offset,
            aborted_transactions=partition.log.aborted_between(offset, next_offset) if committed else (),
            high_watermark=offsets.high_watermark,
            last_stable_offset=partition.log.stable_end(IsolationLevel.READ_COMMITTED),
            log_start_offset=offsets.log_start,
            expires_at=expires_at,
        )

    def _batches(self, segment: RemoteLogSegmentMetadata) -> tuple[str, Sequence[_Span]]:
        """Returns the key of a segment's object, and its batches."""
        known, number = self._brokers.spans, segment.remote_log_segment_id.id
        if number not in known:
            key = next(key for key in self._brokers.store.layout.keys(segment) if key.endswith(FileKind.LOG.value))
            known[number] = key, tuple(_spans(self._brokers.objects[key]))
        return known[number]

    def _window(self, batches: Sequence[_Span], question: LocationQuestion, bound: int) -> Sequence[_Span]:
        last = bisect_right(batches, question.offset - 1, key=lambda span: span[0])
        first = last - min(last, _MOST_BEFORE) if self._world.happens(_BEGINS_BEFORE) else last
        most = batches[last][1] + self._world.scenario.grant_bytes
        end = bound if question.read_end_offset is None else min(bound, question.read_end_offset)
        while last + 1 < len(batches) and batches[last][0] + 1 < end and batches[last + 1][2] <= most:
            last += 1
        return batches[first : last + 1]

    def _cut(self, batches: Sequence[_Span]) -> Iterator[tuple[int, int]]:
        start, end = batches[0][1:]
        for _, begins, ends in batches[1:]:
            if ends - start > self._world.scenario.range_bytes:
                yield start, end
                start = begins
            end = ends
        yield start, end


class NearClient:
    """A client whose requests for locations take some time, and nothing else."""

    def __init__(self, world: World, _name: str) -> None:
        self._world = world
        source = world.known
        self._asked = FaultySource(world, source, source.ranged)

    def locate(self, batch: LocationBatch, then: Callable[[list[Located]], object]) -> None:
        """Requests locations. ``then`` gets the answers some time later."""
        self._world.after(self._world.some(self._world.scenario.latency), partial(self._locate, batch, then))

    def _locate(self, batch: LocationBatch, then: Callable[[list[Located]], object]) -> None:
        clock = self._world.clock
        deadline = Deadline(clock, LOCATION_SECONDS)
        then(locate(self._asked, batch.locates, (ORIGINAL_FORMAT,), deadline, clock, lambda _one, _deadline: False))
