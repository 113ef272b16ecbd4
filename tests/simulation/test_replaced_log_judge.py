"""Each rule of the judge of replaced logs can fire, and what a plain consumer does breaks none."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

from kafka_remote_client.model import IsolationLevel
from tests.simulation.judge import ViolationError
from tests.simulation.occurrences import Occurrences
from tests.simulation.produced_log import Entry, ProducedLog
from tests.simulation.replaced_log_judge import ReplacedLogJudge
from tests.support.history import Assigned, Committed, Event, History, Opened, Paused, Place, Polled, Positioned, Record, Sought

CUT = 6
"""Where the second log leaves the first one."""


def versions() -> list[ProducedLog]:
    """A log of ten records; one that an unclean election has cut, with a marker at 7; and that of a new topic."""
    first = ProducedLog()
    for number in range(10):
        first.add(Entry(number, 0, b"old %d" % number, None))
    second = first.until(CUT)
    second.shared = CUT
    for number, value in enumerate((b"new 6", None, b"new 8", b"new 9")):
        second.add(Entry(20 + number, 1, value, 1 if value is None else None))
    third = ProducedLog()
    for number in range(8):
        third.add(Entry(40 + number, 0, b"again %d" % number, None))
    return [first, second, third]


class Consumed:
    """A consumer of a partition that has these logs, one after the other."""

    def __init__(self, *logs: ProducedLog, start: int = 0, committed: bool = False) -> None:
        self.logs = list(logs)
        self.history = History(now=lambda: 0.0)
        partition: Any = SimpleNamespace(number=0, versions=self.logs, log=self.logs[-1], start_of=lambda log: log.start)
        self.seen = Occurrences()
        self.judge = ReplacedLogJudge([partition], IsolationLevel.READ_COMMITTED, self.seen)
        self.history.add(Opened, "consumer", group="group", reset="earliest")
        keys = frozenset({("orders", 0)} if committed else ())
        self.told(Assigned, places=(Place("orders", 0, start),), committed=keys)

    def told(self, kind: type[Event], **fields: Any) -> None:
        self.history.add(kind, "consumer", **fields)
        self.judge.judge(self.history.events)

    def gets(self, version: int, *offsets: int) -> None:
        self.told(Polled, began=0.0, records=tuple(record(self.logs[version], offset) for offset in offsets))


def record(log: ProducedLog, offset: int) -> Record:
    (entry,) = log.entries(offset, offset + 1)
    return Record("orders", 0, offset, (1, entry.time_ms), entry.epoch, None, entry.value, None)


def broken(rule: str) -> pytest.RaisesExc[ViolationError]:
    return pytest.raises(ViolationError, match=f"^{rule}: ")


@pytest.mark.parametrize(
    "reads",
    [
        [(0, range(10))],
        [(0, range(10)), (1, (6, 8, 9))],
        [(0, range(10)), (2, range(8))],
        [(0, range(7)), (1, (8, 9)), (2, range(8))],
        [(0, range(3)), (1, (3, 4, 5, 6, 8)), (2, range(8))],
        [(0, range(5)), (2, (5, 6, 7))],
        [(0, range(10)), (1, range(CUT)), (1, (6, 8, 9))],
    ],
    ids=["one log", "cut", "new topic", "on in the cut log", "all logs", "on in the new topic", "out of range in the cut log"],
)
def test_a_consumer_that_reads_as_librdkafka_breaks_no_rule(reads: Sequence[tuple[int, Sequence[int]]]) -> None:
    consumer = Consumed(*versions())
    for version, offsets in reads:
        consumer.gets(version, *offsets)


@pytest.mark.parametrize(
    "reads",
    [
        [(0, (0, 2))],
        [(0, (0, 1, 1))],
        [(0, range(10)), (1, (8,))],
        [(0, range(10)), (2, (1,))],
        [(1, (0, 1, 2, 3, 4, 5, 6)), (0, (7,))],
        [(2, (0, 1)), (1, (6,))],
        [(0, range(4)), (2, (5,))],
    ],
    ids=[
        "skipped",
        "twice",
        "skipped at a cut",
        "skipped in a new topic",
        "back in a cut log",
        "back in an old topic",
        "ahead",
    ],
)
def test_what_no_plain_consumer_reads_is_found(reads: Sequence[tuple[int, Sequence[int]]]) -> None:
    consumer = Consumed(*versions())
    with broken("I4"):
        for version, offsets in reads:
            consumer.gets(version, *offsets)


def test_a_place_to_which_librdkafka_went_breaks_no_rule() -> None:
    logs = versions()
    logs[2].continued_at.add(3)
    consumer = Consumed(*logs)
    consumer.gets(0, *range(10))
    consumer.gets(2, 3, 4)
    assert consumer.seen["consumer-changed-log"] == 1


def test_a_read_may_begin_at_a_log_start_that_librdkafka_knew() -> None:
    logs = versions()
    logs[2].continued_at.add(3)
    Consumed(logs[2], start=OFFSET_BEGINNING).gets(0, 3, 4)


@pytest.mark.parametrize(("start", "offsets"), [(0, (3,)), (OFFSET_BEGINNING, (4,)), (OFFSET_BEGINNING, (0, 3))])
def test_a_read_that_skips_records_at_the_beginning_is_found(start: int, offsets: Sequence[int]) -> None:
    logs = versions()
    logs[2].continued_at.add(3)
    consumer = Consumed(logs[2], start=start)
    with broken("I4"):
        consumer.gets(0, *offsets)


def test_what_was_deleted_before_a_new_topic_is_passed() -> None:
    logs = versions()
    logs[0].start = 9
    consumer = Consumed(logs[0], logs[2])
    consumer.gets(0, 0, 1, 2)
    consumer.gets(1, 6)


def test_an_undecided_record_that_was_deleted_is_passed() -> None:
    first, _, again = versions()
    undecided = first.until(2)
    for number in range(8):
        undecided.add(Entry(60 + number, 0, b"undecided", 5))
    undecided.start = 9
    consumer = Consumed(undecided, again)
    consumer.gets(0, 0, 1)
    consumer.gets(1, 6)


def test_a_record_of_no_log_is_found() -> None:
    consumer = Consumed(*versions())
    strange = record(consumer.logs[0], 0)._replace(value=b"other")
    with broken("I5"):
        consumer.told(Polled, began=0.0, records=(strange,))


def test_a_record_without_an_outcome_is_found() -> None:
    log = versions()[0]
    log.add(Entry(99, 0, b"undecided", 5))
    with broken("I5"):
        Consumed(log, start=10).gets(0, 10)


def test_a_record_of_a_paused_partition_is_found() -> None:
    consumer = Consumed(*versions())
    consumer.told(Paused, keys=(("orders", 0),))
    with broken("I7"):
        consumer.gets(0, 0)


@pytest.mark.parametrize("kind", [Positioned, Committed])
def test_a_place_that_passes_a_record_of_each_log_is_found(kind: type[Event]) -> None:
    consumer = Consumed(*versions())
    consumer.gets(0, 0, 1)
    consumer.told(kind, places=(Place("orders", 0, 2),))
    with broken("I8"):
        consumer.told(kind, places=(Place("orders", 0, 5),))


def test_a_position_behind_a_marker_breaks_no_rule() -> None:
    consumer = Consumed(*versions(), start=0)
    consumer.gets(1, *range(7))
    consumer.told(Positioned, places=(Place("orders", 0, 8),))


def test_a_committed_start_may_be_of_an_earlier_log() -> None:
    logs = versions()
    logs[0].replaced_at = logs[1].replaced_at = -1.0
    Consumed(*logs, start=9, committed=True).gets(2, 0)
    with broken("I4"):
        Consumed(*logs, start=5).gets(2, 0)


def test_a_log_that_was_replaced_before_the_start_is_not_read() -> None:
    logs = versions()
    logs[0].replaced_at = logs[1].replaced_at = -1.0
    consumer = Consumed(*logs, start=OFFSET_END)
    with broken("I4"):
        consumer.gets(1, 8)
    Consumed(*logs, start=OFFSET_END).gets(2, 6)


def test_a_commit_may_be_of_another_log_than_the_first_record() -> None:
    consumer = Consumed(*versions(), start=OFFSET_END)
    consumer.history.add(Committed, "consumer", places=(Place("orders", 0, 9),))
    consumer.gets(2, 0)
    with broken("I8"):
        consumer.told(Committed, places=(Place("orders", 0, 8),))


def test_the_end_of_the_last_log_is_reached_at_last() -> None:
    logs = versions()
    consumer = Consumed(*logs)
    consumer.gets(0, *range(10))
    with broken("I1"):
        consumer.judge.judge_ends()
    consumer.gets(2, *range(7))
    with broken("I1"):
        consumer.judge.judge_ends()
    consumer.gets(2, 7)
    consumer.judge.judge_ends()
    consumer.told(Sought, place=Place("orders", 0, OFFSET_END))
    consumer.judge.judge_ends()
