"""The layout of Kafka's LocalTieredStorage: the broker's files as they are.

::

    kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset, 20 digits>-<segment id><suffix>

References: Kafka's LocalTieredStorage, RemoteTopicPartitionDirectory, RemoteLogSegmentFileset.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kafka_remote_client.model import RemoteLogSegmentMetadata, uuid_to_text
from kafka_remote_client.tiered_cluster.segment_files import FileKind

__all__ = ["PlainFiles"]

_ROOT = "kafka-tiered-storage"
_ORDER = (
    FileKind.LOG,
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.TRANSACTION_INDEX,
    FileKind.LEADER_EPOCH,
    FileKind.PRODUCER_SNAPSHOT,
)


class PlainFiles:
    """See the module."""

    name = "local-tiered-storage"

    def files(self, segment: RemoteLogSegmentMetadata, objects: Mapping[FileKind, bytes]) -> Mapping[str, bytes]:
        return {_key(segment, kind): objects[kind] for kind in _ORDER if kind in objects}

    def keys(self, segment: RemoteLogSegmentMetadata) -> tuple[str, ...]:
        return tuple(_key(segment, kind) for kind in _ORDER)

    def custom_metadata(self, segment: RemoteLogSegmentMetadata, files: Mapping[str, bytes]) -> bytes | None:
        return None

    def object(self, directory: Path, segment: RemoteLogSegmentMetadata, kind: FileKind) -> bytes:
        return (directory / _key(segment, kind)).read_bytes()


def _key(segment: RemoteLogSegmentMetadata, kind: FileKind) -> str:
    tip, copy = segment.remote_log_segment_id.topic_id_partition, uuid_to_text(segment.remote_log_segment_id.id)
    folder = f"{tip.topic}-{tip.partition}-{uuid_to_text(tip.topic_id)}"
    return f"{_ROOT}/{folder}/{segment.start_offset:020d}-{copy}{kind.value}"
