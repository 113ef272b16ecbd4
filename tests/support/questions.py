"""Location questions for tests: of a reader, to a tier, and a grant as the answer."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import ByteRange, EpochEntry, GrantedRange, IsolationLevel, TopicIdPartition
from kafka_remote_client.protocol.dialect import SegmentGrant

__all__ = ["GRANT", "question", "tier_question"]

GRANT = SegmentGrant(
    segment_id=UUID(int=9),
    format="ApacheKafkaV1",
    ranges=(GrantedRange(ByteRange(4096, 8192), LocationMetadata(url="https://store/1").encode()),),
    segment_size=10_000,
    start_offset=900,
    end_offset=1999,
    leader_epochs=(EpochEntry(0, 900), EpochEntry(2, 1500)),
    next_offset=1800,
    expires_in_ms=120_000,
)
"""Offsets 900 to 1799 in one range."""


def question(topic: str, partition: int, offset: int, **changes: Any) -> LocationQuestion:
    """The question of a new reader of committed records."""
    given = {"isolation_level": IsolationLevel.READ_COMMITTED, **changes}
    return LocationQuestion(topic=topic, partition=partition, offset=offset, **given)


def tier_question(tip: TopicIdPartition, offset: int, **changes: Any) -> LocationQuestion:
    """The same for a window of 1 MB in one range, as a source asks its tier."""
    given = {"topic_id": tip.topic_id, "max_bytes": 10**6, "range_bytes": 10**6, **changes}
    return question(tip.topic, tip.partition, offset, **given)
