"""What lies in the tier: metadata, segment states, lineage, index files, object layouts, and the resolver."""

from kafka_remote_client.remote_log.events import (
    RemoteLogMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from kafka_remote_client.remote_log.layout import ListedSegment, ObjectKind, ObjectLayout
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.listing import TierListing
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.partitioner import metadata_partition
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.remote_log.time_lookup import TimestampAndOffset
from kafka_remote_client.remote_log.transaction_index import TransactionIndex

__all__ = [
    "LeaderEpochLineage",
    "ListedSegment",
    "LocalTieredStorageLayout",
    "ObjectKind",
    "ObjectLayout",
    "RemoteLogMetadata",
    "RemoteLogMetadataCache",
    "RemoteLogMetadataSerde",
    "RemoteLogMetadataStore",
    "RemoteLogSegmentMetadataSnapshot",
    "RemoteLogSegmentMetadataUpdate",
    "RemotePartitionDeleteMetadata",
    "RemotePartitionDeleteState",
    "RemoteSegmentResolver",
    "ResolvedSegment",
    "TierListing",
    "TimestampAndOffset",
    "TransactionIndex",
    "metadata_partition",
]
