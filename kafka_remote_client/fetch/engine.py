"""The threads and the clock: executes the scheduler's commands, and reports their results and the time to it.

One lock guards the scheduler with all that it owns; workers hold it only between commands.
:mod:`~kafka_remote_client.fetch.scheduler` has all decisions and their reasons. This module has the impure parts:

=============  ====================================================  ==============================================
command        executed by                                           outside of the lock
=============  ====================================================  ==============================================
LocationBatch  a worker: :mod:`~kafka_remote_client.fetch.locate`    the source is called, for many reads at once
Fetch          a worker: :mod:`~kafka_remote_client.fetch.range_io`  the fetcher reads into a buffer
Decode         a worker: :func:`decode_range`                        records are decoded and checked
Deliver        the thread that reported the event                    nothing: the owner's ``on_ready`` is called,
End            the same                                              and waiting threads are woken
Passed         the same                                              nothing: ``on_passed`` is called
=============  ====================================================  ==============================================

A worker is started if there is a command and no worker waits for one. There are at most as many as ranges may be in flight,
plus two for locations. A range that a fetcher does not finish by its deadline is abandoned, so that a plugin that hangs costs
a thread and never a partition. Another worker replaces it, until as many hang as ranges may be in flight: then the broker takes
over.

References: KIP-1254, "Consumer Architecture"; docs/design.md.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import (
    CorruptRecordError,
    DirectFetchError,
    RemoteStorageTimeoutError,
    UnsupportedFormatError,
)
from kafka_remote_client.fetch.commands import LocationBatch, Passed, Work, reads_of
from kafka_remote_client.fetch.fetch_budget import FetchBudget
from kafka_remote_client.fetch.flights import NO_THREAD
from kafka_remote_client.fetch.grant_read import GrantRead, RangeRead
from kafka_remote_client.fetch.locate import AsksCompacted, locate
from kafka_remote_client.fetch.memory import BufferPool
from kafka_remote_client.fetch.offsets_watch import OffsetsWatch
from kafka_remote_client.fetch.partition_read import Decode, Fetch, PartitionRead
from kafka_remote_client.fetch.range_io import attempt, discard_range
from kafka_remote_client.fetch.range_place import located
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.remote_reader import RemoteReader
from kafka_remote_client.fetch.scheduler import LOCATION_BATCHES, ReadDefectError, Scheduler
from kafka_remote_client.location.guarded_source import GuardedLocationSource
from kafka_remote_client.location.source import LocationSource, watch_caches
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.plugin import RemoteStorageFetcher, WritableBuffer
from kafka_remote_client.records import RecordBlock
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT
from kafka_remote_client.threads import start_thread

__all__ = ["DEFAULT_FORMATS", "FetchEngine", "decode_range"]

_log = logging.getLogger(__name__)

DEFAULT_FORMATS = (ORIGINAL_FORMAT,)
_TICK_SECONDS = 0.25


class FetchEngine:
    """Shared by all partitions of one consumer. Owns ``source`` and ``fetcher``: :meth:`close` closes both."""

    def __init__(
        self,
        source: LocationSource,
        fetcher: RemoteStorageFetcher,
        config: RemoteFetchConfig,
        *,
        clock: Clock,
        metrics: FetchMetrics,
        formats: tuple[str, ...] = DEFAULT_FORMATS,
        compacted: AsksCompacted = lambda _partition, _deadline: False,
    ) -> None:
        self.config = config
        self.metrics = metrics
        self.lock = threading.RLock()
        budget = FetchBudget(config)
        self.memory = memory = budget.memory
        self._buffers = BufferPool(lambda: memory.for_idle_buffers(self._scheduler.flying.awaited_bytes), budget.sizer.maximum)
        self._scheduler = Scheduler(config, budget, metrics, self._buffers.give_back)
        self.admission = self._scheduler.admission
        self.metrics.watch_memory(lambda: memory.held)
        self._source = GuardedLocationSource(source)
        self.watch = OffsetsWatch(self._source, clock, config.location_timeout_ms / 1000, self._bounds_arrived)
        watch_caches(source, metrics)
        self._fetcher = fetcher
        self._clock = clock
        self._formats = formats
        self._compacted = compacted
        self._work = threading.Condition(self.lock)
        self._ready = threading.Condition(self.lock)
        self._on_ready: dict[PartitionRead, Callable[[], None]] = {}
        self._on_passed: dict[PartitionRead, Callable[[], None]] = {}
        self._threads: list[threading.Thread] = []
        self._numbers = itertools.count()
        self._idle = 0
        self._watched_until = math.inf
        """When an idle worker will look for GETs that are late or overdue, and for pauses that end; infinite: none will."""
        self._bounds_wait = False
        """Whether bounds arrived since the last :meth:`wait`."""
        self._closed = False

    # -- owners ----------------------------------------------------------------------------------------------------------

    def reader(
        self,
        request: ReadRequest,
        *,
        on_ready: Callable[[], None] | None = None,
        on_passed: Callable[[], None] | None = None,
    ) -> RemoteReader:
        """Starts to read a partition. Raises RuntimeError after :meth:`close`.

        ``on_ready`` is called, by any thread and under the engine's lock, when there is something to take where there was
        nothing. ``on_passed`` is called in the same way when reading has passed markers or aborted records behind the last
        record, or without any record: :meth:`RemoteReader.passed` may then return a new position.
        """
        read = PartitionRead(self._scheduler.shared, request)
        with self.lock:
            if self._closed:
                raise RuntimeError("the fetch engine is closed")
            if on_ready is not None:
                self._on_ready[read] = on_ready
            if on_passed is not None:
                self._on_passed[read] = on_passed
            self._scheduler.opened(read)
            self._wake_worker()
            if not self._threads:
                self._scheduler.refused(read, NO_THREAD)
                self._notify_owners()
        return RemoteReader(self, read)

    @property
    def source(self) -> LocationSource:
        """The source of locations; it is closed with the engine."""
        return self._source

    @property
    def fetcher(self) -> RemoteStorageFetcher:
        """The fetcher, which reads the store; it is closed with the engine."""
        return self._fetcher

    def wait(self, seconds: float) -> bool:
        """Waits until some reader has something to take, or bounds of :attr:`watch` arrive, at most ``seconds``.

        True when some reader has something to take.
        """
        with self.lock:
            self._ready.wait_for(lambda: self._scheduler.has_ready or self._bounds_wait, seconds)
            self._bounds_wait = False
            return self._scheduler.has_ready

    def _bounds_arrived(self) -> None:
        with self.lock:
            self._bounds_wait = True
            self._ready.notify_all()

    def wait_for(self, reader: RemoteReader, timeout: float | None) -> RecordBlock | ReadEnd:
        """The reader's next item. Raises RemoteStorageTimeoutError after ``timeout`` seconds without one."""
        seconds = arguments.patience(timeout)
        deadline = None if seconds is None else Deadline(self._clock, seconds)
        with self.lock:
            while (item := reader.take()) is None:
                if self._closed or (deadline is not None and deadline.expired()):
                    raise RemoteStorageTimeoutError(f"timed out waiting for records of {reader.topic}-{reader.partition}")
                self._ready.wait(_TICK_SECONDS)
            return item

    def close(self, timeout: float = 2.0) -> None:
        """Stops all readers and threads, closes source and fetcher. A thread that hangs in a plugin is left behind (daemon).

        An interrupt (KeyboardInterrupt) skips only the step that it arrives in.
        """
        with ExitStack() as steps:  # it runs the last one first
            steps.callback(self._join, timeout)
            steps.callback(self._source.close)
            steps.callback(self._close_fetcher)
            with self.lock:
                if self._closed:
                    steps.pop_all()
                    return
                self._closed = True
                for read in list(self._scheduler.reads):
                    self.stop(read)
                self._work.notify_all()
                self._ready.notify_all()

    def _close_fetcher(self) -> None:
        try:
            self._fetcher.close()
        except Exception:  # noqa: BLE001 - a plugin may raise anything, and the rest must still be closed
            _log.exception("closing the fetcher failed")

    def _join(self, timeout: float) -> None:
        deadline = Deadline(self._clock, timeout)
        self.watch.close(deadline.remaining())
        for thread in self._threads:
            thread.join(deadline.remaining())

    # -- for readers -----------------------------------------------------------------------------------------------------

    def take(self, read: PartitionRead) -> RecordBlock | ReadEnd | None:
        """The next block, the end, or ``None`` while nothing is there."""
        with self.lock:
            item = self._scheduler.taken(read, self._clock.monotonic())
            self._wake_worker()
            return item

    def release(self, read: PartitionRead) -> None:
        """The owner is done with the block taken last."""
        with self.lock:
            self._scheduler.released(read, self._clock.monotonic())
            self._wake_worker()

    def passed(self, read: PartitionRead) -> tuple[int, int] | None:
        """Returns the position of the read and its leader epoch, if all blocks below were taken; else ``None``."""
        with self.lock:
            return read.passed

    def stop(self, read: PartitionRead) -> None:
        """The owner stops reading."""
        with self.lock:
            self._scheduler.stopped(read, self._clock.monotonic())
            for callbacks in (self._on_ready, self._on_passed):
                callbacks.pop(read, None)  # it refers to the owner, which refers to this
            self._wake_worker()

    # -- commands --------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        command: Work | None = None
        events: list[Callable[[], None]] = []
        while True:
            try:
                with self.lock:
                    if command is not None:
                        self._report(command, events)
                    command, events = None, []
                    # The lock stays held: the thread that read a range decodes it, and no other thread has to wake for that.
                    command = self._wait_for_command()
                if command is None:
                    return
                events = self._carry_out(command)
            except Exception as defect:  # noqa: BLE001 - a defect must cost speed, never a partition or a thread
                self._broken(None if command is None else reads_of(command), command, defect)
                command, events = None, []

    def _carry_out(self, command: Work) -> list[Callable[[], None]]:
        """Executes a long command. Returns the events for the scheduler: one for each read."""
        if isinstance(command, LocationBatch):
            return self._locate(command)
        return [self._fetch(command) if isinstance(command, Fetch) else self._decode(command)]

    def _locate(self, batch: LocationBatch) -> list[Callable[[], None]]:
        started = self._clock.monotonic()
        deadline = Deadline(self._clock, self.config.location_timeout_ms / 1000)
        answers = locate(self._source, batch.locates, self._formats, deadline, self._clock, self._compacted)
        now = self._clock.monotonic()
        throttled = max(getattr(found.answer, "throttle_time_ms", 0) for found in answers)
        self.metrics.locations_done(len(answers), now - started, throttled)
        events: list[Callable[[], None]] = []
        for command, found in zip(batch.locates, answers, strict=True):
            if isinstance(found.answer, DirectFetchError):
                found.answer.with_context(elapsed_seconds=now - started)
            events.append(partial(self._scheduler.located, command, found.answer, found.offset, found.offsets, now))
        return events

    def _fetch(self, command: Fetch) -> Callable[[], None]:
        started, wanted = self._clock.monotonic(), command.range
        deadline = Deadline(self._clock, self.config.read_timeout_ms / 1000)
        location = command.grant.location
        take, unwanted = partial(self._buffer, command), lambda: command.overtaken
        transfer, error = attempt(self._fetcher, location, wanted.granted, take, deadline, unwanted)
        now = self._clock.monotonic()
        first_byte = command.answered_at - started if command.answered_at else None
        self.metrics.range_done(transfer.filled, now - started, error.cause if error else None, first_byte_seconds=first_byte)
        if error is None and transfer.filled < wanted.size:
            return partial(self._scheduler.overtaken, command, transfer.filled)
        if error is None:
            return partial(self._scheduler.landed, command, now - started, now)
        error.with_context(attempt=wanted.attempts, elapsed_seconds=now - started)
        return partial(self._scheduler.failed, command, transfer.filled, error, now)

    def _decode(self, command: Decode) -> Callable[[], None]:
        began = self._clock.monotonic()
        borrow = command.read.borrow
        blocks, error = decode_range(self._fetcher, command.grant, command.range, self.metrics, borrow=borrow)
        now, jitter = self._clock.monotonic(), self._clock.jitter()
        if command.range.error is None:
            self.metrics.range_decoded(now - began)
        return partial(self._scheduler.decoded, command, blocks, error, began=began, now=now, jitter=jitter)

    def _buffer(self, command: Fetch) -> WritableBuffer:
        """The store begins to answer."""
        command.answered_at = self._clock.monotonic()
        with self.lock:
            if command.lease is None:  # overtaken or dropped shortly before, with its memory
                return bytearray()
            command.lease.buffer = self._buffers.take(command.range.size)
            return command.lease.buffer

    def _notify_owners(self) -> None:
        """Executes Deliver, End and Passed. Under the lock."""
        notices = self._scheduler.notices()
        for notice in notices:
            owner = (self._on_passed if isinstance(notice, Passed) else self._on_ready).get(notice.read)
            if owner is not None:
                owner()
        if notices:
            self._ready.notify_all()

    # -- threads ---------------------------------------------------------------------------------------------------------

    def _start_thread(self) -> None:
        """Starts one more worker, if allowed; none after the engine is closed, because nothing would wait for its end."""
        if self._closed:
            return
        most = self.config.max_in_flight + LOCATION_BATCHES + min(self._scheduler.stuck, self.config.max_in_flight)
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) < most:
            thread = start_thread(f"kafka-remote-fetch-{next(self._numbers)}", self._run)
            self._threads += [] if thread is None else [thread]

    def _wait_for_command(self) -> Work | None:
        """The next command, as soon as there is one; ``None`` once the engine is closed. Under the lock."""
        while (command := self._next_command()) is None:
            if self._closed:
                return None
            self._idle += 1
            try:
                self._wait_for_work()
            finally:
                self._idle -= 1
        self._wake_worker()  # there may be more to do than this thread does
        return command

    def _wait_for_work(self) -> None:
        """Until a notification. One idle worker also waits for time to pass; if all did, each such moment would wake all."""
        until = self._next_look()
        if until >= self._watched_until or until == math.inf:
            self._work.wait()
            return
        self._watched_until = until
        try:
            self._work.wait(until - self._clock.monotonic())
        finally:
            if self._watched_until == until:  # else another worker looks earlier
                self._watched_until = math.inf

    def _next_look(self) -> float:
        """When there may be work without an event; infinite: never."""
        now = self._clock.monotonic()
        patience = self._scheduler.patience(now, _TICK_SECONDS)
        return math.inf if patience is None else now + patience

    def _next_command(self) -> Work | None:
        """Under the lock. A defect in this choice ends one reader; all others continue."""
        while not self._closed:
            stuck = self._scheduler.stuck
            try:
                return self._scheduler.next_command(self._clock.monotonic())
            except ReadDefectError as defect:
                self._broken([defect.read], defect.command, defect.__cause__)
            finally:
                self._notify_owners()
                if self._scheduler.stuck > stuck:
                    self._start_thread()
        return None

    def _wake_worker(self) -> None:
        """Makes sure that a worker waits while there is work, or a GET may become late or overdue."""
        if self._idle:
            if self._scheduler.has_work or self._next_look() < self._watched_until:
                self._work.notify()
        elif self._scheduler.has_work or self._scheduler.in_flight:
            self._start_thread()

    def _report(self, command: Work, events: list[Callable[[], None]]) -> None:
        """Reports the result of a command to the scheduler. A defect ends a read before another thread can continue it."""
        for read, event in zip(reads_of(command), events, strict=True):
            try:
                event()
            except Exception as defect:  # noqa: BLE001 - the other events must still be reported
                self._broken([read], None if isinstance(command, LocationBatch) else command, defect)
        self._notify_owners()

    def _broken(self, reads: list[PartitionRead] | None, command: Work | None, defect: BaseException | None) -> None:
        """Handles an unexpected exception: its reads move to the broker, or all reads if none is known. Raises nothing."""
        self.metrics.add("remote-fetch-internal-errors-total")
        names = "all partitions" if reads is None else ", ".join(read.name for read in reads)
        _log.exception("reading %s failed; the broker takes over", names)
        with self.lock:
            self._scheduler.abandoned(command)
            for failed in list(self._scheduler.reads) if reads is None else reads:
                try:
                    self._scheduler.broke(failed, defect)
                except Exception:  # noqa: BLE001 - the others must still end
                    _log.exception("ending the read of %s failed; restart the consumer to read it again", failed.name)
            self._notify_owners()
            self._wake_worker()
            if reads is None:
                self._work.wait(_TICK_SECONDS)  # the next attempt may fail as well


def decode_range(
    fetcher: RemoteStorageFetcher, grant: GrantRead, landed: RangeRead, metrics: FetchMetrics, *, borrow: bool
) -> tuple[list[RecordBlock], DirectFetchError | None]:
    """Returns the blocks in order, and the damage or defect after them. Never raises.

    A caching fetcher drops a damaged range. A defect is logged and counted.
    """
    blocks: list[RecordBlock] = []
    try:
        blocks.extend(grant.decode(landed, borrow=borrow))
    except (CorruptRecordError, UnsupportedFormatError) as failure:
        discard_range(fetcher, grant.location, landed.granted)
        return blocks, located(failure, grant.location, landed.granted).with_context(attempt=landed.attempts)
    except Exception as defect:  # noqa: BLE001 - a defect in decoding must cost speed, never a record
        segment = grant.location.metadata.remote_log_segment_id
        _log.exception("decoding %s of %s failed; the broker takes over", landed.granted.range, segment)
        metrics.add("remote-fetch-internal-errors-total")
        error = DirectFetchError(f"decoding {segment} failed with {type(defect).__name__}; see the traceback in the log")
        error.__cause__ = defect
        return blocks, located(error, grant.location, landed.granted)
    return blocks, None
