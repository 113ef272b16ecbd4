"""The scheduler in virtual time: a model of store, processor and application executes its commands, without waiting.

::

    location   2 round trips                                  answered by arithmetic over one topic of equal batches
    Fetch      what the store's model says                    late, never or with a 503 where the model says so
    Decode     size / decoding rate, two cores                the real decoder, over real batches
    delivery   bytes / the application's rate, one thread     the application takes one block at a time, partitions in turn

Two runs with the same values have the same events, so the figures are exact, and no test measures a time.
"""

from __future__ import annotations

import functools
import itertools
import random
import struct
from collections.abc import Callable
from typing import Any

import attrs

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import RemoteStorageError, RemoteStorageThrottledError, RemoteStorageTimeoutError
from kafka_remote_client.fetch.commands import LocationBatch, Work
from kafka_remote_client.fetch.fetch_budget import FetchBudget
from kafka_remote_client.fetch.partition_read import Decode, Fetch, Locate, PartitionRead
from kafka_remote_client.fetch.range_sizes import RangeSizer, ReadAhead
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.scheduler import LOCATION_BATCHES, Scheduler
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import ByteRange, GrantedRange, IsolationLevel, PartitionOffsets, SegmentLocation
from kafka_remote_client.plugin import WritableBuffer
from kafka_remote_client.remote_log.window import range_size
from kafka_remote_client.testing import AnswerKind, FixedLatency, StoreModel, StoreSampler
from tests.support.batches import Rec, batch
from tests.support.event_queue import EventQueue
from tests.support.locations import ManualClock, location, segment

__all__ = ["Figures", "FixedNumber", "FixedSize", "VirtualReading", "distant"]

_TOTAL_BYTES_PER_SECOND = 2_500_000_000

_BATCH_VALUE_BYTES = 64 * 1024 - 100
_SEGMENT_BYTES = 1 << 30
_DECODE_BYTES_PER_SECOND = 2_000_000_000
_CORES = 2
_PEERS_LARGEST_RANGE = 8 << 20
_TICK_SECONDS = 0.25


@functools.cache
def _template() -> bytes:
    """A batch of one record at offset 0. Its CRC does not cover the offset, so copies of it may lie anywhere."""
    return batch(0, [Rec(value=bytes(_BATCH_VALUE_BYTES))])


def distant(round_trip: float, per_connection: float | None = None, **more: Any) -> StoreModel:
    """A store whose first byte takes ``round_trip`` seconds, over the bandwidth of a large machine; ``more`` of StoreModel."""
    return StoreModel(FixedLatency(round_trip), per_connection, _TOTAL_BYTES_PER_SECOND, **more)


@attrs.frozen
class Figures:
    """The result of a run: bytes delivered per virtual second, the time of the first block, GETs, and the most GETs in flight.

    ``hedges`` are among the GETs. ``ended``: why reads ended before all was delivered.
    """

    bytes_per_second: float
    first_seconds: float
    gets: int
    most_in_flight: int
    hedges: int = 0
    ended: tuple[str, ...] = ()


class FixedSize(RangeSizer):
    """Ranges of one size."""

    def __init__(self, range_bytes: int) -> None:
        super().__init__(range_bytes, 1.0, range_bytes)

    @property
    def range_bytes(self) -> int:
        return self.maximum


