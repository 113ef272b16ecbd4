from __future__ import annotations

import logging
from uuid import UUID

import pytest

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import RemoteStorageUnavailableError
from kafka_remote_client.location.segment_lists import list_segments
from kafka_remote_client.model import TopicIdPartition
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.segment_spans import SegmentSpans
from tests.support.locations import ManualClock, segment

KEYS = [("t", number) for number in range(5)]
SEGMENTS = [TieredSegment(segment(), 0, 10)]
SPANS = SegmentSpans(one.span for one in SEGMENTS)


def tip(key: tuple[str, int]) -> TopicIdPartition | None:
    return None if key == KEYS[1] else TopicIdPartition(UUID(int=1), *key)


def test_unknown_and_failed_partitions_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    def segments(of: TopicIdPartition) -> list[TieredSegment] | None:
        if of.partition == 2:
            raise RemoteStorageUnavailableError("the store is gone")
        return {0: SEGMENTS, 3: None, 4: []}[of.partition]

    with caplog.at_level(logging.DEBUG):
        found = list_segments(KEYS, tip, segments, Deadline(ManualClock(), 1.0), concurrency=2)
    assert found == {KEYS[0]: SPANS, KEYS[4]: SegmentSpans()}
    assert "the segments of t-2 are not known: the store is gone" in caplog.text


def test_nothing_is_read_after_the_deadline() -> None:
    clock = ManualClock()
    read: list[int] = []

    def segments(of: TopicIdPartition) -> list[TieredSegment]:
        read.append(of.partition)
        clock.now += 2
        return SEGMENTS

    assert list_segments(KEYS, tip, segments, Deadline(clock, 3.0), concurrency=1) == dict.fromkeys([KEYS[0], KEYS[2]], SPANS)
    assert read == [0, 2]
