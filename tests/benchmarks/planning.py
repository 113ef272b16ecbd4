"""How long the driver plans a backfill of many segments: synthetic ones, no cluster and no store.

Segments of 100 MB lie in the partitions of one topic::

    known      all segments are known beforehand, so each one is a cell of the plan
    asked      none is known: locations are requested as before any job, each answered after some milliseconds
    listed     the source lists the segments of all partitions at once, and no location is requested
    shim       a shim in another process lists them over loopback, page by page (tests/benchmarks/listing_shim.py)
    continued  half of the planned splits are finished: their ids are parsed, and ``without`` finds the remaining splits

In all but the last, splits are planned and pickled, one at a time, as Spark takes them. Each case has a process of its own. It
tells wall-clock and CPU seconds of the plan, without what it needs beforehand, and the peak resident memory of the process.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import (
    ByteRange,
    GrantedRange,
    PartitionOffsets,
    SegmentLocation,
    TopicPartition,
)
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT
from kafka_remote_client.scanning.remaining import parse_split_id, without
from kafka_remote_client.scanning.splits import OffsetRange, plan_splits
from kafka_remote_client.segment_spans import SegmentSpan, SegmentSpans
from kafka_remote_client.spark.planning.segment_probes import with_segments
from kafka_remote_client.spark.source.input_partition import KafkaRemotePartition
from tests.benchmarks.engine_reading import memory
from tests.benchmarks.listing_shim import LENGTH, SIZE, TOPIC, segment_metadata
from tests.support.asked_process import ROOT, AskedProcess
from tests.support.one_by_one import OneByOne

__all__ = ["case_figures", "planning_seconds"]

_ANSWER_SECONDS = 0.005
_SHIM_COUNTERS = ("location_requests", "segment_lists", "segments_listed", "locations_pending")
_CASES = ("known", "asked", "listed", "shim", "continued")


class _Source(OneByOne):
    """Locations by arithmetic."""

    def __init__(self, segments: int) -> None:
        self._end = segments * LENGTH
        self.questions = 0

    def answer(self, question: LocationQuestion, deadline: object) -> SegmentLocation:
        topic, partition, offset = question.topic, question.partition, question.offset
        self.questions += 1
        time.sleep(_ANSWER_SECONDS)
        base = offset // LENGTH * LENGTH
        return SegmentLocation(
            metadata=segment_metadata(topic, partition, base),
            format=ORIGINAL_FORMAT,
            ranges=(GrantedRange(ByteRange(0, SIZE)),),
            fetch_offset=offset,
            next_offset=base + LENGTH,
        )

    def offsets_of(self, partitions: Sequence[tuple[str, int]], deadline: object) -> Mapping[tuple[str, int], PartitionOffsets]:
        return dict.fromkeys(partitions, PartitionOffsets(latest_tiered=self._end - 1))


class _ListingSource(_Source):
    """The same with lists of segments, which it has in memory."""

    def __init__(self, segments: int, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(segments)
        starts = range(0, self._end, LENGTH)
        self._lists = {key: SegmentSpans(SegmentSpan(at, at + LENGTH, SIZE) for at in starts) for key in partitions}

    def segments_of(self, partitions: Sequence[tuple[str, int]], deadline: object) -> Mapping[tuple[str, int], SegmentSpans]:
        return {TopicPartition(*key): self._lists[TopicPartition(*key)] for key in partitions}


def planning_seconds(segments: int, partitions: int = 100) -> dict[str, Any]:
    """Figures of each case: seconds, CPU seconds, peak resident bytes, splits, questions, bytes of the largest task."""
    each = segments // partitions
    command = [sys.executable, "-m", "tests.benchmarks.planning"]
    found: dict[str, Any] = {"segments": each * partitions, "partitions": partitions}
    for case in _CASES:
        told = subprocess.run([*command, case, str(each), str(partitions)], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        found[case] = json.loads(told.stdout)
    return found


def case_figures(case: str, each: int, partitions: int) -> dict[str, Any]:
    """The figures of one case, in this process: ``each`` segments in each of the partitions."""
    topics = [TopicPartition(TOPIC, number) for number in range(partitions)]
    if case in ("known", "continued"):
        spans = tuple(SegmentSpan(n * LENGTH, (n + 1) * LENGTH, SIZE) for n in range(each))
        known = [OffsetRange(topic, 0, each * LENGTH, spans, tiered_end=each * LENGTH) for topic in topics]
        return _continued(known) if case == "continued" else _Timed().of(lambda: known)
    bare = [OffsetRange(topic, 0, each * LENGTH) for topic in topics]
    if case == "shim":
        return _over_a_shim(bare, each, partitions)
    source = _Source(each) if case == "asked" else _ListingSource(each, topics)
    return {**_Timed().of(lambda: _learnt(source, bare)), "questions": source.questions}


def _over_a_shim(bare: Sequence[OffsetRange], each: int, partitions: int) -> dict[str, Any]:
    process = AskedProcess(
        [sys.executable, "-m", "tests.benchmarks.listing_shim", str(each), str(partitions)], dict(os.environ)
    )
    try:
        address = process.line().strip()
        began = json.loads(process.ask("counters"))
        source = BrokerLocationSource(address, client_id="planner", clock=SystemClock(), connect_timeout=10.0)
        try:
            found = _Timed().of(lambda: _learnt(source, bare))
        finally:
            source.close()
        counted = json.loads(process.ask("counters"))
    finally:
        process.stop()
    shim = {
        name: counted.get(name, 0) for name in ("location_requests", "segment_lists", "segments_listed", "locations_pending")
    }
    return {**found, **shim, "shim_and_broker_cpu_seconds": counted["cpu_seconds"] - began["cpu_seconds"]}


class _Timed:
    """The time of a plan from here on."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def of(self, ranges: Callable[[], Sequence[OffsetRange]]) -> dict[str, Any]:
        splits, task_bytes = _planned(ranges())
        return {
            "seconds": time.perf_counter() - self._began[0],
            "cpu_seconds": time.process_time() - self._began[1],
            "peak_resident_bytes": memory("VmHWM"),
            "splits": splits,
            "task_bytes": task_bytes,
        }


def _learnt(source: Any, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
    return with_segments(source, ranges, split_bytes=SIZE, clock=SystemClock(), timeout=10.0)


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


def main() -> None:
    if sys.argv[1:] and sys.argv[1] in _CASES:
        print(json.dumps(case_figures(sys.argv[1], *map(int, sys.argv[2:]))))
    else:
        print(json.dumps(planning_seconds(*(map(int, sys.argv[1:] or ["100000"]))), indent=1))


if __name__ == "__main__":
    main()
