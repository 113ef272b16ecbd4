"""The codecs of record batches, each with a hard limit on its output.

::

    id | codec  | what Kafka's producers write
    1  | gzip   | one member or several, RFC 1952
    2  | snappy | one raw block, or xerial's framing: header 82 53 4e 41 50 50 59 00, i32 version, i32 compatible version,
       |        | then i32 size + raw block each; whole framed streams may follow one another
    3  | lz4    | one LZ4 frame with independent blocks
    4  | zstd   | frames, with or without a content size

cramjam decompresses into memory of the caller, so a decompression bomb cannot grow. For snappy the size of that memory is known
exactly. For lz4 and zstd it follows from the block headers, and not from a content size. For gzip the first attempt takes the
size in the last member's trailer, the next four times the input, doubled up to the limit.

References: KIP-110 (zstd), RFC 1952, RFC 8878, the LZ4 frame format 1.6, Kafka's CompressionType, snappy-java's SnappyCodec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import cramjam

from kafka_remote_client.records.faults import BatchFault, Fault

__all__ = ["GZIP", "LZ4", "NONE", "SNAPPY", "ZSTD", "Arena", "ByteArena", "decompress_into"]

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
"""The codecs' numbers, the lowest three bits of a batch's attributes."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_SNAPPY_MAX_RATIO = 64  # a copy element of three bytes yields at most 64
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_SIZES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_LZ4_MAX_RATIO = 256  # one length byte stands for at most 255 bytes of output
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # after a byte 50 to 5f
_ZSTD_BLOCK = 1 << 17
_DEFLATE_MAX_RATIO = 1032  # a match of 258 bytes takes at least two bits


class Arena(Protocol):
    """Memory that grows at its end and holds the decompressed batches of a block, one after another."""

    def reserve(self, size: int) -> memoryview:
        """``size`` writable bytes after the kept ones; valid until the next call."""

    def keep(self, size: int) -> None:
        """Keeps the first ``size`` bytes of the last reservation and releases the rest."""


class ByteArena:
    """An arena over one ``bytearray`` (``compression.Arena``)."""

    __slots__ = ("_size", "data")

    def __init__(self) -> None:
        self.data = bytearray()
        self._size = 0

    def reserve(self, size: int) -> memoryview:
        del self.data[self._size :]
        self.data += bytes(size)
        return memoryview(self.data)[self._size :]

    def keep(self, size: int) -> None:
        self._size += size

    @property
    def size(self) -> int:
        return self._size

    def view(self) -> memoryview:
        """The kept bytes. Release the view before the next reservation."""
        return memoryview(self.data).toreadonly()[: self._size]


def decompress_into(arena: Arena, codec: int, source: memoryview, limit: int) -> int:
    """Decompresses ``source`` to the end of ``arena`` and returns the number of bytes kept there.

    Raises BatchFault with CODEC for an unknown codec, TOO_LARGE for an output of more than ``limit`` bytes, DECOMPRESSION for
    anything else that the codec refuses, also for trailing bytes.
    """
    try:
        decoder = _DECODERS[codec]
    except KeyError:
        raise BatchFault(Fault.CODEC) from None
    size = decoder(arena, source, limit)
    arena.keep(size)
    return size


def output_too_small(error: cramjam.DecompressionError) -> bool:
    """Whether cramjam failed because the memory was too small. Only its message says so."""
    return "failed to write whole buffer" in str(error)


def _attempt(
    decompress: Callable[[memoryview, memoryview], int], arena: Arena, source: memoryview, sizes: Iterator[int], limit: int
) -> int:
    size = 0
    for size in sizes:
        try:
            return int(decompress(source, arena.reserve(size)))
        except cramjam.DecompressionError as error:
            if not output_too_small(error):
                raise BatchFault(Fault.DECOMPRESSION) from error
    # the last size is the cap, or the largest possible output for this input
    raise BatchFault(Fault.TOO_LARGE if size >= limit else Fault.DECOMPRESSION)


def _gzip(arena: Arena, source: memoryview, limit: int) -> int:
    return _attempt(cramjam.gzip.decompress_into, arena, source, _gzip_sizes(source, limit), limit)


def _gzip_sizes(source: memoryview, limit: int) -> Iterator[int]:
    largest = min(limit, len(source) * _DEFLATE_MAX_RATIO)
    declared = int.from_bytes(source[-4:], "little")
    if 0 < declared <= largest:
        yield declared
    size = max(4 * len(source), 1024)
    while size < largest:
        yield size
        size *= 2
    yield largest


