"""The disk cache, the metadata follower and the engines of Spark tasks, under many interleavings of their threads."""

from __future__ import annotations

import fcntl
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_remote_client.fetch import disk_cache
from kafka_remote_client.fetch.cache_entry import BLOCK_BYTES, DamagedEntryError
from kafka_remote_client.fetch.disk_cache import DiskCache
from kafka_remote_client.model import ByteRange, RemoteLogSegmentState
from kafka_remote_client.remote_log import follower, metadata_cache, metadata_store
from kafka_remote_client.remote_log.follower import RemoteLogMetadataFollower
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.partitioner import metadata_partition
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.spark.options.source_options import parse_options
from kafka_remote_client.spark.reading import task_engine
from kafka_remote_client.spark.reading.task_engine import MAX_AGE_SECONDS, TaskEngines
from tests.simulation.interleaved import DeadlockError, Interleaving
from tests.simulation.interleaved_seeds import NoLock, first_failure, with_every_seed
from tests.support.planting import planted
from tests.support.tier import TIP, metadata, update

# -- the disk cache --------------------------------------------------------------------------------------------------------

IDENTITY = bytes([1] * 32)
DATA = bytes(range(256)) * 200
CACHE_BYTES = 16 << 10
FILES = disk_cache._files
RANGES = [ByteRange(start, start + 4_000) for start in range(0, 20_000, 4_000)]


def file_locks(run: Interleaving) -> Any:
    """``fcntl`` whose blocking lock lets other threads run. Two caches of one process lock each other out, as processes do."""

    def flock(descriptor: int, kind: int) -> None:
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if kind & fcntl.LOCK_NB:
                    raise
                run.step("a file's lock")
            else:
                return

    return SimpleNamespace(LOCK_EX=fcntl.LOCK_EX, LOCK_NB=fcntl.LOCK_NB, flock=flock)


def bytes_of(cache: DiskCache, wanted: ByteRange) -> bytes | None:
    entries = cache.open(IDENTITY, wanted)
    if entries is None:
        return None
    found = b""
    for entry in entries:
        blocks = bytearray(entry.header.range.size)
        for number in range(len(entry.header.checksums)):
            part = memoryview(blocks)[number * BLOCK_BYTES : (number + 1) * BLOCK_BYTES]
            entry.read_block(number, part)
        found += blocks[entry.wanted.start - entry.header.range.start :][: entry.wanted.size]
        entry.close()
    return found


def used_at_one_time(directory: Path) -> Iterator[tuple[int, int, Path]]:
    """The files of a cache as if all were used at the same time: the order of real times differs from run to run."""
    return ((0, size, path) for _, size, path in FILES(directory))


def share_a_directory(seed: int) -> None:
    """Two threads of each of two processes read five ranges, of which three fit, and one write is given up."""
    writing: Counter[ByteRange] = Counter()
    with (
        tempfile.TemporaryDirectory() as directory,
        Interleaving(seed, disk_cache) as run,
        mock.patch.object(disk_cache, "fcntl", file_locks(run)),
        mock.patch.object(disk_cache, "_files", used_at_one_time),
    ):
        caches = [DiskCache(Path(directory) / "cache", CACHE_BYTES) for _ in range(2)]

        def read(cache: DiskCache, first: int) -> None:
            for number in range(4):
                wanted = RANGES[(first + number) % len(RANGES)]
                while (found := bytes_of(cache, wanted)) is None:
                    try:
                        claim = cache.claim(IDENTITY, wanted)
                    except BlockingIOError:  # another process makes room
                        claim = None
                    if claim is None:
                        run.step("another writer")
                        continue
                    writing[wanted] += 1
                    assert writing[wanted] == 1, "two threads write one entry"
                    claim.write(memoryview(DATA)[wanted.start : wanted.end])
                    writing[wanted] -= 1
                    if number == 2 and first == 0 and cache is caches[0]:
                        claim.abandon()
                        break
                    claim.finish()
                assert found in (None, DATA[wanted.start : wanted.end])

        for place, cache in enumerate(caches):
            for first in (0, 1):
                run.start(f"thread {first} of process {place}", read, cache, first)
        run.finish()
        files = list(Path(directory).glob("cache/*/*"))
        assert all(file.suffix == ".chunk" for file in files)
        assert sum(file.stat().st_size for file in files) <= CACHE_BYTES
        statistics = [cache.statistics() for cache in caches]
        assert [one.damaged for one in statistics] == [0, 0], "an entry was damaged"
        assert all(one.nbytes >= 0 for one in statistics)


def test_processes_share_a_directory() -> None:
    with_every_seed(share_a_directory, range(30))


def takes_any_file(_original: Callable[..., bool]) -> Callable[..., bool]:
    """A bug: the file that was locked may have been renamed to the complete entry since it was opened."""
    return lambda descriptor, _path, _unfinished: disk_cache._lock(descriptor)


