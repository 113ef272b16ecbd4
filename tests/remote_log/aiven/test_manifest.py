from __future__ import annotations

import base64
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import EpochEntry, uuid_to_text
from kafka_remote_client.remote_log.aiven.chunk_index import ChunkEncoding
from kafka_remote_client.remote_log.aiven.manifest import MAX_MANIFEST_BYTES, IndexSlice, parse_manifest
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.tiered_kafka.aiven_files import encode_sizes
from tests.support.golden import AIVEN_MODES, golden_aiven, read_jsonl

INDEXES = {
    "offset": {"position": 0, "size": 508},
    "timestamp": {"position": 508, "size": 748},
    "producerSnapshot": {"position": 1256, "size": 38},
    "leaderEpoch": {"position": 1294, "size": 36},
    "transaction": None,
}
DESCRIBED = {
    "remoteLogSegmentId": {
        "topicIdPartition": {"topicId": "MWJ6FHTfRYy67jzwZdeqSQ", "topicPartition": {"topic": "topic", "partition": 7}},
        "id": "tqimKeZwStOEOwRzT3L5oQ",
    },
    "startOffset": 1234,
    "endOffset": 9999,
    "maxTimestampMs": 1700000000000,
    "brokerId": 2,
    "eventTimestampMs": 1700000001000,
    "segmentLeaderEpochs": {"3": 1234, "10": 5000},
}
MANIFEST: dict[str, Any] = {
    "version": "1",
    "chunkIndex": {
        "type": "variable",
        "originalChunkSize": 1_000_000,
        "originalFileSize": 2_500_000,
        "transformedChunks": "KLUv/SAPeQAAAAAAAwAFjvYBWwAAAr5v",
    },
    "segmentIndexes": INDEXES,
    "compression": True,
    "encryption": {"dataKey": "key1:AQID", "aad": "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="},
    "remoteLogSegmentMetadata": DESCRIBED,
}
FIXED = {
    "type": "fixed",
    "originalChunkSize": 1_000_000,
    "originalFileSize": 2_500_000,
    "transformedChunkSize": 1_000_000,
    "finalTransformedChunkSize": 500_000,
}
PLAIN = {**MANIFEST, "chunkIndex": FIXED, "compression": False, "encryption": None}
_REMOVED = object()


def parse(value: object):
    return parse_manifest(json.dumps(value).encode())


def changed(path: str, value: object, base: dict[str, Any] = MANIFEST) -> dict[str, Any]:
    """Returns the manifest with another value at a dotted path."""
    copy = deepcopy(base)
    *outer, name = path.split(".")
    holder = copy
    for step in outer:
        holder = holder[step]
    if value is _REMOVED:
        del holder[name]
    else:
        holder[name] = value
    return copy


def test_a_manifest_describes_how_its_objects_are_stored():
    manifest = parse(MANIFEST)
    assert manifest.encoding == ChunkEncoding(compressed=True, encrypted=True)
    assert [chunk.object_size for chunk in manifest.chunks] == [364369, 364278, 179823]
    assert manifest.chunks.original_end == 2_500_000
    assert manifest.encryption is not None
    assert (manifest.encryption.key_id, manifest.encryption.wrapped_key) == ("key1", b"\x01\x02\x03")
    assert manifest.encryption.aad == bytes(range(32, 64))
    assert manifest.indexes == {
        ObjectKind.OFFSET_INDEX: IndexSlice(0, 508),
        ObjectKind.TIME_INDEX: IndexSlice(508, 748),
        ObjectKind.PRODUCER_SNAPSHOT: IndexSlice(1256, 38),
        ObjectKind.LEADER_EPOCH: IndexSlice(1294, 36),
    }
    assert "<3 bytes>" in repr(manifest)


def test_a_segment_without_encryption_and_compression_is_plain():
    for value in (PLAIN, changed("encryption", _REMOVED, PLAIN)):
        manifest = parse(value)
        assert manifest.encoding.is_plain
        assert manifest.encryption is None
        assert manifest.chunks.object_end == 2_500_000


def test_a_segment_may_be_encrypted_or_compressed_only():
    sizes = {**FIXED, "transformedChunkSize": 1_000_028, "finalTransformedChunkSize": 500_028}
    encrypted = parse({**MANIFEST, "chunkIndex": sizes, "compression": False})
    assert encrypted.encoding == ChunkEncoding(encrypted=True)
    assert encrypted.chunks.object_end == 2_500_084
    assert parse({**MANIFEST, "encryption": None}).encoding == ChunkEncoding(compressed=True)


