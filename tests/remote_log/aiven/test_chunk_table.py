from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.errors import DataKeyError, RemoteLogMetadataError
from kafka_remote_client.remote_log.aiven.chunk_index import ChunkEncoding, ChunkIndex
from kafka_remote_client.remote_log.aiven.chunk_table import MAX_CHUNK_BYTES, MAX_CHUNKS, ChunkTable
from tests.support.aiven import AAD, DATA_KEY, stored_chunks

BOTH = ChunkEncoding(compressed=True, encrypted=True)
WHOLE = ChunkIndex.of_sizes(BOTH, [364369, 364278, 179823], chunk_size=1_000_000, original_start=0, original_end=2_500_000)
GOLDEN = {
    # The two last chunks of three: from byte 1,000,000 of the segment on, from byte 364,369 of the object on.
    "03 c0843d c0843d e0c65b d19e16 05 01020304 03 f69d16 effc0a": ChunkTable(
        WHOLE.select(1_500_000, 2_100_001), BOTH, b"\x01\x02\x03\x04"
    ),
    "01 64 00 32 00 00 02 14": ChunkTable(
        ChunkIndex.of_sizes(ChunkEncoding(compressed=True), [20], chunk_size=100, original_start=0, original_end=50),
        ChunkEncoding(compressed=True),
    ),
    "02 64 c801 64 8002 01 02 8001": ChunkTable(
        ChunkIndex.of_sizes(
            ChunkEncoding(encrypted=True), [128], chunk_size=100, original_start=200, original_end=300, object_start=256
        ),
        ChunkEncoding(encrypted=True),
        b"",
    ),
}


@pytest.mark.parametrize(("text", "table"), list(GOLDEN.items()))
def test_golden_bytes_are_written_and_read(text, table):
    assert table.encode().hex() == bytes.fromhex(text).hex()
    read = ChunkTable.decode(bytes.fromhex(text))
    assert list(read.chunks) == list(table.chunks)
    assert (read.encoding, read.aad) == (table.encoding, table.aad)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "04 64 00 32 00 00 02 14",  # an unknown flag
        "01 64 00 32 00 00 02 14 00",  # a byte after the end
        "01 64 00 32 00 00 02",  # a size is missing
        "01 64 00 32 00 00 01",  # no chunks
        "01 64 00 32 00 00 00",  # null chunks
        "01 64 00 32 00 01 02 14",  # additional data without encryption
        "03 64 00 32 00 00 02 32",  # no additional data with encryption
        "01 00 00 32 00 00 02 14",  # chunks of zero bytes
        "01 64 05 32 00 00 02 14",  # a start inside a chunk
        "01 64 00 96 01 00 00 02 14",  # too few chunks
        "01 64 00 32 00 00 03 14 14",  # too many
        "01 64 00 32 00 00 02 00",  # a chunk stored in zero bytes
        "01 64 00 32 00 00 02 ffffff7f",  # a chunk stored in many more bytes
        "00 64 00 32 00 00 02 33",  # a plain chunk of another size
        "01 64 00 ffffffff7f 00 00 02 14",  # more bytes than a segment can have
        "01 64 00 32 00 00 ffffffff7f 14",  # an implausible count
    ],
)
def test_inconsistent_tables_are_refused(text):
    with pytest.raises(RemoteLogMetadataError):
        ChunkTable.decode(bytes.fromhex(text))


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_give_a_table_or_a_typed_error(data):
    try:
        table = ChunkTable.decode(data)
    except RemoteLogMetadataError:
        return
    assert list(ChunkTable.decode(table.encode()).chunks) == list(table.chunks)


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_table_restores_its_chunks(encrypted):
    encoding = ChunkEncoding(compressed=True, encrypted=encrypted)
    (chunk,) = stored_chunks(b"abc" * 10, 30, compressed=True, encrypted=encrypted)
    chunks = ChunkIndex.of_sizes(encoding, [len(chunk)], chunk_size=30, original_start=0, original_end=30)
    table = ChunkTable(chunks, encoding, AAD if encrypted else None)
    target = bytearray(30)
    table.transform(DATA_KEY if encrypted else None).restore(chunk, memoryview(target))
    assert target == b"abc" * 10


def test_an_encrypted_table_needs_a_data_key():
    table = ChunkTable(WHOLE, BOTH, AAD)
    for data_key in (None, b"", bytes(31)):
        with pytest.raises(DataKeyError):
            table.transform(data_key)


def test_chunks_larger_than_the_limit_are_refused():
    encoding = ChunkEncoding(compressed=True)

    def table(chunk_size: int, size: int) -> ChunkTable:
        sizes = [100_000] * -(-size // chunk_size)
        return ChunkTable(
            ChunkIndex.of_sizes(encoding, sizes, chunk_size=chunk_size, original_start=0, original_end=size), encoding
        )

    largest = table(MAX_CHUNK_BYTES, 2 * MAX_CHUNK_BYTES)
    assert ChunkTable.decode(largest.encode()) == largest
    assert table(2**31 - 1, MAX_CHUNK_BYTES).chunks.chunk_size == 2**31 - 1
    with pytest.raises(RemoteLogMetadataError, match="has chunks of 67108865 bytes"):
        table(MAX_CHUNK_BYTES + 1, 2 * MAX_CHUNK_BYTES)


def test_a_location_with_too_many_chunks_is_refused():
    chunks = ChunkIndex.fixed(
        ChunkEncoding(encrypted=True), chunk_size=1, file_size=2**31 - 1, stored_size=29, last_stored_size=29
    )
    ChunkTable(chunks.select(5, 5 + MAX_CHUNKS), ChunkEncoding(encrypted=True), AAD)
    with pytest.raises(RemoteLogMetadataError, match="needs 131073 chunks"):
        ChunkTable(chunks.select(5, 6 + MAX_CHUNKS), ChunkEncoding(encrypted=True), AAD)
