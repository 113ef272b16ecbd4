"""The positions of a log's chunks: in the segment as Kafka wrote it, and in the stored object.

::

    original  |-- chunk size --|-- chunk size --|-- rest --|
    object    |- stored -|--- stored ---|- stored -|           back to back

A manifest has one of two types of chunk index, which store sizes differently:

``fixed``     one size for all chunks but the last, and the size of the last
``variable``  the size of each chunk: base64 of one zstd frame around

    size        | type       | field
    4           | i32        | count
    4           | i32        | base: the smallest of all values but the last
    1           | u8         | w: bytes per value, 1 to 4
    (count-1)·w | u8, …, u32 | value - base, of all but the last
    4           | i32        | the last value

    count 1: only the count and the last value

A fixed index takes the same memory for any number of chunks: its starts are a ``range``.

References: FixedSizeChunkIndex, VariableSizeChunkIndex and ChunkSizesBinaryCodec of Aiven-Open/tiered-storage-for-apache-kafka.
"""

from __future__ import annotations

import base64
import binascii
import struct
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import attrs

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import ByteRange
from kafka_remote_client.records.compression import ZSTD, ByteArena, decompress_into
from kafka_remote_client.records.faults import BatchFault

__all__ = ["AES_OVERHEAD", "MAX_SIZE", "Chunk", "ChunkEncoding", "ChunkIndex", "aligned", "decode_sizes"]

AES_OVERHEAD = 28
"""Bytes that encryption adds to a chunk: 12 of IV before it, 16 of tag behind it."""
MAX_SIZE = 2**31 - 1
"""Kafka's and the plugin's sizes are int32."""

_MAX_CHUNKS = 1 << 20
"""The most chunks of a variable index: 2 GiB in chunks of 2 KiB. A frame of a few bytes can have any number of sizes."""
_COUNT = struct.Struct(">i")
_HEAD = struct.Struct(">iiB")
_LAST = struct.Struct(">i")


@attrs.frozen
class ChunkEncoding:
    """How each chunk of a log is stored: compressed as one zstd frame, then encrypted with AES-256-GCM."""

    compressed: bool = False
    encrypted: bool = False

    @property
    def is_plain(self) -> bool:
        """The object is the segment, byte for byte."""
        return not (self.compressed or self.encrypted)

    def check(self, original: int, stored: int) -> None:
        """Raises RemoteLogMetadataError if ``original`` bytes cannot be stored as ``stored`` bytes."""
        body = stored - AES_OVERHEAD if self.encrypted else stored
        # Incompressible data grows by less than 1 %. Twice the size is a safe limit, so that a wrong table cannot request GiBs.
        valid = 1 <= body <= 2 * original + 1024 if self.compressed else body == original
        if not valid or stored > MAX_SIZE:
            raise RemoteLogMetadataError(f"a chunk of {original} bytes cannot be stored as {stored} bytes ({self})")


@attrs.frozen
class Chunk:
    """A chunk: ``[original_start, original_end)`` of the segment, ``[object_start, object_end)`` of the object."""

    original_start: int
    original_end: int
    object_start: int
    object_end: int

    @property
    def original_size(self) -> int:
        return self.original_end - self.original_start

    @property
    def object_size(self) -> int:
        return self.object_end - self.object_start


