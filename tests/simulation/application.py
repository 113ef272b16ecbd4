"""The applications of a simulated world: each reads one partition, holds blocks, seeks, and continues at the broker."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from kafka_remote_client.fetch.partition_read import Locate, PartitionRead
from kafka_remote_client.fetch.preference import SLOWER_THAN_BROKER
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.model import UNKNOWN_EPOCH, IsolationLevel, PartitionOffsets
from kafka_remote_client.records import RecordBlock
from tests.simulation.engine import Engine
from tests.simulation.judge import LogRecord, ViolationError, records_of
from tests.simulation.produced_log import ProducedJudge

if TYPE_CHECKING:
    from tests.simulation.clients import Client
    from tests.simulation.known_locations import NearClient
    from tests.simulation.topic_logs import LedPartition
    from tests.simulation.world import World

__all__ = ["Application"]

_BEGINNING = -2
_TRIAL_SECONDS = 2.0
_LATER_SECONDS = 0.01
_MOST_STAYS = 7
"""Rechecks after which each stay at the broker is over: one for a trial, six for the longest stay of 60 s."""
_ENDS = {
    "breaker-open": "breaker-open",
    "end": "ended-bound",
    "local": "ended-local",
    "location-pending": "location-pending-too-long",
}
"""The occurrence that the reason of an end shows."""
_BACKOFF_SECONDS = 2.0
"""The mean time that the broker serves a partition whose store has failed."""


@attrs.define(eq=False)
class _Reader:
    """One application's read. ``held``: the block in its hands, with its records at the time of delivery."""

    partition: LedPartition
    read: PartitionRead
    judge: ProducedJudge
    held: tuple[RecordBlock, tuple[LogRecord, ...]] | None = None
    waits: bool = True


