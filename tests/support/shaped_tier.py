"""A tier in a directory with segments of chosen shape: sizes of segments and batches, transactions, layout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from kafka_remote_client.model import TopicPartition
from tests.support.aiven import AivenWriter
from tests.support.tier import TIP, Tier, batch

__all__ = ["PARTITION", "Shape", "ShapedTier", "write_tier"]

PARTITION = TopicPartition(TIP.topic, TIP.partition)
_INDEX_INTERVAL = 4096
_ABORTED_PRODUCER = 9


@attrs.frozen
class Shape:
    """Approximate sizes in bytes. ``chunk_size``: in chunks, of Aiven's plugin. ``aborted_every``: each n-th batch is of a
    transaction that is aborted immediately.
    """

    segments: int = 3
    segment_bytes: int = 3 << 20
    batch_records: int = 16
    record_bytes: int = 1000
    chunk_size: int | None = None
    aborted_every: int | None = None


@attrs.frozen
class ShapedTier:
    """``end``: the offset after its last one. ``bounds``: the first offset of each segment, and ``end``."""

    options: dict[str, str]
    bounds: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.bounds[-1]


def write_tier(directory: Path, shape: Shape) -> ShapedTier:
    """Writes a tier of one partition, PARTITION, below ``directory``."""
    tier, offset, bounds = Tier(), 0, [0]
    for number in range(1, shape.segments + 1):
        batches, aborted, offset = _batches(shape, offset)
        tier.add(batches, number=number, indexed=_indexed(batches), aborted=aborted)
        bounds.append(offset)
    objects: dict[str, bytes] = dict(tier.store.objects)
    if shape.chunk_size is not None:
        writer = AivenWriter("", shape.chunk_size, compressed=True)
        objects = {}
        for segment in tier.cache.list_all_remote_log_segments():
            objects |= writer.objects(tier.store, segment)
    for key, data in objects.items():
        file = directory / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "subscribe": PARTITION.topic,
        "kafka.isolation.level": "read_committed",
        "fetch.remote.location.source": "listing",
        "fetch.remote.listing.broker": "false",
        "remote.storage.store.url": directory.as_uri(),
        "remote.storage.store.layout": "local-tiered-storage" if shape.chunk_size is None else "aiven",
        "remote.onFallback": "fail",
        "fetch.remote.hedge.max.percent": "0",  # a hedge is one more GET, and depends on times
    }
    return ShapedTier(options, tuple(bounds))


def _batches(shape: Shape, offset: int) -> tuple[list[bytes], list[tuple[int, int, int, int]], int]:
    """Returns the batches of one segment, its aborted transactions, and the offset after it."""
    batches: list[bytes] = []
    aborted: list[tuple[int, int, int, int]] = []
    size = 0

    def add(made: bytes, offsets: int) -> None:
        nonlocal offset, size
        batches.append(made)
        offset += offsets
        size += len(made)

    while size < shape.segment_bytes:
        every = shape.aborted_every
        if every is not None and len(batches) % every == every - 1:
            first = offset
            add(
                batch(offset, shape.batch_records, payload=shape.record_bytes, producer_id=_ABORTED_PRODUCER),
                shape.batch_records,
            )
            add(batch(offset, marker="abort", producer_id=_ABORTED_PRODUCER), 1)
            aborted.append((_ABORTED_PRODUCER, first, offset - 1, offset))
        add(batch(offset, shape.batch_records, payload=shape.record_bytes), shape.batch_records)
    return batches, aborted, offset


def _indexed(batches: Sequence[bytes]) -> list[int]:
    """Returns the index entries of a broker with its default interval."""
    found, unindexed = [], 0
    for number, made in enumerate(batches):
        if unindexed > _INDEX_INTERVAL:
            found.append(number)
            unindexed = 0
        unindexed += len(made)
    return found
