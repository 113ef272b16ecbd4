"""Snapshots of the metadata topic in memory, for tests of what uses them."""

from __future__ import annotations

import queue
from typing import Any

from kafka_remote_client.remote_log.metadata_snapshot import MetadataSnapshot, pack
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from tests.support.tier import TIP, metadata

__all__ = ["FakeSnapshots", "packed_segment"]


class FakeSnapshots:
    """Gives ``loaded`` once; ``written`` is what it was asked to write."""

    def __init__(self, loaded: MetadataSnapshot | None = None) -> None:
        self.loaded = loaded
        self.opened: list[int] = []
        self.loads = 0
        self.written: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self.closed = False

    def open(self, partition_count: int) -> None:
        self.opened.append(partition_count)

    def load(self, bounds: object) -> MetadataSnapshot | None:
        self.loads += 1
        return self.loaded

    def wanted(self, positions: object) -> bool:
        return self.written.empty()

    def write(self, positions: Any, contents: Any) -> None:
        self.written.put((positions, contents))

    def close(self) -> None:
        self.closed = True


def packed_segment(*, damaged: bool = False) -> bytes:
    """A partition with one copy in progress, as a snapshot has it; ``damaged``: without its last byte."""
    store = RemoteLogMetadataStore()
    store.apply(metadata(0, 9))
    cache = store.cache(TIP)
    assert cache is not None
    packed = pack(cache.contents())
    return packed[:-1] if damaged else packed
