"""Modules with locks, under many interleavings of their threads; and the harness itself."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kafka_remote_client import metrics
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.consumer import call_gate
from kafka_remote_client.consumer.call_gate import CallGate
from kafka_remote_client.errors import LocationError
from kafka_remote_client.fetch import engine as engine_module
from kafka_remote_client.fetch import offsets_watch, preference
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.offsets_watch import OffsetsWatch
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import PartitionOffsets
from kafka_remote_client.remote_log import byte_bound_cache, loading_cache
from kafka_remote_client.remote_log.loading_cache import LoadingCache
from tests.simulation.interleaved import DeadlockError, Interleaving
from tests.simulation.interleaved_seeds import NoLock, first_failure, with_every_seed
from tests.support.golden_tier import GoldenTierSource, ScriptedFetcher
from tests.support.locations import ManualClock
from tests.support.planting import planted
from tests.support.reader_rig import TIERED_END, TOPIC, UNCOMMITTED

_LONGEST_SECONDS = 100.0
_CONFIG = RemoteFetchConfig(enabled=True, hedge_max_percent=0, max_in_flight=3)


def load_together(seed: int) -> None:
    """Four threads ask for two keys; one of the loads fails the first time."""
    loading: Counter[str] = Counter()
    loads: Counter[str] = Counter()
    with Interleaving(seed, loading_cache, byte_bound_cache) as run:
        cache: LoadingCache[str] = LoadingCache(1000, clock=ManualClock())

        def ask(key: str) -> None:
            def load() -> tuple[str, int]:
                loading[key] += 1
                loads[key] += 1
                run.step("a load")
                assert loading[key] == 1, f"{key} is loaded twice at once"
                loading[key] -= 1
                if key == "bad" and loads[key] == 1:
                    raise LocationError("the first load fails")
                return key.upper(), 1

            try:
                assert cache.get(key, load) == key.upper()
            except LocationError:
                assert key == "bad"
                assert cache.get(key, load) == "BAD"

        for number, key in enumerate(("good", "good", "bad", "bad")):
            run.start(f"thread {number}", ask, key)
        run.finish()
        assert loads == {"good": 1, "bad": 2}


def unlocked(original: Callable[..., Any]) -> Callable[..., Any]:
    """A bug: the dictionary of running loads has no lock."""

    def wrong(flights: Any) -> None:
        original(flights)
        flights._lock = NoLock()

    return wrong


def test_concurrent_calls_load_a_key_once() -> None:
    with_every_seed(load_together)


def test_a_missing_lock_is_found() -> None:
    with planted("kafka_remote_client.remote_log.loading_cache:SingleFlight.__init__", unlocked) as plant:
        assert first_failure(load_together, KeyError, AssertionError) is not None
    assert plant.ran


def enter_together(seed: int) -> None:
    """Three callers enter a gate, each twice at once."""
    inside: list[int] = []
    with Interleaving(seed, call_gate) as run:
        gate = CallGate(lambda: 0)

        def call(number: int) -> None:
            for _ in range(2):
                with gate, gate:
                    inside.append(number)
                    run.step("a call")
                    assert inside == [number], "two callers are inside"
                    inside.remove(number)

        for number in range(3):
            run.start(f"caller {number}", call, number)
        run.finish()


def test_one_caller_at_a_time_enters_the_gate() -> None:
    with_every_seed(enter_together)


def leaves_too_early(_original: Callable[..., None]) -> Callable[..., None]:
    """A bug: the inner exit of a nested entry opens the gate."""

    def wrong(gate: Any, *_: object) -> None:
        gate._depth -= 1
        if gate._owner:
            gate._owner = 0
            gate._lock.release()

    return wrong


def test_a_gate_that_opens_too_early_is_found() -> None:
    with planted("kafka_remote_client.consumer.call_gate:CallGate.__exit__", leaves_too_early) as plant:
        assert first_failure(enter_nested, AssertionError) is not None
    assert plant.ran


def enter_nested(seed: int) -> None:
    """A caller is still inside after a nested entry."""
    inside: list[int] = []
    with Interleaving(seed, call_gate) as run:
        gate = CallGate(lambda: 0)

        def call(number: int) -> None:
            with gate:
                with gate:
                    pass
                inside.append(number)
                run.step("a call")
                assert inside == [number], "two callers are inside"
                inside.remove(number)

        for number in range(2):
            run.start(f"caller {number}", call, number)
        run.finish()


def watch_offsets(seed: int) -> None:
    """Two threads ask about bounds until they have an answer, and the last one closes the watch."""
    with Interleaving(seed, offsets_watch) as run:

        class Source:
            def offsets_of(self, partitions: Iterable[tuple[str, int]], _deadline: object) -> dict[Any, PartitionOffsets]:
                run.step("a request")
                return {key: PartitionOffsets(0, key[1], 1, 2, 3) for key in partitions}

        watch = OffsetsWatch(Source(), ManualClock(), 1.0)
        left = [2]

        def ask(number: int) -> None:
            key = ("orders", number)
            watch.ask([key])
            answer = None
            while answer is None:
                run.step("a poll")
                answer = watch.answer(key)
            assert answer == PartitionOffsets(0, number, 1, 2, 3)
            left[0] -= 1
            if not left[0]:
                watch.close(1.0)

        run.start("first", ask, 0)
        run.start("second", ask, 1)
        run.finish()


def test_each_question_about_bounds_is_answered() -> None:
    with_every_seed(watch_offsets)


def says_nothing(_original: Callable[..., None]) -> Callable[..., None]:
    """A bug: close() does not wake the thread."""

    def wrong(watch: Any, _timeout: float) -> None:
        with watch._changed:
            watch._closed = True

    return wrong


def test_a_lost_wake_up_is_a_deadlock_with_its_places() -> None:
    with planted("kafka_remote_client.fetch.offsets_watch:OffsetsWatch.close", says_nothing):
        seed = first_failure(watch_offsets, DeadlockError)
        assert seed is not None
        with pytest.raises(DeadlockError, match="all threads wait: kafka-remote-offsets at a condition"):
            watch_offsets(seed)


def read_together(seed: int) -> None:
    """Two applications read the end of the same topic with one engine, and the last one closes it."""
    with Interleaving(seed, engine_module, offsets_watch, metrics, preference) as run:
        clock: Any = run
        fetcher = ScriptedFetcher()
        engine = FetchEngine(GoldenTierSource(), fetcher, _CONFIG, clock=clock, metrics=FetchMetrics(clock))
        left = [2]

        def read(start: int) -> None:
            reader = engine.reader(ReadRequest(TOPIC, 0, start, isolation_level=UNCOMMITTED))
            offsets: list[int] = []
            while True:
                item = reader.take()
                if isinstance(item, ReadEnd):
                    break
                if item is None:
                    engine.wait(1.0)
                    assert run.now < _LONGEST_SECONDS, "reading stands still"
                else:
                    offsets += [row[0] for row in item.rows()]
            reader.stop()
            assert offsets == list(range(start, TIERED_END))
            left[0] -= 1
            if not left[0]:
                engine.close()

        for start in (TIERED_END - 40, TIERED_END - 700):
            run.start(f"reader from {start}", read, start)
        run.finish()
        assert engine.memory.held == 0
        assert all(stream.closed for stream in fetcher.streams)


def test_readers_of_one_engine_get_all_records() -> None:
    with_every_seed(read_together, range(12))


def takes_unlocked(_original: Callable[..., Any]) -> Callable[..., Any]:
    """A bug: an owner takes a block without the engine's lock."""

    def wrong(engine: Any, read: Any) -> Any:
        item = engine._scheduler.taken(read, engine._clock.monotonic())
        engine._wake_worker()
        return item

    return wrong