def evicts_unfinished(_original: Callable[..., bool]) -> Callable[..., bool]:
    """A bug: the files of living writers are deleted."""
    return lambda _unfinished: True


@pytest.mark.parametrize(("function", "bug"), [("_is_ours", takes_any_file), ("_is_left_behind", evicts_unfinished)])
def test_a_bug_of_the_disk_cache_is_found(function: str, bug: Callable[..., Any]) -> None:
    with planted(f"kafka_remote_client.fetch.disk_cache:{function}", bug) as plant:
        assert first_failure(share_a_directory, AssertionError, OSError, DamagedEntryError) is not None
    assert plant.ran


# -- the metadata follower -------------------------------------------------------------------------------------------------

SERDE = RemoteLogMetadataSerde()
SEGMENTS = [metadata(start, start + 9, number=1 + start) for start in (0, 10)]
RECORDS = [
    SERDE.serialize(event)
    for segment in SEGMENTS
    for event in (segment, update(segment, RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
]
PARTITIONS = 2
HOME = metadata_partition(TIP, PARTITIONS)
LONGEST_SECONDS = 1_000.0
STEPS = 30
"""So often a consumer answers at once, so that other threads run in between. Later it waits."""


class Record:
    """A message of the metadata topic. Without a value it is the end of the partition."""

    def __init__(self, partition: int, offset: int, value: bytes | None) -> None:
        self.fields = partition, offset, value

    def partition(self) -> int:
        return self.fields[0]

    def offset(self) -> int:
        return self.fields[1]

    def key(self) -> None:
        return None

    def value(self) -> bytes | None:
        return self.fields[2]

    def leader_epoch(self) -> int:
        return 0

    def error(self) -> KafkaError | None:
        return None if self.fields[2] is not None else KafkaError(KafkaError._PARTITION_EOF)


class MetadataConsumer:
    """Gives one record at a time. The first one fails after a while, the second one gives a damaged record once."""

    made = 0

    def __init__(self, _config: object, run: Interleaving) -> None:
        self._run = run
        type(self).made += 1
        self._number = self.made
        self._next = dict.fromkeys(range(PARTITIONS), 0)
        self._given = 0
        self._damages = self._number == 2

    def list_topics(self, topic: str, timeout: float) -> Any:
        partitions = dict.fromkeys(range(PARTITIONS))
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=partitions)})

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        self._run.step("the offsets")
        return 0, len(RECORDS) if place.partition == HOME else 0

    def poll(self, timeout: float) -> None: ...

    def assign(self, places: list[Any]) -> None:
        self._next = {place.partition: place.offset for place in places}

    def incremental_unassign(self, places: list[Any]) -> None: ...

    def incremental_assign(self, places: list[Any]) -> None:
        self._next |= {place.partition: place.offset for place in places}

    def consume(self, count: int, timeout: float) -> list[Record]:
        if self._number == 1:
            self._run.step("a consume")
        else:  # slow, so that a partition is read again while others look
            self._run.clock.wait(_Never(self._run), 0.07)
        self._given += 1
        if self._number == 1 and self._given == STEPS // 2:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        for number, at in self._next.items():
            end = len(RECORDS) if number == HOME else 0
            if at <= end:
                self._next[number] = at + 1
                value = RECORDS[at] if at < end else None
                if self._damages and at == 2:
                    self._damages, value = False, b"\x00damaged"
                return [Record(number, at, value)]
        if self._given > STEPS:
            self._run.clock.wait(_Never(self._run), timeout)
        return []

    def close(self) -> None: ...


class _Never:
    def __init__(self, run: Interleaving) -> None:
        self._run = run

    def wait(self, seconds: float) -> bool:
        return self._run.wait(lambda: False, "the next record", seconds)


def follow(seed: int) -> None:
    """Two threads use the segments of a partition while its metadata is read, fails, is damaged, and is read again."""
    MetadataConsumer.made = 0
    with (
        Interleaving(seed, follower, metadata_store, metadata_cache) as run,
        mock.patch.object(follower, "Consumer", lambda config: MetadataConsumer(config, run)),
    ):
        store = RemoteLogMetadataStore()
        followed = RemoteLogMetadataFollower({}, store, clock=run.clock)
        left = [2]

        def use(rounds: int) -> None:
            used = 0
            while used < rounds:
                assert run.now < LONGEST_SECONDS, "the partition does not become ready"
                before = followed.restarts, followed.bad_records
                if not followed.wait_ready(TIP, 5.0):
                    run.clock.wait(_Never(run), 0.1)
                    continue
                cache = store.cache(TIP)
                run.step("a use")
                found = [] if cache is None else [one.start_offset for one in cache.list_all_remote_log_segments()]
                if followed.ready(TIP) and before == (followed.restarts, followed.bad_records):
                    assert found == [0, 10], "a ready partition misses segments"
                    used += 1
            left[0] -= 1
            if not left[0]:
                followed.close()
                assert not followed.ready(TIP)

        def wait_for_the_end() -> None:
            while followed.ready(TIP) or not followed._stop.is_set():
                followed.wait_settled(50.0)
                run.clock.wait(_Never(run), 1.0)

        run.start("start", followed.start)
        run.start("first", use, 20)
        run.start("second", use, 30)
        run.start("third", wait_for_the_end)
        run.finish()
        assert MetadataConsumer.made >= 2


