"""One measurement of the fetch engine over a synthetic tier, in a process of its own.

The engine, the presigned fetcher, HTTP, decoder and checksums are the product's. Locations are computed, after two round trips.
The application takes blocks and reads no record. The task comes on standard input as JSON, figures go to standard
output. ``seconds``: reading stops after that; ``warm_seconds`` of it are not counted.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.remote_reader import RemoteReader
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel, LocationAnswer, NotRemote, PartitionOffsets
from kafka_remote_client.registry import load_fetcher
from tests.benchmarks.synthetic_tier import BATCH_BYTES, TOPIC, SyntheticTier, signer_of
from tests.support.one_by_one import answer_each
from tests.support.virtual_reading import FixedNumber, FixedSize

__all__ = ["memory"]

_WAIT_SECONDS = 0.1


class ArithmeticSource:
    """A LocationSource over a synthetic tier. Each answer takes two round trips."""

    def __init__(self, tier: SyntheticTier, url: str, latency: float) -> None:
        self._tier = tier
        self._signer = signer_of(url)
        self._latency = latency

    def locate(self, questions: Sequence[LocationQuestion], deadline: Deadline) -> Mapping[LocationQuestion, LocationAnswer]:
        time.sleep(2 * self._latency)
        return answer_each(questions, self._answer)

    def _answer(self, question: LocationQuestion) -> LocationAnswer:
        wanted = question.max_bytes, question.range_bytes
        found = self._tier.locate(question.partition, question.offset, *wanted, self._signer)
        return NotRemote("local", self._bounds) if found is None else found

    @property
    def _bounds(self) -> PartitionOffsets:
        end = self._tier.segments * self._tier.batches
        return PartitionOffsets(log_start=0, earliest_local=end, latest_tiered=end - 1, high_watermark=end)

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        return self._bounds

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        return dict.fromkeys(partitions, self._bounds)

    def close(self) -> None:
        """Does nothing: there is nothing to release."""


@attrs.define
class _Application:
    """Takes blocks of partitions in turn."""

    engine: FetchEngine
    ready: deque[int] = attrs.field(factory=deque)
    readers: list[RemoteReader] = attrs.field(factory=list)
    delivered: int = 0
    ended: int = 0
    most_in_flight: int = 0

    def open(self, partitions: int) -> None:
        for number in range(partitions):
            tell = partial(self.ready.append, number)
            level = IsolationLevel.READ_UNCOMMITTED
            self.readers.append(
                self.engine.reader(ReadRequest(TOPIC, number, 0, isolation_level=level, borrow=True), on_ready=tell)
            )

    def run(self, until: float) -> None:
        """Runs until all readers have ended, or until that time."""
        while self.ended < len(self.readers) and time.perf_counter() < until:
            if not self.ready:
                self.engine.wait(_WAIT_SECONDS)
                continue
            number = self.ready.popleft()
            reader = self.readers[number]
            item = reader.take()
            if isinstance(item, ReadEnd):
                assert item.error is None, item
                self.ended += 1
            elif item is not None:
                self.delivered += len(item) * BATCH_BYTES
                self.most_in_flight = max(self.most_in_flight, self.engine._scheduler.in_flight)
                reader.release()
                if reader.has_ready:
                    self.ready.append(number)


def read(task: dict[str, Any]) -> dict[str, Any]:
    """The figures of a read."""
    tier = SyntheticTier(**task["tier"])
    number = task.get("in_flight")
    options = {
        "remote.storage.fetcher.allow.http": True,
        "remote.storage.fetcher.allow.private.addresses": True,
        "remote.storage.fetcher.allowed.hosts": urlsplit(task["url"]).netloc,
    }
    more = {} if number is None else {"max_in_flight": number}
    config = RemoteFetchConfig(enabled=True, fetcher_class="presigned", fetcher_options=options, **more)
    clock = SystemClock()
    metrics = FetchMetrics(clock)
    source = ArithmeticSource(tier, task["url"], task["latency"])
    engine = FetchEngine(source, load_fetcher(config), config, clock=clock, metrics=metrics)
    if number is not None:
        budget = engine._scheduler.budget
        budget.sizer, budget.read_ahead = FixedSize(task["range_bytes"]), FixedNumber(number)
    held = memory("VmRSS")
    application = _Application(engine)
    began, used = time.perf_counter(), time.process_time()
    application.open(tier.partitions)
    application.run(began + task.get("warm_seconds", 0.0))
    warmed, before = time.perf_counter(), application.delivered
    application.run(began + task["seconds"])
    ended = time.perf_counter()
    engine.close()
    counted = metrics.snapshot()
    return {
        "seconds": ended - began,
        "cpu_seconds": time.process_time() - used,
        "bytes": application.delivered,
        "bytes_per_second": (application.delivered - before) / (ended - warmed) if ended > warmed else 0.0,
        "finished": application.ended == tier.partitions,
        "most_in_flight": application.most_in_flight,
        "peak_bytes": memory("VmHWM") - held,
        "budget_bytes": config.buffer_memory,
        "gets": counted["remote-fetch-request-total"],
        "hedges": counted["remote-fetch-hedges-total"],
        "locations": counted["remote-fetch-location-request-total"],
        "errors": counted["remote-fetch-errors-total"],
    }


def memory(name: str) -> int:
    """Bytes, by the name in /proc. Not ru_maxrss: that one remembers the process that this one was forked from."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    print(json.dumps(read(json.load(sys.stdin))))
