"""Segments laid out as Aiven's plugin lays them out, from those of a tier in the layout of LocalTieredStorage."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import cramjam

from kafka_remote_client.errors import ObjectNotFoundError
from kafka_remote_client.model import RemoteLogSegmentMetadata, uuid_to_text
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.aiven.key_ring import KeyRing
from kafka_remote_client.remote_log.layout import ObjectKind
from tests.support.golden import golden_aiven
from tests.support.tier import LAYOUT

DATA_KEY = bytes(range(100, 132))
AAD = bytes(range(32))
IV = b"not random  "
_ATTRIBUTES_AT, _CODEC = 21, 0x07  # of a batch of magic 2
_INDEXES = {
    "offset": ObjectKind.OFFSET_INDEX,
    "timestamp": ObjectKind.TIME_INDEX,
    "producerSnapshot": ObjectKind.PRODUCER_SNAPSHOT,
    "leaderEpoch": ObjectKind.LEADER_EPOCH,
    "transaction": ObjectKind.TRANSACTION_INDEX,
}


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


def encode_sizes(sizes: Sequence[int]) -> str:
    """The text of ``transformedChunks`` for at least one stored size."""
    *others, last = sizes
    payload = struct.pack(">ii", len(sizes), last)
    if others:
        base = min(others)
        width = max(1, -(-(max(others) - base).bit_length() // 8))
        values = b"".join((value - base).to_bytes(width, "big") for value in others)
        payload = struct.pack(">iiB", len(sizes), base, width) + values + struct.pack(">i", last)
    return base64.b64encode(bytes(cramjam.zstd.compress(payload))).decode("ascii")


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
        manifest = {
            "version": "1",
            "chunkIndex": self._chunk_index(chunks, len(log)),
            "segmentIndexes": slices,
            "compression": self.compressed,
            **({"encryption": self.envelope.described()} if self.encrypted else {}),
            "remoteLogSegmentMetadata": described(segment),
        }
        main = self.prefix + main_path(segment)
        return {
            f"{main}.log": b"".join(chunks),
            f"{main}.indexes": indexes,
            f"{main}.rsm-manifest": json.dumps(manifest, separators=(",", ":")).encode(),
        }

    def _chunk_index(self, chunks: list[bytes], size: int) -> dict[str, Any]:
        common = {"originalChunkSize": self.chunk_size, "originalFileSize": size}
        if self.compressed:
            return {"type": "variable", **common, "transformedChunks": encode_sizes([len(chunk) for chunk in chunks])}
        full = self.chunk_size + (28 if self.encrypted else 0)
        return {"type": "fixed", **common, "transformedChunkSize": full, "finalTransformedChunkSize": len(chunks[-1])}

    def _indexes(self, store: RemoteObjectStore, segment: RemoteLogSegmentMetadata) -> tuple[bytes, dict[str, Any]]:
        joined, slices = b"", {}
        for name, kind in _INDEXES.items():
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


def main_path(segment: RemoteLogSegmentMetadata) -> str:
    """The part that the keys of a segment's objects have in common, without the prefix."""
    tip = segment.topic_id_partition
    directory = f"{tip.topic}-{uuid_to_text(tip.topic_id)}/{tip.partition}"
    return f"{directory}/{segment.start_offset:020d}-{uuid_to_text(segment.remote_log_segment_id.id)}"


def described(segment: RemoteLogSegmentMetadata) -> Mapping[str, Any]:
    """The part ``remoteLogSegmentMetadata`` of a manifest."""
    tip = segment.topic_id_partition
    return {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": uuid_to_text(tip.topic_id),
                "topicPartition": {"topic": tip.topic, "partition": tip.partition},
            },
            "id": uuid_to_text(segment.remote_log_segment_id.id),
        },
        "startOffset": segment.start_offset,
        "endOffset": segment.end_offset,
        "maxTimestampMs": segment.max_timestamp_ms,
        "brokerId": segment.broker_id,
        "eventTimestampMs": segment.event_timestamp_ms,
        "segmentLeaderEpochs": {str(entry.epoch): entry.start_offset for entry in segment.segment_leader_epochs},
        "txnIdxEmpty": segment.txn_index_empty,
    }
