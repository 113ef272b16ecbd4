"""The private keys that decrypt the data keys of segments.

A manifest has ``<key id>:<base64>``: the segment's data key, encrypted with RSA-OAEP with SHA3-512, MGF1 with SHA3-512, and an
empty label. Key files are unencrypted PKCS#8, as PEM with any label or as DER. Old segments need old keys.

References: RsaEncryptionProvider, RsaKeyReader of Aiven-Open/tiered-storage-for-apache-kafka; RFC 8017 7.1, RFC 5958, RFC 7468.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from kafka_remote_client.errors import ConfigurationError, DataKeyError, missing_extra
from kafka_remote_client.remote_log.aiven.transforms import DATA_KEY_SIZE

__all__ = ["KeyRing"]

_PEM = re.compile(rb"-----BEGIN ([^-\r\n]+)-----(.+?)-----END \1-----", re.DOTALL)
_MAX_FILE = 64 * 1024
_MIN_BITS = 1296  # two SHA3-512 digests, the data key's 32 bytes and two more bytes


class _Decryptor(Protocol):
    def decrypt(self, ciphertext: bytes) -> bytes: ...


class KeyRing:
    """Private keys by id. Thread safe. Its repr has the ids only."""

    def __init__(self, keys: Mapping[str, bytes] | None = None) -> None:
        """``keys``: contents of key files. Raises ConfigurationError unless they are RSA private keys, MissingExtraError."""
        self._keys = {key_id: _decryptor(key_id, data) for key_id, data in (keys or {}).items()}

    @classmethod
    def of_files(cls, files: Mapping[str, str | os.PathLike[str]]) -> KeyRing:
        """Key ids and the paths of their private keys. Raises as the constructor, also for a file that cannot be read."""
        return cls({key_id: _contents(key_id, Path(path)) for key_id, path in files.items()})

    @property
    def key_ids(self) -> frozenset[str]:
        """The ids of the keys."""
        return frozenset(self._keys)

    def unwrap(self, key_id: str, wrapped: bytes) -> bytes:
        """The data key. Raises DataKeyError if the private key is missing or cannot decrypt it."""
        key = self._keys.get(key_id)
        if key is None:
            known = ", ".join(sorted(self._keys)) or "none"
            raise DataKeyError(
                f"a segment is encrypted for key {key_id!r}, whose private key is not configured; known keys: {known}"
            )
        try:
            data_key = key.decrypt(wrapped)
        except ValueError:
            raise DataKeyError(f"the private key {key_id!r} cannot decrypt the data key of a segment") from None
        if len(data_key) != DATA_KEY_SIZE:
            raise DataKeyError(f"the data key of a segment has {len(data_key)} bytes, not {DATA_KEY_SIZE}")
        return data_key

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(sorted(self._keys))})"


def _contents(key_id: str, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_FILE)
    except OSError as error:
        raise ConfigurationError(f"the private key {key_id!r} cannot be read: {error.strerror}: {path}") from None


def _decryptor(key_id: str, data: bytes) -> _Decryptor:
    try:
        from Crypto.Cipher import PKCS1_OAEP  # noqa: PLC0415 - needs an extra
        from Crypto.Hash import SHA3_512  # noqa: PLC0415 - needs an extra
        from Crypto.PublicKey import RSA  # noqa: PLC0415 - needs an extra
    except ModuleNotFoundError as error:
        raise missing_extra("an encrypted segment", error, "aiven") from None
    try:
        key = RSA.import_key(_der(data))
    except (ValueError, IndexError, TypeError):
        key = None
    if key is None or not key.has_private() or key.size_in_bits() < _MIN_BITS:
        raise ConfigurationError(
            f"{key_id!r} is not an unencrypted RSA private key of at least {_MIN_BITS} bits (PKCS#8, PEM or DER)"
        )
    return PKCS1_OAEP.new(key, hashAlgo=SHA3_512)


def _der(data: bytes) -> bytes:
    pem = _PEM.search(data)
    if pem is None:
        return data
    try:
        return base64.b64decode(b"".join(pem[2].split()), validate=True)
    except binascii.Error:
        return b""