class Application:
    """All reads of one client."""

    def __init__(self, world: World, client: Client | NearClient) -> None:
        self._world = world
        self._engine = Engine(world, self, client)
        world.engines.append(self._engine)
        self._readers: dict[PartitionRead, _Reader] = {}
        self._stopped = False
        self._on_trial = 0

    def start(self) -> None:
        """Opens a read of each partition."""
        for partition in self._world.brokers.partitions:
            self._open(partition, self._anywhere(partition))

    def stop(self) -> None:
        """Stops all reads for good."""
        self._stopped = True
        for reader in list(self._readers.values()):
            self._stop(reader)

    # -- notices ---------------------------------------------------------------------------------------------------------

    def notified(self, read: PartitionRead) -> None:
        """The scheduler says that a read has something."""
        reader = self._readers.get(read)
        if reader is None or not reader.waits:
            return
        reader.waits = False
        self._world.after(self._some(0.001), partial(self._take, reader))

    def passed_markers(self, read: PartitionRead) -> None:
        """The scheduler says that a read has passed markers or aborted records."""
        reader = self._readers.get(read)
        if reader is not None and (passed := read.passed) is not None:
            self._world.seen.saw("passed-markers")
            reader.judge.passed(*passed)

    def located(self, command: Locate, offset: int) -> None:
        """A location request for the beginning of the log was for this offset."""
        reader = self._readers.get(command.read)
        if reader is not None and command.offset < 0 <= offset:
            reader.judge.position = offset

    # -- a read ----------------------------------------------------------------------------------------------------------

    def _some(self, mean: float) -> float:
        return self._world.chance.expovariate(1 / mean)

    def _anywhere(self, partition: LedPartition) -> int:
        return self._world.chance.randrange(partition.log_start, partition.tiered_end)

    def _open(self, partition: LedPartition, start: int) -> None:
        chance, world = self._world.chance, self._world
        level = chance.choice((IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED))
        end = start + chance.randint(1, 200) if chance.random() < 0.2 else None
        from_beginning = end is None and chance.random() < 0.05
        read = PartitionRead(
            self._engine.scheduler.shared,
            ReadRequest(
                "orders",
                partition.number,
                _BEGINNING if from_beginning else start,
                end_offset=end,
                leader_epoch=UNKNOWN_EPOCH if chance.random() < 0.2 else partition.log.epoch_before(start),
                isolation_level=level,
                stop_at_local=chance.random() < 0.5,
                borrow=chance.random() < 0.5,
                offsets=partition.offsets if chance.random() < 0.5 else PartitionOffsets(),
            ),
        )
        judge = partition.judge(read.name, level, partition.log_start if from_beginning else start, end)
        self._readers[read] = _Reader(partition, read, judge)
        world.tell("%s opens a read at offset %d up to %s, %s", read.name, start, end, level.name.lower())
        self._engine.scheduler.opened(read)
        if chance.random() < world.scenario.seeks * 4:
            world.after(self._some(0.2), partial(self._seek, read))

    def _take(self, reader: _Reader) -> None:
        world, read = self._world, reader.read
        if read not in self._readers:
            return
        item = self._engine.scheduler.taken(read, world.clock.now)
        if item is None:
            reader.waits = True
            return
        world.progress()
        if isinstance(item, ReadEnd):
            self._ended(reader, item)
            return
        records = records_of(item)
        world.tell("%s delivers %d records before offset %d", read.name, len(records), item.next_offset)
        reader.judge.took(records, item.next_offset)
        if read.passed is not None:  # behind the block, before the log may change
            reader.judge.passed(*read.passed)
        reader.held = item, records
        world.after(self._some(world.scenario.takes_seconds), partial(self._used, reader))

    def _used(self, reader: _Reader) -> None:
        if reader.read not in self._readers:
            return
        self._judge_held(reader)
        if self._world.chance.random() < 0.3:
            self._engine.scheduler.released(reader.read, self._world.clock.now)
            self._world.after(self._some(0.001), partial(self._take, reader))
            return
        self._take(reader)

    def _judge_held(self, reader: _Reader) -> None:
        if reader.held is None:
            return
        block, records = reader.held
        if records_of(block) != records:
            raise ViolationError("J6", f"{reader.read.name}: the block before {block.next_offset} changed while it was held")
        reader.held = None

    def _ended(self, reader: _Reader, end: ReadEnd) -> None:
        world, partition, read = self._world, reader.partition, reader.read
        world.tell("%s ends at offset %d: %s", read.name, end.next_offset, end.reason)
        if end.next_offset >= 0:
            reader.judge.ended(end)
        if end.reason == "breaker-open":
            self._engine.asked.refused(read.name, reader.judge.opened_at)
        self._note_end(reader, end)
        self._stop(reader)
        offset = max(end.next_offset, partition.log_start)
        if end.reason == "end" or offset >= partition.tiered_end - 1:
            offset = self._anywhere(partition)
        elif world.chance.random() < 0.5:  # the broker delivers some records before the next attempt
            offset = min(offset + world.chance.randint(1, 20), partition.tiered_end - 1)
        if end.reason == SLOWER_THAN_BROKER:
            self._leave(partition, offset)
            return
        pause = _BACKOFF_SECONDS if end.reason == "breaker-open" else 0.1
        world.after(self._some(pause), partial(self._open_again, partition, offset))

    def _leave(self, partition: LedPartition, offset: int) -> None:
        """The broker delivers, which is the faster one, until the store is tried again."""
        world, key = self._world, ("orders", partition.number)
        self._engine.asked.left(partition.number)
        preference = self._engine.scheduler.admission.preference
        seconds = preference.left(key, offset, world.clock.now)
        if seconds <= _TRIAL_SECONDS:
            self._on_trial += 1
            if self._on_trial > 1:
                raise ViolationError("J14", f"{self._on_trial} partitions are on trial at the broker")
        world.after(seconds + _LATER_SECONDS, partial(self._return, partition, offset, seconds, 1))

    def _return(self, partition: LedPartition, offset: int, seconds: float, times: int) -> None:
        """The broker has delivered for so many seconds, perhaps beyond the tier. ``times``: how often it is asked to return."""
        world, key = self._world, ("orders", partition.number)
        world.progress()
        self._on_trial -= seconds <= _TRIAL_SECONDS
        offset += round(seconds * world.chance.choice((1, 10_000)))
        if self._engine.scheduler.admission.preference.returns(key, offset, world.clock.now):
            world.seen.saw("broker-slower")
            self._open_again(partition, min(offset, partition.tiered_end - 1))
            return
        world.seen.saw("broker-faster")
        if times > _MOST_STAYS:
            raise ViolationError("J14", f"partition {partition.number} does not return to the store")
        again = world.scenario.config.recheck_interval_ms / 1000
        world.after(again + _LATER_SECONDS, partial(self._return, partition, offset, again, times + 1))

    def _note_end(self, reader: _Reader, end: ReadEnd) -> None:
        seen, log, bound = self._world.seen, reader.judge.log, reader.judge.end
        if end.reason in _ENDS:
            seen.saw(_ENDS[end.reason])
        if end.reason == "end" and bound is not None and log.is_inside_batch(bound):
            seen.saw("end-inside-batch")

    def _open_again(self, partition: LedPartition, offset: int) -> None:
        if not self._stopped:
            self._open(partition, max(offset, partition.log_start))

    def _seek(self, read: PartitionRead) -> None:
        reader = self._readers.get(read)
        if reader is not None and not self._stopped:
            self._world.tell("%s seeks", read.name)
            self._stop(reader)
            self._open(reader.partition, self._anywhere(reader.partition))

    def _stop(self, reader: _Reader) -> None:
        world = self._world
        if reader.held is not None:
            world.seen.saw("stopped-holding")
        self._judge_held(reader)
        self._engine.stopping(reader.read)
        del self._readers[reader.read]
        self._engine.scheduler.stopped(reader.read, world.clock.now)
