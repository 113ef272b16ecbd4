"""The ``.rsm-manifest`` object of a segment: plain JSON that describes how the other objects are stored.

::

    version                                          "1"; any other version is an error
    chunkIndex.type                                  "fixed" or "variable"
    chunkIndex.originalChunkSize, .originalFileSize  int32
    chunkIndex.transformedChunkSize, .finalTransformedChunkSize   int32, of fixed
    chunkIndex.transformedChunks                     text, of variable (chunk_index.py)
    segmentIndexes.{offset, timestamp, producerSnapshot, leaderEpoch, transaction}.{position, size}
                                                     slices of the .indexes object; transaction may be null
    compression                                      whether the log's chunks are zstd frames; may differ by segment
    encryption.dataKey, .aad                         "<key id>:<base64>", base64; absent or null = not encrypted
    remoteLogSegmentMetadata                         the same as in __remote_log_metadata; not needed to read the segment

Unknown fields are skipped. Any other deviation is a RemoteLogMetadataError: the segment has no location, and the broker serves
its records. A segment that is stored as an Iceberg table has no manifest.

References: SegmentManifestV1 and its serde of Aiven-Open/tiered-storage-for-apache-kafka.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import attrs

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import (
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
    uuid_from_text,
)
from kafka_remote_client.parsing import parse_json
from kafka_remote_client.remote_log.aiven.chunk_index import MAX_SIZE, ChunkEncoding, ChunkIndex, chunk_count, decode_sizes
from kafka_remote_client.remote_log.layout import ObjectKind

__all__ = ["MAX_MANIFEST_BYTES", "Encryption", "IndexSlice", "SegmentManifest", "parse_manifest"]

MAX_MANIFEST_BYTES = 16 * 1024 * 1024

_VERSION = "1"
_MAX_INT64 = 2**63 - 1
_EPOCH = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_INDEXES = {
    "offset": ObjectKind.OFFSET_INDEX,
    "timestamp": ObjectKind.TIME_INDEX,
    "producerSnapshot": ObjectKind.PRODUCER_SNAPSHOT,
    "leaderEpoch": ObjectKind.LEADER_EPOCH,
    "transaction": ObjectKind.TRANSACTION_INDEX,
}


@attrs.frozen
class Encryption:
    """The encrypted data key, the id of the key that decrypts it, and the additional data (AAD) of every tag."""

    key_id: str
    wrapped_key: bytes = attrs.field(repr=lambda value: f"<{len(value)} bytes>")
    aad: bytes


@attrs.frozen
class IndexSlice:
    """The bytes of an index in the ``.indexes`` object. An index of size 0 has no bytes there, also if it is encrypted."""

    position: int
    size: int


@attrs.frozen
class SegmentManifest:
    """A verified manifest. ``described``: its unverified field ``remoteLogSegmentMetadata``, which reads do not need."""

    chunks: ChunkIndex
    encoding: ChunkEncoding
    encryption: Encryption | None
    indexes: Mapping[ObjectKind, IndexSlice]
    described: object = attrs.field(repr=False, default=None)

    def segment_metadata(self) -> RemoteLogSegmentMetadata:
        """The segment's metadata from the manifest, in state COPY_SEGMENT_STARTED. Raises RemoteLogMetadataError."""
        fields = _object(self.described, "remoteLogSegmentMetadata")
        start, end = _integer(fields, "startOffset", _MAX_INT64), _integer(fields, "endOffset", _MAX_INT64)
        epochs = _epochs(_object(fields.get("segmentLeaderEpochs"), "segmentLeaderEpochs"))
        # The first epoch begins inside the segment if DeleteRecords moved the log's start there before the upload.
        if end < start or not epochs or epochs[0].start_offset < start or epochs[-1].start_offset > end:
            raise RemoteLogMetadataError(f"a manifest has the invalid leader epochs {epochs} for offsets {start} to {end}")
        transactions = self.indexes.get(ObjectKind.TRANSACTION_INDEX)
        return RemoteLogSegmentMetadata(
            remote_log_segment_id=_segment_id(_object(fields.get("remoteLogSegmentId"), "remoteLogSegmentId")),
            start_offset=start,
            end_offset=end,
            max_timestamp_ms=_integer(fields, "maxTimestampMs", _MAX_INT64, low=-1),
            broker_id=_integer(fields, "brokerId", MAX_SIZE, low=-1),
            event_timestamp_ms=_integer(fields, "eventTimestampMs", _MAX_INT64, low=-1),
            segment_leader_epochs=epochs,
            segment_size_in_bytes=self.chunks.original_end,
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            txn_index_empty=transactions is None or not transactions.size,
        )


