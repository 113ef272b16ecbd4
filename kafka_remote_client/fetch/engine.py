"""The threads: take tasks from readers in turn, ask for locations, read ranges, decode, and bound time and memory.

One lock guards all readers; workers hold it only between tasks. Ranges of one partition fly side by side and are decoded in
order by whichever worker finds the next one landed. A range that a fetcher does not end by its deadline is given up here, so
that a plugin that hangs costs a thread and never a partition.

References: KIP-1254, "Consumer Architecture"; docs/design.md.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import Action, DirectFetchError, RemoteStorageError, RemoteStorageTimeoutError
from kafka_remote_client.fetch import policy
from kafka_remote_client.fetch.admission import Admission
from kafka_remote_client.fetch.decode import decode_range
from kafka_remote_client.fetch.flights import Flights
from kafka_remote_client.fetch.grant_read import RangeRead, RangeStatus
from kafka_remote_client.fetch.locate import locate
from kafka_remote_client.fetch.memory import BufferPool, Lease
from kafka_remote_client.fetch.offsets_watch import OffsetsWatch
from kafka_remote_client.fetch.preference import SLOWER_THAN_BROKER
from kafka_remote_client.fetch.range_io import Transfer, attempt
from kafka_remote_client.fetch.remote_reader import LocateTask, RangeTask, ReadEnd, RemoteReader
from kafka_remote_client.fetch.room import Room
from kafka_remote_client.fetch.turns import Turns
from kafka_remote_client.location.guarded_source import GuardedLocationSource
from kafka_remote_client.location.source import LocationSource, watch_caches
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import UNKNOWN_EPOCH, IsolationLevel, PartitionOffsets
from kafka_remote_client.plugin import RemoteStorageFetcher, WritableBuffer
from kafka_remote_client.records import RecordBlock
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT
from kafka_remote_client.threads import start_thread

__all__ = ["DEFAULT_FORMATS", "FetchEngine"]

_log = logging.getLogger(__name__)

DEFAULT_FORMATS = (ORIGINAL_FORMAT,)
_TICK_SECONDS = 0.25
_LOCATION_THREADS = 2


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
    ) -> None:
        self.config = config
        self.metrics = metrics
        self.lock = threading.RLock()
        self.room = Room(config)
        self.memory = memory = self.room.memory
        self.metrics.watch_memory(lambda: memory.held)
        self._source = GuardedLocationSource(source)
        self.watch = OffsetsWatch(self._source, clock, config.location_timeout_ms / 1000)
        watch_caches(source, metrics)
        self._fetcher = fetcher
        self._clock = clock
        self._formats = formats
        self._work = threading.Condition(self.lock)
        self._ready = threading.Condition(self.lock)
        self._readers: set[RemoteReader] = set()
        self._turns: Turns[RemoteReader] = Turns()
        self._have_ready: set[RemoteReader] = set()
        self._flying = Flights(config)
        self._admission = Admission(config, self.room)
        self.preference = self._admission.preference
        self._buffers = BufferPool(config.max_in_flight, self.room.sizer.maximum)
        self._threads: list[threading.Thread] = []
        self._closed = False

    # -- owners ----------------------------------------------------------------------------------------------------------

    def reader(
        self,
        topic: str,
        partition: int,
        start_offset: int,
        *,
        end_offset: int | None = None,
        leader_epoch: int = UNKNOWN_EPOCH,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
        stop_at_local: bool = False,
        borrow: bool = False,
        offsets: PartitionOffsets | None = None,
        on_ready: Callable[[], None] | None = None,
    ) -> RemoteReader:
        """Starts to read a partition; see :class:`RemoteReader`. Raises RuntimeError after :meth:`close`."""
        reader = RemoteReader(
            self,
            topic,
            partition,
            start_offset,
            end_offset=end_offset,
            leader_epoch=leader_epoch,
            isolation_level=isolation_level,
            stop_at_local=stop_at_local,
            borrow=borrow,
            offsets=offsets,
            on_ready=on_ready,
        )
        with self.lock:
            if self._closed:
                raise RuntimeError("the fetch engine is closed")
            self._readers.add(reader)
            self._turns.add(reader)
            self._start_threads()
            if not self._threads:
                reader.refuse("no-thread")
            self._work.notify()
        return reader

    def offsets(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        """Where the tiers of partitions begin and end, or for each why that is not known."""
        return self._source.offsets_of(partitions, deadline)

    @property
    def source(self) -> LocationSource:
        """Where locations are asked; it is closed with the engine."""
        return self._source

    @property
    def fetcher(self) -> RemoteStorageFetcher:
        """What reads the store; it is closed with the engine."""
        return self._fetcher

    def wait(self, seconds: float) -> bool:
        """Waits until some reader has something to take, at most ``seconds``. True when one has."""
        with self.lock:
            return self._ready.wait_for(lambda: bool(self._have_ready), seconds)

    def wait_for(self, reader: RemoteReader, timeout: float | None) -> RecordBlock | ReadEnd:
        """The reader's next item. Raises RemoteStorageTimeoutError after ``timeout`` seconds without one."""
        seconds = arguments.patience(timeout)
        deadline = None if seconds is None else Deadline(self._clock, seconds)
        with self.lock:
            while (item := reader.take()) is None:
                if self._closed or (deadline is not None and deadline.expired()):
                    raise RemoteStorageTimeoutError(f"nothing came from the tier of {reader.topic}-{reader.partition}")
                self._ready.wait(_TICK_SECONDS)
            return item

    def close(self, timeout: float = 2.0) -> None:
        """Stops all readers and threads, closes source and fetcher. A thread that hangs in a plugin is left behind (daemon)."""
        with self.lock:
            if self._closed:
                return
            self._closed = True
            for reader in list(self._readers):
                reader.stop()
            self._work.notify_all()
            self._ready.notify_all()
        try:
            self._fetcher.close()
        except Exception:  # noqa: BLE001 - a plugin may raise anything, and the rest is to be closed all the same
            _log.exception("closing the fetcher failed")
        self._source.close()
        deadline = Deadline(self._clock, timeout)
        self.watch.close(deadline.remaining())
        for thread in self._threads:
            thread.join(deadline.remaining())

    # -- called by readers, under the lock ---------------------------------------------------------------------------------

    def forget(self, reader: RemoteReader) -> None:
        """The reader is stopped: it gets no more turns."""
        self._readers.discard(reader)
        self._turns.discard(reader)
        self._work.notify()

    def announce(self, reader: RemoteReader) -> None:
        """The reader has something to take now, or has it no more."""
        if not reader.has_ready:
            self._have_ready.discard(reader)
        elif reader not in self._have_ready:
            self._have_ready.add(reader)
            if reader.on_ready is not None:
                reader.on_ready()

    def now(self) -> float:
        """Seconds on the monotonic clock."""
        return self._clock.monotonic()

    def give_back(self, size: int) -> None:
        """Memory is free again: a range that waits for it may fly."""
        self.memory.give_back(size)
        self._work.notify()

    def _release(self, lease: Lease) -> None:
        if lease.buffer is not None:
            self._buffers.give_back(lease.buffer)
        self.give_back(lease.size)

    def decide(self, read: RangeRead, error: DirectFetchError, *, relocated: bool) -> Action:
        """What follows a failed range (fetch/policy.py)."""
        return self._admission.decide(read, error, relocated=relocated)

    def retry_later(self, reader: RemoteReader, read: RangeRead, error: DirectFetchError) -> None:
        """Makes the range wait for another attempt."""
        pause = policy.retry_pause(error, read.attempts, self._clock.jitter())
        read.drop()
        read.status = RangeStatus.WAITING
        read.error = None
        read.not_before = self._clock.monotonic() + pause
        self._turns.add_later(reader, read.not_before)
        self._work.notify()

    # -- workers -----------------------------------------------------------------------------------------------------------

    def _start_threads(self) -> None:
        wanted = self.config.max_in_flight + _LOCATION_THREADS + min(self._flying.stuck, self.config.max_in_flight)
        alive = [thread for thread in self._threads if thread.is_alive()]
        started = (start_thread(f"kafka-remote-fetch-{number}", self._run) for number in range(len(alive), wanted))
        self._threads = alive + [thread for thread in started if thread is not None]

    def _run(self) -> None:
        task: LocateTask | RangeTask | None
        while True:
            task = None
            try:
                task = self._wait_for_task()
                if task is None:
                    return
                if isinstance(task, LocateTask):
                    self._locate(task)
                else:
                    self._read(task)
            except Exception:  # noqa: BLE001 - a defect of ours must cost speed, never a partition or a thread
                self._broken(None if task is None else task.reader, task)

    def _wait_for_task(self) -> LocateTask | RangeTask | None:
        """The next task, as soon as there is one; ``None`` once the engine is closed."""
        with self.lock:
            while (task := self._next_task()) is None:
                if self._closed:
                    return None
                now = self.now()
                patience = self._turns.patience(now, self.room.patience(now, _TICK_SECONDS))
                self._work.wait(patience if self._readers else None)
            if self._turns:
                self._work.notify()  # there may be more to do than this thread does
            return task

    def _broken(self, reader: RemoteReader | None, task: LocateTask | RangeTask | None) -> None:
        """Handles an unexpected exception: its reader goes to the broker, or all do where none is known. Raises nothing."""
        self.metrics.add("remote-fetch-internal-errors-total")
        _log.exception("reading %s failed; the broker takes over", "all partitions" if reader is None else reader.name)
        with self.lock:
            if isinstance(task, RangeTask):
                self._flying.discard(task)
                task.read.drop()
            for failed in list(self._readers) if reader is None else [reader]:
                try:
                    failed.fail(DirectFetchError("reading failed"))
                except Exception:  # noqa: BLE001 - the others are to end all the same
                    _log.exception("ending the read of %s failed; restart the consumer to read it again", failed.name)
            self._ready.notify_all()
            if reader is None:
                self._work.wait(_TICK_SECONDS)  # the next attempt may fail as well

    @contextmanager
    def _locked_for(self, reader: RemoteReader) -> Iterator[None]:
        """Takes the lock to change a reader. A defect fails the reader before another thread can go on with it."""
        with self.lock:
            try:
                yield
            except Exception:
                reader.fail(DirectFetchError("reading failed"))
                raise

    def _next_task(self) -> LocateTask | RangeTask | None:
        """The next task that budgets allow, readers in turn."""
        if self._closed:
            return None
        now = self._clock.monotonic()
        self._give_up_overdue(now)
        self._turns.wake(now)
        room = True
        while (reader := self._turns.take(room=room)) is not None:
            task: LocateTask | RangeTask | None = None
            try:
                task = reader.next_task(now)
                if isinstance(task, RangeTask):
                    if not self.room.has_for(self.room.needs(task.read), len(self._flying), now):
                        self._turns.hold(reader, first=room)
                        room = False
                        continue
                    task = reader.with_fresh_url(task, now)
                if task is not None and self._admits(task, now):
                    reader.started(task)
                    self._turns.add(reader)
                    return task
            except Exception:  # noqa: BLE001 - a defect ends this reader, and all others get their turns
                self._broken(reader, task)
        return None

    def _admits(self, task: LocateTask | RangeTask, now: float) -> bool:
        refusal = self._admission.refusal(task, now)
        if refusal is not None:
            if refusal == SLOWER_THAN_BROKER:
                task.reader.leave(refusal)
            else:
                task.reader.refuse(refusal, self._admission.last_failure)
            self._ready.notify_all()
            return False
        if isinstance(task, RangeTask):
            read = task.read
            self.metrics.add("remote-fetch-rate-limit-time-total", self.room.take(read, now))
            read.lease = Lease(read.needs, self._release)
            self._flying.begin(task, now)
        return True

    def _locate(self, task: LocateTask) -> None:
        reader = task.reader
        with self.lock:
            window = task.renews.window if task.renews else self.room.window(len(self._readers), chunked=reader.reads_chunks)
        started = self._clock.monotonic()
        deadline = Deadline(self._clock, self.config.location_timeout_ms / 1000)
        found = locate(self._source, task, window, self._formats, deadline, self._clock)
        now = self._clock.monotonic()
        self.metrics.location_done(now - started, getattr(found.answer, "throttle_time_ms", 0))
        pause = 0.0 if task.ahead else policy.location_pause(found.answer)
        with self._locked_for(reader):
            reader.offsets = found.offsets
            if pause:
                reader.postponed(now + pause)
                self._turns.add_later(reader, now + pause)
                return
            if isinstance(found.answer, DirectFetchError):
                self.metrics.error(found.answer.cause)
            reader.located(task, found.answer, found.offset, window=window, now=now)
            if task.renews is not None:
                self.metrics.add("remote-fetch-location-refresh-total")
            self._turns.add(reader)
            self._work.notify()
            self._ready.notify_all()

    def _buffer(self, read: RangeRead) -> WritableBuffer:
        with self.lock:
            buffer = self._buffers.take(read.size)
            if read.lease is not None:
                read.lease.buffer = buffer
            return buffer

    def _read(self, task: RangeTask) -> None:
        started, read = self._clock.monotonic(), task.read
        deadline = Deadline(self._clock, self.config.read_timeout_ms / 1000)
        transfer, error = attempt(self._fetcher, task.grant.location, read.granted, lambda: self._buffer(read), deadline)
        seconds = self._clock.monotonic() - started
        self.metrics.range_done(transfer.filled, seconds, error.cause if error else None)
        with self._locked_for(task.reader):
            if not self._flying.end(task):  # given up meanwhile: nobody waits for these bytes
                self.metrics.over_read(transfer.filled)
                return
            self._landed(task, transfer, seconds, error)
        self._decode(task.reader)

    def _landed(self, task: RangeTask, transfer: Transfer | None, seconds: float, error: RemoteStorageError | None) -> None:
        self._admission.landed(task, seconds, error, in_flight=len(self._flying) + 1, now=self.now())
        task.reader.landed(task, transfer, error)
        if not task.reader.owns(task.grant):
            self.metrics.over_read(task.read.abandon())
        self._turns.add(task.reader)
        self._work.notify()

    def _give_up_overdue(self, now: float) -> None:
        """Fails the ranges whose fetcher did not return in time. Their threads and buffers are lost until it does."""
        for task, error in self._flying.give_up(now):
            try:
                self.metrics.error(error.cause)
                self._landed(task, None, 0.0, error)
                self._start_threads()
                if start_thread("kafka-remote-fetch-decode", self._decode_alone, task.reader) is None:
                    self._decode(task.reader)
            except Exception:  # noqa: BLE001 - a defect ends this reader, and the other ranges are given up all the same
                self._broken(task.reader, task)

    def _decode_alone(self, reader: RemoteReader) -> None:
        try:
            self._decode(reader)
        except Exception:  # noqa: BLE001 - a defect must not leave the partition without an end
            self._broken(reader, None)

    def _decode(self, reader: RemoteReader) -> None:
        """Decodes what has landed, in order, until the next range is missing or another thread is at it."""
        while True:
            with self._locked_for(reader):
                work = reader.begin_decode()
            if work is None:
                return
            grant, read = work
            started = self._clock.monotonic()
            blocks, error = decode_range(self._fetcher, grant, read, self.metrics, borrow=reader.borrow)
            with self._locked_for(reader):
                self.room.decoded(read.size, sum(block.nbytes for block in blocks), started, self.now())
                reader.end_decode(grant, read, blocks, error)
                self._turns.add(reader)
                self._work.notify()
                self._ready.notify_all()
