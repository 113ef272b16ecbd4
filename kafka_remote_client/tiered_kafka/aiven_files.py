"""The layout of Aiven's tiered storage plugin: three objects a segment, of which the log is stored in chunks.

::

    <topic>-<topic id>/<partition>/<start offset, 20 digits>-<segment id>.log           chunks, one after the other
                                                                        .indexes       the other files, one after the other
                                                                        .rsm-manifest  JSON: where each of them is

A chunk is a zstd frame if the plugin compresses. The manifest then has a ``variable`` chunk index with the sizes of the frames,
otherwise a ``fixed`` one. The sizes are the base64 of a zstd frame of ::

    int32    number of chunks
    int32    smallest size of all but the last     only with more than one chunk
    int8     width w                               only with more than one chunk
    w bytes  size - smallest                       of each chunk but the last
    int32    size of the last

The plugin returns no custom metadata unless it is told which fields to include. Encryption is not modelled.

References: Aiven's tiered-storage-for-apache-kafka (SegmentManifestV1, ChunkSizesBinaryCodec, ObjectKeyFactory).
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import cramjam

from kafka_remote_client.model import RemoteLogSegmentMetadata, uuid_to_text
from kafka_remote_client.tiered_cluster.segment_files import FileKind

__all__ = ["INDEX_NAMES", "AivenFiles", "chunk_index", "encode_sizes", "main_path", "manifest"]

INDEX_NAMES = {
    FileKind.OFFSET_INDEX: "offset",
    FileKind.TIME_INDEX: "timestamp",
    FileKind.PRODUCER_SNAPSHOT: "producerSnapshot",
    FileKind.LEADER_EPOCH: "leaderEpoch",
    FileKind.TRANSACTION_INDEX: "transaction",
}
"""The manifest's names of the indexes, in the order in which they are stored."""
_LOG, _INDEXES, _MANIFEST = ".log", ".indexes", ".rsm-manifest"
_LEVEL = 3


@attrs.frozen
class AivenFiles:
    """See the module. ``chunk_size``: bytes of a log in a chunk (``chunk.size``). ``compressed``: ``compression.enabled``."""

    name = "aiven"

    chunk_size: int = 1 << 12
    compressed: bool = False

    def files(self, segment: RemoteLogSegmentMetadata, objects: Mapping[FileKind, bytes]) -> Mapping[str, bytes]:
        log = objects[FileKind.LOG]
        chunks = [log[at : at + self.chunk_size] for at in range(0, len(log), self.chunk_size)]
        if self.compressed:
            chunks = [bytes(cramjam.zstd.compress(chunk, level=_LEVEL)) for chunk in chunks]
        indexes, slices = b"", {}
        for kind, name in INDEX_NAMES.items():
            data = objects.get(kind)
            slices[name] = None if data is None else {"position": len(indexes), "size": len(data)}
            indexes += data or b""
        sizes = [len(chunk) for chunk in chunks]
        index = chunk_index(self.chunk_size, len(log), sizes, None if self.compressed else self.chunk_size)
        main = main_path(segment)
        return {
            main + _LOG: b"".join(chunks),
            main + _INDEXES: indexes,
            main + _MANIFEST: manifest(segment, index, slices, compressed=self.compressed),
        }

    def keys(self, segment: RemoteLogSegmentMetadata) -> tuple[str, ...]:
        return tuple(main_path(segment) + suffix for suffix in (_LOG, _INDEXES, _MANIFEST))

    def custom_metadata(self, segment: RemoteLogSegmentMetadata, files: Mapping[str, bytes]) -> bytes | None:
        return None

    def object(self, directory: Path, segment: RemoteLogSegmentMetadata, kind: FileKind) -> bytes:
        log, indexes, described = (directory / key for key in self.keys(segment))
        if kind is FileKind.LOG:
            data = log.read_bytes()
            return bytes(cramjam.zstd.decompress(data)) if self.compressed else data
        place = json.loads(described.read_bytes())["segmentIndexes"][INDEX_NAMES[kind]]
        if place is None:
            raise FileNotFoundError(f"{indexes} has no {kind.name.lower()}")
        return indexes.read_bytes()[place["position"] : place["position"] + place["size"]]


def main_path(segment: RemoteLogSegmentMetadata) -> str:
    """The part that the keys of a segment's objects have in common, without the plugin's prefix."""
    tip = segment.topic_id_partition
    directory = f"{tip.topic}-{uuid_to_text(tip.topic_id)}/{tip.partition}"
    return f"{directory}/{segment.start_offset:020d}-{uuid_to_text(segment.remote_log_segment_id.id)}"


def chunk_index(chunk_size: int, log_size: int, sizes: Sequence[int], stored_size: int | None) -> Mapping[str, Any]:
    """``sizes``: of the chunks as they are stored, at least one. ``stored_size``: of a full one, ``None`` if it varies."""
    common = {"originalChunkSize": chunk_size, "originalFileSize": log_size}
    if stored_size is None:
        return {"type": "variable", **common, "transformedChunks": encode_sizes(sizes)}
    return {"type": "fixed", **common, "transformedChunkSize": stored_size, "finalTransformedChunkSize": sizes[-1]}


def encode_sizes(sizes: Sequence[int]) -> str:
    """The text of ``transformedChunks`` for at least one stored size."""
    *others, last = sizes
    payload = struct.pack(">ii", len(sizes), last)
    if others:
        base = min(others)
        width = max(1, -(-(max(others) - base).bit_length() // 8))
        values = b"".join((value - base).to_bytes(width, "big") for value in others)
        payload = struct.pack(">iiB", len(sizes), base, width) + values + struct.pack(">i", last)
    return base64.b64encode(bytes(cramjam.zstd.compress(payload))).decode("ascii")


def manifest(
    segment: RemoteLogSegmentMetadata,
    chunks: Mapping[str, Any],
    indexes: Mapping[str, Mapping[str, int] | None],
    *,
    compressed: bool,
    encryption: Mapping[str, str] | None = None,
) -> bytes:
    """``chunks``: of :func:`chunk_index`. ``indexes``: position and size by name, ``None`` for one that does not exist."""
    tip = segment.topic_id_partition
    described = {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": uuid_to_text(tip.topic_id),
                "topicPartition": {"topic": tip.topic, "partition": tip.partition},
            },
            "id": uuid_to_text(segment.remote_log_segment_id.id),
        },
        "startOffset": segment.start_offset,
        "endOffset": segment.end_offset,
        "maxTimestampMs": segment.max_timestamp_ms,
        "brokerId": segment.broker_id,
        "eventTimestampMs": segment.event_timestamp_ms,
        "segmentLeaderEpochs": {str(entry.epoch): entry.start_offset for entry in segment.segment_leader_epochs},
        "txnIdxEmpty": segment.txn_index_empty,
    }
    written = {
        "version": "1",
        "chunkIndex": chunks,
        "segmentIndexes": indexes,
        "compression": compressed,
        **({} if encryption is None else {"encryption": encryption}),
        "remoteLogSegmentMetadata": described,
    }
    return json.dumps(written, separators=(",", ":")).encode()
