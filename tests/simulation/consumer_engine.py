"""A fetch engine for a simulated consumer: what the real DirectConsumer calls of FetchEngine, over the model of its threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.fetch.partition_read import Locate, PartitionRead
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.remote_reader import RemoteReader
from kafka_remote_client.model import PartitionOffsets
from kafka_remote_client.records import RecordBlock
from tests.simulation.engine import Engine

if TYPE_CHECKING:
    from tests.simulation.clients import Bounds, Client
    from tests.simulation.world import World

__all__ = ["ConsumerEngine", "Watch"]

_Key = tuple[str, int]


class Watch:
    """OffsetsWatch without its thread: a question is sent at once, and its answer arrives some time later."""

    def __init__(self, world: World, client: Client) -> None:
        self._world = world
        self._client = client
        self._running: Counter[_Key] = Counter()
        """How many answers will come about each partition. Only the last one counts."""
        self._answers: dict[_Key, PartitionOffsets | DirectFetchError] = {}

    def ask(self, partitions: Iterable[_Key]) -> None:
        """See OffsetsWatch."""
        keys = list(partitions)
        for key in keys:
            self._answers.pop(key, None)
        if keys:
            self._running.update(keys)
            self._client.bounds(keys, self._answered)

    def _answered(self, bounds: Bounds) -> None:
        self._running.subtract(bounds.keys())
        self._answers.update({key: answer for key, answer in bounds.items() if not self._running[key]})
        if any(isinstance(answer, DirectFetchError) for answer in bounds.values()):
            self._world.seen.saw("bounds-unknown")

    def answer(self, key: _Key) -> PartitionOffsets | DirectFetchError | None:
        """See OffsetsWatch."""
        return self._answers.pop(key, None)

    def offsets_of(self, partitions: Iterable[_Key]) -> dict[_Key, PartitionOffsets | DirectFetchError]:
        """See OffsetsWatch."""
        found = {key: answer for key in partitions if (answer := self._answers.pop(key, None)) is not None}
        self.ask(key for key in partitions if key not in found and not self._running[key])
        return found


class ConsumerEngine:
    """See the module."""

    def __init__(self, world: World, client: Client) -> None:
        self._world = world
        self._engine = Engine(world, self, client)
        world.engines.append(self._engine)
        self._scheduler = self._engine.scheduler
        self.metrics = self._engine.metrics
        self.admission = self._scheduler.admission
        self.watch = Watch(world, client)
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
        self._engine.scheduler.opened(read)
        return RemoteReader(self, read)

    def wait(self, seconds: float) -> bool:
        """See FetchEngine."""
        return self._world.wait(seconds, lambda: self._scheduler.has_ready)

    @property
    def has_ready(self) -> bool:
        """Whether a read has something to take."""
        return self._scheduler.has_ready

    @property
    def ready_partitions(self) -> set[int]:
        """The partitions with something to take."""
        return {read.partition for read in self._on_ready if read.has_ready}

    def close(self) -> None:
        """Stops all reads, for good."""
        self._engine.closed = True
        for read in list(self._engine.scheduler.reads):
            self.stop(read)

    # -- for readers -------------------------------------------------------------------------------------------------------

    def take(self, read: PartitionRead) -> RecordBlock | ReadEnd | None:
        """See ReadEngine."""
        item = self._engine.scheduler.taken(read, self._world.clock.now)
        if isinstance(item, ReadEnd):
            self._world.seen.saw("handed-over" if item.error is None else "fell-back")
            self._world.tell("%s ends at offset %d: %s", read.name, item.next_offset, item.reason)
        return item

    def release(self, read: PartitionRead) -> None:
        """See ReadEngine."""
        self._engine.scheduler.released(read, self._world.clock.now)

    def passed(self, read: PartitionRead) -> tuple[int, int] | None:
        """See ReadEngine."""
        return read.passed

    def stop(self, read: PartitionRead) -> None:
        """See ReadEngine."""
        self._engine.stopping(read)
        self._engine.scheduler.stopped(read, self._world.clock.now)
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
