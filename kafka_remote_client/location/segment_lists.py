"""Lists the segments of many partitions for a plan, some partitions in parallel, for a source that knows the tier.

A partition costs the read of its lineage, one small object, which the next look-up then has in its cache.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.location.cluster_metadata import Key
from kafka_remote_client.model import TopicIdPartition
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.segment_spans import SegmentSpans
from kafka_remote_client.threads import DaemonExecutor

__all__ = ["list_segments"]

_log = logging.getLogger(__name__)


def list_segments(
    partitions: Sequence[Key],
    topic_id_partition: Callable[[Key], TopicIdPartition | None],
    segments: Callable[[TopicIdPartition], Sequence[TieredSegment] | None],
    deadline: Deadline,
    *,
    concurrency: int,
) -> Mapping[Key, SegmentSpans]:
    """As SegmentListingSource.segments_of.

    ``segments`` returns ``None`` if it does not know them; an error is logged at DEBUG, and its partition is left out.
    ``concurrency``: the number of partitions that are looked up at the same time.
    """

    def found(key: Key) -> SegmentSpans | None:
        if deadline.expired():
            return None
        try:
            tip = topic_id_partition(key)
            listed = None if tip is None else segments(tip)
            return None if listed is None else SegmentSpans(segment.span for segment in listed)
        except DirectFetchError as error:
            _log.debug("the segments of %s-%s are not known: %s", *key, error)
            return None

    with DaemonExecutor(concurrency, "kafka-remote-segments") as workers:
        answers = list(workers.map(found, partitions))
    return {key: answer for key, answer in zip(partitions, answers, strict=True) if answer is not None}
