"""The inspector of Aiven's layout. A segment has three objects; the manifest describes how the other two are stored.

It checks, before it reads the log: the manifest is consistent (``aiven.manifest`` checks that) and belongs to this segment, its
chunks add up to the log object, its slices add up to the indexes object, and each encrypted index decrypts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import attrs

from kafka_remote_client.errors import CorruptChunkError, DataKeyError, RemoteLogMetadataError
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.aiven import keys
from kafka_remote_client.remote_log.aiven.chunk_index import ChunkIndex
from kafka_remote_client.remote_log.aiven.layout import AivenLayout
from kafka_remote_client.remote_log.aiven.manifest import MAX_MANIFEST_BYTES, SegmentManifest, parse_manifest
from kafka_remote_client.remote_log.aiven.manifest_cache import StoredLog
from kafka_remote_client.remote_log.aiven.transforms import ChunkCipher, ChunkTransform
from kafka_remote_client.remote_log.layout import ListedSegment
from kafka_remote_client.verify.finding import FindingKind
from kafka_remote_client.verify.index_kinds import UNREADABLE
from kafka_remote_client.verify.stored_segment import (
    LOG,
    MAX_INDEX_BYTES,
    PIECE_BYTES,
    DamagedPieceError,
    OpenSegment,
    PlainLog,
    StoredSegment,
    stored_segments,
)

__all__ = ["AivenInspector", "ChunkedLog"]

_INDEXES, _MANIFEST = keys.INDEXES, "manifest"
_SUFFIXES = {LOG: keys.LOG, _INDEXES: keys.INDEXES, _MANIFEST: keys.MANIFEST}


@attrs.frozen
class ChunkedLog:
    """A log whose chunks are restored when they are read. One read requests several chunks and restores them one by one.

    ``stored`` is the object's size. If it is too small, the log ends with the last whole chunk.
    """

    store: RemoteObjectStore
    key: str
    chunks: ChunkIndex
    transform: ChunkTransform
    stored: int
    piece: int = PIECE_BYTES

    @property
    def size(self) -> int:
        if self.stored >= self.chunks.object_end:
            return self.chunks.original_end
        return self.chunks.chunk(bisect_right(self.chunks.starts, self.stored) - 1).original_start

    def read(self, position: int) -> bytes:
        if position >= self.size:
            return b""
        first = self.chunks.numbers(position, position + 1)[0]
        last = first
        start, limit = self.chunks.chunk(first).object_start, min(self.size, position + self.piece)
        while last + 1 < len(self.chunks) and self.chunks.chunk(last + 1).original_end <= limit:
            last += 1
        stored = memoryview(self.store.get_range(self.key, start, self.chunks.chunk(last).object_end))
        restored: list[bytes] = []
        for number in range(first, last + 1):
            chunk = self.chunks.chunk(number)
            data = stored[chunk.object_start - start : chunk.object_end - start]
            target = bytearray(chunk.original_size)
            try:
                self.transform.restore(data, memoryview(target))
            except CorruptChunkError as error:
                if restored:
                    break  # what is good first; the next read begins with this one
                where = f"chunk {number} of {len(self.chunks)}, bytes [{chunk.object_start}, {chunk.object_end}) of the object"
                raise DamagedPieceError(f"{where}: {error}", chunk.original_end) from None
            restored.append(bytes(target))
        begin = position - self.chunks.chunk(first).original_start
        return b"".join(restored)[begin:]


class AivenInspector:
    """The objects of the layout ``aiven``, with the keys that it was given."""

    def __init__(self, layout: AivenLayout) -> None:
        self.layout = layout
        self.prefix = layout.prefix
        self._keys = layout.key_ring

    def topic_of(self, key: str) -> str | None:
        return self.layout.topic_of(key)

    def segments(self, store: RemoteObjectStore, topic: str | None = None) -> Iterator[StoredSegment]:
        sizes = {info.key: info.size for info in store.list(self.layout.prefix_of(topic))}
        return stored_segments(self.layout.list_segments(store, topic), sizes, self._names)

    def open(
        self, store: RemoteObjectStore, segment: StoredSegment, claim: RemoteLogSegmentMetadata | None, *, log: bool
    ) -> OpenSegment:
        found = OpenSegment()
        manifest = self._manifest(store, segment, found)
        if manifest is None:
            return found
        if claim is not None and claim.segment_size_in_bytes != manifest.chunks.original_end:
            found.report(
                _MANIFEST,
                FindingKind.METADATA_MISMATCH,
                f"it has {manifest.chunks.original_end} bytes in the manifest, "
                f"{claim.segment_size_in_bytes} in the metadata topic",
            )
        found.check_log_size(segment.sizes[LOG], manifest.chunks.object_end, "manifest")
        slices_sound = _check_slices(manifest, segment.sizes[_INDEXES], found)
        encryption = manifest.encryption
        if encryption is not None and encryption.key_id not in self._keys.key_ids:
            found.closed = (
                f"it is encrypted for the key {encryption.key_id!r}, and the private key was not given (--encryption-key)"
            )
            return found
        try:
            stored = self._stored_log(manifest)
        except DataKeyError as error:
            found.report(_MANIFEST, FindingKind.DATA_KEY, str(error))
            return found
        cipher = stored.cipher()
        if slices_sound:
            _read_indexes(store, segment, manifest, cipher, found)
        if cipher is not None and _nothing_opens(store, segment, manifest, cipher, found):
            found.problems = [pair for pair in found.problems if pair[1].kind is not FindingKind.INDEX_ENCRYPTION]
            found.report(_MANIFEST, FindingKind.DATA_KEY, "neither an index nor the first chunk decrypts with its key and aad")
        elif log:
            key = segment.keys[LOG]
            if manifest.encoding.is_plain:
                found.log = PlainLog(store, key, min(manifest.chunks.original_end, segment.sizes[LOG]))
            else:
                found.log = ChunkedLog(store, key, manifest.chunks, stored.transform(), segment.sizes[LOG])
        return found

    def _manifest(self, store: RemoteObjectStore, segment: StoredSegment, found: OpenSegment) -> SegmentManifest | None:
        try:
            manifest = parse_manifest(store.get_range(segment.keys[_MANIFEST], 0, MAX_MANIFEST_BYTES + 1))
            described = manifest.segment_metadata()
        except RemoteLogMetadataError as error:
            found.report(_MANIFEST, FindingKind.MANIFEST_UNREADABLE, str(error))
            return None
        listed = segment.listed
        if (described.remote_log_segment_id, described.start_offset) != (listed.remote_log_segment_id, listed.start_offset):
            message = f"it describes segment {described.remote_log_segment_id} at offset {described.start_offset}"
            found.report(_MANIFEST, FindingKind.MANIFEST_FOREIGN, message)
            return None
        found.described = described
        return manifest

    def _stored_log(self, manifest: SegmentManifest) -> StoredLog:
        encryption = manifest.encryption
        return StoredLog(manifest, None if encryption is None else self._keys.unwrap(encryption.key_id, encryption.wrapped_key))

    def _names(self, segment: ListedSegment) -> dict[str, str]:
        main = keys.main_path(segment.remote_log_segment_id, segment.start_offset)
        return {role: f"{self.prefix}{main}.{suffix}" for role, suffix in _SUFFIXES.items()}


def _check_slices(manifest: SegmentManifest, stored: int, found: OpenSegment) -> bool:
    """Checks that the slices are contiguous from 0, in the manifest's order, and fill the object. False: do not read them."""
    end = 0
    for kind, piece in manifest.indexes.items():
        if piece.position != end:
            message = f"the {kind.value} begins at {piece.position}, the one before it ends at {end}"
            found.report(_MANIFEST, FindingKind.MANIFEST_INDEXES, message)
            return False
        end = piece.position + piece.size
    if end != stored:
        message = f"the indexes object has {stored} bytes; the manifest says {end}"
        found.report(_INDEXES, FindingKind.INDEXES_SIZE, message, size=abs(stored - end))
    return end == stored


