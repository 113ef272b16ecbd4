"""Values for tests: a segment, a location, a clock that the test owns."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID

from kafka_remote_client.model import (
    ByteRange,
    EpochEntry,
    GrantedRange,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentLocation,
    TopicIdPartition,
)

TOPIC_ID = UUID(int=0x00112233445566778899AABBCCDDEEFF)
SEGMENT_ID = UUID(int=0x01020304050607081112131415161718)


def segment(**changes: Any) -> RemoteLogSegmentMetadata:
    """A segment of 1000 bytes with offsets 0..199, all in epoch 0."""
    values: dict[str, Any] = {
        "remote_log_segment_id": RemoteLogSegmentId(TopicIdPartition(TOPIC_ID, "orders", 0), SEGMENT_ID),
        "start_offset": 0,
        "end_offset": 199,
        "max_timestamp_ms": 1_700_000_000_000,
        "broker_id": 1,
        "event_timestamp_ms": 1_700_000_000_000,
        "segment_leader_epochs": (EpochEntry(0, changes.get("start_offset", 0)),),
        "segment_size_in_bytes": 1000,
        **changes,
    }
    return RemoteLogSegmentMetadata(**values)


def location(**changes: Any) -> SegmentLocation:
    """A grant of offsets 100..199 of that segment, in two ranges."""
    values: dict[str, Any] = {
        "metadata": segment(),
        "format": "ApacheKafkaV1",
        "fetch_offset": 100,
        "ranges": (GrantedRange(ByteRange(400, 700)), GrantedRange(ByteRange(700, 1000))),
        "next_offset": 200,
        "aborted_transactions": (),
        **changes,
    }
    return SegmentLocation(**values)


class ManualClock:
    """A clock that only the test and waiting move."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.fraction = 0.5

    def monotonic(self) -> float:
        return self.now

    def time_ms(self) -> int:
        return int(self.now * 1000)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.now += seconds
        return event.is_set()

    def jitter(self) -> float:
        return self.fraction
