"""The scheduler without an engine: a test executes its commands one by one, over the golden tier, and sets the time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from kafka_remote_client.clock import Deadline
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import DirectFetchError, RemoteStorageError
from kafka_remote_client.fetch.commands import LocationBatch
from kafka_remote_client.fetch.fetch_budget import FetchBudget
from kafka_remote_client.fetch.partition_read import Decode, Fetch, Locate, PartitionRead
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.scheduler import Scheduler
from kafka_remote_client.location.source import locate_one
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel, LocationAnswer, NotRemote, PartitionOffsets, SegmentLocation
from kafka_remote_client.plugin import WritableBuffer
from tests.support.golden_tier import GoldenTierSource, ScriptedFetcher
from tests.support.locations import ManualClock
from tests.support.questions import question

__all__ = ["TIERED_END", "TOPIC", "Stepping", "stepping"]

TOPIC, TIERED_END = "codec-none-rdk", 4200
_UNHURRIED = RemoteFetchConfig(enabled=True, retries=2)


@attrs.define
class Stepping:
    """``recycled``: the returned buffers. ``clock.now`` is the time of all events."""

    config: RemoteFetchConfig = _UNHURRIED
    source: GoldenTierSource = attrs.field(factory=GoldenTierSource)
    clock: ManualClock = attrs.field(factory=ManualClock)
    recycled: list[WritableBuffer] = attrs.field(factory=list)
    flying: list[Fetch] = attrs.field(factory=list, init=False)
    located: list[Locate] = attrs.field(factory=list, init=False)
    metrics: FetchMetrics = attrs.field(init=False)
    scheduler: Scheduler = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.metrics = FetchMetrics(self.clock)
        self.scheduler = Scheduler(self.config, FetchBudget(self.config), self.metrics, self.recycled.append)

    def read(self, topic: str = TOPIC, start: int = 0, **options: Any) -> PartitionRead:
        """One that the scheduler does not know."""
        return PartitionRead(
            self.scheduler.shared,
            ReadRequest(topic, 0, start, **{"isolation_level": IsolationLevel.READ_UNCOMMITTED, **options}),
        )

    def opened(self, topic: str = TOPIC, start: int = 0, **options: Any) -> PartitionRead:
        read = self.read(topic, start, **options)
        self.scheduler.opened(read)
        return read

    def next(self) -> Locate | Fetch | Decode | None:
        """The next command. The locations of a batch come one by one."""
        if self.located:
            return self.located.pop(0)
        command = self.scheduler.next_command(self.clock.now)
        if isinstance(command, LocationBatch):
            self.located.extend(command.locates)
            return self.located.pop(0)
        if isinstance(command, Fetch):
            self.flying.append(command)
        return command

    def location(self, offset: int, window: int = 80_000) -> SegmentLocation:
        """Returns the location of an offset of the topic in the golden tier."""
        found = self.answer(TOPIC, offset, window)
        assert isinstance(found, SegmentLocation)
        return found

    def answer(
        self, topic: str, offset: int, window: int, isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> SegmentLocation | NotRemote:
        """Returns the golden tier's answer."""
        asked = question(topic, 0, offset, isolation_level=isolation_level, max_bytes=window)
        return locate_one(self.source, asked, Deadline(self.clock, 60.0))

    def locate(self, command: Locate, answer: LocationAnswer | None = None) -> None:
        """Answers like the golden tier, unless ``answer`` is given."""
        read = command.read
        answer = answer or self.answer(read.topic, command.offset, command.window, read.isolation_level)
        self.scheduler.located(command, answer, command.offset, PartitionOffsets(), self.clock.now)

    def fetch(self, command: Fetch, error: RemoteStorageError | None = None, received: int = 0) -> None:
        """Reads the range, which takes no time, or fails after ``received`` bytes."""
        self.flying.remove(command)
        wanted = command.range.granted.range
        lease = command.lease
        if lease is not None:
            buffer = bytearray(wanted.size)
            stream = ScriptedFetcher().fetch_log_segment(
                command.grant.location.metadata_for(command.range.granted), wanted.start, wanted.end
            )
            assert stream.readinto(buffer) == wanted.size
            stream.close()
            lease.buffer = buffer
        if error is None:
            self.scheduler.landed(command, 0.1, self.clock.now)
        else:
            self.scheduler.failed(command, received, error, self.clock.now)

    def decode(self, command: Decode, damage: DirectFetchError | None = None) -> None:
        blocks = list(command.grant.decode(command.range, borrow=command.read.borrow))
        now = self.clock.now
        self.scheduler.decoded(command, blocks, damage, began=now, now=now, jitter=0.5)

    def carry_out(self, command: Locate | Fetch | Decode) -> None:
        if isinstance(command, Locate):
            self.locate(command)
        elif isinstance(command, Fetch):
            self.fetch(command)
        else:
            self.decode(command)

    def run(self) -> None:
        """Executes all commands."""
        while (command := self.next()) is not None:
            self.carry_out(command)


@contextmanager
def stepping(config: RemoteFetchConfig = _UNHURRIED, **parts: Any) -> Iterator[Stepping]:
    """Stops everything at the end, finishes ranges in flight, and checks that no memory is held."""
    made = Stepping(config, **parts)
    yield made
    for read in list(made.scheduler.reads):
        made.scheduler.stopped(read, made.clock.now)
    for command in list(made.flying):
        made.fetch(command)
    assert made.scheduler.budget.memory.held == 0
