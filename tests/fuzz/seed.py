"""Adds the first inputs of each target to its corpus: ``python -m tests.fuzz.seed``."""

from __future__ import annotations

import base64
import json
import struct
from itertools import islice
from typing import Any
from uuid import UUID

import attrs

from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.model import AbortedTransaction, ByteRange, RemoteLogSegmentState
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.dialect import LocationRequest, SegmentPage, TaggedDialect
from kafka_remote_client.protocol.headers import RequestHeader, encode_request_header
from kafka_remote_client.protocol.segment_list import SegmentEntry
from kafka_remote_client.remote_log.aiven.chunk_index import ChunkEncoding, ChunkIndex
from kafka_remote_client.remote_log.aiven.chunk_table import ChunkTable
from kafka_remote_client.remote_log.aiven.custom_metadata import AivenCustomMetadata
from kafka_remote_client.remote_log.events import (
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.tiered_kafka.aiven_files import encode_sizes
from tests.fuzz import corpus
from tests.fuzz.wire_targets import GRANT
from tests.support.batches import Rec, abort_marker, batch, compress, lz4_frame, record, xerial
from tests.support.golden_metadata import golden_records
from tests.support.locations import segment

RECORDS = b"".join(record(Rec(i, b"k", b"value" * i, [(b"h", b"v"), (b"h", None)])) for i in range(3))
NULLS = record(Rec(0, None, None))


def seeds() -> dict[str, list[bytes]]:
    return {
        **_of_records(),
        **_of_the_wire(),
        **_of_remote_logs(),
        "http_answer": list(_http_answers()),
        "shim_frames": _shim_frames(),
    }


def _of_records() -> dict[str, list[bytes]]:
    legacy = struct.pack(">b", 60) + bytes(9) + b"\0" + bytes(8) + struct.pack(">i", 1) + b"k" + struct.pack(">i", -1)
    return {
        "any_bytes": [
            b"",
            bytes(100),
            batch(0, [Rec()]),
            batch(0, [Rec(0), Rec(1)], codec=3) + abort_marker(2, 1),
            b"<Error>" * 9,
        ],
        "batch_v2": [batch(0, [Rec(0), Rec(1)]), batch(3, [Rec()], codec=1, attributes=8), abort_marker(0, 5), batch(0, [])],
        "record": [b"\3" + RECORDS, b"\1" + NULLS, b"\0", b"\1\x80\x80\x80\x80\x80\x80"],
        "legacy_set": [legacy, legacy * 3, bytes([61]) + legacy[1:]],
        "legacy_inner": [b"\1" + legacy, b"\3" + legacy * 2, b"\4" + legacy, b"\x81" + legacy],
        "gzip": [
            compress(1, NULLS),
            compress(1, RECORDS[:50]) + compress(1, RECORDS[50:]),
            compress(1, bytes(10**6)),
            b"\x1f\x8b",
        ],
        "snappy": [
            compress(2, NULLS),
            xerial(NULLS),
            xerial(RECORDS, 20),
            xerial(RECORDS[:9]) + xerial(RECORDS[9:]),
            b"\x82SNAPPY\0",
        ],
        "lz4": [lz4_frame(NULLS), lz4_frame(RECORDS, linked=True, checksum=True), lz4_frame(bytes(10**6)), b"\x04\x22\x4d\x18"],
        "zstd": [compress(4, NULLS), compress(4, RECORDS) + compress(4, b""), compress(4, bytes(10**6)), b"\x28\xb5\x2f\xfd"],
        "control_record": [b"\2\0\0\0\0", b"\2\0\1\0\1", b"\1\xff\xff\0\0", b"\2\0", record(Rec(key=b"\0\0\0\0"))],
        "aborted_filter": [bytes([1, 5, 1, 9]), bytes(range(64)), b"\x18\x04\x00\x08", b"\x1c\x00\x0c\x04"],
    }


def _of_the_wire() -> dict[str, list[bytes]]:
    dialect = TaggedDialect()
    one = fetch.PartitionData(3, 0, 5000, 4000, 100, (AbortedTransaction(5, 1100),), tags=dialect.grant_tags(GRANT))
    empty = fetch.PartitionData(0, 6, aborted_transactions=None, records=b"records")
    topics = (fetch.FetchTopicResponse((one, empty), topic_id=UUID(int=7)),)
    named = (fetch.FetchTopicResponse((empty,), topic="orders"),)
    root, partition = dialect.request_tags(LocationRequest(("ApacheKafkaV1",), max_bytes=1 << 20))
    asked = fetch.FetchPartition(3, 1000, 1 << 20, tags=partition)
    requests = [
        (17, fetch.FetchRequest((fetch.FetchTopic((asked,), topic_id=UUID(int=7)),), 500, 1, 1 << 20, 1, tags=root)),
        (12, fetch.FetchRequest((fetch.FetchTopic((asked,), topic="orders"),), forgotten_topics=(), tags=root)),
        (4, fetch.FetchRequest((fetch.FetchTopic((fetch.FetchPartition(0, 5, 9),), topic="orders"),), isolation_level=1)),
    ]
    url = LocationMetadata(url="https://store/1?signature=1", signed_headers=(("x-amz-a", "b"),), etag="e", object_key="k")
    chunked = LocationMetadata(chunk_table=b"table", data_key=b"key")
    window = [GRANT.ranges[0], attrs.evolve(GRANT.ranges[0], range=ByteRange(8192, 9000))]
    tags = dialect.grant_tags(attrs.evolve(GRANT, ranges=tuple(window)))
    listed = SegmentEntry(bytes(16), 900, 2899, 1900, 2000, 2, 1_700_000_000_000, 6 << 30)
    page = dialect.page_tags(SegmentPage((listed, listed._replace(first_offset=2000, next_offset=2900)), 2900))
    return {
        "fetch_response": [
            bytes([version - 4]) + fetch.encode_response(fetch.FetchResponse(found), version)
            for version, found in ((17, topics), (13, topics), (12, named), (11, named), (4, named))
        ],
        "location_answer": [
            struct.pack(">Bhhh", flags, 0, 0, 0) + b"".join(bytes([tag - 12480, len(v)]) + v for tag, v in fields.items())
            for flags, fields in ((0x20, {}), (0x20, tags), (0x08, tags), (0x22, tags), (0x01, tags), (0x24, tags))
        ]
        + [
            struct.pack(">Bhhh", flags, 0, 0, 0) + b"".join(bytes([number, len(v)]) + v for number, v in fields.items())
            for flags, fields in ((0x01, {254: page[12499]}), (0x09, {254: page[12499], 253: page[12500]}))
        ],
        "location_metadata": [one.encode() for one in (url, chunked, LocationMetadata(url="https://store/1"))],
        "fetch_request": [
            encode_request_header(RequestHeader(1, version, 7, "client"))[2:] + fetch.encode_request(request, version)
            for version, request in requests
        ],
    }


def _of_remote_logs() -> dict[str, list[bytes]]:
    serde = RemoteLogMetadataSerde()
    whole = segment(custom_metadata=b"custom", txn_index_empty=True)
    body = {name: getattr(whole, name) for name in attrs.fields_dict(RemoteLogSegmentMetadataSnapshot) if name != "segment_id"}
    state = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    deleted = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
    events = [
        whole,
        RemoteLogSegmentMetadataUpdate(whole.remote_log_segment_id, 1, 2, state, b"custom"),
        RemotePartitionDeleteMetadata(whole.topic_id_partition, deleted, 3, 1),
        RemoteLogSegmentMetadataSnapshot(segment_id=UUID(int=9), **body),
    ]
    custom = AivenCustomMetadata(remote_size=5000, object_prefix="prefix/", object_key="orders/0/1")
    sizes = [1000, 1010, 900, 12]
    text = encode_sizes(sizes)
    compressed = ChunkEncoding(compressed=True)
    chunks = ChunkIndex.of_sizes(compressed, sizes, chunk_size=4096, original_start=0, original_end=3 * 4096 + 10)
    sealed = ChunkIndex.fixed(
        ChunkEncoding(encrypted=True), chunk_size=100, file_size=250, stored_size=128, last_stored_size=78
    )
    return {
        "metadata_record": [
            custom.encode(),
            *map(serde.serialize, events),
            *(value for _, value in islice(golden_records(), 0, None, 20)),
        ],
        "aiven_manifest": [
            json.dumps(_manifest(variable=text, compression=True)).encode(),
            json.dumps(_manifest(compression=False)).encode(),
            _bomb(),
            json.dumps(_manifest(compression=False, encryption={"dataKey": "key:QUJD", "aad": "QUJD"})).encode(),
        ],
        "chunk_index": [
            b"\x01\0\0\4" + struct.pack(">iiB", 4, 900, 1) + bytes([100, 110, 0]) + struct.pack(">i", 12),
            b"\x01\0\0\1" + struct.pack(">ii", 1, 12),
            b"\x01\0\0\3" + struct.pack(">iiB", 3, 900, 2) + bytes(4) + struct.pack(">i", 12),
            b"\0\0\0\4" + text.encode(),
            b"\x04\x0f\xff\xff" + compress(4, bytes(10**6)),
        ],
        "chunk_table": [
            ChunkTable(chunks, compressed).encode(),
            ChunkTable(chunks.select(4096, 9000), compressed).encode(),
            ChunkTable(sealed, ChunkEncoding(encrypted=True), b"aad").encode(),
        ],
    }


def _bomb() -> bytes:
    """A small manifest of ten million chunks."""
    count = 10_000_000
    sizes = struct.pack(">iiB", count, 1, 1) + bytes(count - 1) + struct.pack(">i", 1)
    manifest = _manifest(variable=base64.b64encode(compress(4, sizes)).decode(), compression=True)
    manifest["chunkIndex"] = {**manifest["chunkIndex"], "originalChunkSize": 100, "originalFileSize": 100 * count}
    return json.dumps(manifest).encode()


def _manifest(variable: str | None = None, **changes: object) -> dict[str, Any]:
    sizes: dict[str, object] = {"originalChunkSize": 4096, "originalFileSize": 3 * 4096 + 10}
    if variable is None:
        sizes |= {"type": "fixed", "transformedChunkSize": 4096, "finalTransformedChunkSize": 10}
    else:
        sizes |= {"type": "variable", "transformedChunks": variable}
    slices = ("offset", "timestamp", "producerSnapshot", "leaderEpoch")
    partition = {"topicId": "AAAAAAAAAAAAAAAAAAAABw", "topicPartition": {"topic": "orders", "partition": 0}}
    return {
        "version": "1",
        "chunkIndex": sizes,
        "segmentIndexes": {name: {"position": at * 8, "size": 8} for at, name in enumerate(slices)},
        "remoteLogSegmentMetadata": {
            "remoteLogSegmentId": {"topicIdPartition": partition, "id": "AAAAAAAAAAAAAAAAAAAACQ"},
            "startOffset": 0,
            "endOffset": 99,
            "maxTimestampMs": 5,
            "brokerId": 1,
            "eventTimestampMs": 6,
            "segmentLeaderEpochs": {"0": 0, "3": 50},
        },
        **changes,
    }


def _http_answers() -> list[bytes]:
    body = b"0123456789"
    partial = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/10\r\n"
    chunked = b"Transfer-Encoding: chunked\r\n\r\n4;a=b\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n"
    late = b"Retry-After: Fri, 20 Nov 2026 10:00:30 GMT\r\nDate: Fri, 20 Nov 2026 10:00:00 GMT\r\n"
    answers = [
        partial + b"Content-Length: 10\r\n\r\n" + body,
        b"HTTP/1.1 100 Continue\r\n\r\n" + partial + b"\r\n" + body,
        partial + chunked,
        partial + b"Connection: close\r\nContent-Encoding: gzip\r\n\r\n" + body,
        b"HTTP/1.1 503 Slow Down\r\n" + late + b"\r\n",
        b"HTTP/1.1 429 Slow Down\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 31\r\n\r\n<Code>AccessDenied</Code>expired",
        b"HTTP/1.1 500 Internal Server Error\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nerror\r\n0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n",
    ]
    middle = b"HTTP/1.0 206 OK\r\nContent-Range: bytes %s/*\r\n\r\n"
    return [
        *(bytes([step << 2]) + answer for step, answer in enumerate(answers)),
        b"\x01" + middle % b"4-8" + b"45678",
        b"\x02" + middle % b"5-9" + b"56789",
    ]


def _shim_frames() -> list[bytes]:
    """Streams of a client: a Produce with and without acks, versions, location requests, and bytes that are no request."""
    client, tags = b"\0\2me", b"\0"
    produce = [struct.pack(">hhi", 0, 9, 1) + client + tags + b"\0" + struct.pack(">h", acks) + b"records" for acks in (0, -1)]
    versions = struct.pack(">hhi", 18, 0, 2) + client
    located = [b"\0\1" + request for request in _of_the_wire()["fetch_request"][1:]]  # the first is too new
    later = struct.pack(">hhi", 1, 16, 4) + client + tags
    many = [located[0][:4] + struct.pack(">i", number) + located[0][8:] for number in range(9)]
    several = [*produce, versions, *located, versions, *many, *produce]
    streams = [[produce[0]], [versions] * 3, located, several, [versions, later], [versions[:8]], [b"short"]]
    cut = [b"".join(struct.pack(">H", len(one)) + one for one in stream) for stream in streams]
    raw = b"".join(struct.pack(">i", len(one)) + one for one in several)
    lengths = [struct.pack(">i", length) + versions for length in (-1, 0, 7, 1 << 30)]
    return [bytes([size << 1]) + one for one in cut for size in (0, 1, 7)] + [b"\1" + raw, *(b"\1" + one for one in lengths)]


def main() -> None:
    for name, inputs in seeds().items():
        corpus.write(name, [*corpus.read(name), *inputs])


if __name__ == "__main__":
    main()
