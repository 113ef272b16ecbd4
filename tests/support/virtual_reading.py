"""The scheduler in virtual time: a model of store, processor and application carries out its commands, and nobody waits.

::

    location   2 round trips                                  answered by arithmetic over one topic of equal batches
    Fetch      1 round trip + size / bandwidth                a share of the store's bandwidth, at most a connection's own
    Decode     size / decoding rate, two cores                the real decoder, over real batches
    delivery   bytes / the application's rate, one thread     the application takes one block at a time, partitions in turn

Two runs with the same values are equal to the last event, so figures from here are exact, and no test measures a time.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import struct
from collections.abc import Callable

import attrs

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.fetch.commands import LocationBatch, Work
from kafka_remote_client.fetch.fetch_budget import FetchBudget
from kafka_remote_client.fetch.partition_read import Decode, Fetch, Locate, PartitionRead
from kafka_remote_client.fetch.plan import RangeSizer, ReadAhead
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.scheduler import LOCATION_BATCHES, Scheduler
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import ByteRange, GrantedRange, IsolationLevel, PartitionOffsets, SegmentLocation
from kafka_remote_client.plugin import WritableBuffer
from kafka_remote_client.remote_log.window import range_size
from tests.support.batches import Rec, batch
from tests.support.locations import ManualClock, location, segment

__all__ = ["Figures", "StoreTimes", "VirtualReading"]

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


@attrs.frozen
class StoreTimes:
    """``round_trip`` in seconds; bandwidths in bytes per second, ``None`` = no bound."""

    round_trip: float
    per_connection: float | None = None
    total: float | None = 2_500_000_000

    def seconds(self, size: int, in_flight: int) -> float:
        """From the request for ``size`` bytes to the last of them, one of ``in_flight`` transfers."""
        share = None if self.total is None else self.total / in_flight
        rates = [rate for rate in (self.per_connection, share) if rate is not None]
        return self.round_trip + (size / min(rates) if rates else 0.0)


@attrs.frozen
class Figures:
    """What a run came to: bytes delivered per virtual second, the time of the first block, GETs and their most at once."""

    bytes_per_second: float
    first_seconds: float
    gets: int
    most_in_flight: int


class _FixedSize(RangeSizer):
    """Ranges of one size."""

    def __init__(self, range_bytes: int) -> None:
        super().__init__(range_bytes, 1.0, range_bytes)

    @property
    def range_bytes(self) -> int:
        return self.maximum


class _FixedNumber(ReadAhead):
    """Always as many ranges as may fly."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._number = number

    def in_flight(self, range_bytes: int) -> int:
        return self._number

    def wanted_bytes(self, range_bytes: int) -> None:
        return None


class _Buffers:
    """Memory for ranges, used again."""

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
        store: StoreTimes,
        *,
        partitions: int = 1,
        application_bytes_per_second: float = 1_000_000_000,
        range_bytes: int | None = None,
    ) -> None:
        self._store = store
        self._application = application_bytes_per_second
        self._partitions = partitions
        self._clock = ManualClock(0.0)
        self._buffers = _Buffers()
        budget = FetchBudget(config)
        if range_bytes is not None:
            budget.sizer, budget.read_ahead = _FixedSize(range_bytes), _FixedNumber(config.max_in_flight)
        self._scheduler = Scheduler(config, budget, FetchMetrics(self._clock), self._buffers.give_back)
        self._idle = config.max_in_flight + LOCATION_BATCHES
        self._cores = [0.0] * _CORES
        self._flying = self._most_flying = self._gets = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._reads: list[PartitionRead] = []
        self._busy = False
        self._turn = 0
        self._delivered = 0
        self._first: float | None = None

    def run(self, megabytes: int = 2_000) -> Figures:
        """Runs until so many MiB are delivered. Raises AssertionError when reading stands still."""
        for number in range(self._partitions):
            options = {"isolation_level": IsolationLevel.READ_UNCOMMITTED, "borrow": True}
            self._reads.append(PartitionRead(self._scheduler.shared, "virtual", number, 0, **options))
            self._scheduler.opened(self._reads[-1])
        while self._delivered < megabytes << 20:
            self._dispatch()
            self._deliver()
            self._advance()
        assert self._first is not None
        return Figures(self._delivered / self._clock.now, self._first, self._gets, self._most_flying)

    def _after(self, seconds: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._clock.now + seconds, next(self._numbers), event))

    def _advance(self) -> None:
        """To the next event, or to when the scheduler wants to be asked again."""
        tick = self._scheduler.patience(self._clock.now, _TICK_SECONDS)
        at = self._clock.now + (_TICK_SECONDS if tick is None else max(tick, 1e-6))
        if self._events and self._events[0][0] <= at:
            self._clock.now, _, event = heapq.heappop(self._events)
            event()
            return
        assert self._events or self._scheduler.has_work or tick is not None, "nothing will ever happen"
        self._clock.now = at

    def _dispatch(self) -> None:
        while self._idle and (command := self._scheduler.next_command(self._clock.now)) is not None:
            self._idle -= 1
            self._carry_out(command)

    def _carry_out(self, command: Work) -> None:
        if isinstance(command, LocationBatch):
            self._after(2 * self._store.round_trip, functools.partial(self._located, command))
        elif isinstance(command, Fetch):
            self._gets += 1
            self._flying += 1
            self._most_flying = max(self._most_flying, self._flying)
            seconds = self._store.seconds(command.range.size, self._flying)
            self._after(seconds, functools.partial(self._landed, command, seconds))
        else:
            core = min(range(_CORES), key=self._cores.__getitem__)
            began = max(self._clock.now, self._cores[core])
            self._cores[core] = began + command.range.size / _DECODE_BYTES_PER_SECOND
            self._after(self._cores[core] - self._clock.now, functools.partial(self._decoded, command, began))

    def _located(self, batch: LocationBatch) -> None:
        self._idle += 1
        for command in batch.locates:
            found = _where(command, range_size(command.window, command.range_bytes, _PEERS_LARGEST_RANGE))
            self._scheduler.located(command, found, command.offset, PartitionOffsets(), self._clock.now)

    def _landed(self, command: Fetch, seconds: float) -> None:
        self._idle += 1
        self._flying -= 1
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
            assert not isinstance(item, ReadEnd), f"{read.name} ended: {item}"
            self._turn = (self._turn + ahead + 1) % len(self._reads)
            self._first = self._clock.now if self._first is None else self._first
            self._delivered += item.nbytes
            self._busy = True
            self._after(item.nbytes / self._application, functools.partial(self._used, read))
            return

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
