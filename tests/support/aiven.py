"""Segments laid out as Aiven's plugin lays them out, from those of a tier in the layout of LocalTieredStorage."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import cramjam

from kafka_remote_client.errors import ObjectNotFoundError
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.aiven.key_ring import KeyRing
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.tiered_kafka.aiven_files import INDEX_NAMES, chunk_index, main_path, manifest
from tests.support.golden import golden_aiven
from tests.support.tier import LAYOUT

DATA_KEY = bytes(range(100, 132))
AAD = bytes(range(32))
IV = b"not random  "
_ATTRIBUTES_AT, _CODEC = 21, 0x07  # of a batch of magic 2


def private_key() -> bytes:
    """The key pair of the golden data, whose public half wraps DATA_KEY here, too."""
    return (golden_aiven("aiven-zstd-aes") / "keys" / "key1.private.der").read_bytes()


def key_ring() -> KeyRing:
    return KeyRing({"key1": private_key()})


def wrap(data_key: bytes) -> bytes:
    from Crypto.Cipher import PKCS1_OAEP
    from Crypto.Hash import SHA3_512
    from Crypto.PublicKey import RSA

    public = (golden_aiven("aiven-zstd-aes") / "keys" / "key1.public.der").read_bytes()
    return PKCS1_OAEP.new(RSA.import_key(public), hashAlgo=SHA3_512).encrypt(data_key)


def encrypt(data: bytes, *, data_key: bytes = DATA_KEY, aad: bytes = AAD, iv: bytes = IV) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return iv + AESGCM(data_key).encrypt(iv, data, aad)


@attrs.frozen
class Envelope:
    """What one segment is encrypted with. ``wrapped`` is the data key as the manifest has it, made here when it is not given.

    ``ivs`` are taken one by one, the log's chunks first, then the indexes; none: the same one for all, which a plugin must
    never do.
    """

    data_key: bytes = DATA_KEY
    aad: bytes = AAD
    wrapped: str | None = None
    ivs: Iterator[bytes] | None = None

    def seal(self, data: bytes) -> bytes:
        return encrypt(data, data_key=self.data_key, aad=self.aad, iv=IV if self.ivs is None else next(self.ivs))

    def described(self) -> dict[str, str]:
        """The part ``encryption`` of a manifest."""
        wrapped = self.wrapped or f"key1:{base64.b64encode(wrap(self.data_key)).decode()}"
        return {"dataKey": wrapped, "aad": base64.b64encode(self.aad).decode()}


def compress(chunk: bytes) -> bytes:
    """One zstd frame of the library's default level."""
    return bytes(cramjam.zstd.compress(chunk, level=3))


def stored_chunks(
    data: bytes,
    chunk_size: int,
    *,
    compressed: bool,
    encrypted: bool,
    envelope: Envelope = Envelope(),
    compress: Callable[[bytes], bytes] = compress,
) -> list[bytes]:
    """A log's chunks as they are stored."""
    chunks = [data[at : at + chunk_size] for at in range(0, len(data), chunk_size)] or [b""]
    if compressed:
        chunks = [compress(chunk) for chunk in chunks]
    return [envelope.seal(chunk) for chunk in chunks] if encrypted else chunks


@attrs.frozen
class AivenWriter:
    """``objects`` gives the three objects of a segment. Bytes are always the same, ``wrapped_key`` apart.

    ``heuristic``: a segment whose first batch its producer has compressed is not compressed again.
    """

    prefix: str = ""
    chunk_size: int = 100
    compressed: bool = False
    encrypted: bool = False
    heuristic: bool = False
    envelope: Envelope = Envelope()
    compress: Callable[[bytes], bytes] = compress

    def __str__(self) -> str:
        return "-".join(name for name in ("zstd", "heuristic", "aes") if self._does(name)) or "plain"

    def _does(self, name: str) -> bool:
        return {"zstd": self.compressed, "heuristic": self.heuristic, "aes": self.encrypted}[name]

    def objects(self, store: RemoteObjectStore, segment: RemoteLogSegmentMetadata) -> dict[str, bytes]:
        """Returns objects by key, from a store in the other layout."""
        log = store.get(LAYOUT.object_key(segment, ObjectKind.LOG))
        if self.heuristic and log[_ATTRIBUTES_AT + 1] & _CODEC:
            return attrs.evolve(self, compressed=False, heuristic=False).objects(store, segment)
        chunks = stored_chunks(
            log,
            self.chunk_size,
            compressed=self.compressed,
            encrypted=self.encrypted,
            envelope=self.envelope,
            compress=self.compress,
        )
        indexes, slices = self._indexes(store, segment)
        full = None if self.compressed else self.chunk_size + (28 if self.encrypted else 0)
        described = manifest(
            segment,
            chunk_index(self.chunk_size, len(log), [len(chunk) for chunk in chunks], full),
            slices,
            compressed=self.compressed,
            encryption=self.envelope.described() if self.encrypted else None,
        )
        main = self.prefix + main_path(segment)
        return {
            f"{main}.log": b"".join(chunks),
            f"{main}.indexes": indexes,
            f"{main}.rsm-manifest": described,
        }

    def _indexes(self, store: RemoteObjectStore, segment: RemoteLogSegmentMetadata) -> tuple[bytes, dict[str, Any]]:
        joined, slices = b"", {}
        for kind, name in ((ObjectKind[file.name], name) for file, name in INDEX_NAMES.items()):
            try:
                data = store.get(LAYOUT.object_key(segment, kind))
            except ObjectNotFoundError:
                if kind is not ObjectKind.TRANSACTION_INDEX:
                    raise
                slices[name] = None
                continue
            stored = self.envelope.seal(data) if self.encrypted and data else data
            slices[name] = {"position": len(joined), "size": len(stored)}
            joined += stored
        return joined, slices