def closes_quietly(_original: Callable[..., None]) -> Callable[..., None]:
    """A bug: close() does not wake the workers."""

    def wrong(engine: Any) -> None:
        with engine.lock:
            engine._closed = True
            for read in list(engine._scheduler.reads):
                engine.stop(read)
        engine.watch.close(1.0)
        for thread in engine._threads:
            thread.join()

    return wrong


@pytest.mark.parametrize(
    ("method", "bug", "kind"), [("take", takes_unlocked, AssertionError), ("close", closes_quietly, DeadlockError)]
)
def test_a_bug_of_the_engine_is_found(method: str, bug: Callable[..., Any], kind: type[BaseException]) -> None:
    with planted(f"kafka_remote_client.fetch.engine:FetchEngine.{method}", bug) as plant:
        assert first_failure(read_together, kind) is not None
    assert plant.ran


def test_the_same_seed_gives_the_same_story() -> None:
    stories = []
    for seed in (1, 1, 2):
        with Interleaving(seed) as run:
            for name in ("first", "second"):
                run.start(name, lambda: [run.step(f"step {number}") for number in range(10)])
            run.finish()
        stories.append(run.story)
    assert stories[0] == stories[1] != stories[2]


def test_a_time_out_ends_a_wait_when_no_thread_can_run() -> None:
    with Interleaving(1) as run:
        ended = []
        run.start("waits", lambda: ended.append((run.wait(lambda: False, "nothing", 2.5), run.now)))
        run.finish()
    assert ended == [(False, 2.5)]


def test_the_modules_get_their_own_names_back() -> None:
    with Interleaving(1, loading_cache):
        assert loading_cache.threading is not threading
    assert loading_cache.threading is threading