def _read_indexes(
    store: RemoteObjectStore, segment: StoredSegment, manifest: SegmentManifest, cipher: ChunkCipher | None, found: OpenSegment
) -> None:
    for kind, piece in manifest.indexes.items():
        if piece.size > MAX_INDEX_BYTES:
            found.report(_INDEXES, UNREADABLE[kind], f"it has {piece.size} bytes, more than {MAX_INDEX_BYTES}")
            continue
        start, end = piece.position, piece.position + piece.size
        data = store.get_range(segment.keys[_INDEXES], start, end) if piece.size else b""
        if cipher is not None and data:
            try:
                data = cipher.decrypt(data)
            except CorruptChunkError as error:
                message = f"{kind.value}, bytes [{start}, {end}): {error}"
                found.report(_INDEXES, FindingKind.INDEX_ENCRYPTION, message, position=start, size=piece.size)
                continue
        found.indexes[kind] = data
        found.roles[kind] = _INDEXES


def _nothing_opens(
    store: RemoteObjectStore, segment: StoredSegment, manifest: SegmentManifest, cipher: ChunkCipher, found: OpenSegment
) -> bool:
    """Whether every index failed its tag, and the first chunk as well: then it is the key or the aad that is wrong."""
    failed = sum(problem.kind is FindingKind.INDEX_ENCRYPTION for _, problem in found.problems)
    if not failed or failed < sum(piece.size > 0 for piece in manifest.indexes.values()):
        return False
    chunk = manifest.chunks.chunk(0)
    try:
        cipher.decrypt(store.get_range(segment.keys[LOG], chunk.object_start, chunk.object_end))
    except CorruptChunkError:
        return True
    return False
