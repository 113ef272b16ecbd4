"""The inspector of a layout: one that works for every layout, or the layout's own, which checks more.

A layout's own inspector has the layout's name in the entry-point group ``kafka_remote_client.layout_inspectors``, and is
constructed with the layout.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from kafka_remote_client.errors import CorruptChunkError, CorruptIndexError, RemoteLogMetadataError
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.registry import INSPECTORS, load_named, plugin_names
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT, UPLOAD_ORDER, ListedSegment, ObjectKind, ObjectLayout
from kafka_remote_client.verify.finding import FindingKind
from kafka_remote_client.verify.index_kinds import UNREADABLE
from kafka_remote_client.verify.stored_segment import (
    LOG,
    MAX_INDEX_BYTES,
    DamagedPieceError,
    LayoutInspector,
    LogSource,
    OpenSegment,
    PlainLog,
    StoredSegment,
    draft_metadata,
    stored_segments,
)

__all__ = ["PlainInspector", "inspector_of"]

_OPTIONAL = frozenset({ObjectKind.TRANSACTION_INDEX.value})


def inspector_of(layout: ObjectLayout) -> LayoutInspector:
    """Returns the layout's own inspector, or else the general one. Raises ConfigurationError if one fails to load."""
    if layout.name not in plugin_names(INSPECTORS):
        return PlainInspector(layout)
    inspector: LayoutInspector = load_named(INSPECTORS, "layout inspector", layout.name)(layout)
    return inspector


@attrs.frozen
class _RestoredLog:
    """A log that the layout restores when it is read. A piece that cannot be restored is damaged as a whole."""

    plain: PlainLog

    @property
    def size(self) -> int:
        return self.plain.size

    def read(self, position: int) -> bytes:
        try:
            return self.plain.read(position)
        except CorruptChunkError as error:
            raise DamagedPieceError(str(error), min(position + self.plain.piece, self.size)) from None


class PlainInspector:
    """Checks what every layout describes. An object's role is the kind of file in it: the first kind, if it holds several."""

    def __init__(self, layout: ObjectLayout) -> None:
        self.layout = layout
        self.prefix = layout.prefix_of()

    def topic_of(self, key: str) -> str | None:
        return self.layout.topic_of(key)

    def segments(self, store: RemoteObjectStore, topic: str | None = None) -> Iterator[StoredSegment]:
        sizes = {info.key: info.size for info in store.list(self.layout.prefix_of(topic))}
        return stored_segments(self.layout.list_segments(store, topic), sizes, self._keys, _OPTIONAL)

    def open(
        self, store: RemoteObjectStore, segment: StoredSegment, claim: RemoteLogSegmentMetadata | None, *, log: bool
    ) -> OpenSegment:
        found = OpenSegment()
        logs = self.layout.original_logs(store)
        try:
            found.described = self.layout.stored_metadata(store, segment.listed)
            size = segment.sizes[LOG] if self._is_plain else logs.size(segment.keys[LOG])
        except RemoteLogMetadataError as error:
            found.report(LOG, FindingKind.MANIFEST_UNREADABLE, str(error))
            return found
        if claim is not None:
            found.check_log_size(size, claim.segment_size_in_bytes, "metadata")
        self._read_indexes(store, segment, found.described or draft_metadata(segment.listed, size), found)
        if log:
            end = size if claim is None else min(size, claim.segment_size_in_bytes)
            plain: LogSource = PlainLog(logs, segment.keys[LOG], end)
            found.log = plain if self._is_plain else _RestoredLog(PlainLog(logs, segment.keys[LOG], end))
        return found

    @property
    def _is_plain(self) -> bool:
        return self.layout.format_name == ORIGINAL_FORMAT

    def _read_indexes(
        self, store: RemoteObjectStore, segment: StoredSegment, metadata: RemoteLogSegmentMetadata, found: OpenSegment
    ) -> None:
        roles = {key: role for role, key in segment.keys.items()}
        for kind in UPLOAD_ORDER[1:]:
            role = roles[self.layout.object_key(metadata, kind)]
            if role not in segment.sizes:
                continue
            if segment.sizes[role] > MAX_INDEX_BYTES:
                message = f"it has {segment.sizes[role]} bytes, more than {MAX_INDEX_BYTES}"
                found.report(role, UNREADABLE[kind], message)
                continue
            try:
                found.indexes[kind] = self.layout.read_index(store, metadata, kind)
            except CorruptIndexError as error:
                found.report(role, UNREADABLE[kind], str(error))
                continue
            found.roles[kind] = role

    def _keys(self, segment: ListedSegment) -> dict[str, str]:
        draft = draft_metadata(segment)
        named: dict[str, str] = {}
        for kind in UPLOAD_ORDER:
            key = self.layout.object_key(draft, kind)
            if key not in named.values():
                named[kind.value] = key
        return named
