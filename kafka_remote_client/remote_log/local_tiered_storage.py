"""The layout of Kafka's own LocalTieredStorage: plain copies of the broker's files.

::

    kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset>-<segment id><suffix>
                          any     decimal     22          20 digits      22

Topic names and ids may have ``-`` and ``_``, so both names are parsed from the right, by the fixed widths. Files are copied in
the order log, index, timeindex, txnindex, leader epoch checkpoint, snapshot, with their final names: a listing may show a
segment that is half copied.

References: Kafka's LocalTieredStorage, RemoteTopicPartitionDirectory, RemoteLogSegmentFileset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.errors import ConfigurationError, ObjectNotFoundError
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import (
    ByteRange,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    uuid_from_text,
    uuid_to_text,
)
from kafka_remote_client.plugin import ObjectInfo, RemoteObjectStore
from kafka_remote_client.remote_log.layout import (
    ORIGINAL_FORMAT,
    LayoutOptions,
    ListedSegment,
    LocatedSegment,
    ObjectKind,
    located_as_they_are,
    segment_order,
    topic_in_directory,
)

__all__ = ["LocalTieredStorageLayout"]

_SUFFIXES = {
    ObjectKind.LOG: ".log",
    ObjectKind.OFFSET_INDEX: ".index",
    ObjectKind.TIME_INDEX: ".timeindex",
    ObjectKind.TRANSACTION_INDEX: ".txnindex",
    ObjectKind.PRODUCER_SNAPSHOT: ".snapshot",
    ObjectKind.LEADER_EPOCH: ".leader_epoch_checkpoint",
}
_KINDS = {suffix: kind for kind, suffix in _SUFFIXES.items()}
_DIRECTORY = re.compile(r"(?P<topic>.+)-(?P<partition>0|[1-9][0-9]{0,9})-(?P<id>[A-Za-z0-9_-]{22})", re.ASCII)
_FILE = re.compile(r"(?P<start>[0-9]{20})-(?P<id>[A-Za-z0-9_-]{22})(?P<suffix>\.[a-z_]+)", re.ASCII)


class LocalTieredStorageLayout:
    """The layout below ``root``, the key of Kafka's directory in the store."""

    name = "local-tiered-storage"
    format_name = ORIGINAL_FORMAT

    def __init__(self, root: str = "kafka-tiered-storage") -> None:
        self.prefix = f"{root}/" if root else ""

    @classmethod
    def of_options(cls, options: LayoutOptions) -> LocalTieredStorageLayout:
        """The layout for a user's options. Raises ConfigurationError for any option: it supports none."""
        if options != LayoutOptions():
            raise ConfigurationError(f"the layout {cls.name} supports no key prefix and no encryption keys; remove them")
        return cls()

    def prefix_of(self, topic: str | None = None) -> str:
        return self.prefix if topic is None else f"{self.prefix}{topic}-"

    def topic_of(self, key: str) -> str | None:
        return topic_in_directory(key, self.prefix, _DIRECTORY)

    def object_key(self, metadata: RemoteLogSegmentMetadata, kind: ObjectKind) -> str:
        segment_id = metadata.remote_log_segment_id
        tip = segment_id.topic_id_partition
        directory = f"{tip.topic}-{tip.partition}-{uuid_to_text(tip.topic_id)}"
        return f"{self.prefix}{directory}/{metadata.start_offset:020d}-{uuid_to_text(segment_id.id)}{_SUFFIXES[kind]}"

    def list_segments(self, store: RemoteObjectStore, topic: str | None = None) -> Iterator[ListedSegment]:
        found = (self._parse(info) for info in store.list(self.prefix_of(topic)))
        objects = [parsed for parsed in found if parsed and (topic is None or parsed[0].topic_id_partition.topic == topic)]
        objects.sort(key=lambda parsed: segment_order(parsed[0], parsed[1]))
        for (segment_id, start), group in groupby(objects, key=lambda parsed: parsed[:2]):
            yield ListedSegment(segment_id, start, {kind: size for _, _, kind, size in group})

    def stored_metadata(self, store: RemoteObjectStore, segment: ListedSegment) -> RemoteLogSegmentMetadata | None:
        return None

    def read_index(self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata, kind: ObjectKind) -> bytes:
        try:
            return store.get(self.object_key(metadata, kind))
        except ObjectNotFoundError:
            if kind is ObjectKind.TRANSACTION_INDEX:
                return b""
            raise

    def original_logs(self, store: RemoteObjectStore) -> RemoteObjectStore:
        return store

    def locate(
        self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata, ranges: Sequence[ByteRange]
    ) -> LocatedSegment:
        return located_as_they_are(self.object_key(metadata, ObjectKind.LOG), ranges)

    def manifest_statistics(self) -> CacheStatistics:
        return CacheStatistics()

    def _parse(self, info: ObjectInfo) -> tuple[RemoteLogSegmentId, int, ObjectKind, int] | None:
        """Segment id, start offset, kind and size; None for an object of no segment."""
        directory, _, name = info.key.removeprefix(self.prefix).partition("/")
        of_directory, of_file = _DIRECTORY.fullmatch(directory), _FILE.fullmatch(name)
        if of_directory is None or of_file is None or of_file["suffix"] not in _KINDS:
            return None
        if int(of_file["start"]) > MAX_OFFSET:
            return None
        tip = TopicIdPartition(uuid_from_text(of_directory["id"]), of_directory["topic"], int(of_directory["partition"]))
        segment_id = RemoteLogSegmentId(tip, uuid_from_text(of_file["id"]))
        return segment_id, int(of_file["start"]), _KINDS[of_file["suffix"]], info.size
