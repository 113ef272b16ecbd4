"""The metadata topic, manifests and chunk tables: any bytes give a value or RemoteLogMetadataError, in bounded time."""

from __future__ import annotations

import base64
import json
import struct
from itertools import pairwise
from typing import Any

import cramjam

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import EpochEntry, RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from kafka_remote_client.remote_log.aiven.chunk_index import ChunkEncoding, ChunkIndex, chunk_count, decode_sizes
from kafka_remote_client.remote_log.aiven.chunk_table import ChunkTable
from kafka_remote_client.remote_log.aiven.custom_metadata import AivenCustomMetadata
from kafka_remote_client.remote_log.aiven.manifest import parse_manifest
from kafka_remote_client.remote_log.events import (
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.tiered_kafka.aiven_files import encode_sizes
from tests.fuzz import independent
from tests.fuzz.bounded import Target, bounded

__all__ = ["TARGETS"]

_SERDE = RemoteLogMetadataSerde()
_SIZES_HEAD = struct.Struct(">iiB")


def metadata_record(data: bytes) -> None:
    """The value of a record of ``__remote_log_metadata``; then the same bytes as an Aiven segment's custom metadata."""
    try:
        fields = AivenCustomMetadata.decode(data)
    except RemoteLogMetadataError:
        pass
    else:
        assert AivenCustomMetadata.decode(fields.encode()) == fields
    try:
        event = _SERDE.deserialize(data)
    except RemoteLogMetadataError:
        return
    assert _SERDE.deserialize(_SERDE.serialize(event)) == event
    head, at = independent.read([("frame", "uvarint"), ("key", "uvarint"), ("version", "uvarint")], data, 0)
    assert (head["frame"], head["version"]) in {(1, 0), (1, 1)}
    assert _plain(event) == _without_tags(independent.read_all(independent.METADATA_BODIES[head["key"]], data[at:]))


def _without_tags(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _without_tags(one) for name, one in value.items() if name != "tags"}
        if "epochs" in kept:
            kept["epochs"] = {one["epoch"]: one["offset"] for one in value["epochs"]}
            kept["empty"] = value["tags"].get(0, b"\0") != b"\0"
        return kept
    return [_without_tags(one) for one in value] if isinstance(value, list) else value


def _plain(event: Any) -> dict[str, Any]:
    """Returns the event with the names of the independent reader's schemas."""
    if isinstance(event, RemotePartitionDeleteMetadata):
        of: dict[str, Any] = {"of": _partition(event.topic_id_partition)}
    elif isinstance(event, RemoteLogSegmentMetadataSnapshot):
        of = {"segment": event.segment_id.bytes}
    else:
        of = {"id": _segment(event.remote_log_segment_id)}
    metadata = {**of, "broker": event.broker_id, "event_timestamp": event.event_timestamp_ms, "state": int(event.state)}
    if isinstance(event, RemoteLogSegmentMetadataUpdate):
        metadata["custom"] = event.custom_metadata
    elif isinstance(event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataSnapshot):
        metadata |= {
            "start": event.start_offset,
            "end": event.end_offset,
            "max_timestamp": event.max_timestamp_ms,
            "epochs": {entry.epoch: entry.start_offset for entry in event.segment_leader_epochs},
            "size": event.segment_size_in_bytes,
            "custom": event.custom_metadata,
            "empty": event.txn_index_empty,
        }
    return metadata


def _partition(tip: TopicIdPartition) -> dict[str, Any]:
    return {"topic": tip.topic, "topic_id": tip.topic_id.bytes, "partition": tip.partition}


def _segment(segment: RemoteLogSegmentId) -> dict[str, Any]:
    return {"of": _partition(segment.topic_id_partition), "segment": segment.id.bytes}


def aiven_manifest(data: bytes) -> None:
    """An ``.rsm-manifest`` object."""
    try:
        manifest = parse_manifest(data)
    except RemoteLogMetadataError:
        return
    fields = json.loads(data)
    chunks = manifest.chunks
    assert (chunks.original_start, chunks.original_end) == (0, fields["chunkIndex"]["originalFileSize"])
    assert manifest.encoding == ChunkEncoding(compressed=fields["compression"], encrypted=fields.get("encryption") is not None)
    _tiles(chunks)
    try:
        metadata = manifest.segment_metadata()
    except RemoteLogMetadataError:
        return
    assert _SERDE.deserialize(_SERDE.serialize(metadata)) == metadata
    epochs = fields["remoteLogSegmentMetadata"]["segmentLeaderEpochs"]
    assert metadata.segment_leader_epochs == tuple(EpochEntry(int(one), epochs[one]) for one in sorted(epochs, key=int))


def _tiles(chunks: ChunkIndex) -> None:
    """Checks that the first and last chunks are adjacent, in the segment and in the object."""
    count = len(chunks)
    looked_at = [chunks.chunk(number) for number in sorted({*range(min(count, 50)), *range(max(0, count - 50), count)})]
    for one, two in pairwise(looked_at):
        if two.original_start - one.original_start == chunks.chunk_size:
            assert (one.original_end, one.object_end) == (two.original_start, two.object_start)
    assert looked_at[0].original_start == chunks.original_start
    assert (looked_at[-1].original_end, looked_at[-1].object_end) == (chunks.original_end, chunks.object_end)
    if chunks.original_end > chunks.original_start:
        cut = chunks.select(chunks.original_end - 1, chunks.original_end)
        assert cut.object_range.end == chunks.object_end


def chunk_index(data: bytes) -> None:
    """The stored sizes of a log's chunks. The first byte: bit 0 = the payload is compressed here; the next three: the count."""
    front = data[:4].ljust(4, b"\0")
    count = max(1, int.from_bytes(front[1:], "big") >> (front[0] >> 3))
    rest = data[4:]
    if front[0] & 1:
        if front[0] & 2:
            rest = struct.pack(">i", count) + rest
        rest = bytes(cramjam.zstd.compress(rest))
    text = base64.b64encode(rest).decode() if front[0] & 5 else rest.decode("latin-1")
    try:
        sizes = decode_sizes(text, count)
    except RemoteLogMetadataError:
        return
    assert len(sizes) == count
    payload = bytes(cramjam.zstd.decompress(base64.b64decode(text)))
    assert sizes[-1] == struct.unpack(">i", payload[-4:])[0]
    if count > 1:
        _, base, width = _SIZES_HEAD.unpack_from(payload)
        values = payload[_SIZES_HEAD.size : -4]
        assert sizes[0] == base + int.from_bytes(values[:width], "big")
        assert sizes[-2] == base + int.from_bytes(values[-width:], "big")
    chunk_size = 4096
    try:
        chunks = ChunkIndex.of_sizes(
            ChunkEncoding(compressed=True), sizes, chunk_size=chunk_size, original_start=0, original_end=count * chunk_size
        )
    except RemoteLogMetadataError:
        return
    assert chunk_count(chunk_size, count * chunk_size) == count
    assert chunks.object_end == sum(sizes)
    assert decode_sizes(encode_sizes(sizes), count) == sizes
    _tiles(chunks)


def chunk_table(data: bytes) -> None:
    """The chunks of a granted range, as a location carries them."""
    try:
        table = ChunkTable.decode(data)
    except RemoteLogMetadataError:
        return
    assert ChunkTable.decode(table.encode()) == table
    _tiles(table.chunks)


TARGETS: dict[str, Target] = {
    target.__name__: bounded(target) for target in (metadata_record, aiven_manifest, chunk_index, chunk_table)
}
