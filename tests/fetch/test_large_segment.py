"""A segment above 4 GiB is read where its index says, without the bytes between, beside a small one of the same topic."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import attrs
import pytest

from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.tier_reader import TierReader
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.plugin import ObjectInfo
from kafka_remote_client.remote_log.layout import ObjectKind
from tests.support.tier import LAYOUT, TIP, MemoryStore, Tier, batch, offset_entries

PATIENCE = 60.0
HOLE = (4 << 30) + 12_345
RECORDS = 10
MOST_BYTES = 1 << 20


class SparseStore(MemoryStore):
    """Serves ``HOLE`` zeros after the first ``head`` bytes of one object, and counts all bytes that it serves."""

    def __init__(self, plain: MemoryStore, key: str, head: int) -> None:
        super().__init__()
        self.objects, self.key, self.head, self.served = plain.objects, key, head, 0

    def get(self, key: str) -> bytes:
        assert key != self.key, "the large object is never read as a whole"
        return self._counted(super().get(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        if key != self.key:
            return self._counted(super().get_range(key, start, end))
        assert end - start <= MOST_BYTES
        data, gap_end = self.objects[key], self.head + HOLE
        head = data[start : min(end, self.head)] if start < self.head else b""
        zeros = bytes(max(0, min(end, gap_end) - max(start, self.head)))
        tail = data[max(0, start - gap_end) + self.head : end - HOLE] if end > gap_end else b""
        return self._counted(head + zeros + tail)

    def size(self, key: str) -> int:
        return super().size(key) + HOLE * (key == self.key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        for info in super().list(prefix):
            yield attrs.evolve(info, size=self.size(info.key))

    def _counted(self, data: bytes) -> bytes:
        self.served += len(data)
        return data


@pytest.fixture
def store() -> SparseStore:
    """Offsets 0 to 199 in a small segment with 8-byte entries, 200 to 399 in a large one with 12-byte entries."""
    tier = Tier()
    tier.add([batch(n, RECORDS) for n in range(0, 200, RECORDS)], number=1, indexed=range(1, 20))
    batches = [batch(n, RECORDS) for n in range(200, 400, RECORDS)]
    large = tier.add(batches, number=2)
    sizes = [len(raw) for raw in batches]
    positions = [sum(sizes[:n]) + HOLE * (n >= 10) for n in range(20)]
    entries = [(RECORDS * (n + 1) - 1, positions[n]) for n in range(1, 20)]
    tier.put(large, ObjectKind.OFFSET_INDEX, b"".join(struct.pack(">iq", *entry) for entry in entries))
    assert len(offset_entries((1, 1))) == 8
    return SparseStore(tier.store, LAYOUT.object_key(large, ObjectKind.LOG), sum(sizes[:10]))


def read(store: SparseStore, start: int, end: int) -> list[int]:
    offsets: list[int] = []
    with TierReader(store, ListingLocationSource(store, LAYOUT)) as tier:
        assert tier.bounds(TIP.topic, TIP.partition).high_watermark == 400
        reader = tier.read(TIP.topic, TIP.partition, start, end, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        for item in reader.blocks(PATIENCE):
            if isinstance(item, ReadEnd):
                return offsets
            offsets += [row[0] for row in item.rows()]
    raise AssertionError("no end")


@pytest.mark.parametrize(("start", "end"), [(300, 400), (345, 360), (150, 200), (0, 270), (199, 215)])
def test_both_formats_are_read_in_one_topic_with_few_bytes(store: SparseStore, start: int, end: int) -> None:
    assert read(store, start, end) == list(range(start, end))
    assert store.served < 4 * MOST_BYTES
