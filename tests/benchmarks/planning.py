"""How long the driver plans a backfill of many segments: synthetic ones, no cluster and no store.

Segments of 100 MB lie in 100 partitions. Two cases: all of them are known beforehand, so every one is a cell of the plan; and
nothing is, so that locations are asked as before any job, each answered after some milliseconds. In both, splits are planned
and pickled, one at a time, as Spark takes them.
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
from kafka_remote_client.scanning.splits import OffsetRange, SegmentSpan, plan_splits
from kafka_remote_client.spark.planning.segment_probes import with_segments
from kafka_remote_client.spark.source.partition import KafkaRemotePartition
from tests.support.one_by_one import OneByOne

__all__ = ["planning_seconds"]

_PARTITIONS = 100
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
        metadata = RemoteLogSegmentMetadata(
            remote_log_segment_id=RemoteLogSegmentId(TopicIdPartition(UUID(int=1), topic, partition), UUID(int=base + 1)),
            start_offset=base,
            end_offset=base + _LENGTH - 1,
            max_timestamp_ms=0,
            broker_id=0,
            event_timestamp_ms=0,
            segment_size_in_bytes=_SIZE,
            segment_leader_epochs=((0, base),),
        )
        return SegmentLocation(
            metadata=metadata,
            format=ORIGINAL_FORMAT,
            ranges=(GrantedRange(ByteRange(0, _SIZE)),),
            fetch_offset=offset,
            next_offset=base + _LENGTH,
        )

    def offsets_of(self, partitions: Sequence[tuple[str, int]], deadline: object) -> Mapping[tuple[str, int], PartitionOffsets]:
        return dict.fromkeys(partitions, PartitionOffsets(latest_tiered=self._end - 1))


def planning_seconds(segments: int) -> dict[str, Any]:
    """Seconds of both cases, how many splits came out, and how many questions were asked."""
    each = segments // _PARTITIONS
    topics = [TopicPartition("planned", number) for number in range(_PARTITIONS)]
    spans = tuple(SegmentSpan(n * _LENGTH, (n + 1) * _LENGTH, _SIZE) for n in range(each))
    known = [OffsetRange(topic, 0, each * _LENGTH, spans, tiered_end=each * _LENGTH) for topic in topics]
    started = time.perf_counter()
    splits_known = _planned(known)
    known_seconds = time.perf_counter() - started
    source: Any = _Source(each)
    started = time.perf_counter()
    bare = [OffsetRange(topic, 0, each * _LENGTH) for topic in topics]
    splits_asked = _planned(with_segments(source, bare, split_bytes=_SIZE, clock=SystemClock(), timeout=10.0))
    asked_seconds = time.perf_counter() - started
    return {
        "segments": each * _PARTITIONS,
        "known": {"seconds": known_seconds, "splits": splits_known},
        "asked": {"seconds": asked_seconds, "splits": splits_asked, "questions": source.questions},
    }


def _planned(ranges: Sequence[OffsetRange]) -> int:
    partitions = [KafkaRemotePartition(split) for split in plan_splits(ranges)]
    for partition in partitions:
        pickle.dumps(partition)
    return len(partitions)


if __name__ == "__main__":
    print(json.dumps(planning_seconds(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000), indent=1))