def test_a_manifest_has_the_segments_metadata():
    told = parse(MANIFEST).segment_metadata()
    assert (told.start_offset, told.end_offset, told.max_timestamp_ms, told.broker_id) == (1234, 9999, 1700000000000, 2)
    assert told.segment_leader_epochs == (EpochEntry(3, 1234), EpochEntry(10, 5000))
    assert uuid_to_text(told.remote_log_segment_id.id) == "tqimKeZwStOEOwRzT3L5oQ"
    assert str(told.topic_id_partition) == "topic-7 (MWJ6FHTfRYy67jzwZdeqSQ)"
    assert told.segment_size_in_bytes == 2_500_000
    assert told.txn_index_empty
    with_index = changed("segmentIndexes.transaction", {"position": 1330, "size": 34})
    assert not parse(with_index).segment_metadata().txn_index_empty
    empty = changed("segmentIndexes.transaction", {"position": 1330, "size": 0})
    assert parse(empty).segment_metadata().txn_index_empty


def test_the_first_leader_epoch_may_begin_inside_the_segment():
    manifest = parse(changed("remoteLogSegmentMetadata.startOffset", 1000))
    assert manifest.segment_metadata().segment_leader_epochs == (EpochEntry(3, 1234), EpochEntry(10, 5000))


def test_unknown_fields_are_skipped():
    value = changed("remoteLogSegmentMetadata.txnIdxEmpty", True)
    value["more"] = [1, {"x": None}]
    value["segmentIndexes"]["other"] = 5
    assert parse(value).segment_metadata() == parse(MANIFEST).segment_metadata()


@pytest.mark.parametrize("version", ["2", 1, None, "", "1 ", _REMOVED])
def test_an_unknown_version_gives_no_location(version):
    with pytest.raises(RemoteLogMetadataError, match="version other than '1'"):
        parse(changed("version", version))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b'"1"', b"\xff", b"[" * 100_000, b'{"version": ' + b"9" * 5000 + b"}", b"NaN"]
)
def test_bytes_other_than_a_json_object_are_refused(data):
    with pytest.raises(RemoteLogMetadataError):
        parse_manifest(data)


def test_a_manifest_truncated_anywhere_is_refused():
    data = json.dumps(MANIFEST).encode()
    for size in range(len(data)):
        with pytest.raises(RemoteLogMetadataError):
            parse_manifest(data[:size])


def test_a_manifest_over_the_size_limit_is_refused():
    with pytest.raises(RemoteLogMetadataError, match="more than"):
        parse_manifest(bytes(MAX_MANIFEST_BYTES + 1))


_NO_SIZES = [_REMOVED, None, -1, 2**31, 2**63, 1e3, "5", True, [], {}]


@pytest.mark.parametrize("value", [*_NO_SIZES, 0, 700_000])
def test_an_invalid_chunk_size_is_refused(value):
    with pytest.raises(RemoteLogMetadataError):
        parse(changed("chunkIndex.originalChunkSize", value))


@pytest.mark.parametrize(
    "path", ["originalFileSize", "transformedChunkSize", "finalTransformedChunkSize", "originalChunkSize", "type"]
)
@pytest.mark.parametrize("value", [*_NO_SIZES, 1])
def test_invalid_fixed_sizes_are_refused(path, value):
    with pytest.raises(RemoteLogMetadataError):
        parse(changed(f"chunkIndex.{path}", value, PLAIN))


@pytest.mark.parametrize(
    "value",
    [
        *_NO_SIZES,
        "",
        "not base64",
        encode_sizes([364369, 364278]),
        encode_sizes([364369, 364278, 179823, 1]),
        encode_sizes([364369, 364278, 28]),
        encode_sizes([364369, 364278, -5]),
        encode_sizes([2**31 - 1, 364278, 5000]),
        base64.b64encode(b"\x28\xb5\x2f\xfd" + bytes(50)).decode(),
    ],
)
def test_invalid_variable_sizes_are_refused(value):
    with pytest.raises(RemoteLogMetadataError):
        parse(changed("chunkIndex.transformedChunks", value))


@pytest.mark.parametrize("name", ["offset", "timestamp", "producerSnapshot", "leaderEpoch"])
@pytest.mark.parametrize(
    "value", [None, _REMOVED, 5, [], {}, {"position": 1}, {"position": -1, "size": 5}, {"position": 0, "size": 2**31}]
)
def test_an_index_without_position_and_size_is_refused(name, value):
    with pytest.raises(RemoteLogMetadataError):
        parse(changed(f"segmentIndexes.{name}", value))


