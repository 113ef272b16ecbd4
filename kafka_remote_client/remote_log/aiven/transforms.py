"""Restores the bytes that Kafka wrote, chunk by chunk: decrypt, then decompress, then check the size.

::

    stored chunk     IV (12) | ciphertext | tag (16)     AES-256-GCM; data key and AAD are the segment's
                               └─ one zstd frame ─┘
    index            the same without zstd: an index is never compressed

The tag is checked before any byte is used. It does not identify the chunk: chunks in a wrong order are detected by their
batches, whose offsets then do not follow each other.

References: EncryptionChunkEnumeration, DecompressionChunkEnumeration of Aiven-Open/tiered-storage-for-apache-kafka; RFC 8878.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from kafka_remote_client.errors import CorruptChunkError, DataKeyError, missing_extra
from kafka_remote_client.records.compression import ZSTD, decompress_into
from kafka_remote_client.records.faults import BatchFault
from kafka_remote_client.remote_log.aiven.chunk_index import AES_OVERHEAD, ChunkEncoding

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["DATA_KEY_SIZE", "ChunkCipher", "ChunkTransform"]

DATA_KEY_SIZE = 32
_IV_SIZE = 12


class ChunkCipher:
    """AES-256-GCM with the data key of one segment. Thread safe. Its repr hides the key."""

    def __init__(self, data_key: bytes, aad: bytes) -> None:
        """Raises DataKeyError unless the key has 32 bytes, MissingExtraError without the package that decrypts."""
        if len(data_key) != DATA_KEY_SIZE:
            raise DataKeyError(f"a data key has {len(data_key)} bytes, not {DATA_KEY_SIZE}")
        self._cipher = _aes_gcm(data_key)
        self._aad = aad

    def decrypt(self, stored: bytes | bytearray | memoryview) -> bytes:
        """The decrypted bytes. Raises CorruptChunkError if the tag does not match."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - needs an extra, which is there by now

        if len(stored) < AES_OVERHEAD:
            raise CorruptChunkError(f"{len(stored)} bytes are too short for an encrypted chunk")
        try:
            with memoryview(stored) as view, view[_IV_SIZE:] as sealed:  # a slice of a bytearray would be a copy
                return self._cipher.decrypt(bytes(view[:_IV_SIZE]), sealed, self._aad)
        except InvalidTag:
            raise CorruptChunkError("a chunk fails authentication with the segment's data key") from None

    def __repr__(self) -> str:
        return "ChunkCipher()"


class ChunkTransform:
    """Decrypts and decompresses the chunks of one segment. Thread safe."""

    def __init__(self, encoding: ChunkEncoding, cipher: ChunkCipher | None) -> None:
        """Raises DataKeyError for an encrypted encoding without ``cipher``."""
        if encoding.encrypted and cipher is None:
            raise DataKeyError("the segment is encrypted and the location has no data key")
        self._compressed = encoding.compressed
        self._cipher = cipher if encoding.encrypted else None

    def restore(self, stored: bytes | bytearray | memoryview, target: memoryview) -> None:
        """Fills ``target``, which has the original size, with the restored chunk. Raises CorruptChunkError for damage."""
        data = stored if self._cipher is None else self._cipher.decrypt(stored)
        if not self._compressed:
            if len(data) != len(target):
                raise CorruptChunkError(f"a chunk has {len(data)} bytes, not {len(target)}")
            target[:] = data
            return
        try:
            size = decompress_into(_Target(target), ZSTD, memoryview(data), len(target))
        except BatchFault:
            raise CorruptChunkError(f"a chunk does not decompress to {len(target)} bytes") from None
        if size != len(target):
            raise CorruptChunkError(f"a chunk decompresses to {size} bytes, not {len(target)}")


@attrs.frozen(eq=False)
class _Target:
    """The arena of one chunk: memory of exactly its size (``records.compression.Arena``)."""

    memory: memoryview

    def reserve(self, size: int) -> memoryview:
        return self.memory[:size]

    def keep(self, size: int) -> None:
        """Does nothing: the caller owns the memory."""


def _aes_gcm(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM as Cipher  # noqa: PLC0415, N811 - needs an extra
    except ModuleNotFoundError as error:
        raise missing_extra("an encrypted segment", error, "aiven") from None
    return Cipher(key)
