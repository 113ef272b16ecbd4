"""How long the look-up of a grant takes in partitions of many segments: ``RemoteSegmentResolver.resolve``, store in memory.

    python tests/benchmarks/grant_lookup.py [--json] [--segments 100,1000,10000,100000] [--rounds 5]

Objects are in the resolver's cache, as they are in a shim that serves a reader, so that what is measured is the search. Each
cell is the median of calls at offsets all over the partition, in microseconds; sizes take turns within a round.

* ``lineage``: the newest segment, whose checkpoint is the log's lineage.
* ``resolve``: a whole grant for ``read_committed``; ``resolve, 40 epochs`` in a partition that changed its leader often.
* ``below the tier``: the answer for an offset that retention took away, which asks for the tier's start.
* ``over the smallest``: resolve at the largest size over that at the smallest; 1 means that size does not count.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from kafka_remote_client.model import EpochEntry, RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataUpdate
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment
from tests.support.questions import tier_question
from tests.support.tier import TIP, MemoryStore, batch, checkpoint, metadata, snapshot

_LAYOUT = LocalTieredStorageLayout()
_RECORDS = 10
_CALLS = 200


class Partition:
    """A partition of ``segments`` segments with ``epochs`` leaders. Objects exist for the requested segments."""

    def __init__(self, segments: int, epochs: int) -> None:
        self.segments = segments
        self.store = MemoryStore()
        self.cache = RemoteLogMetadataCache(TopicIdPartition(UUID(int=1), "orders", 0))
        self.resolver = RemoteSegmentResolver(self.store, _LAYOUT)
        self._per_epoch = -(-segments // epochs)
        self._lineage = [(n, n * self._per_epoch * _RECORDS) for n in range(-(-segments // self._per_epoch))]
        began = time.perf_counter()
        self.asked = [1 + n * (segments - 1) // _CALLS for n in range(_CALLS)]
        for number in range(1, segments):  # retention deleted the first one
            self._add(number)
        self.built = time.perf_counter() - began
        for number in {*self.asked, segments - 1}:
            self._store(number)

    def lineage(self) -> float:
        return self._timed(lambda _: self.resolver.lineage(self.cache))

    def resolve(self) -> float:
        def call(offset: int) -> None:
            found = self._resolve(offset)
            assert isinstance(found, ResolvedSegment), found

        return self._timed(call)

    def below(self) -> float:
        return self._timed(lambda _: self._resolve(0))

    def _resolve(self, offset: int) -> object:
        return self.resolver.resolve(self.cache, tier_question(TIP, offset, max_bytes=1 << 20, range_bytes=1 << 20))

    def _timed(self, call: Callable[[int], object]) -> float:
        took = []
        for number in self.asked:
            began = time.perf_counter()
            call(number * _RECORDS + 3)
            took.append(time.perf_counter() - began)
        return statistics.median(took) * 1e6

    def _metadata(self, number: int) -> Any:
        start = number * _RECORDS
        epoch = number // self._per_epoch
        return metadata(
            start,
            start + _RECORDS - 1,
            number=number + 1,
            epochs=[(epoch, start)],
            segment_size_in_bytes=len(self._batch(number)),
            txn_index_empty=True,
        )

    def _batch(self, number: int) -> bytes:
        return batch(number * _RECORDS, _RECORDS, epoch=number // self._per_epoch)

    def _add(self, number: int) -> None:
        segment = self._metadata(number)
        self.cache.add_copy_in_progress_segment(segment)
        self.cache.update_remote_log_segment_metadata(
            RemoteLogSegmentMetadataUpdate(segment.remote_log_segment_id, 1, 0, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
        )

    def _store(self, number: int) -> None:
        segment = self._metadata(number)
        epochs = [EpochEntry(*entry) for entry in self._lineage if entry[1] <= segment.end_offset]
        for kind, data in (
            (ObjectKind.LOG, self._batch(number)),
            (ObjectKind.OFFSET_INDEX, b""),
            (ObjectKind.LEADER_EPOCH, checkpoint(*((entry.epoch, entry.start_offset) for entry in epochs))),
            (ObjectKind.PRODUCER_SNAPSHOT, snapshot()),
        ):
            self.store.objects[_LAYOUT.object_key(segment, kind)] = data


def cells(sizes: list[int], rounds: int) -> dict[str, Any]:
    plain = {size: Partition(size, 1) for size in sizes}
    epochs = {size: Partition(size, 40) for size in sizes}
    jobs: dict[str, Callable[[int], float]] = {
        "lineage": lambda size: plain[size].lineage(),
        "resolve": lambda size: plain[size].resolve(),
        "resolve, 40 epochs": lambda size: epochs[size].resolve(),
        "below the tier": lambda size: plain[size].below(),
    }
    took: dict[str, dict[int, list[float]]] = {name: {size: [] for size in sizes} for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            for size in sizes:
                took[name][size].append(job(size))
    medians = {name: {size: statistics.median(each) for size, each in by.items()} for name, by in took.items()}
    return {
        "microseconds": {name: {str(size): round(value, 1) for size, value in by.items()} for name, by in medians.items()},
        "over the smallest": {name: round(by[sizes[-1]] / by[sizes[0]], 2) for name, by in medians.items()},
        "microseconds to add a segment": {str(size): round(plain[size].built / size * 1e6, 1) for size in sizes},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--segments", default="100,1000,10000,100000", help="sizes, rising")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    found = cells([int(size) for size in options.segments.split(",")], options.rounds)
    about = {"python": platform.python_version(), "machine": platform.machine()}
    print(json.dumps({**about, **found}, indent=None if options.json else 1))


if __name__ == "__main__":
    main()
