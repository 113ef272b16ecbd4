"""LocalTieredStorage as ``verify`` needs it: one object for each file, plain copies, nothing that describes a segment."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.layout import ListedSegment, ObjectKind
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.verify.index_kinds import UNREADABLE
from kafka_remote_client.verify.stored_segment import (
    LOG,
    MAX_INDEX_BYTES,
    OpenSegment,
    PlainLog,
    StoredSegment,
    draft_metadata,
    stored_segments,
)

__all__ = ["LocalForm"]

_UPLOAD_ORDER = (
    ObjectKind.LOG,
    ObjectKind.OFFSET_INDEX,
    ObjectKind.TIME_INDEX,
    ObjectKind.TRANSACTION_INDEX,
    ObjectKind.LEADER_EPOCH,
    ObjectKind.PRODUCER_SNAPSHOT,
)
_OPTIONAL = frozenset({ObjectKind.TRANSACTION_INDEX.value})
_DIRECTORY = re.compile(r"(?P<topic>.+)-(?:0|[1-9][0-9]{0,9})-[A-Za-z0-9_-]{22}", re.ASCII)


class LocalForm:
    """The objects below ``root``."""

    def __init__(self, root: str = "kafka-tiered-storage") -> None:
        self.layout = LocalTieredStorageLayout(root)
        self.prefix = f"{root}/" if root else ""

    def topic_of(self, key: str) -> str | None:
        directory, slash, _ = key.removeprefix(self.prefix).partition("/")
        named = _DIRECTORY.fullmatch(directory) if slash else None
        return named["topic"] if named else None

    def segments(self, store: RemoteObjectStore, topic: str | None = None) -> Iterator[StoredSegment]:
        sizes = {info.key: info.size for info in store.list(self.prefix if topic is None else f"{self.prefix}{topic}-")}
        return stored_segments(self.layout.list_segments(store, topic), sizes, self._keys, _OPTIONAL)

    def open(
        self, store: RemoteObjectStore, segment: StoredSegment, claim: RemoteLogSegmentMetadata | None, *, log: bool
    ) -> OpenSegment:
        found = OpenSegment()
        stored = segment.sizes[LOG]
        if claim is not None:
            found.check_log_size(stored, claim.segment_size_in_bytes, "metadata")
        for kind in _UPLOAD_ORDER[1:]:
            size = segment.sizes.get(kind.value)
            if size is None:
                continue
            if size > MAX_INDEX_BYTES:
                found.report(kind.value, UNREADABLE[kind], f"it has {size} bytes, more than {MAX_INDEX_BYTES}")
                continue
            found.indexes[kind] = store.get(segment.keys[kind.value])
            found.roles[kind] = kind.value
        if log:
            size = stored if claim is None else min(stored, claim.segment_size_in_bytes)
            found.log = PlainLog(store, segment.keys[LOG], size)
        return found

    def _keys(self, segment: ListedSegment) -> dict[str, str]:
        draft = draft_metadata(segment)
        return {kind.value: self.layout.object_key(draft, kind) for kind in _UPLOAD_ORDER}
