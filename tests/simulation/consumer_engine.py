"""A fetch engine for a simulated consumer: what the real DirectConsumer calls of FetchEngine, over the model of its threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from kafka_remote_client.errors import DirectFetchError, LocationError
from kafka_remote_client.fetch.partition_read import Locate, PartitionRead
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.remote_reader import RemoteReader
from kafka_remote_client.model import PartitionOffsets
from kafka_remote_client.records import RecordBlock
from tests.simulation.engine import Engine

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["ConsumerEngine", "Watch"]

_Key = tuple[str, int]


class Watch:
    """OffsetsWatch without its thread: an answer arrives some time after the question."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._asked: set[_Key] = set()
        self._answers: dict[_Key, PartitionOffsets | DirectFetchError] = {}

    def ask(self, partitions: Iterable[_Key]) -> None:
        """See OffsetsWatch."""
        for key in partitions:
            self._answers.pop(key, None)
            if key not in self._asked:
                self._asked.add(key)
                self._world.after(self._world.some(self._world.scenario.latency), partial(self._answered, key))

    def _answered(self, key: _Key) -> None:
        self._asked.discard(key)
        if self._world.happens(self._world.scenario.locations_fail):
            self._world.seen.saw("bounds-unknown")
            self._answers[key] = LocationError("no peer answers")
        else:
            self._answers[key] = self._world.tier.partitions[key[1]].offsets

    def answer(self, key: _Key) -> PartitionOffsets | DirectFetchError | None:
        """See OffsetsWatch."""
        return self._answers.pop(key, None)

    def offsets_of(self, partitions: Iterable[_Key]) -> dict[_Key, PartitionOffsets | DirectFetchError]:
        """See OffsetsWatch."""
        found = {key: answer for key in partitions if (answer := self._answers.pop(key, None)) is not None}
        self.ask(key for key in partitions if key not in found)
        return found


class ConsumerEngine:
    """See the module."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._engine = Engine(world, self)
        world.engines.append(self._engine)
        self._scheduler = self._engine.scheduler
        self.metrics = self._engine.metrics
        self.preference = self._scheduler.admission.preference
        self.watch = Watch(world)
        self._on_ready: dict[PartitionRead, Callable[[], None]] = {}
        self._on_passed: dict[PartitionRead, Callable[[], None]] = {}

    # -- for the consumer --------------------------------------------------------------------------------------------------

    def reader(
        self, request: ReadRequest, on_ready: Callable[[], None], on_passed: Callable[[], None] | None = None
    ) -> RemoteReader:
        """See FetchEngine."""
        read = PartitionRead(self._scheduler.shared, request)
        self._on_ready[read] = on_ready
        if on_passed is not None:
            self._on_passed[read] = on_passed
        self._world.tell("%s opens a read at offset %d", read.name, request.start_offset)
        self._scheduler.opened(read)
        return RemoteReader(self, read)

    def wait(self, seconds: float) -> bool:
        """See FetchEngine."""
        return self._world.wait(seconds, lambda: self._scheduler.has_ready)

    @property
    def has_ready(self) -> bool:
        """Whether a read has something to take."""
        return self._scheduler.has_ready

    def close(self) -> None:
        """Stops all reads."""
        for read in list(self._scheduler.reads):
            self.stop(read)

    # -- for readers -------------------------------------------------------------------------------------------------------

    def take(self, read: PartitionRead) -> RecordBlock | ReadEnd | None:
        """See ReadEngine."""
        item = self._scheduler.taken(read, self._world.clock.now)
        if isinstance(item, ReadEnd):
            self._world.seen.saw("handed-over" if item.error is None else "fell-back")
            self._world.tell("%s ends at offset %d: %s", read.name, item.next_offset, item.reason)
        return item

    def release(self, read: PartitionRead) -> None:
        """See ReadEngine."""
        self._scheduler.released(read, self._world.clock.now)

    def passed(self, read: PartitionRead) -> tuple[int, int] | None:
        """See ReadEngine."""
        return read.passed

    def stop(self, read: PartitionRead) -> None:
        """See ReadEngine."""
        self._engine.stopping(read)
        self._scheduler.stopped(read, self._world.clock.now)
        for told in (self._on_ready, self._on_passed):
            told.pop(read, None)

    def wait_for(self, reader: RemoteReader, timeout: float | None) -> RecordBlock | ReadEnd:
        """No consumer waits for one reader."""
        raise NotImplementedError

    # -- as the owner of the reads -----------------------------------------------------------------------------------------

    def notified(self, read: PartitionRead) -> None:
        """The scheduler says that a read has something."""
        if read in self._on_ready:
            self._on_ready[read]()

    def passed_markers(self, read: PartitionRead) -> None:
        """The scheduler says that a read has passed markers or aborted records."""
        if read in self._on_passed:
            self._world.seen.saw("passed-markers")
            self._on_passed[read]()

    def located(self, command: Locate, offset: int) -> None:
        """Nothing depends on it."""
