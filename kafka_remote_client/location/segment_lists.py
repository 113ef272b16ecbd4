"""The segments of many partitions for a plan, some partitions at once, by a source that knows the tier.

The cost of a partition is what the tier reads to know its lineage, which is one small object that the next look-up has too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.model import TopicIdPartition
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.segment_spans import SegmentSpans

__all__ = ["list_segments"]

_log = logging.getLogger(__name__)

_Key: TypeAlias = tuple[str, int]


def list_segments(
    partitions: Sequence[_Key],
    topic_id_partition: Callable[[_Key], TopicIdPartition | None],
    segments: Callable[[TopicIdPartition], Sequence[TieredSegment] | None],
    deadline: Deadline,
    *,
    concurrency: int,
) -> Mapping[_Key, SegmentSpans]:
    """As SegmentListingSource.segments_of.

    ``segments`` returns ``None`` where it does not know; an error is logged at DEBUG, and its partition is left out.
    ``concurrency``: the number of partitions that are looked up at the same time.
    """

    def found(key: _Key) -> SegmentSpans | None:
        if deadline.expired():
            return None
        try:
            tip = topic_id_partition(key)
            listed = None if tip is None else segments(tip)
            return None if listed is None else SegmentSpans(segment.span for segment in listed)
        except DirectFetchError as error:
            _log.debug("the segments of %s-%s are not known: %s", *key, error)
            return None

    with ThreadPoolExecutor(concurrency, thread_name_prefix="kafka-remote-segments") as workers:
        answers = list(workers.map(found, partitions))
    return {key: answer for key, answer in zip(partitions, answers, strict=True) if answer is not None}
