"""The engine without threads or memory, and with components that raise unexpectedly. Other cases: test_remote_reader."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import (
    CorruptRecordError,
    DirectFetchError,
    LocationError,
    LocationExpiredError,
    RemoteStorageUnavailableError,
    UnsupportedFormatError,
)
from kafka_remote_client.fetch import engine as engines
from kafka_remote_client.fetch.admission import Admission
from kafka_remote_client.fetch.commands import Work
from kafka_remote_client.fetch.engine import FetchEngine, decode_range
from kafka_remote_client.fetch.fetch_budget import FetchBudget
from kafka_remote_client.fetch.flights import Flights
from kafka_remote_client.fetch.grant_read import GrantRead, RangeRead
from kafka_remote_client.fetch.memory import BufferPool
from kafka_remote_client.fetch.partition_read import PartitionRead
from kafka_remote_client.fetch.partition_state import ReaderState
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.ready_queue import ReadyQueue
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import (
    ByteRange,
    GrantedRange,
    IsolationLevel,
    PartitionOffsets,
    RemoteLogSegmentMetadata,
    uuid_to_text,
)
from kafka_remote_client.plugin import ReadableStream, WritableBuffer
from kafka_remote_client.records import RecordBlock, read_batches
from tests.support.golden_tier import STORE_ROOT, GoldenTierSource, ScriptedFetcher, golden_path
from tests.support.locations import SEGMENT_ID, location, segment
from tests.support.reading import PATIENT_ENGINE
from tests.support.waiting import wait_until

TOPIC, TIERED_END = "codec-none-rdk", 4200


@pytest.fixture
def engine() -> Iterator[FetchEngine]:
    clock = SystemClock()
    made = FetchEngine(GoldenTierSource(), ScriptedFetcher(), PATIENT_ENGINE, clock=clock, metrics=FetchMetrics(clock))
    yield made
    made.close()
    assert made.memory.held == 0


def read(engine: FetchEngine) -> tuple[int, ReadEnd]:
    """Returns the number of records and the end of the read."""
    count = 0
    reader = engine.reader(ReadRequest(TOPIC, 0, 0, isolation_level=IsolationLevel.READ_UNCOMMITTED))
    for item in reader.blocks(60.0):
        if isinstance(item, ReadEnd):
            return count, item
        count += len(item)
    raise AssertionError("no end")


def test_without_a_thread_the_broker_takes_over(engine: FetchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as refused:
        refused.setattr(engines, "start_thread", lambda *_: None)
        count, end = read(engine)
    assert (count, end.reason, end.next_offset) == (0, "no-thread", 0)
    count, end = read(engine)  # threads can start again
    assert (count, end.next_offset) == (TIERED_END, TIERED_END)


def test_histograms_count_each_first_byte_and_each_decoding(engine: FetchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch, refused = ScriptedFetcher.fetch_log_segment, list[int]()

    def fetching(self: ScriptedFetcher, *args: Any) -> Any:
        if not refused:
            refused.append(1)
            raise RemoteStorageUnavailableError("refused")
        return fetch(self, *args)

    monkeypatch.setattr(ScriptedFetcher, "fetch_log_segment", fetching)
    read(engine)
    told = engine.metrics.snapshot()
    counted = {}
    for name in ("latency", "first-byte", "decode"):
        counts = told[f"remote-fetch-{name}-seconds-bucket"]
        assert isinstance(counts, dict)
        counted[name] = counts["+Inf"]
    requests = told["remote-fetch-request-total"]
    assert counted == {"latency": requests, "first-byte": requests - 1, "decode": requests - 1}


def test_a_wait_ends_when_bounds_arrive(engine: FetchEngine) -> None:
    engine.watch.ask([(TOPIC, 0)])
    assert not engine.wait(3600.0), "no reader has anything to take"
    assert engine.watch.answer((TOPIC, 0)) is not None
    assert not engine._bounds_wait, "the next wait is for something else"


def test_one_thread_is_enough(engine: FetchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread | None] = []
    start_thread = engines.start_thread

    def once(*args: Any) -> threading.Thread | None:
        started.append(None if started else start_thread(*args))
        return started[-1]

    monkeypatch.setattr(engines, "start_thread", once)
    count, _ = read(engine)
    assert count == TIERED_END
    assert len(started) > 1
    assert started[0] is not None
    assert started[0].is_alive()


def test_threads_start_as_work_arrives() -> None:
    clock = SystemClock()
    config = attrs.evolve(PATIENT_ENGINE, max_in_flight=256)
    made = FetchEngine(GoldenTierSource(), ScriptedFetcher(), config, clock=clock, metrics=FetchMetrics(clock))
    with made.lock:  # no worker continues meanwhile
        reader = made.reader(ReadRequest(TOPIC, 0, 0))
        assert len(made._threads) == 1
    reader.stop()
    read(made)
    assert 0 < len(made._threads) < 100
    made.close()


def test_buffers_are_kept_for_ranges_that_wait_for_the_store(engine: FetchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = [engine._buffers.take(1 << 20) for _ in range(3)]
    with monkeypatch.context() as patched:
        patched.setattr(engine.memory, "held", engine.memory.limit)
        patched.setattr(Flights, "awaited_bytes", engine.memory.limit)
        for buffer in buffers:
            engine._buffers.give_back(buffer)
    taken = [engine._buffers.take(1 << 20) for _ in buffers]
    assert all(one is other for one, other in zip(taken, reversed(buffers), strict=True))


@pytest.mark.parametrize("error", [MemoryError(), OSError(12, "Cannot allocate memory")], ids=["python", "system"])
def test_a_failed_allocation_is_a_failed_range(engine: FetchEngine, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    take, failed = BufferPool.take, list[int]()

    def taking(self: BufferPool, size: int) -> Any:
        if not failed:
            failed.append(size)
            raise error
        return take(self, size)

    monkeypatch.setattr(BufferPool, "take", taking)
    count, end = read(engine)
    assert failed
    errors = engine.metrics.snapshot()["remote-fetch-errors-total"]
    assert isinstance(errors, dict)
    assert errors["storage-error"] == 1
    assert count == end.next_offset


def test_a_defect_in_a_bounds_request_becomes_an_error_answer(engine: FetchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def defective(*_: object) -> None:
        raise KeyError("defect")

    monkeypatch.setattr(GoldenTierSource, "offsets_of", defective)
    answers = engine.source.offsets_of([(TOPIC, 0)], Deadline(SystemClock(), 60.0))
    assert isinstance(answers[TOPIC, 0], LocationError)


def test_a_fetcher_that_fails_to_close_leaves_nothing_else_open(caplog: pytest.LogCaptureFixture) -> None:
    class Defective(ScriptedFetcher):
        def close(self) -> None:
            raise KeyError("defect")

    clock, source = SystemClock(), GoldenTierSource()
    made = FetchEngine(source, Defective(), PATIENT_ENGINE, clock=clock, metrics=FetchMetrics(clock))
    reader = made.reader(ReadRequest(TOPIC, 0, 0, isolation_level=IsolationLevel.READ_UNCOMMITTED))
    threads = list(made._threads)
    made.close(60.0)
    assert reader.take() is None
    assert threads
    assert not any(thread.is_alive() for thread in threads)
    assert source.closed == 1
    assert "closing the fetcher failed" in caplog.text


def test_an_interrupted_close_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Interrupted(ScriptedFetcher):
        def close(self) -> None:
            closed.append("fetcher")
            raise KeyboardInterrupt

    def interrupted(*_: object) -> None:
        closed.append("read")
        raise KeyboardInterrupt

    clock, source = SystemClock(), GoldenTierSource()
    made = FetchEngine(source, Interrupted(), PATIENT_ENGINE, clock=clock, metrics=FetchMetrics(clock))
    made.reader(ReadRequest(TOPIC, 0, 0, isolation_level=IsolationLevel.READ_UNCOMMITTED))
    threads = list(made._threads)
    with monkeypatch.context() as first:
        first.setattr(made, "stop", interrupted)
        with pytest.raises(KeyboardInterrupt):
            made.close(60.0)
    made.close()
    assert closed == ["read", "fetcher"]
    assert source.closed == 1
    assert threads
    assert not any(thread.is_alive() for thread in threads)


class HeldFetcher(ScriptedFetcher):
    """Gives no range until it is released."""

    def __init__(self, faults: dict[int, list[Any]] | None = None) -> None:
        super().__init__(faults)
        self.released = threading.Event()

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> ReadableStream:
        assert self.released.wait(60.0)
        return super().fetch_log_segment(metadata, start, end)


def test_a_fetcher_that_never_returns_costs_no_partition() -> None:
    clock, fetcher = SystemClock(), HeldFetcher()
    config = attrs.evolve(PATIENT_ENGINE, max_in_flight=1, read_timeout_ms=50, connect_timeout_ms=50, breaker_failures=1000)
    made = FetchEngine(GoldenTierSource(), fetcher, config, clock=clock, metrics=FetchMetrics(clock))
    ends = [read(made)[1] for _ in range(6)]
    assert [end.reason for end in ends] == ["timeout"] + ["no-thread"] * 5
    fetcher.released.set()
    wait_until(lambda: made._scheduler.stuck == 0, "the end of the thread that hangs")
    assert read(made)[1].reason != "no-thread"
    made.close(60.0)


RANGES = [(0, 20_203), (20_203, 47_067), (47_067, 71_526)]  # of whole batches


@pytest.mark.parametrize(
    ("fault", "delivered"),
    [(None, 71_526), (RemoteStorageUnavailableError("cut"), 20_203), (LocationExpiredError("old"), 20_203)],
    ids=["all arrive", "one would be retried", "a location would be requested"],
)
def test_a_slow_store_is_left_after_the_ranges_in_flight_arrive(
    monkeypatch: pytest.MonkeyPatch, fault: Exception | None, delivered: int
) -> None:
    clock, fetcher = SystemClock(), HeldFetcher({20_203: [fault]} if fault else None)
    bounds = PartitionOffsets(log_start=0, earliest_local=TIERED_END, high_watermark=TIERED_END)
    source, metrics = GoldenTierSource(bounds), FetchMetrics(clock)
    made = FetchEngine(source, fetcher, PATIENT_ENGINE, clock=clock, metrics=metrics)
    asked: list[object] = []

    def leaves(*args: object) -> bool:
        asked.append(args)
        if len(asked) == 4:
            fetcher.released.set()
        return len(asked) == 4

    monkeypatch.setattr(made.admission.preference, "leaves", leaves)
    reader = made.reader(ReadRequest(TOPIC, 0, 0, isolation_level=IsolationLevel.READ_UNCOMMITTED, stop_at_local=True))
    items = list(reader.blocks(60.0))
    made.close(60.0)
    end = items.pop()
    assert isinstance(end, ReadEnd)
    assert end.reason == "slower-than-broker"
    assert sorted(fetcher.fetched) == RANGES
    (log,) = golden_path(STORE_ROOT).rglob(f"{TOPIC}-0-*/00000000000000000000-*.log")
    whole = read_batches(log.read_bytes()[:delivered])
    assert [offset for block in items for offset in offsets_of(block)] == offsets_of(whole)
    assert end.next_offset == len(offsets_of(whole))
    assert made.memory.held == 0


def offsets_of(block: Any) -> list[int]:
    return [block.offset(index) for index in range(len(block))]


def test_a_closed_engine_starts_no_thread(engine: FetchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = engine.reader(ReadRequest(TOPIC, 0, 0))
    engine.close()
    started: list[str] = []
    monkeypatch.setattr(engines, "start_thread", lambda name, *_: started.append(name))
    monkeypatch.setattr(engines.Scheduler, "has_work", True)
    reader.take()
    assert started == []


def test_one_idle_worker_waits_with_a_time_out(engine: FetchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for a notification, so the end of a wait wakes one thread only."""
    waits: list[float | None] = []
    wait = engine._work.wait

    def recorded(timeout: float | None = None) -> bool:
        waits.append(timeout)
        try:
            return wait(timeout)
        finally:
            waits.remove(timeout)

    monkeypatch.setattr(engine._work, "wait", recorded)
    engine.reader(ReadRequest(TOPIC, 0, 0))  # nobody takes its records, so it does not end
    wait_until(lambda: len(waits) > 1 and engine._scheduler.in_flight == 0, "the end of all requests")
    # A worker that was not notified may still wait with an older, longer time-out.
    wait_until(lambda: len([timeout for timeout in waits if timeout is not None]) == 1, "one that watches")
    assert len(waits) > 1


