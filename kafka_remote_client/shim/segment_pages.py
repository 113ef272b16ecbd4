"""Lists the segments of a partition for a client's plan, page by page.

A list grants nothing: it has no URL and no object key, and no leader confirms it. It goes to a client whose own Fetch of the
partition the broker has answered without an error, as a grant does, and only if the topic's policy permits grants. No segment
below the log start of that answer is listed.

One answer has at most :data:`MOST_SEGMENTS` entries, shared equally by the partitions of the request. The next page begins
where a page ends. A look-up makes and encodes one page, in a worker thread, so the event loop of all clients only copies it.

References: docs/wire-format.md ("Lists of segments").
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Protocol
from uuid import UUID

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import IsolationLevel, NotRemote, TopicIdPartition
from kafka_remote_client.protocol.dialect import SegmentPage
from kafka_remote_client.protocol.fetch import PartitionData
from kafka_remote_client.protocol.segment_list import ENTRY_BYTES, SegmentEntry
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.shim.tagged_fetch import DIALECT, TaggedPartition
from kafka_remote_client.wire import TaggedFields

__all__ = ["MOST_SEGMENTS", "EncodedPage", "SegmentSource", "page_of", "page_question"]

MOST_SEGMENTS = 8192
"""Of one answer, so it has half a megabyte at most and is made in some ten milliseconds."""

EncodedPage = tuple[TaggedFields, int]
"""The tagged fields of a page, and the number of its entries."""


class SegmentSource(Protocol):
    """A tier that knows all segments of its partitions. Called from worker threads."""

    def find(self, topic: str, topic_id: UUID, partition: int) -> TopicIdPartition | None:
        """Returns the partition of ``topic_id``; ``topic`` may be empty. ``None`` if no segment of it is tiered."""

    def segments(
        self, topic_id_partition: TopicIdPartition, start: int = 0, most: int | None = None
    ) -> list[TieredSegment] | None:
        """Returns the first ``most`` segments of the log from offset ``start`` on; ``None`` = not ready.

        Raises RemoteLogError or RemoteStorageError, and in :func:`kept_only` NotKeptError instead of waiting for a read.
        """


def page_question(tagged: TaggedPartition, topic_id: UUID, data: PartitionData, partitions: int) -> LocationQuestion:
    """Returns the question for a page. ``data``: the broker's answer; ``partitions``: the number in the client's request.

    Its ``max_bytes`` are those of the page.
    """
    return LocationQuestion(
        topic=tagged.topic.topic,
        topic_id=topic_id,
        partition=tagged.partition.partition,
        offset=max(tagged.wanted.list_start or 0, data.log_start_offset),
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        max_bytes=max(1, MOST_SEGMENTS // partitions) * ENTRY_BYTES,
    )


def page_of(tier: SegmentSource, question: LocationQuestion, permits: Callable[[str], bool]) -> EncodedPage | NotRemote:
    """Looks up a page, in a worker thread. ``permits``: whether the policy of a topic permits grants.

    Raises as :class:`SegmentSource`.
    """
    tip = tier.find(question.topic, question.topic_id, question.partition)
    if tip is None:
        return NotRemote("not-tiered")
    if not permits(tip.topic):
        return NotRemote("topic-policy")
    most = question.max_bytes // ENTRY_BYTES
    found = tier.segments(tip, question.offset, most + 1)
    if found is None:
        return NotRemote("metadata-not-ready")
    entries = tuple(_entry(segment) for segment in islice(found, most))
    page = SegmentPage(entries, entries[-1].next_offset if len(found) > most else None)
    try:
        return DIALECT.page_tags(page), len(entries)
    except ProtocolError:  # the tier's data about a segment is inconsistent
        return NotRemote("inconsistent")


def _entry(segment: TieredSegment) -> SegmentEntry:
    metadata = segment.metadata
    return SegmentEntry(
        metadata.remote_log_segment_id.id.bytes,
        metadata.start_offset,
        metadata.end_offset,
        segment.start,
        segment.end,
        metadata.segment_leader_epochs[0].epoch,
        metadata.max_timestamp_ms,
        metadata.segment_size_in_bytes,
    )