def test_a_ready_partition_has_all_segments() -> None:
    with quiet():
        with_every_seed(follow, range(20))


@contextmanager
def quiet() -> Iterator[None]:
    """Without the log lines of the failures."""
    with mock.patch.object(follower, "_log"), mock.patch.object(metadata_store, "_log"):
        yield


def clears_first(original: Callable[..., None]) -> Callable[..., None]:
    """A bug: the store is cleared before its partitions are not ready any more."""

    def wrong(followed: Any) -> None:
        followed._store.clear()
        original(followed)

    return wrong


def looks_ready(original: Callable[..., None]) -> Callable[..., None]:
    """A bug: a partition looks ready again before its segments are read again."""

    def wrong(followed: Any, consumer: Any, number: int) -> None:
        original(followed, consumer, number)
        followed._partitions[number].state = follower.FollowState.READY

    return wrong


@pytest.mark.parametrize(("method", "bug"), [("_failed", clears_first), ("_begin_again", looks_ready)])
def test_a_bug_of_the_follower_is_found(method: str, bug: Callable[..., Any]) -> None:
    with quiet(), planted(f"kafka_remote_client.remote_log.follower:RemoteLogMetadataFollower.{method}", bug) as plant:
        assert first_failure(follow, AssertionError) is not None
    assert plant.ran


# -- the engines of Spark tasks --------------------------------------------------------------------------------------------

OPTIONS = [parse_options({"kafka.bootstrap.servers": f"b{number}:1", "subscribe": "t"}) for number in range(3)]


class LentEngine:
    """An engine that notices a use after its end."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def lend_engines(seed: int) -> None:
    """Four tasks borrow engines of three kinds, one fails, time passes, and all idle engines are closed in between."""
    with Interleaving(seed, task_engine) as run:
        made: list[LentEngine] = []

        def make(_options: object, _clock: object) -> Any:
            run.step("an engine is built")
            made.append(LentEngine())
            return made[-1]

        engines = TaskEngines(make, clock=run.clock)

        def work(number: int) -> None:
            for turn in range(4):
                with suppress(ValueError), engines.lend(OPTIONS[number * turn % len(OPTIONS)]) as lent:
                    engine: Any = lent
                    for _ in range(2):
                        assert not engine.closed, "a task uses a closed engine"
                        run.step("a task")
                    if number == turn == 1:
                        raise ValueError
                if number == turn == 2:
                    run.now += MAX_AGE_SECONDS + 1
                if turn == 3 or number == 3:
                    engines.close()

        for number in range(4):
            run.start(f"task {number}", work, number)
        run.finish()
        engines.close()
        assert [engine.closed for engine in made] == [1] * len(made)


def test_no_task_uses_a_closed_engine() -> None:
    with_every_seed(lend_engines)


def counts_later(_original: Callable[..., Any]) -> Callable[..., Any]:
    """A bug: the engine is in use only after the lock was released."""

    def wrong(engines: Any, options: Any) -> Any:
        with engines._lock:
            closing = engines._removed()
            fitting = [kept for kept in engines._kept if not kept.retired and task_engine._fits(kept, options)]
        task_engine._close(closing)
        if fitting:
            fitting[-1].users += 1
            return fitting[-1]
        made = task_engine._Kept(options.remote, options.client, engines._make_engine(options, None), 0.0, users=1)
        with engines._lock:
            engines._kept.append(made)
        return made

    return wrong


def unlocked_engines(original: Callable[..., None]) -> Callable[..., None]:
    """A bug: nothing excludes the tasks from each other."""

    def wrong(engines: Any) -> None:
        original(engines)
        engines._lock = NoLock()

    return wrong


@pytest.mark.parametrize(("method", "bug"), [("_take", counts_later), ("_start_empty", unlocked_engines)])
def test_a_bug_of_the_task_engines_is_found(method: str, bug: Callable[..., Any]) -> None:
    with planted(f"kafka_remote_client.spark.reading.task_engine:TaskEngines.{method}", bug) as plant:
        assert first_failure(lend_engines, AssertionError, DeadlockError, ValueError) is not None
    assert plant.ran