def test_a_worker_is_notified_of_an_earlier_deadline(engine: FetchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The idle workers wait for a later deadline."""
    engine.reader(ReadRequest(TOPIC, 0, 0))
    wait_until(lambda: engine._idle > 1 and engine._scheduler.in_flight == 0, "the end of all requests")
    monkeypatch.setattr(engines.Scheduler, "patience", lambda *_: 3600.0)
    wait_until(lambda: engine._watched_until > SystemClock().monotonic() + 1000, "a long wait")
    looks: list[float] = []

    def sooner(_: object, now: float, __: float) -> float:
        looks.append(now)
        return 0.001

    monkeypatch.setattr(engines.Scheduler, "patience", sooner)
    with engine.lock:
        engine._wake_worker()
    wait_until(lambda: len(looks) > 3, "looks after a millisecond")


def test_a_defect_after_a_fetch_releases_the_range_s_memory(
    engine: FetchEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise KeyError("defect")

    monkeypatch.setattr(engine.metrics, "range_done", breaks)
    _, end = read(engine)
    assert end.reason == "error"
    assert str(end.error) == f"reading {TOPIC}-0 failed with KeyError; see the traceback in the log"
    assert end.error is not None
    assert isinstance(end.error.__cause__, KeyError)
    monkeypatch.undo()
    engine.close()
    assert engine.memory.held == 0
    assert "the broker takes over" in caplog.text


@pytest.mark.parametrize("broken", ["located", "next_decode", "decoded"])
@pytest.mark.parametrize("after", [0, 3])
def test_a_defect_in_reading_loses_no_record_and_no_thread(
    engine: FetchEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, broken: str, after: int
) -> None:
    calls: list[object] = []
    method = getattr(PartitionRead, broken)

    def breaks(self: PartitionRead, *args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        due = len(calls) == after + 1
        result = None if due and broken == "next_decode" else method(self, *args, **kwargs)
        if due:
            raise KeyError("defect")
        return result

    states: list[ReaderState] = []
    handle = engine._broken

    def records_the_state(broken: list[PartitionRead] | None, command: Work | None, defect: BaseException | None) -> None:
        assert engine.lock._is_owned()  # type: ignore[attr-defined] # the lock is held from the defect on
        handle(broken, command, defect)
        assert broken is not None
        states.extend(read.state for read in broken)

    monkeypatch.setattr(PartitionRead, broken, breaks)
    monkeypatch.setattr(engine, "_broken", records_the_state)
    count, end = read(engine)
    assert (count, end.reason) == (end.next_offset, "error")
    # The worker that hit the defect ends the reader before it releases the lock: no other thread may read past that end.
    wait_until(lambda: states, "the defect to be handled", pause=0.01)
    assert set(states) <= {ReaderState.ENDING, ReaderState.ENDED, ReaderState.STOPPED}
    wait_until(lambda: "the broker takes over" in caplog.text, "the log line")  # logged after the end
    threads = [thread for thread in engine._threads if thread.is_alive()]
    assert len(threads) == len(engine._threads)
    count, end = read(engine)
    assert (count, end.next_offset) == (TIERED_END, TIERED_END)


class _WritesLate:
    """A stream that blocks with its buffer in use until it is released."""

    def __init__(self, released: threading.Event) -> None:
        self._released = released
        self.buffers: list[object] = []

    def readinto(self, buffer: WritableBuffer, /) -> int:
        self.buffers.append(memoryview(buffer).obj)
        self._released.wait(60.0)
        raise RemoteStorageUnavailableError("released")

    def close(self) -> None:
        """Holds nothing."""


def test_the_buffer_of_a_hung_fetch_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    released, clock = threading.Event(), SystemClock()
    stream = _WritesLate(released)
    pooled: list[object] = []
    give_back = BufferPool.give_back

    def giving_back(self: BufferPool, buffer: WritableBuffer) -> None:
        pooled.append(memoryview(buffer).obj)
        give_back(self, buffer)

    monkeypatch.setattr(BufferPool, "give_back", giving_back)
    config = attrs.evolve(PATIENT_ENGINE, read_timeout_ms=1, connect_timeout_ms=1, hedge_max_percent=0)
    fetcher = ScriptedFetcher({0: [lambda _: stream]})
    made = FetchEngine(GoldenTierSource(), fetcher, config, clock=clock, metrics=FetchMetrics(clock))
    try:
        _, end = read(made)
        assert (end.reason, len(stream.buffers)) == ("timeout", 1)
        assert not any(buffer is stream.buffers[0] for buffer in pooled)
        assert made._scheduler.stuck == 1
    finally:
        released.set()
        made.close(60.0)
    assert not any(buffer is stream.buffers[0] for buffer in pooled), "nor once the fetch has returned"
    assert made._scheduler.stuck == 0


STEPS = [
    (PartitionRead, "next_command"),
    (PartitionRead, "with_fresh_url"),
    (PartitionRead, "issued"),
    (FetchBudget, "has_for"),
    (FetchBudget, "take"),
    (Admission, "refuses_location"),
    (Admission, "refuses_range"),
]


class BreaksOnce:
    """Replaces a method: its first call with a topic (or the first at all, without a reader) raises, later calls do not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.raised = 0
        method, breaks = getattr(owner, name), self

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not breaks.raised:
                breaks.raised += 1
                raise KeyError("defect")
            return method(self, *args, **kwargs)

        monkeypatch.setattr(owner, name, call)


def alive(engine: FetchEngine) -> int:
    return sum(thread.is_alive() for thread in engine._threads)


@pytest.mark.parametrize(("owner", "name"), STEPS, ids=[name for _, name in STEPS])
def test_a_defect_in_choosing_a_command_ends_one_reader_only(
    engine: FetchEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, owner: type, name: str
) -> None:
    broken = BreaksOnce(monkeypatch, owner, name)
    readers = [engine.reader(ReadRequest(TOPIC, 0, 0, isolation_level=IsolationLevel.READ_UNCOMMITTED)) for _ in range(3)]
    ends = [next(item for item in reader.blocks(60.0) if isinstance(item, ReadEnd)) for reader in readers]
    assert broken.raised == 1
    assert sorted(end.reason == "error" for end in ends) == [False, False, True]
    assert sorted(end.next_offset for end in ends)[1:] == [TIERED_END, TIERED_END]
    assert "the broker takes over" in caplog.text
    assert engine.metrics.snapshot()["remote-fetch-internal-errors-total"] == 1
    assert alive(engine) == len(engine._threads)
    assert not engine._scheduler.in_flight


def test_a_defect_outside_any_reader_sends_all_to_the_broker(
    engine: FetchEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = BreaksOnce(monkeypatch, ReadyQueue, "wake")
    count, end = read(engine)
    wait_until(lambda: "reading all partitions failed; the broker takes over" in caplog.text, "the log line")
    assert (broken.raised, count) == (1, end.next_offset)  # other workers may have read some records by then
    assert engine.metrics.snapshot()["remote-fetch-internal-errors-total"] == 1
    count, end = read(engine)
    assert (count, end.next_offset) == (TIERED_END, TIERED_END)
    assert alive(engine) == len(engine._threads)


def test_a_defect_without_a_reader_fails_all_readers(engine: FetchEngine) -> None:
    with engine.lock:  # no worker continues meanwhile
        readers = [engine.reader(ReadRequest(TOPIC, 0, 0)) for _ in range(2)]
        engine._broken(None, None, None)
        assert [reader.state for reader in readers] == [ReaderState.ENDING] * 2
    assert [end.reason for end in (reader.take() for reader in readers) if isinstance(end, ReadEnd)] == ["error"] * 2


def test_a_reader_whose_failure_fails_stops_no_worker(engine: FetchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    BreaksOnce(monkeypatch, PartitionRead, "next_command")
    failing = BreaksOnce(monkeypatch, PartitionRead, "fail")
    lost = engine.reader(ReadRequest(TOPIC, 0, 0))
    wait_until(lambda: failing.raised, "the second defect")
    count, end = read(engine)
    assert (count, end.next_offset) == (TIERED_END, TIERED_END)
    assert alive(engine) == len(engine._threads)
    lost.stop()


class KeepingFetcher(ScriptedFetcher):
    """Keeps ranges and records which of them it gets to discard."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten: list[tuple[int, int]] = []

    def discard(self, _: object, start: int, end: int) -> None:
        self.forgotten.append((start, end))


BLOCK = cast("RecordBlock", object())
READ = RangeRead(GrantedRange(ByteRange(3, 9), b""))


def decoded(failure: Exception | None) -> tuple[list[RecordBlock], DirectFetchError | None, KeepingFetcher, FetchMetrics]:
    """Returns the result of a grant with one block and then, optionally, a failure."""

    def decode(_: RangeRead, *, borrow: bool) -> Iterator[RecordBlock]:
        assert borrow
        yield BLOCK
        if failure is not None:
            raise failure

    grant: Any = SimpleNamespace(decode=decode, location=location())
    fetcher, metrics = KeepingFetcher(), FetchMetrics(SystemClock())
    blocks, error = decode_range(fetcher, cast("GrantRead", grant), READ, metrics, borrow=True)
    return blocks, error, fetcher, metrics


def test_a_sound_range_gives_its_blocks_and_no_error() -> None:
    blocks, error, fetcher, metrics = decoded(None)
    assert (blocks, error, fetcher.forgotten) == ([BLOCK], None, [])
    assert metrics.snapshot()["remote-fetch-internal-errors-total"] == 0


@pytest.mark.parametrize("damage", [CorruptRecordError("bad"), UnsupportedFormatError("new")], ids=["corrupt", "unsupported"])
def test_a_damaged_range_gives_the_blocks_before_it_and_is_discarded(damage: DirectFetchError) -> None:
    blocks, error, fetcher, metrics = decoded(damage)
    assert (blocks, fetcher.forgotten) == ([BLOCK], [(3, 9)])
    assert error is damage
    assert (error.topic, error.partition, error.segment_id, error.byte_range) == ("orders", 0, uuid_to_text(SEGMENT_ID), (3, 9))
    assert metrics.snapshot()["remote-fetch-internal-errors-total"] == 0


def test_a_defect_is_counted_and_logged_with_its_segment(caplog: pytest.LogCaptureFixture) -> None:
    blocks, error, fetcher, metrics = decoded(IndexError("defect"))
    assert (blocks, fetcher.forgotten) == ([BLOCK], [])
    segment_id = segment().remote_log_segment_id
    assert str(error) == f"decoding {segment_id} failed with IndexError; see the traceback in the log"
    assert isinstance(error, DirectFetchError)
    assert isinstance(error.__cause__, IndexError)
    assert metrics.snapshot()["remote-fetch-internal-errors-total"] == 1
    assert f"decoding [3, 9) of {segment_id} failed; the broker takes over" in caplog.text
