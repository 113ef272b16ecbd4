"""F72: a segment of one GiB is read in bounded memory. The test makes it during the read, without a disk."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence

import attrs
import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import (
    ByteRange,
    GrantedRange,
    NotRemote,
    PartitionOffsets,
    RemoteLogSegmentMetadata,
    SegmentLocation,
)
from kafka_remote_client.plugin import WritableBuffer
from tests.support.batches import Rec, batch
from tests.support.locations import location, segment
from tests.support.one_by_one import OneByOne
from tests.support.reading import PATIENT_ENGINE
from tests.support.resident_memory import memory_of

_BATCH = batch(0, [Rec(0, b"key", b"v" * (1 << 20))])
_COUNT = 1 + (1 << 30) // len(_BATCH)
_OF_A_RANGE = 8
_RANGES = 4
_BUFFER = 64 << 20


class EndlessStream:
    """Repeats one batch, each time with its own base offset, which no checksum covers."""

    def __init__(self, start: int, end: int) -> None:
        self._at, self._end = start, end

    def readinto(self, buffer: WritableBuffer, /) -> int:
        number, inside = divmod(self._at, len(_BATCH))
        front = struct.pack(">q", number)
        part = (front[inside:] if inside < len(front) else _BATCH[inside:])[: min(len(buffer), self._end - self._at)]
        memoryview(buffer)[: len(part)] = part
        self._at += len(part)
        return len(part)

    def close(self) -> None:
        """Does nothing."""


class EndlessFetcher:
    def configure(self, configs: Mapping[str, object]) -> None:
        """Has no settings."""

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> EndlessStream:
        return EndlessStream(start_position, end_position)

    def close(self) -> None:
        """Does nothing."""


class LargeSegment(OneByOne):
    """A LocationSource of the one segment, which grants 32 batches at a time."""

    def __init__(self) -> None:
        self._metadata = segment(end_offset=_COUNT - 1, segment_size_in_bytes=_COUNT * len(_BATCH))

    def answer(self, question: LocationQuestion, deadline: Deadline) -> SegmentLocation | NotRemote:
        offset = question.offset
        ends = [min(offset + (turn + 1) * _OF_A_RANGE, _COUNT) for turn in range(_RANGES)]
        starts = [offset, *ends[:-1]]
        ranges = [ByteRange(a * len(_BATCH), b * len(_BATCH)) for a, b in zip(starts, ends, strict=True) if a < b]
        return location(
            metadata=self._metadata,
            fetch_offset=offset,
            ranges=tuple(GrantedRange(wanted) for wanted in ranges),
            next_offset=ends[-1],
        )

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        return PartitionOffsets(log_start=0)

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        return {key: self.offsets(*key, deadline) for key in partitions}

    def close(self) -> None:
        """Does nothing."""


@pytest.mark.fault("F72")
def test_a_segment_of_one_gib_is_read_in_bounded_memory() -> None:
    clock = SystemClock()
    config = attrs.evolve(PATIENT_ENGINE, buffer_memory=_BUFFER)
    engine = FetchEngine(LargeSegment(), EndlessFetcher(), config, clock=clock, metrics=FetchMetrics(clock))
    size = most = count = grown = 0
    before = memory_of(os.getpid(), "VmRSS")
    try:
        for item in engine.reader(ReadRequest("orders", 0, 0, end_offset=_COUNT)).blocks(timeout=60):
            most = max(most, engine.memory.held)
            grown = max(grown, memory_of(os.getpid(), "VmRSS") - before)
            if isinstance(item, ReadEnd):
                assert (item.reason, item.next_offset) == ("end", _COUNT)
                break
            for row in item.rows():
                assert row[0] == count
                count += 1
                size += len(row[5])
    finally:
        engine.close()
    assert (count, size) == (_COUNT, _COUNT << 20)
    assert _COUNT * len(_BATCH) >= 1 << 30
    assert 0 < most <= _BUFFER * 5 // 4 + (32 << 20), "what T13 of the target table allows"
    assert engine.memory.held == 0
    # The ledger above is the engine's own. The process also has the rows of one block.
    assert grown < 2 * _BUFFER + (128 << 20)
