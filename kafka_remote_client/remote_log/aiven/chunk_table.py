"""The chunks that a byte range needs, as a location carries them (tag 4 of LocationMetadata).

::

    type                      | field         | note
    uvarint                   | flags         | 1 = compressed (zstd), 2 = encrypted (AES-256-GCM)
    uvarint                   | chunkSize     | original bytes of each chunk but the segment's last
    uvarint                   | originalStart | of the first chunk, a multiple of chunkSize
    uvarint                   | originalSize  | bytes of the segment in all these chunks
    uvarint                   | objectStart   | of the first chunk, in the object
    COMPACT_NULLABLE_BYTES    | aad           | not null where encrypted
    COMPACT_ARRAY of uvarint  | storedSizes   | of each chunk, in the object

The data key is not in it: it travels in tag 5.

References: docs/wire-format.md; KIP-482 for the types.
"""

from __future__ import annotations

import attrs

from kafka_remote_client.errors import DataKeyError, RemoteLogMetadataError
from kafka_remote_client.remote_log.aiven.chunk_index import ChunkEncoding, ChunkIndex
from kafka_remote_client.remote_log.aiven.transforms import ChunkCipher, ChunkTransform
from kafka_remote_client.wire import Reader, Writer

__all__ = ["CHUNKED_FORMAT", "MAX_CHUNKS", "MAX_CHUNK_BYTES", "ChunkTable", "check_chunk_bytes"]

CHUNKED_FORMAT = "AivenTieredStorageV1"
"""The storage format of a log whose chunks have to be restored, with the chunk table of its location."""

MAX_CHUNK_BYTES = 64 * 1024 * 1024
"""The most original bytes of a chunk: a reader needs memory for whole chunks. The plugin's authors recommend 4 MiB."""

MAX_CHUNKS = 1 << 17
"""The most chunks of a table: 128 MiB in chunks of 1 KiB. A manifest of a few bytes can describe billions of chunks."""

_COMPRESSED, _ENCRYPTED = 1, 2


def check_chunk_bytes(chunks: ChunkIndex) -> None:
    """Raises RemoteLogMetadataError for chunks of more than MAX_CHUNK_BYTES."""
    largest = min(chunks.chunk_size, chunks.original_end - chunks.original_start)
    if largest > MAX_CHUNK_BYTES:
        raise RemoteLogMetadataError(f"a segment has chunks of {largest} bytes, more than {MAX_CHUNK_BYTES}")


@attrs.frozen
class ChunkTable:
    """Chunks and how to restore them, without the data key.

    Raises RemoteLogMetadataError for chunks of more than MAX_CHUNK_BYTES, and for more than MAX_CHUNKS.
    """

    chunks: ChunkIndex
    encoding: ChunkEncoding
    aad: bytes | None = None

    def __attrs_post_init__(self) -> None:
        check_chunk_bytes(self.chunks)
        if len(self.chunks) > MAX_CHUNKS:
            raise RemoteLogMetadataError(f"a location needs {len(self.chunks)} chunks, more than {MAX_CHUNKS}")

    def encode(self) -> bytes:
        """The bytes of the module's table."""
        chunks = self.chunks
        writer = Writer(flexible=True)
        writer.uvarint(_COMPRESSED * self.encoding.compressed | _ENCRYPTED * self.encoding.encrypted)
        writer.uvarint(chunks.chunk_size)
        writer.uvarint(chunks.original_start)
        writer.uvarint(chunks.original_end - chunks.original_start)
        writer.uvarint(chunks.starts[0])
        writer.nullable_bytes(self.aad)
        writer.array((chunk.object_size for chunk in chunks), writer.uvarint)
        return writer.getvalue()

    @classmethod
    def decode(cls, data: bytes) -> ChunkTable:
        """The table in ``data``; its chunks tile. Raises RemoteLogMetadataError for any other bytes."""
        reader = Reader(data, flexible=True, what="a chunk table", error=RemoteLogMetadataError)
        flags = reader.uvarint()
        if flags & ~(_COMPRESSED | _ENCRYPTED):
            raise RemoteLogMetadataError(f"a chunk table has the unknown flags {flags:#x}")
        encoding = ChunkEncoding(compressed=bool(flags & _COMPRESSED), encrypted=bool(flags & _ENCRYPTED))
        chunk_size, start, size, object_start = (reader.uvarint() for _ in range(4))
        aad = reader.nullable_bytes()
        sizes = reader.array(reader.uvarint)
        if reader.remaining or (aad is None) is encoding.encrypted:
            raise RemoteLogMetadataError("a chunk table does not parse")
        chunks = ChunkIndex.of_sizes(
            encoding,
            sizes,
            chunk_size=chunk_size,
            original_start=start,
            original_end=start + size,
            object_start=object_start,
        )
        return cls(chunks, encoding, aad)

    def transform(self, data_key: bytes | None) -> ChunkTransform:
        """The transform that restores these chunks. Raises DataKeyError without a needed key, MissingExtraError."""
        if self.aad is None:
            return ChunkTransform(self.encoding, None)
        if data_key is None:
            raise DataKeyError("the segment is encrypted and the location has no data key")
        return ChunkTransform(self.encoding, ChunkCipher(data_key, self.aad))
