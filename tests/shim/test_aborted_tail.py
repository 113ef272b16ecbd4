"""When a broker's list of aborted transactions can be believed, and for how long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.protocol.fetch import PartitionData
from kafka_remote_client.shim.aborted_tail import AbortedTail
from kafka_remote_client.shim.counters import Counters
from tests.support.shim_fakes import TIP

L = 300
LIST = (AbortedTransaction(1, 280),)


def told(stable: int, aborted: Any = LIST, records: bytes = b"batch", error_code: int = 0) -> PartitionData:
    return PartitionData(0, error_code, last_stable_offset=stable, aborted_transactions=aborted, records=records)


def ask(answers: dict[int, PartitionData | None], counters: Counters | None = None) -> tuple[Any, list[int]]:
    asked: list[int] = []

    async def fetch_at(offset: int) -> PartitionData | None:
        asked.append(offset)
        return answers[offset]

    tail = AbortedTail(counters or Counters())
    return asyncio.run(tail.ask(TIP, L, 1, fetch_at)), asked


def test_the_list_at_the_end_of_the_tier_counts_below_the_stable_offset() -> None:
    assert ask({L: told(L + 1)}) == (LIST, [L])
    assert ask({L: told(L + 1, aborted=(), records=b"")}) == ((), [L])


def test_at_the_stable_offset_the_offset_before_is_asked() -> None:
    counters = Counters()
    answers: dict[int, PartitionData | None] = {L: told(L, aborted=()), L - 1: told(L)}
    assert ask(answers, counters) == (LIST, [L, L - 1])
    assert (counters["aborted_probes"], counters["remote_probes"]) == (2, 1)


@pytest.mark.parametrize(
    "answers",
    [
        {L: None},
        {L: told(L + 1, error_code=6)},
        {L: told(L + 1, aborted=None)},
        {L: told(L - 1)},
        {L: told(L), L - 1: None},
        {L: told(L), L - 1: told(L, error_code=1)},
        {L: told(L), L - 1: told(L - 1)},
        {L: told(L), L - 1: told(L, records=b"")},
        {L: told(L), L - 1: told(L, aborted=None)},
    ],
)
def test_anything_else_means_that_nobody_knows(answers: dict[int, PartitionData | None]) -> None:
    assert ask(answers)[0] is None


def test_an_answer_holds_for_its_end_and_leader_epoch() -> None:
    asked: list[int] = []

    async def fetch_at(offset: int) -> PartitionData | None:
        asked.append(offset)
        return told(offset + 10)

    async def run() -> None:
        tail = AbortedTail(Counters())
        for end, epoch in ((300, 1), (300, 1), (310, 1), (300, 2), (300, -1), (300, -1)):
            assert await tail.ask(TIP, end, epoch, fetch_at) == LIST

    asyncio.run(run())
    assert asked == [300, 310, 300, 300, 300]


def test_an_unknown_list_is_asked_for_again() -> None:
    answers = iter([told(L - 1), told(L + 1)])

    async def fetch_at(_offset: int) -> PartitionData | None:
        return next(answers)

    async def run() -> None:
        tail = AbortedTail(Counters())
        assert await tail.ask(TIP, L, 1, fetch_at) is None
        assert await tail.ask(TIP, L, 1, fetch_at) == LIST

    asyncio.run(run())