def parse_manifest(data: bytes) -> SegmentManifest:
    """The manifest in ``data``. Raises RemoteLogMetadataError for any other bytes."""
    if len(data) > MAX_MANIFEST_BYTES:
        raise RemoteLogMetadataError(f"a manifest has more than {MAX_MANIFEST_BYTES} bytes")
    try:
        parsed = parse_json(data)
    except ValueError:
        raise RemoteLogMetadataError("a manifest is not JSON") from None
    root = _object(parsed, "manifest")
    if root.get("version") != _VERSION:
        raise RemoteLogMetadataError(f"a manifest has a version other than {_VERSION!r}")
    compressed = root.get("compression")
    if not isinstance(compressed, bool):
        raise RemoteLogMetadataError("a manifest lacks the field compression")
    encryption = None if root.get("encryption") is None else _encryption(_object(root["encryption"], "encryption"))
    encoding = ChunkEncoding(compressed=compressed, encrypted=encryption is not None)
    return SegmentManifest(
        chunks=_chunks(_object(root.get("chunkIndex"), "chunkIndex"), encoding),
        encoding=encoding,
        encryption=encryption,
        indexes=_indexes(_object(root.get("segmentIndexes"), "segmentIndexes")),
        described=root.get("remoteLogSegmentMetadata"),
    )


def _chunks(fields: Mapping[str, Any], encoding: ChunkEncoding) -> ChunkIndex:
    kind = fields.get("type")
    chunk_size = _integer(fields, "originalChunkSize", MAX_SIZE, low=1)
    file_size = _integer(fields, "originalFileSize", MAX_SIZE)
    if kind == "fixed":
        return ChunkIndex.fixed(
            encoding,
            chunk_size=chunk_size,
            file_size=file_size,
            stored_size=_integer(fields, "transformedChunkSize", MAX_SIZE),
            last_stored_size=_integer(fields, "finalTransformedChunkSize", MAX_SIZE),
        )
    if kind == "variable":
        sizes = decode_sizes(_text(fields, "transformedChunks"), chunk_count(chunk_size, file_size))
        return ChunkIndex.of_sizes(encoding, sizes, chunk_size=chunk_size, original_start=0, original_end=file_size)
    raise RemoteLogMetadataError("a manifest has a chunk index of an unknown type")


def _indexes(fields: Mapping[str, Any]) -> dict[ObjectKind, IndexSlice]:
    slices = {}
    for name, kind in _INDEXES.items():
        if kind is ObjectKind.TRANSACTION_INDEX and fields.get(name) is None:
            continue
        one = _object(fields.get(name), f"segmentIndexes.{name}")
        slices[kind] = IndexSlice(_integer(one, "position", MAX_SIZE), _integer(one, "size", MAX_SIZE))
    return slices


def _encryption(fields: Mapping[str, Any]) -> Encryption:
    key_id, colon, wrapped = _text(fields, "dataKey").partition(":")
    if not colon or not key_id.strip() or ":" in wrapped:
        raise RemoteLogMetadataError("a manifest has a data key without a key id")
    return Encryption(key_id, _binary(wrapped, "dataKey"), _binary(_text(fields, "aad"), "aad"))


def _segment_id(fields: Mapping[str, Any]) -> RemoteLogSegmentId:
    of_topic = _object(fields.get("topicIdPartition"), "topicIdPartition")
    named = _object(of_topic.get("topicPartition"), "topicPartition")
    try:
        topic_id, segment_id = uuid_from_text(_text(of_topic, "topicId")), uuid_from_text(_text(fields, "id"))
    except ValueError:
        raise RemoteLogMetadataError("a manifest has an invalid Uuid") from None
    tip = TopicIdPartition(topic_id, _text(named, "topic"), _integer(named, "partition", MAX_SIZE))
    return RemoteLogSegmentId(tip, segment_id)


def _epochs(fields: Mapping[str, Any]) -> tuple[EpochEntry, ...]:
    if not all(_EPOCH.fullmatch(epoch) for epoch in fields):
        raise RemoteLogMetadataError("a manifest has a leader epoch that is not a number")
    entries = [EpochEntry(int(epoch), _integer(fields, epoch, _MAX_INT64)) for epoch in sorted(fields, key=int)]
    if any(before.start_offset >= after.start_offset for before, after in pairwise(entries)):
        raise RemoteLogMetadataError("a manifest has leader epochs whose offsets do not increase")
    return tuple(entries)


def _object(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RemoteLogMetadataError(f"{name} is not a JSON object")
    return value


def _integer(holder: Mapping[str, Any], name: str, high: int, *, low: int = 0) -> int:
    value = holder.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise RemoteLogMetadataError(f"{name} of a manifest is not a number from {low} to {high}")
    return value


def _text(holder: Mapping[str, Any], name: str) -> str:
    value = holder.get(name)
    if not isinstance(value, str):
        raise RemoteLogMetadataError(f"{name} of a manifest is not a string")
    return value


def _binary(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise RemoteLogMetadataError(f"{name} of a manifest is not base64") from None