@attrs.frozen
class ChunkIndex:
    """Consecutive chunks of one log: all of them, or those of :meth:`select`.

    ``starts``: the chunks' positions in the object. Use :meth:`fixed` and :meth:`of_sizes`, which check all sizes.
    """

    chunk_size: int
    original_start: int
    original_end: int
    starts: Sequence[int]
    object_end: int

    @classmethod
    def fixed(
        cls, encoding: ChunkEncoding, *, chunk_size: int, file_size: int, stored_size: int, last_stored_size: int
    ) -> ChunkIndex:
        """The chunks of a whole log. Raises RemoteLogMetadataError for contradictory sizes."""
        count = chunk_count(chunk_size, file_size)
        if count > 1:
            encoding.check(chunk_size, stored_size)
        encoding.check(file_size - (count - 1) * chunk_size, last_stored_size)
        last_start = (count - 1) * stored_size
        starts = range(0, last_start + 1, stored_size) if count > 1 else range(1)
        return cls(chunk_size, 0, file_size, starts, last_start + last_stored_size)

    @classmethod
    def of_sizes(
        cls,
        encoding: ChunkEncoding,
        sizes: Sequence[int],
        *,
        chunk_size: int,
        original_start: int,
        original_end: int,
        object_start: int = 0,
    ) -> ChunkIndex:
        """Chunks of these stored sizes. Raises RemoteLogMetadataError for sizes that do not tile the original."""
        count = chunk_count(chunk_size, original_end - original_start)
        if len(sizes) != count or original_start % chunk_size:
            raise RemoteLogMetadataError(
                f"{len(sizes)} chunks of {chunk_size} bytes do not tile the bytes [{original_start}, {original_end})"
            )
        for number, size in enumerate(sizes):
            start = original_start + number * chunk_size
            encoding.check(min(start + chunk_size, original_end) - start, size)
        bounds = array("q", accumulate(sizes, initial=object_start))
        return cls(chunk_size, original_start, original_end, bounds[:-1], bounds[-1])

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[Chunk]:
        return (self.chunk(number) for number in range(len(self)))

    def chunk(self, number: int) -> Chunk:
        """The chunk at ``number``, from 0 on. Raises IndexError outside."""
        begin = self.original_start + number * self.chunk_size
        following = number + 1
        return Chunk(
            begin,
            min(begin + self.chunk_size, self.original_end),
            self.starts[number],
            self.starts[following] if following < len(self) else self.object_end,
        )

    @property
    def object_range(self) -> ByteRange:
        """The bytes of the object that hold all these chunks: adjacent ones are one range."""
        return ByteRange(self.starts[0], self.object_end)

    @property
    def nbytes(self) -> int:
        """An estimate of the memory held."""
        return self.starts.itemsize * len(self) if isinstance(self.starts, array) else 0

    def numbers(self, start: int, end: int) -> range:
        """The numbers of the chunks that hold the original bytes ``[start, end)``. Raises ValueError outside."""
        if not self.original_start <= start < end <= self.original_end:
            raise ValueError(f"[{start}, {end}) is not within [{self.original_start}, {self.original_end})")
        return range((start - self.original_start) // self.chunk_size, (end - 1 - self.original_start) // self.chunk_size + 1)

    def select(self, start: int, end: int) -> ChunkIndex:
        """The chunks that hold the original bytes ``[start, end)``. Raises ValueError outside."""
        numbers = self.numbers(start, end)
        first, last = self.chunk(numbers[0]), self.chunk(numbers[-1])
        starts = self.starts[numbers.start : numbers.stop]
        return ChunkIndex(self.chunk_size, first.original_start, last.original_end, starts, last.object_end)


def chunk_count(chunk_size: int, size: int) -> int:
    """The number of chunks of ``size`` bytes; 0 bytes have one empty chunk. Raises RemoteLogMetadataError for invalid sizes."""
    if not 1 <= chunk_size <= MAX_SIZE or not 0 <= size <= MAX_SIZE:
        raise RemoteLogMetadataError(f"the sizes are invalid: {size} bytes in chunks of {chunk_size}")
    return max(1, -(-size // chunk_size))


def aligned(ranges: Sequence[ByteRange], chunks: ChunkIndex) -> tuple[ByteRange, ...]:
    """The same bytes as ``ranges``, which tile, cut at ends of chunks, so that no chunk is in two ranges."""
    end = ranges[-1].end
    bounds = [ranges[0].start]
    for one in ranges:
        bound = min(chunks.chunk(chunks.numbers(one.end - 1, one.end)[0]).original_end, end)
        if bound > bounds[-1]:
            bounds.append(bound)
    return tuple(ByteRange(start, stop) for start, stop in pairwise(bounds))


def decode_sizes(text: str, count: int) -> list[int]:
    """The ``count`` stored sizes in ``transformedChunks``.

    Raises RemoteLogMetadataError for malformed text, another number of sizes, more than 1,048,576 sizes, and a frame with more
    bytes than the sizes need.
    """
    if count > _MAX_CHUNKS:
        raise RemoteLogMetadataError(f"a chunk index of {count} chunks, more than {_MAX_CHUNKS}")
    payload = _payload(text, _HEAD.size + 4 * count)
    if len(payload) < _COUNT.size or _COUNT.unpack_from(payload)[0] != count:
        raise RemoteLogMetadataError(f"a chunk index does not list the {count} chunks that its sizes imply")
    if count == 1:
        if len(payload) != _COUNT.size + _LAST.size:
            raise RemoteLogMetadataError(f"a chunk index of one chunk has {len(payload)} bytes")
        return [_LAST.unpack_from(payload, _COUNT.size)[0]]
    if len(payload) < _HEAD.size:
        raise RemoteLogMetadataError("a chunk index is truncated")
    _, base, width = _HEAD.unpack_from(payload)
    end = len(payload) - _LAST.size
    if not 1 <= width <= 4 or end - _HEAD.size != (count - 1) * width:
        raise RemoteLogMetadataError(f"a chunk index of {count} chunks, {width} bytes each, has {len(payload)} bytes")
    sizes = [base + int.from_bytes(payload[at : at + width], "big") for at in range(_HEAD.size, end, width)]
    return [*sizes, _LAST.unpack_from(payload, end)[0]]


def _payload(text: str, limit: int) -> bytes:
    try:
        frame = base64.b64decode(text.encode("ascii"), validate=True)
        arena = ByteArena()
        decompress_into(arena, ZSTD, memoryview(frame), limit)
    except (UnicodeEncodeError, binascii.Error):
        raise RemoteLogMetadataError("a chunk index is not base64") from None
    except BatchFault:
        raise RemoteLogMetadataError(f"a chunk index is not a zstd frame of at most {limit} bytes") from None
    return bytes(arena.view())
