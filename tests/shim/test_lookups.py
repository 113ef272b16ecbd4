"""Look-ups in threads: one for equal requests of a connection, none waited for past its deadline."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import attrs
import pytest

from kafka_remote_client.location.probes import NotGrantedError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.remote_log.kept_only import about_to_read
from kafka_remote_client.shim.lookups import Lookups
from tests.support.questions import tier_question
from tests.support.shim_fakes import TIP

QUESTION = tier_question(TIP, 12, end_offset=100)
SECONDS = 60


class Held:
    """A look-up that goes on when it is let; its answers are the numbers of its calls. The first may raise ``error``."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.calls: list[LocationQuestion] = []
        self.began = threading.Semaphore(0)
        self.error: Exception | None = None

    def __call__(self, question: LocationQuestion) -> int:
        self.calls.append(question)
        number = len(self.calls)
        self.began.release()
        assert self.go_on.wait(SECONDS)
        if number == 1 and self.error is not None:
            raise self.error
        return number

    async def begun(self) -> None:
        await asyncio.to_thread(self.began.acquire, timeout=SECONDS)


@pytest.fixture
def held() -> Iterator[Held]:
    made = Held()
    yield made
    made.go_on.set()


class Prompt(ThreadPoolExecutor):
    """Returns from submit when the call has begun."""

    def submit(self, call: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        began = threading.Event()

        def begin() -> Any:
            began.set()
            return call(*given, **named)

        future = super().submit(begin)
        assert began.wait(SECONDS)
        return future


def run(
    body: Callable[[Callable[[float], Lookups[int]]], Awaitable[None]],
    held: Held,
    *,
    pool: Callable[[], ThreadPoolExecutor] = lambda: ThreadPoolExecutor(4),
    took: Callable[[float], None] = lambda _seconds: None,
) -> None:
    """Runs ``body`` with look-ups that have so many seconds."""

    async def all_of_it() -> None:
        with pool() as workers:
            try:
                await body(lambda seconds: Lookups(workers, held, seconds, took))
            finally:
                held.go_on.set()

    asyncio.run(all_of_it())


def test_time_of_each_look_up_is_reported_once(held: Held) -> None:
    async def body(made: Callable[[float], Lookups[int]]) -> None:
        lookups = made(SECONDS)
        held.go_on.set()
        assert await asyncio.gather(*(lookups.answer("a", QUESTION) for _ in range(3))) == [1, 1, 1]
        await lookups.answer("b", QUESTION)

    durations: list[float] = []
    run(body, held, took=durations.append)
    assert len(durations) == 2
    assert min(durations) >= 0


def test_equal_requests_of_a_connection_are_looked_up_once(held: Held) -> None:
    async def body(made: Callable[[float], Lookups[int]]) -> None:
        lookups = made(SECONDS)
        same = [asyncio.create_task(lookups.answer("a", attrs.evolve(QUESTION))) for _ in range(3)]
        other = asyncio.create_task(lookups.answer("b", QUESTION))
        await held.begun()
        await held.begun()
        held.go_on.set()
        assert await asyncio.gather(*same, other) == [1, 1, 1, 2]
        assert await lookups.answer("a", QUESTION) == 3, "no answer is remembered"

    run(body, held)


def test_requests_with_other_bounds_wait_for_their_own_look_up(held: Held) -> None:
    grown = attrs.evolve(QUESTION, end_offset=101)
    held.error = ValueError("of the first")

    async def body(made: Callable[[float], Lookups[int]]) -> None:
        lookups = made(SECONDS)
        first = asyncio.create_task(lookups.answer("a", QUESTION))
        await held.begun()
        second = asyncio.create_task(lookups.answer("a", grown))
        await asyncio.sleep(0)
        assert held.calls == [QUESTION]
        held.go_on.set()
        with pytest.raises(ValueError, match="of the first"):
            await first
        assert await second == 2
        assert held.calls == [QUESTION, grown]

    run(body, held)


def test_a_hung_look_up_is_given_up_and_not_started_again(held: Held) -> None:
    async def body(made: Callable[[float], Lookups[int]]) -> None:
        lookups = made(0)
        for _ in range(3):
            with pytest.raises(NotGrantedError) as refused:
                await lookups.answer("a", QUESTION)
            assert refused.value.why == "lookup-timeout"
        assert len(held.calls) == 1

    run(body, held, pool=Prompt)


def test_a_queued_look_up_is_not_started_past_its_deadline(held: Held) -> None:
    async def body(made: Callable[[float], Lookups[int]]) -> None:
        running = asyncio.create_task(made(SECONDS).answer("a", QUESTION))
        await held.begun()
        for _ in range(2):
            with pytest.raises(NotGrantedError):
                await made(0).answer("a", QUESTION)
        held.go_on.set()
        assert await running == 1
        assert len(held.calls) == 1

    run(body, held, pool=lambda: ThreadPoolExecutor(1))


def test_a_cancelled_caller_leaves_the_look_up_running(held: Held) -> None:
    async def body(made: Callable[[float], Lookups[int]]) -> None:
        lookups = made(SECONDS)
        leaves, stays = (asyncio.create_task(lookups.answer("a", QUESTION)) for _ in range(2))
        await held.begun()
        leaves.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaves
        held.go_on.set()
        assert await stays == 1

    run(body, held)


def test_an_error_without_a_waiting_caller_is_dropped(held: Held) -> None:
    held.error = ValueError("too late")
    complaints: list[object] = []

    async def body(made: Callable[[float], Lookups[int]]) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
        lookups = made(0)
        with pytest.raises(NotGrantedError):
            await lookups.answer("a", QUESTION)
        held.go_on.set()
        while lookups._running:
            await asyncio.sleep(0)
        gc.collect()
        assert not complaints

    run(body, held, pool=Prompt)


def test_other_work_has_a_deadline_too(held: Held) -> None:
    async def body(made: Callable[[float], Lookups[int]]) -> None:
        assert await made(SECONDS).run(lambda: "done") == "done"
        with pytest.raises(NotGrantedError):
            await made(0).run(lambda: held.go_on.wait(SECONDS))

    run(body, held)


class Kept(Held):
    """Like Held, but answers about KEPT need no read."""

    def __call__(self, question: LocationQuestion) -> int:
        if question == KEPT:
            return 0
        about_to_read()
        return super().__call__(question)


KEPT = attrs.evolve(QUESTION, offset=50)


def test_cached_answers_wait_for_no_look_up_that_reads() -> None:
    held = Kept()

    async def all_of_it() -> None:
        with ThreadPoolExecutor(1) as workers, ThreadPoolExecutor(1) as kept_workers:
            times: list[float] = []
            lookups = Lookups(workers, held, 10.0, times.append, kept_workers)
            cold = asyncio.create_task(lookups.answer("a", QUESTION))
            await held.begun()
            try:
                assert await lookups.answer("a", KEPT) == 0
                assert await lookups.run(lambda: "signed") == "signed"
            finally:
                held.go_on.set()
            assert await cold == 1
            assert held.calls == [QUESTION]
            assert len(times) == 2, "both look-ups count, and signing is none"

    asyncio.run(all_of_it())


def test_cached_look_ups_run_only_as_many_at_once_as_told(held: Held) -> None:
    async def all_of_it() -> None:
        with ThreadPoolExecutor(1) as workers, Prompt(4) as kept_workers:
            lookups = Lookups(workers, held, SECONDS, lambda _seconds: None, kept_workers, kept_at_once=1)
            asked = [asyncio.create_task(lookups.answer("a", attrs.evolve(QUESTION, offset=n))) for n in range(4)]
            try:
                await held.begun()
                assert await lookups.run(lambda: len(held.calls)) == 1, "other work does not wait"
            finally:
                held.go_on.set()
            assert await asyncio.gather(*asked) == [1, 2, 3, 4]

    asyncio.run(all_of_it())