def test_a_transaction_index_may_be_null_but_not_left_out():
    assert ObjectKind.TRANSACTION_INDEX not in parse(changed("segmentIndexes.transaction", _REMOVED)).indexes
    with pytest.raises(RemoteLogMetadataError):
        parse(changed("segmentIndexes.transaction", {"position": 5}))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("chunkIndex", _REMOVED),
        ("chunkIndex", 5),
        ("segmentIndexes", None),
        ("compression", "yes"),
        ("compression", 1),
        ("compression", _REMOVED),
        ("encryption", "AES"),
        ("encryption.aad", _REMOVED),
        ("encryption.aad", "!"),
        ("encryption.aad", "ä"),
        ("encryption.dataKey", 5),
        ("encryption.dataKey", "AQID"),
        ("encryption.dataKey", ":AQID"),
        ("encryption.dataKey", " :AQID"),
        ("encryption.dataKey", "a:b:AQID"),
        ("encryption.dataKey", "a:=="),
    ],
)
def test_a_manifest_without_a_known_encoding_is_refused(path, value):
    with pytest.raises(RemoteLogMetadataError):
        parse(changed(path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("startOffset", -1),
        ("startOffset", _REMOVED),
        ("startOffset", 1235),
        ("endOffset", 1233),
        ("endOffset", 2**63),
        ("endOffset", 4999),
        ("maxTimestampMs", "soon"),
        ("maxTimestampMs", -2),
        ("brokerId", 2**31),
        ("brokerId", -2),
        ("eventTimestampMs", None),
        ("eventTimestampMs", -2),
        ("segmentLeaderEpochs", {}),
        ("segmentLeaderEpochs", []),
        ("segmentLeaderEpochs", {"x": 1234}),
        ("segmentLeaderEpochs", {"-1": 1234}),
        ("segmentLeaderEpochs", {"03": 1234}),
        ("segmentLeaderEpochs", {"3": 1234, "10": 1234}),
        ("segmentLeaderEpochs", {"3": 5000, "10": 1234}),
        ("segmentLeaderEpochs", {"3": -5}),
        ("remoteLogSegmentId", 5),
        ("remoteLogSegmentId.id", "short"),
        ("remoteLogSegmentId.id", 5),
        ("remoteLogSegmentId.topicIdPartition", None),
        ("remoteLogSegmentId.topicIdPartition.topicId", "?" * 22),
        ("remoteLogSegmentId.topicIdPartition.topicPartition", 5),
        ("remoteLogSegmentId.topicIdPartition.topicPartition.topic", None),
        ("remoteLogSegmentId.topicIdPartition.topicPartition.partition", -1),
    ],
)
def test_segment_fields_are_checked_only_when_requested(path, value):
    manifest = parse(changed(f"remoteLogSegmentMetadata.{path}", value))
    with pytest.raises(RemoteLogMetadataError):
        manifest.segment_metadata()


def test_the_segments_metadata_may_be_missing():
    manifest = parse(changed("remoteLogSegmentMetadata", _REMOVED))
    with pytest.raises(RemoteLogMetadataError):
        manifest.segment_metadata()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_PATHS = [
    *("chunkIndex", "chunkIndex.type", "chunkIndex.originalChunkSize", "chunkIndex.originalFileSize"),
    *("chunkIndex.transformedChunks", "segmentIndexes", "segmentIndexes.offset", "segmentIndexes.transaction"),
    *("compression", "encryption", "encryption.dataKey", "remoteLogSegmentMetadata"),
    *("remoteLogSegmentMetadata.segmentLeaderEpochs", "remoteLogSegmentMetadata.remoteLogSegmentId"),
]


@given(st.sampled_from(_PATHS), _JSON)
@settings(deadline=None)
def test_any_value_anywhere_gives_a_manifest_or_a_typed_error(path, value):
    try:
        parse(changed(path, value)).segment_metadata()
    except RemoteLogMetadataError:
        return


@pytest.mark.parametrize("mode", AIVEN_MODES)
def test_the_plugins_manifest_agrees_with_metadata_topic_and_objects(mode):
    root = golden_aiven(mode)
    serde = RemoteLogMetadataSerde()
    started = {}
    for line in read_jsonl(root / "remote_log_metadata.jsonl.gz"):
        event = serde.deserialize(bytes.fromhex(line["value"]))
        started.setdefault(event.remote_log_segment_id, event)
    paths = list((root / "remote").rglob("*.rsm-manifest"))
    assert len(paths) >= 40
    for path in paths:
        manifest = parse_manifest(path.read_bytes())
        told = manifest.segment_metadata()
        assert told == started[told.remote_log_segment_id]
        assert path.with_suffix(".log").stat().st_size == manifest.chunks.object_end
        last = max(piece.position + piece.size for piece in manifest.indexes.values())
        assert path.with_suffix(".indexes").stat().st_size == last
        assert manifest.encoding == encoding_of(mode)


def encoding_of(mode: str) -> ChunkEncoding:
    return ChunkEncoding(compressed="zstd" in mode, encrypted="aes" in mode)


def test_golden_names_are_the_computed_ones():
    assert Path(golden_aiven("aiven-zstd-aes") / "remote" / "some-prefix").is_dir()
