"""Reads from a tier what the planner needs: for each partition its chain of segments and what is open at its end."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from kafka_remote_client.errors import ConfigurationError, RemoteLogError
from kafka_remote_client.model import (
    AbortedTransaction,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.layout import ObjectKind, ObjectLayout
from kafka_remote_client.remote_log.leader_epoch_checkpoint import parse_leader_epoch_checkpoint
from kafka_remote_client.remote_log.producer_snapshot import open_transactions, producer_ids
from kafka_remote_client.remote_log.tier_listing import TierListing, cache_of_uploads
from kafka_remote_client.remote_log.tiered_log import TieredLog, TieredSegment
from kafka_remote_client.restore.restore_plan import PartitionTier
from kafka_remote_client.verify.known_metadata import KnownMetadata

__all__ = ["read_partition", "read_snapshot"]


def read_partition(
    store: RemoteObjectStore,
    layout: ObjectLayout,
    listing: TierListing,
    tip: TopicIdPartition,
    without: Collection[UUID] = (),
    metadata: KnownMetadata | None = None,
) -> PartitionTier:
    """The partition without the segments of these ids; without a chain if no segment is left.

    With ``metadata``, read after the listing, also without segments that brokers do not read: copies that were not finished,
    and segments whose deletion has begun. A finished segment that the store does not have counts as unreadable.

    Raises ConfigurationError if no segment agrees with the newest one, or if the metadata do not know the partition;
    RemoteLogError kinds for a damaged checkpoint, and what the store raises.
    """
    damaged = listing.unreadable(tip)
    found = [one for one in listing.read_segments().values() if one.metadata.topic_id_partition == tip]
    finished = None if metadata is None else _finished(metadata, tip)
    there = damaged.keys() | {one.metadata.remote_log_segment_id for one in found}
    taken = {one for one in there if one.id not in without and (finished is None or one in finished)}
    unreadable = {one: why for one, why in damaged.items() if one in taken}
    unreadable |= {one: "the store does not have it" for one in (finished or {}).keys() - there if one.id not in without}
    unread = 0 if finished is None else len(there - finished.keys())
    left_out = frozenset(one.id for one in there | (finished or {}).keys() if one.id in without)
    cache = cache_of_uploads(
        tip, [(one.metadata, one.uploader_epoch) for one in found if one.metadata.remote_log_segment_id in taken]
    )
    newest = cache.newest_segment()
    if newest is None:
        return PartitionTier(tip, unreadable=unreadable, unread=unread, left_out=left_out)
    lineage = parse_leader_epoch_checkpoint(layout.read_index(store, newest, ObjectKind.LEADER_EPOCH))
    chain = tuple(TieredLog(cache, lineage).all_segments())
    if not chain:
        raise ConfigurationError(f"{tip}: no segment agrees with the leader epochs of the newest one")
    readable = tuple(cache.list_all_remote_log_segments())
    hanging = _open_at_the_end(store, layout, chain[-1])
    return PartitionTier(tip, lineage, chain, readable, unreadable, hanging, unread, left_out)


def _finished(metadata: KnownMetadata, tip: TopicIdPartition) -> dict[RemoteLogSegmentId, RemoteLogSegmentMetadata]:
    """The segments that brokers read."""
    cache = metadata.cache(tip)
    if not metadata.ready(tip) or cache is None:
        what = "is inconsistent for it" if cache is not None else "does not have it: it may belong to another cluster"
        raise ConfigurationError(f"{tip.topic}-{tip.partition}: the metadata topic {what}")
    known = cache.list_all_remote_log_segments()
    return {one.remote_log_segment_id: one for one in known if one.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED}


def read_snapshot(store: RemoteObjectStore, layout: ObjectLayout, last: TieredSegment) -> bytes | None:
    """The producers' state at the end of a log; None if it is missing or damaged, or if the segment is cut at its end."""
    if not last.is_whole:
        return None
    try:
        data = layout.read_index(store, last.metadata, ObjectKind.PRODUCER_SNAPSHOT)
        producer_ids(data)
    except RemoteLogError:
        return None
    return data


def _open_at_the_end(
    store: RemoteObjectStore, layout: ObjectLayout, last: TieredSegment
) -> tuple[AbortedTransaction, ...] | None:
    data = read_snapshot(store, layout, last)
    return None if data is None else open_transactions(data)