def _snappy(arena: Arena, source: memoryview, limit: int) -> int:
    blocks = list(_snappy_blocks(source))
    sizes = []
    for block in blocks:
        try:
            size = int(cramjam.snappy.decompress_raw_len(block))
        except cramjam.DecompressionError as error:
            raise BatchFault(Fault.DECOMPRESSION) from error
        if size > len(block) * _SNAPPY_MAX_RATIO:
            raise BatchFault(Fault.DECOMPRESSION)
        sizes.append(size)
    total = sum(sizes)
    if total > limit:
        raise BatchFault(Fault.TOO_LARGE)
    output = arena.reserve(total)
    at = 0
    for block, size in zip(blocks, sizes, strict=True):
        try:
            cramjam.snappy.decompress_raw_into(block, output[at : at + size])
        except cramjam.DecompressionError as error:
            raise BatchFault(Fault.DECOMPRESSION) from error
        at += size
    return total


def _snappy_blocks(source: memoryview) -> Iterator[memoryview]:
    if source[:8] != _XERIAL_MAGIC:
        yield source
        return
    at, end = 0, len(source)
    while at < end:
        if source[at : at + 8] == _XERIAL_MAGIC:
            if end - at < _XERIAL_HEADER or int.from_bytes(source[at + 8 : at + 12], "big", signed=True) < 1:
                raise BatchFault(Fault.DECOMPRESSION)
            at += _XERIAL_HEADER
            continue
        size = int.from_bytes(source[at : at + 4], "big", signed=True)
        at += 4
        if size <= 0 or size > end - at:
            raise BatchFault(Fault.DECOMPRESSION)
        yield source[at : at + size]
        at += size


def _lz4(arena: Arena, source: memoryview, limit: int) -> int:
    return _attempt(cramjam.lz4.decompress_into, arena, source, iter([max(1, min(limit, _lz4_bound(source)))]), limit)


def _lz4_bound(source: memoryview) -> int:
    """The largest possible output of the frame in ``source``. Raises BatchFault for bytes before or after the frame."""
    if len(source) < 7 or source[:4] != _LZ4_MAGIC:
        raise BatchFault(Fault.DECOMPRESSION)
    flags, block_size = source[4], _LZ4_BLOCK_SIZES.get(source[5] >> 4 & 7, 0)
    at = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    checksum = 4 if flags & 0x10 else 0
    bound = 0
    while at + 4 <= len(source):
        word = int.from_bytes(source[at : at + 4], "little")
        at += 4
        if word == 0:
            if at + (4 if flags & 0x04 else 0) != len(source):
                raise BatchFault(Fault.DECOMPRESSION)
            return bound
        size = word & 0x7FFFFFFF
        bound += min(size if word >> 31 else size * _LZ4_MAX_RATIO, block_size)
        at += size + checksum
    raise BatchFault(Fault.DECOMPRESSION)


def _zstd(arena: Arena, source: memoryview, limit: int) -> int:
    return _attempt(cramjam.zstd.decompress_into, arena, source, iter([max(1, min(limit, _zstd_bound(source)))]), limit)


def _zstd_bound(source: memoryview) -> int:
    """The largest possible output of the frames in ``source``, from their block headers."""
    at, bound = 0, 0
    while at < len(source):
        if bytes(source[at + 1 : at + 4]) == _ZSTD_SKIPPABLE and source[at] >> 4 == 5:
            at += 8 + int.from_bytes(source[at + 4 : at + 8], "little")
            continue
        if source[at : at + 4] != _ZSTD_MAGIC or len(source) - at < 6:
            raise BatchFault(Fault.DECOMPRESSION)
        flags = source[at + 4]
        single = flags >> 5 & 1
        at += 5 + (1 - single) + (0, 1, 2, 4)[flags & 3] + (single, 2, 4, 8)[flags >> 6]
        last = 0
        while not last:
            if at + 3 > len(source):
                raise BatchFault(Fault.DECOMPRESSION)
            word = int.from_bytes(source[at : at + 3], "little")
            last, kind, size = word & 1, word >> 1 & 3, word >> 3
            bound += _ZSTD_BLOCK if kind >= 2 else size
            at += 3 + (1 if kind == 1 else size)
        at += 4 if flags & 4 else 0
    return bound


_DECODERS: dict[int, Callable[[Arena, memoryview, int], int]] = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}
