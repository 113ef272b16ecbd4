"""The file format of the shared chunk cache: bytes of one object, with checksums. Pure (no I/O).

::

    offset | size    | type   | field      | note
    0      | 4       | bytes  | magic      | "KRC1"
    4      | 4       | uint32 | checksum   | CRC-32C of the header from byte 8 on
    8      | 32      | bytes  | identity   | SHA-256 of what the bytes belong to (:func:`identity_of`)
    40     | 8       | uint64 | start      | position of the first byte in the object
    48     | 8       | uint64 | end        | exclusive
    56     | 4 each  | uint32 | checksums  | CRC-32C of each block of 256 KiB; the last block may be shorter
    …      | end - start      | bytes      | as they are in the store: encrypted bytes stay encrypted

Integers are big-endian. The file has nothing of a location but the digest of its identity: no URL, no header, no key.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import attrs
import crc32c

from kafka_remote_client.model import ByteRange, RemoteLogSegmentMetadata
from kafka_remote_client.plugin import LocationMetadata

__all__ = ["BLOCK_BYTES", "FIXED_BYTES", "CacheEntryHeader", "DamagedEntryError", "block_count", "cover", "identity_of"]

BLOCK_BYTES = 256 * 1024
_MAGIC = b"KRC1"
_FRONT = struct.Struct(">4sI")
_FIXED = struct.Struct(">4sI32sQQ")
FIXED_BYTES = _FIXED.size


class DamagedEntryError(Exception):
    """The file does not have the written bytes. The cache handles it as a miss and never raises it to callers."""


def identity_of(metadata: RemoteLogSegmentMetadata, location: LocationMetadata) -> bytes:
    """Returns the identity of a segment's bytes: a digest of 32 bytes of segment, object key and ETag."""
    segment = metadata.remote_log_segment_id
    parts = (
        segment.topic_id_partition.topic_id.bytes,
        str(segment.topic_id_partition.partition).encode(),
        segment.id.bytes,
        (location.object_key or "").encode(),
        (location.etag or "").encode(),
    )
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(4, "big") + part)
    return digest.digest()


def block_count(size: int) -> int:
    """Returns the number of blocks of ``size`` bytes."""
    return -(-size // BLOCK_BYTES)


@attrs.frozen
class CacheEntryHeader:
    """The header of bytes ``range`` of an object. ``checksums``: of its blocks."""

    identity: bytes
    range: ByteRange
    checksums: tuple[int, ...]

    @staticmethod
    def size_for(size: int) -> int:
        """Bytes of the header of an entry of ``size`` bytes."""
        return FIXED_BYTES + 4 * block_count(size)

    def encode(self) -> bytes:
        """The bytes of the module's table, up to the checksums."""
        body = _FIXED.pack(_MAGIC, 0, self.identity, self.range.start, self.range.end)[_FRONT.size :]
        body += struct.pack(f">{len(self.checksums)}I", *self.checksums)
        return _FRONT.pack(_MAGIC, crc32c.crc32c(body)) + body

    @classmethod
    def decode(cls, data: bytes, identity: bytes, wanted: ByteRange, file_size: int) -> CacheEntryHeader:
        """The header at the front of a file of ``file_size`` bytes that should be the entry of ``wanted``.

        Raises DamagedEntryError for anything else.
        """
        size = cls.size_for(wanted.size)
        if len(data) != size or file_size != size + wanted.size:
            raise DamagedEntryError
        magic, checksum, found, start, end = _FIXED.unpack_from(data)
        sound = magic == _MAGIC and checksum == crc32c.crc32c(data[_FRONT.size :])
        if not sound or (found, start, end) != (identity, wanted.start, wanted.end):
            raise DamagedEntryError
        return cls(identity, wanted, struct.unpack_from(f">{block_count(wanted.size)}I", data, FIXED_BYTES))


def cover(wanted: ByteRange, entries: Sequence[ByteRange]) -> list[ByteRange] | None:
    """Returns few of ``entries`` that together have all of ``wanted``, in order; ``None`` if there is a hole."""
    chosen: list[ByteRange] = []
    at = wanted.start
    while at < wanted.end:
        reaching = max((one for one in entries if one.start <= at < one.end), key=lambda one: one.end, default=None)
        if reaching is None:
            return None
        chosen.append(reaching)
        at = reaching.end
    return chosen
