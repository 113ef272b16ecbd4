"""The tier that stores.py reads: one partition, in Kafka's own form and in Aiven's, in a directory and on an S3 server."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path

import attrs

from kafka_remote_client.remote_log.aiven.layout import AivenLayout
from kafka_remote_client.remote_log.layout import ObjectLayout
from tests.support import batches
from tests.support.aiven import AivenWriter, key_ring
from tests.support.tier import LAYOUT, TIP, Tier

__all__ = ["MODES", "StoredTier", "layout_of", "write_tier"]

CHUNK_BYTES = 4 * 1024 * 1024
"""Aiven's default."""

_RECORD_BYTES = 1000
_BATCH_RECORDS = 64
_TEMPLATES = 128
_WRITERS: dict[str, AivenWriter | None] = {
    "raw": None,
    "zstd": AivenWriter(chunk_size=CHUNK_BYTES, compressed=True),
    "aes-zstd": AivenWriter(chunk_size=CHUNK_BYTES, compressed=True, encrypted=True),
}
MODES = tuple(_WRITERS)


@attrs.frozen
class StoredTier:
    """``objects``: for each mode the logs, as (key, bytes in the store). ``segment_bytes``: of each as Kafka wrote it."""

    records: int
    segment_bytes: Sequence[int]
    objects: dict[str, list[tuple[str, int]]]


def layout_of(mode: str) -> ObjectLayout:
    """The layout that reads what :func:`write_tier` wrote for ``mode``."""
    return LAYOUT if mode == "raw" else AivenLayout(key_ring=key_ring())


def write_tier(directory: Path, segments: int, segment_bytes: int) -> StoredTier:
    """Writes ``segments`` below ``directory/<mode>``. Values compress to about a third, as JSON does."""
    templates = [_template(random.Random(number)) for number in range(_TEMPLATES)]
    stored: dict[str, list[tuple[str, int]]] = {mode: [] for mode in MODES}
    base, sizes = 0, []
    for number in range(1, segments + 1):
        tier, made, size = Tier(), [], 0
        while size < segment_bytes:
            raw = bytearray(templates[len(made) % _TEMPLATES])
            struct.pack_into(">q", raw, 0, base)  # the checksum does not cover it
            made.append(bytes(raw))
            base += _BATCH_RECORDS
            size += len(raw)
        segment = tier.add(made, number=number, indexed=range(1, len(made)), lineage=[(0, 0)])
        objects = dict(tier.store.objects)
        sizes.append(size)
        for mode, writer in _WRITERS.items():
            of_mode = objects if writer is None else writer.objects(tier.store, segment)
            for key, data in of_mode.items():
                path = directory / mode / key
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                if key.endswith(".log"):
                    stored[mode].append((key, len(data)))
    return StoredTier(base, sizes, stored)


def _template(source: random.Random) -> bytes:
    words = [bytes(source.choices(b"abcdefghijklmnopqrstuvwxyz0123456789", k=source.randint(3, 12))) for _ in range(600)]
    records = []
    for number in range(_BATCH_RECORDS):
        value = b" ".join(source.choices(words, k=200))[:_RECORD_BYTES]
        records.append(batches.Rec(offset=number, value=value.ljust(_RECORD_BYTES)))
    return batches.batch(0, records)


TOPIC = TIP.topic
PARTITION = TIP.partition
