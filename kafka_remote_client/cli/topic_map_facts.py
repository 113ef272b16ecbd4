"""Gathers what a map shows from the store, the brokers and the metadata topic.

::

    SeenStore (one listing) ─┬► ListingLocationSource ─► segments, undecided transactions ─┐
                             └► LayoutInspector ─► objects of each segment ───────────────┼─► PartitionFacts ─► TopicMap
    brokers ─► ListOffsets (log start, local start, log end) ─────────────────────────────┤
    metadata topic, read after the listing ─► judge_copy ─────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from uuid import UUID

import attrs

from kafka_remote_client.cli.ls import SegmentLine, list_segments
from kafka_remote_client.cli.offsets import OffsetsLine
from kafka_remote_client.cli.prices import StorageClass
from kafka_remote_client.cli.topic_map import PartitionFacts, PartKind, TopicMap, TopicPart, partition_parts
from kafka_remote_client.errors import CorruptRecordError, RemoteLogError, UnsupportedFormatError
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.model import RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition, uuid_to_text
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.layout import ObjectLayout
from kafka_remote_client.remote_log.store_contents import nothing_found
from kafka_remote_client.verify.copies import CopyState, Known, judge_copy
from kafka_remote_client.verify.finding import Problem
from kafka_remote_client.verify.known_metadata import KnownMetadata
from kafka_remote_client.verify.layout_inspectors import inspector_of
from kafka_remote_client.verify.seen_store import SeenStore
from kafka_remote_client.verify.stored_segment import StoredSegment

__all__ = ["ClusterFacts", "map_topic"]


@attrs.frozen
class ClusterFacts:
    """What brokers say. ``bounds``: of all partitions; ``metadata``: read to its end after the listing, None = not read."""

    bounds: Sequence[OffsetsLine] = ()
    metadata: KnownMetadata | None = None
    now_ms: int = 0
    grace_ms: int = 0


def map_topic(
    store: RemoteObjectStore,
    layout: ObjectLayout,
    topic: str,
    storage: StorageClass,
    say: Callable[[str], None],
    *,
    topic_id: UUID | None = None,
    ask: Callable[[], ClusterFacts] | None = None,
) -> TopicMap:
    """Lists the store, then asks the cluster with ``ask``. ``say`` gets remarks on what could not be found out.

    Raises ConfigurationError for a topic without segments and for several topics of the name; what the store raises.
    """
    inspector = inspector_of(layout)
    seen = SeenStore(store, [layout.prefix_of(topic)])
    stored = list(inspector.segments(seen, topic))
    with closing(ListingLocationSource(seen, layout, topic=topic, topic_id=topic_id)) as source:
        tips = source.partitions(topic)
        if not tips:
            raise nothing_found(f"found no segments of {topic}", store)
        cluster = ClusterFacts() if ask is None else ask()
        facts = _facts(source, tips, stored, cluster, say)
    parts = [part for one in facts for part in partition_parts(one, storage)]
    known = {key for segment in stored for key in segment.keys.values()}
    parts += [
        TopicPart(topic, None, PartKind.FOREIGN, stored_bytes=info.size, note=info.key)
        for info in seen.objects
        if inspector.topic_of(info.key) == topic and info.key not in known
    ]
    return TopicMap(topic, tuple(parts), ask is not None, cluster.metadata is not None)


def _facts(
    source: ListingLocationSource,
    tips: Sequence[TopicIdPartition],
    stored: Sequence[StoredSegment],
    cluster: ClusterFacts,
    say: Callable[[str], None],
) -> list[PartitionFacts]:
    topic, identity = tips[0].topic, tips[0].topic_id
    by_partition = {tip.partition: tip for tip in tips}
    bounds = {line.partition: line for line in cluster.bounds}
    known = [] if cluster.metadata is None else cluster.metadata.partitions(topic)
    by_partition |= {tip.partition: tip for tip in known if tip.topic_id == identity}
    lines: dict[int, list[SegmentLine]] = {}
    for line in list_segments(source, [topic], None):
        if line.topic_id == uuid_to_text(identity):
            lines.setdefault(line.partition, []).append(line)
    by_tip: dict[TopicIdPartition, list[StoredSegment]] = {}
    for segment in stored:
        by_tip.setdefault(segment.listed.topic_id_partition, []).append(segment)
    found = []
    for partition in sorted(by_partition.keys() | bounds.keys()):
        tip = by_partition.get(partition, TopicIdPartition(identity, topic, partition))
        own = by_tip.get(tip, [])
        verdicts, missing = _by_metadata(tip, own, cluster, say)
        found.append(
            PartitionFacts(
                topic,
                partition,
                lines.get(partition, ()),
                {_id(segment): segment.nbytes for segment in own},
                verdicts,
                missing,
                _undecided(source, tip, say) if tip in tips else None,
                bounds.get(partition),
            )
        )
    return found


def _id(segment: StoredSegment) -> str:
    return uuid_to_text(segment.listed.remote_log_segment_id.id)


def _undecided(source: ListingLocationSource, tip: TopicIdPartition, say: Callable[[str], None]) -> int | None:
    try:
        return source.first_undecided_offset(tip)
    except (RemoteLogError, CorruptRecordError, UnsupportedFormatError) as error:
        say(f"{tip.topic}-{tip.partition}: cannot find undecided transactions: {error}")
        return None


def _by_metadata(
    tip: TopicIdPartition, stored: Sequence[StoredSegment], cluster: ClusterFacts, say: Callable[[str], None]
) -> tuple[Mapping[str, Problem | CopyState], Sequence[RemoteLogSegmentMetadata]]:
    """What the metadata topic says of each segment in the store, and the finished segments that are not there."""
    metadata = cluster.metadata
    if metadata is None:
        return {}, ()
    if not metadata.ready(tip):
        say(f"{tip.topic}-{tip.partition}: the metadata topic is inconsistent for it")
        return {}, ()
    cache = metadata.cache(tip)
    known = {} if cache is None else {one.remote_log_segment_id: one for one in cache.list_all_remote_log_segments()}

    def judged(one: RemoteLogSegmentMetadata | None, *, deleted: bool = False) -> Known:
        return Known(one, deleted, cluster.now_ms, cluster.grace_ms)

    verdicts = {}
    for segment in stored:
        identity = segment.listed.remote_log_segment_id
        verdict = judge_copy(segment, judged(known.get(identity), deleted=metadata.deleted(identity)))
        if verdict is not CopyState.CHECK:
            verdicts[_id(segment)] = verdict
    there = {segment.listed.remote_log_segment_id for segment in stored}
    finished = (one for one in known.values() if one.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
    # A copy that finished a short while ago may have come after the listing.
    gone = [one for one in finished if one.remote_log_segment_id not in there and not judged(one).is_recent]
    return verdicts, gone
