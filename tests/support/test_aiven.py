"""The test-only writer of Aiven's layout writes the plugin's bytes."""

from __future__ import annotations

import base64
import json
from functools import cache

import attrs
import pytest
from kafka_remote_fetchers.directory_store import DirectoryStore

from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.remote_log.aiven.chunk_index import Chunk
from kafka_remote_client.remote_log.aiven.layout import AivenLayout
from kafka_remote_client.remote_log.aiven.manifest import Encryption, parse_manifest
from kafka_remote_client.remote_log.aiven.transforms import ChunkCipher
from kafka_remote_client.remote_log.layout import ListedSegment, ObjectKind
from tests.support.aiven import AivenWriter, Envelope, compress, key_ring
from tests.support.golden import AIVEN_MODES, golden_aiven
from tests.support.tier import LAYOUT, MemoryStore

_CHUNK_SIZE = 16384
_FRAME_HEADER = 7  # magic number, which fields follow, the content's size


def _golden(mode: str) -> tuple[DirectoryStore, AivenLayout, list[ListedSegment]]:
    store = DirectoryStore(golden_aiven(mode) / "remote")
    layout = AivenLayout("some-prefix/" if "aes" in mode else "", key_ring())
    return store, layout, list(layout.list_segments(store))


def _as_kafka_wrote_it(store: DirectoryStore, layout: AivenLayout, segment: RemoteLogSegmentMetadata) -> MemoryStore:
    """The segment in the other layout, which was the plugin's input."""
    given = MemoryStore()
    log_key = layout.object_key(segment, ObjectKind.LOG)
    given.objects[LAYOUT.object_key(segment, ObjectKind.LOG)] = layout.original_logs(store).get(log_key)
    for kind in ObjectKind:
        if kind is ObjectKind.LOG or (kind is ObjectKind.TRANSACTION_INDEX and segment.txn_index_empty):
            continue
        given.objects[LAYOUT.object_key(segment, kind)] = layout.read_index(store, segment, kind)
    return given


@cache
def _data_key(encryption: Encryption) -> bytes:
    return key_ring().unwrap(encryption.key_id, encryption.wrapped_key)


def _envelope(store: DirectoryStore, log_key: str) -> Envelope:
    """The plugin's own keys and initial vectors, in the order in which it used them."""
    manifest_data = store.get(log_key.removesuffix("log") + "rsm-manifest")
    manifest, encryption = parse_manifest(manifest_data), json.loads(manifest_data)["encryption"]
    assert manifest.encryption is not None
    log, indexes = store.get(log_key), store.get(log_key.removesuffix("log") + "indexes")

    def start(chunk: Chunk) -> bytes:
        return log[chunk.object_start : chunk.object_start + 12]

    positions = [piece.position for piece in manifest.indexes.values() if piece.size]
    ivs = [*map(start, manifest.chunks), *(indexes[at : at + 12] for at in sorted(positions))]
    return Envelope(_data_key(manifest.encryption), base64.b64decode(encryption["aad"]), encryption["dataKey"], iter(ivs))


def _plugins_frames(store: DirectoryStore, layout: AivenLayout, log_key: str) -> dict[bytes, bytes]:
    """Each chunk's zstd frame by what is in it."""
    manifest = parse_manifest(store.get(log_key.removesuffix("log") + "rsm-manifest"))
    original, stored = layout.original_logs(store).get(log_key), store.get(log_key)
    frames = {}
    for chunk in manifest.chunks:
        frame = stored[chunk.object_start : chunk.object_end]
        if manifest.encryption is not None:
            frame = ChunkCipher(_data_key(manifest.encryption), manifest.encryption.aad).decrypt(frame)
        frames[original[chunk.original_start : chunk.original_end]] = frame
    return frames


@pytest.mark.parametrize("mode", AIVEN_MODES)
def test_writes_what_the_plugin_wrote(mode: str) -> None:
    """zstd's output differs from version to version, so tests use the plugin's own frames; ours begin alike."""
    store, layout, segments = _golden(mode)
    compressed, encrypted = "zstd" in mode, "aes" in mode
    for listed in segments:
        segment = layout.stored_metadata(store, listed)
        assert segment is not None
        log_key = layout.object_key(segment, ObjectKind.LOG)
        writer = AivenWriter("some-prefix/" if encrypted else "", _CHUNK_SIZE, compressed, encrypted)
        if encrypted:
            writer = attrs.evolve(writer, envelope=_envelope(store, log_key))
        if compressed:
            frames = _plugins_frames(store, layout, log_key)
            assert [compress(chunk)[:_FRAME_HEADER] for chunk in frames] == [frame[:_FRAME_HEADER] for frame in frames.values()]
            writer = attrs.evolve(writer, compress=frames.__getitem__)
        written = writer.objects(_as_kafka_wrote_it(store, layout, segment), segment)
        assert list(written) == [log_key.removesuffix("log") + suffix for suffix in ("log", "indexes", "rsm-manifest")]
        for key, data in written.items():
            assert data == store.get(key), key
