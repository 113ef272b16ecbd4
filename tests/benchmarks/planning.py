"""How long the driver plans a backfill of many segments: synthetic ones, no cluster and no store.

Segments of 100 MB lie in the partitions of one topic::

    known      all segments are known beforehand, so each one is a cell of the plan
    asked      none is known: locations are requested as before any job, each answered after some milliseconds
    listed     the source lists the segments of all partitions at once, and no location is requested
    continued  half of the planned splits are finished: their ids are parsed, and ``without`` finds the remaining splits

In the first three, splits are planned and pickled, one at a time, as Spark takes them.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import (
    ByteRange,
    GrantedRange,
    PartitionOffsets,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentLocation,
    TopicIdPartition,
    TopicPartition,
)
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.scanning.remaining import parse_split_id, without
from kafka_remote_client.scanning.splits import OffsetRange, SegmentSpan, plan_splits
from kafka_remote_client.spark.planning.segment_probes import with_segments
from kafka_remote_client.spark.source.partition import KafkaRemotePartition
from tests.support.one_by_one import OneByOne

__all__ = ["planning_seconds"]

_LENGTH, _SIZE = 100_000, 100_000_000
_ANSWER_SECONDS = 0.005


class _Source(OneByOne):
    """Locations by arithmetic."""

    def __init__(self, segments: int) -> None:
        self._end = segments * _LENGTH
        self.questions = 0

    def answer(self, question: LocationQuestion, deadline: object) -> SegmentLocation:
        topic, partition, offset = question.topic, question.partition, question.offset
        self.questions += 1
        time.sleep(_ANSWER_SECONDS)
        base = offset // _LENGTH * _LENGTH
        return SegmentLocation(
            metadata=_metadata(topic, partition, base),
            format=ORIGINAL_FORMAT,
            ranges=(GrantedRange(ByteRange(0, _SIZE)),),
            fetch_offset=offset,
            next_offset=base + _LENGTH,
        )

    def offsets_of(self, partitions: Sequence[tuple[str, int]], deadline: object) -> Mapping[tuple[str, int], PartitionOffsets]:
        return dict.fromkeys(partitions, PartitionOffsets(latest_tiered=self._end - 1))


class _ListingSource(_Source):
    """The same with lists of segments, which it has in memory."""

    def __init__(self, segments: int, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(segments)
        starts = range(0, self._end, _LENGTH)
        self._lists = {key: [TieredSegment(_metadata(*key, at), at, at + _LENGTH) for at in starts] for key in partitions}

    def segments_of(
        self, partitions: Sequence[tuple[str, int]], deadline: object
    ) -> Mapping[tuple[str, int], Sequence[TieredSegment]]:
        return {TopicPartition(*key): self._lists[TopicPartition(*key)] for key in partitions}


def _metadata(topic: str, partition: int, base: int) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(TopicIdPartition(UUID(int=1), topic, partition), UUID(int=base + 1)),
        start_offset=base,
        end_offset=base + _LENGTH - 1,
        max_timestamp_ms=0,
        broker_id=0,
        event_timestamp_ms=0,
        segment_size_in_bytes=_SIZE,
        segment_leader_epochs=((0, base),),
    )


def planning_seconds(segments: int, partitions: int = 100) -> dict[str, Any]:
    """Seconds of each case, how many splits came out, how many questions were asked, and bytes of the largest task."""
    each = segments // partitions
    topics = [TopicPartition("planned", number) for number in range(partitions)]
    spans = tuple(SegmentSpan(n * _LENGTH, (n + 1) * _LENGTH, _SIZE) for n in range(each))
    known = [OffsetRange(topic, 0, each * _LENGTH, spans, tiered_end=each * _LENGTH) for topic in topics]
    started = time.perf_counter()
    splits_known, task_bytes = _planned(known)
    known_seconds = time.perf_counter() - started
    bare = [OffsetRange(topic, 0, each * _LENGTH) for topic in topics]
    return {
        "segments": each * partitions,
        "partitions": partitions,
        "known": {"seconds": known_seconds, "splits": splits_known, "task_bytes": task_bytes},
        "asked": _learnt(_Source(each), bare),
        "listed": _learnt(_ListingSource(each, topics), bare),
        "continued": _continued(known),
    }


def _learnt(source: Any, ranges: Sequence[OffsetRange]) -> dict[str, Any]:
    started = time.perf_counter()
    splits, _ = _planned(with_segments(source, ranges, split_bytes=_SIZE, clock=SystemClock(), timeout=10.0))
    return {"seconds": time.perf_counter() - started, "splits": splits, "questions": source.questions}


def _planned(ranges: Sequence[OffsetRange]) -> tuple[int, int]:
    partitions = [KafkaRemotePartition(split) for split in plan_splits(ranges)]
    return len(partitions), max(len(pickle.dumps(partition)) for partition in partitions)


def _continued(ranges: Sequence[OffsetRange]) -> dict[str, Any]:
    """Seconds to continue after every other split, whose ids are given."""
    planned = plan_splits(ranges)
    ids = [split.id for split in planned[::2]]
    started = time.perf_counter()
    finished = [parse_split_id(text) for text in ids]
    parsed = time.perf_counter()
    left = without(planned, finished)
    ended = time.perf_counter()
    return {
        "parse_seconds": parsed - started,
        "without_seconds": ended - parsed,
        "finished": len(finished),
        "splits": len(left),
    }


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    print(json.dumps(planning_seconds(*(given or [100_000])), indent=1))
