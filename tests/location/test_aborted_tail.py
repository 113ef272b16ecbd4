"""When a broker's list of aborted transactions is complete, and for how long it is cached."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.location.aborted_tail import AbortedTail
from kafka_remote_client.location.probes import Probe, ProbeKind, answered
from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.protocol.fetch import PartitionData
from tests.support.shim_fakes import TIP

L = 300
LIST = (AbortedTransaction(1, 280),)


def told(stable: int, aborted: Any = LIST, records: bytes = b"batch", error_code: int = 0) -> PartitionData:
    return PartitionData(0, error_code, last_stable_offset=stable, aborted_transactions=aborted, records=records)


def ask(answers: dict[int, PartitionData | None]) -> tuple[Any, list[Probe]]:
    asked: list[Probe] = []

    def fetch(probe: Probe) -> PartitionData | None:
        asked.append(probe)
        return answers[probe.offset]

    return answered(AbortedTail().ask(TIP, L, 1), fetch), asked


AT_L, BEFORE_L = Probe(ProbeKind.ABORTED, L, -1, 1), Probe(ProbeKind.ABORTED_IN_TIER, L - 1, -1, 1)


def test_below_the_stable_offset_the_list_at_the_tiers_end_counts() -> None:
    assert ask({L: told(L + 1)}) == (LIST, [AT_L])
    assert ask({L: told(L + 1, aborted=(), records=b"")}) == ((), [AT_L])


def test_at_the_stable_offset_the_offset_before_it_is_requested() -> None:
    answers: dict[int, PartitionData | None] = {L: told(L, aborted=()), L - 1: told(L)}
    assert ask(answers) == (LIST, [AT_L, BEFORE_L])


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
def test_any_other_answer_leaves_the_list_unknown(answers: dict[int, PartitionData | None]) -> None:
    assert ask(answers)[0] is None


def test_an_answer_holds_for_its_end_and_leader_epoch() -> None:
    asked: list[int] = []

    def fetch(probe: Probe) -> PartitionData:
        asked.append(probe.offset)
        return told(probe.offset + 10)

    tail = AbortedTail()
    for end, epoch in ((300, 1), (300, 1), (310, 1), (300, 2), (300, -1), (300, -1)):
        assert answered(tail.ask(TIP, end, epoch), fetch) == LIST
    assert asked == [300, 310, 300, 300, 300]


def test_an_unknown_list_is_requested_again() -> None:
    answers = iter([told(L - 1), told(L + 1)])
    tail = AbortedTail()
    assert answered(tail.ask(TIP, L, 1), lambda _probe: next(answers)) is None
    assert answered(tail.ask(TIP, L, 1), lambda _probe: next(answers)) == LIST


def test_a_recreated_topic_is_requested_again() -> None:
    tail = AbortedTail()
    assert answered(tail.ask(TIP, L, 1), lambda _: told(L + 1)) == LIST
    recreated = attrs.evolve(TIP, topic_id=UUID(int=78))
    assert answered(tail.ask(recreated, L, 1), lambda _: told(L + 1, aborted=())) == ()