class FixedNumber(ReadAhead):
    """Always the maximum number of ranges in flight."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._number = number

    def in_flight(self, range_bytes: int) -> int:
        return self._number


class _Buffers:
    """A pool of memory for ranges."""

    def __init__(self) -> None:
        self._free: list[WritableBuffer] = []

    def take(self, size: int) -> WritableBuffer:
        for number, buffer in enumerate(self._free):
            if len(buffer) >= size:
                return self._free.pop(number)
        return bytearray(size)

    def give_back(self, buffer: WritableBuffer) -> None:
        self._free.append(buffer)


class VirtualReading:
    """Reads ``partitions`` of equal topics.

    ``range_bytes``: ranges always have that size, and always as many fly as ``config`` allows. ``None``: both follow from what
    is measured, as in the product.
    """

    def __init__(
        self,
        config: RemoteFetchConfig,
        store: StoreModel,
        *,
        seed: int = 0,
        partitions: int = 1,
        application_bytes_per_second: float = 1_000_000_000,
        range_bytes: int | None = None,
    ) -> None:
        self._store = StoreSampler(store, seed)
        self._config = config
        self._application = application_bytes_per_second
        self._partitions = partitions
        self._clock = ManualClock(0.0)
        self._buffers = _Buffers()
        budget = FetchBudget(config)
        if range_bytes is not None:
            budget.sizer, budget.read_ahead = FixedSize(range_bytes), FixedNumber(config.max_in_flight)
        self._metrics = FetchMetrics(self._clock)
        self._scheduler = Scheduler(config, budget, self._metrics, self._buffers.give_back)
        self._idle = config.max_in_flight + LOCATION_BATCHES
        self._cores = [0.0] * _CORES
        self._trips = random.Random(seed)
        self._flying = self._most_flying = self._gets = 0
        self._events: EventQueue[Callable[[], None]] = EventQueue()
        self._reads: list[PartitionRead] = []
        self._busy = False
        self._turn = 0
        self._delivered = 0
        self._first: float | None = None
        self._ended: list[str] = []

    @property
    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self._clock.now

    def change(self, store: StoreModel) -> None:
        """Changes the model of the store for later requests."""
        self._store.model = store

    def at(self, seconds: float, event: Callable[[], None]) -> None:
        """``event`` happens at that time."""
        self._after(seconds - self._clock.now, event)

    def run(self, megabytes: int = 2_000) -> Figures:
        """Runs until that many MiB are delivered. Raises AssertionError if reading stalls."""
        for number in range(self._partitions):
            self._reads.append(self._open(number, 0))
        while self._delivered < megabytes << 20:
            self._dispatch()
            self._deliver()
            self._advance()
        assert self._first is not None
        hedges = self._metrics.snapshot()["remote-fetch-hedges-total"]
        assert isinstance(hedges, int)
        return Figures(
            self._delivered / self._clock.now, self._first, self._gets, self._most_flying, hedges, tuple(self._ended)
        )

    def _after(self, seconds: float, event: Callable[[], None]) -> None:
        self._events.add(self._clock.now + seconds, event)

    def _advance(self) -> None:
        """Moves the clock to the next event, or to the time at which the scheduler wants a call."""
        tick = self._scheduler.patience(self._clock.now, _TICK_SECONDS) if self._idle else _TICK_SECONDS
        at = self._clock.now + (_TICK_SECONDS if tick is None else max(tick, 1e-6))
        if self._events.next_at <= at:
            self._clock.now, event = self._events.pop()
            event()
            return
        assert self._events or self._scheduler.has_work or tick is not None, "no event is scheduled"
        self._clock.now = at

    def _dispatch(self) -> None:
        while self._idle and (command := self._scheduler.next_command(self._clock.now)) is not None:
            self._idle -= 1
            self._carry_out(command)

    def _carry_out(self, command: Work) -> None:
        if isinstance(command, LocationBatch):
            trips = self._store.model.latency
            self._after(sum(trips.sample(self._trips) for _ in range(2)), functools.partial(self._located, command))
        elif isinstance(command, Fetch):
            self._gets += 1
            self._flying += 1
            self._most_flying = max(self._most_flying, self._flying)
            self._request(command)
        else:
            core = min(range(_CORES), key=self._cores.__getitem__)
            began = max(self._clock.now, self._cores[core])
            self._cores[core] = began + command.range.size / _DECODE_BYTES_PER_SECOND
            self._after(self._cores[core] - self._clock.now, functools.partial(self._decoded, command, began))

    def _request(self, command: Fetch) -> None:
        """Schedules the store's answer, or the read time-out."""
        answer = self._store.answer(command.range.size, self._flying, self._clock.now)
        longest = self._config.read_timeout_ms / 1000
        if answer.kind is AnswerKind.THROTTLED:
            error: RemoteStorageError = RemoteStorageThrottledError("503")
            self._after(answer.first_byte_seconds, functools.partial(self._failed, command, error))
        elif answer.seconds > longest:
            self._after(longest, functools.partial(self._failed, command, RemoteStorageTimeoutError("no answer")))
        else:
            command.answered_at = self._clock.now + answer.first_byte_seconds
            self._after(answer.seconds, functools.partial(self._landed, command, answer.seconds))

    def _failed(self, command: Fetch, error: RemoteStorageError) -> None:
        self._idle += 1
        self._flying -= 1
        self._scheduler.failed(command, 0, error, self._clock.now)

    def _located(self, batch: LocationBatch) -> None:
        self._idle += 1
        for command in batch.locates:
            found = _where(command, range_size(command.window, command.range_bytes, _PEERS_LARGEST_RANGE))
            self._scheduler.located(command, found, command.offset, PartitionOffsets(), self._clock.now)

    def _landed(self, command: Fetch, seconds: float) -> None:
        self._idle += 1
        self._flying -= 1
        if command.overtaken:
            self._scheduler.overtaken(command, 0)
            return
        lease = command.lease
        assert lease is not None
        lease.buffer = self._buffers.take(command.range.size)
        _fill(lease.buffer, command.range.granted.range, command.grant.location.metadata.start_offset)
        self._scheduler.landed(command, seconds, self._clock.now)

    def _decoded(self, command: Decode, began: float) -> None:
        self._idle += 1
        blocks = list(command.grant.decode(command.range, borrow=command.read.borrow))
        self._scheduler.decoded(command, blocks, None, began=began, now=self._clock.now, jitter=0.5)

    def _deliver(self) -> None:
        """The application takes the next block of the partition whose turn it is."""
        if self._busy:
            return
        for ahead in range(len(self._reads)):
            read = self._reads[(self._turn + ahead) % len(self._reads)]
            if not read.has_ready:
                continue
            item = self._scheduler.taken(read, self._clock.now)
            assert item is not None
            if isinstance(item, ReadEnd):
                self._restart(read, item)
                continue
            self._turn = (self._turn + ahead + 1) % len(self._reads)
            self._first = self._clock.now if self._first is None else self._first
            self._delivered += item.nbytes
            self._busy = True
            self._after(item.nbytes / self._application, functools.partial(self._used, read))
            return

    def _restart(self, read: PartitionRead, end: ReadEnd) -> None:
        """The broker would continue from here. The read starts again immediately, so that only the store is measured."""
        self._ended.append(end.reason)
        self._scheduler.stopped(read, self._clock.now)
        again = self._open(read.partition, end.next_offset)
        self._reads[self._reads.index(read)] = again

    def _open(self, partition: int, offset: int) -> PartitionRead:
        options = {"isolation_level": IsolationLevel.READ_UNCOMMITTED, "borrow": True}
        read = PartitionRead(self._scheduler.shared, ReadRequest("virtual", partition, offset, **options))
        self._scheduler.opened(read)
        return read

    def _used(self, read: PartitionRead) -> None:
        self._busy = False
        self._scheduler.released(read, self._clock.now)


def _where(command: Locate, range_bytes: int) -> SegmentLocation:
    """The window at an offset of a topic whose batches are all equal and whose segments are as long as they may be."""
    size = len(_template())
    batches = _SEGMENT_BYTES // size
    base = command.offset // batches * batches
    first = command.offset - base
    last = min(batches, first + max(1, command.window // size))
    step = max(1, range_bytes // size)
    cuts = [*range(first, last, step), last]
    return location(
        metadata=segment(start_offset=base, end_offset=base + batches - 1, segment_size_in_bytes=batches * size),
        fetch_offset=command.offset,
        ranges=tuple(GrantedRange(ByteRange(one * size, two * size)) for one, two in itertools.pairwise(cuts)),
        next_offset=base + last,
    )


def _fill(buffer: WritableBuffer, wanted: ByteRange, base_offset: int) -> None:
    """Writes the batches of the range of the segment that begins at ``base_offset`` to the buffer."""
    template = _template()
    for number in range(wanted.start // len(template), wanted.end // len(template)):
        at = number * len(template) - wanted.start
        memoryview(buffer)[at : at + len(template)] = template
        struct.pack_into(">q", buffer, at, base_offset + number)
