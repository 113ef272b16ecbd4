"""A decision is made once for repeated requests, and serves a later request whose bounds include its own."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable

import pytest

from kafka_remote_client.protocol.fetch import PartitionData
from kafka_remote_client.shim.decisions import Decisions
from tests.support.shim_fakes import data

KEPT = 60.0


class Decided:
    """Decisions that end when they are released, each with its number."""

    def __init__(self, kept: float = KEPT) -> None:
        self.decisions: Decisions[int] = Decisions(kept)
        self.begun = 0
        self.released = asyncio.Event()

    async def _decide(self) -> int:
        self.begun += 1
        number = self.begun
        await self.released.wait()
        return number

    async def of(self, bounds: PartitionData, *, key: str = "client", question: str = "offset 0") -> int:
        return await self.decisions.of(key, question, bounds, self._decide)

    async def pending(self, bounds: PartitionData) -> None:
        """A request that does not wait for the decision."""
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(self.of(bounds), 0.001)


def run(body: Callable[[Decided], Awaitable[None]], *, kept: float = KEPT) -> None:
    async def with_decisions() -> None:
        await body(Decided(kept))

    asyncio.run(with_decisions())


def test_a_repeated_request_gets_the_pending_decision() -> None:
    async def body(made: Decided) -> None:
        await made.pending(data())
        await made.pending(data())
        made.released.set()
        assert await made.of(data()) == 1
        assert len(made.decisions) == 0

    run(body)


def test_a_decision_that_ends_between_two_requests_is_kept_and_given_once() -> None:
    async def body(made: Decided) -> None:
        await made.pending(data())
        made.released.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(made.decisions) == 1
        assert await made.of(data()) == 1
        assert await made.of(data()) == 2

    run(body)


def test_a_result_is_kept_if_the_request_ends_at_the_same_moment() -> None:
    async def body(made: Decided) -> None:
        asked = asyncio.ensure_future(made.of(data()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        made.released.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert await made.of(data()) == 1

    run(body)


def test_concurrent_requests_share_one_decision() -> None:
    async def body(made: Decided) -> None:
        both = asyncio.gather(made.of(data()), made.of(data()))
        await asyncio.sleep(0)
        made.released.set()
        assert await both == [1, 1]

    run(body)


@pytest.mark.parametrize(
    ("bounds", "decision"),
    [
        (data(high_watermark=2000, last_stable_offset=1500), 1),
        (data(high_watermark=2000, last_stable_offset=999), 2),
        (data(high_watermark=999), 2),
        (data(log_start_offset=51), 2),
        (data(log_start_offset=49), 2),
    ],
    ids=["the log has grown", "stable to a lower offset", "the log is shorter", "begins later", "begins earlier"],
)
def test_a_decision_serves_a_log_that_includes_its_own_bounds(bounds: PartitionData, decision: int) -> None:
    async def body(made: Decided) -> None:
        await made.pending(data())
        made.released.set()
        assert await made.of(bounds) == decision

    run(body)


@pytest.mark.parametrize(("key", "question"), [("another client", "offset 0"), ("client", "offset 1")])
def test_other_clients_and_other_requests_have_their_own_decisions(key: str, question: str) -> None:
    async def body(made: Decided) -> None:
        await made.pending(data())
        made.released.set()
        assert await made.of(data(), key=key, question=question) == 2

    run(body)


def test_an_unused_decision_is_dropped() -> None:
    async def body(made: Decided) -> None:
        await made.pending(data())
        made.released.set()
        while len(made.decisions):
            await asyncio.sleep(0.001)

    run(body, kept=0.001)


def test_a_replaced_decision_does_not_drop_its_successor() -> None:
    async def body(made: Decided) -> None:
        first = asyncio.ensure_future(made.of(data()))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(made.of(data(log_start_offset=60)))
        await asyncio.sleep(0)
        made.released.set()
        assert await first == 1
        assert await second == 2
        assert len(made.decisions) == 0

    run(body)


class Result:
    pass


@pytest.mark.parametrize("first", ["replaced", "ended"])
def test_a_replaced_decision_holds_neither_result_nor_records(first: str) -> None:
    decisions: Decisions[Result] = Decisions(KEPT)
    released = asyncio.Event()
    results: list[weakref.ref[Result]] = []

    async def decide() -> Result:
        await released.wait()
        result = Result()
        results.append(weakref.ref(result))
        return result

    async def pending(offset: int, bounds: PartitionData) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(decisions.of("client", offset, bounds, decide), 0.001)

    async def settled() -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def body() -> None:
        bounds = data(records=b"a batch")
        answered = weakref.ref(bounds)
        await pending(0, bounds)
        del bounds
        assert answered() is None
        if first == "ended":
            released.set()
            await settled()
            released.clear()
        await pending(1, data())
        released.set()
        await settled()
        replaced, current = results
        assert replaced() is None
        assert await decisions.of("client", 1, data(), decide) is current()

    asyncio.run(body())


def test_an_error_is_raised_once_and_then_decided_again() -> None:
    decisions: Decisions[int] = Decisions(KEPT)
    fails = [True]

    async def decide() -> int:
        if fails.pop():
            raise ValueError("the broker's answer does not parse")
        return 7

    async def body() -> None:
        with pytest.raises(ValueError, match="does not parse"):
            await decisions.of("client", None, data(), decide)
        fails.append(False)
        assert await decisions.of("client", None, data(), decide) == 7

    asyncio.run(body())
