"""Shared by the benchmarks of metadata topics: generated partitions, look-ups, and targets."""

from __future__ import annotations

import time
from collections.abc import Mapping
from uuid import UUID

from kafka_remote_client.model import TopicIdPartition
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore

__all__ = ["EPOCH", "RECORDS", "generated_partition", "look_up", "missed_targets"]

EPOCH = 3
"""The leader epoch of all segments."""
RECORDS = 10_000
"""Offsets of a segment."""
_PARTITIONS_OF_A_TOPIC = 100


def missed_targets(figures: Mapping[str, float], targets: Mapping[str, float]) -> list[str]:
    """One line for each figure above its target."""
    return [
        f"missed: {name} is {figures[name]:.1f}, not at most {most:g}" for name, most in targets.items() if figures[name] > most
    ]


def generated_partition(number: int) -> TopicIdPartition:
    """The user partition with this number: 100 of them are a topic."""
    topic = number // _PARTITIONS_OF_A_TOPIC
    return TopicIdPartition(UUID(int=topic + 1), f"orders-{topic:04d}", number % _PARTITIONS_OF_A_TOPIC)


def look_up(store: RemoteLogMetadataStore, tip: TopicIdPartition, offset: int) -> float:
    """Microseconds to find the segment of an offset. Raises RuntimeError for a wrong one."""
    began = time.perf_counter()
    known = store.find(tip.topic_id, tip.partition)
    cache = None if known is None else store.cache(known)
    found = None if cache is None else cache.remote_log_segment_metadata(EPOCH, offset)
    took = time.perf_counter() - began
    if found is None or not found.start_offset <= offset <= found.end_offset:
        raise RuntimeError(f"offset {offset} of {tip} has the wrong segment {found}")
    return 1e6 * took
