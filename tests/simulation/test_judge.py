"""Each rule of the simulation's judge of records and buffers can fire."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_END

from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.model import IsolationLevel
from tests.simulation.buffers import Buffers
from tests.simulation.delivery_judge import DeliveryJudge
from tests.simulation.judge import LogRecord, ReadJudge, ViolationError
from tests.simulation.produced_log import Entry, ProducedLog
from tests.support.history import (
    Assigned,
    Committed,
    Event,
    History,
    Opened,
    Paused,
    Place,
    Polled,
    Positioned,
    Record,
    Revoked,
    Sought,
)


def log_of(seed: int) -> ProducedLog:
    """A log with two leader epochs and the ended transactions of two producers."""
    chance, log = random.Random(seed), ProducedLog()
    for number in range(60):
        producer, epoch = chance.choice((None, 1, 2)), number // 30
        if producer in log.open and chance.random() < 0.3:
            log.add(Entry(number, epoch, None, producer, aborts=chance.random() < 0.5))
        else:
            log.add(Entry(number, epoch, b"%d" % number, producer, first=chance.random() < 0.5))
    for producer in sorted(log.open):
        log.add(Entry(log.end, 1, None, producer, aborts=True))
    return log


LOG = log_of(5)
EVERY = LOG.records(IsolationLevel.READ_UNCOMMITTED, 0, LOG.end)
COMMITTED = LOG.records(IsolationLevel.READ_COMMITTED, 0, LOG.end)
ABORTED = next(record for record in EVERY if record not in COMMITTED)


def judge(level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED, start: int = 0, end: int | None = None) -> ReadJudge:
    return ReadJudge("orders-5", LOG, level, start, end)


def broken(rule: str) -> pytest.RaisesExc[ViolationError]:
    return pytest.raises(ViolationError, match=f"^{rule}: ")


def test_the_log_has_what_the_rules_are_about() -> None:
    assert 0 < len(COMMITTED) < len(EVERY) < LOG.end
    assert {record.leader_epoch for record in EVERY} == {0, 1}
    assert any(LOG.is_inside_batch(record.offset) for record in EVERY)


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_a_correct_read_breaks_no_rule(level: IsolationLevel) -> None:
    reading = judge(level)
    for start in range(0, LOG.end, 10):
        end = min(start + 10, LOG.end)
        reading.took(LOG.records(level, start, end), end)
    reading.passed(LOG.end, LOG.epoch_before(LOG.end))
    reading.ended(ReadEnd("local", LOG.end))


@pytest.mark.parametrize("change", ["missing", "twice", "value", "epoch", "order"])
def test_wrong_records_are_found(change: str) -> None:
    first, second, third, *_ = EVERY
    wrong = {
        "missing": (first, third),
        "twice": (first, first, second, third),
        "value": (first, second._replace(value=b"other"), third),
        "epoch": (first, second, third._replace(leader_epoch=99)),
        "order": (second, first, third),
    }[change]
    with broken("J1"):
        judge().took(wrong, third.offset + 1)


def test_an_aborted_record_is_found() -> None:
    records = tuple(record for record in EVERY if record.offset <= ABORTED.offset)
    with broken("J2"):
        judge(IsolationLevel.READ_COMMITTED).took(records, ABORTED.offset + 1)


def test_a_record_beyond_the_bound_is_found() -> None:
    with broken("J3"):
        judge(end=EVERY[2].offset).took(EVERY[:3], EVERY[2].offset + 1)


@pytest.mark.parametrize("reason", ["local", "breaker-open"])
def test_an_end_that_skips_a_record_is_found(reason: str) -> None:
    with broken("J4"):
        judge().ended(ReadEnd(reason, EVERY[0].offset + 1))


def test_an_end_before_the_last_record_is_found() -> None:
    reading = judge()
    reading.took(EVERY[:2], EVERY[1].offset + 1)
    with broken("J4"):
        reading.ended(ReadEnd("local", EVERY[1].offset))


def test_an_end_before_the_bound_is_found() -> None:
    with broken("J4"):
        judge(end=EVERY[5].offset).ended(ReadEnd("end", EVERY[0].offset))


def test_a_wrong_epoch_of_the_position_is_found() -> None:
    with broken("J5"):
        judge(start=EVERY[0].offset).passed(EVERY[0].offset, 99)


def test_a_buffer_that_comes_back_during_a_get_is_found() -> None:
    buffers = Buffers()
    buffer = buffers.take(10)
    with broken("J6"):
        buffers.give_back(buffer)


def test_a_buffer_that_comes_back_twice_is_found() -> None:
    buffers = Buffers()
    buffer = buffers.take(10)
    buffers.written(buffer)
    buffers.give_back(buffer)
    assert buffers.outstanding == 0
    with broken("J7"):
        buffers.give_back(buffer)


def test_a_copied_log_is_the_log_made_of_its_entries() -> None:
    log = ProducedLog()
    for number in range(300):
        producer, ends = number % 4, number % 9 == 8
        value = None if ends else b"%d" % number
        log.add(Entry(number, 0, value, producer if ends or producer else None, aborts=number % 2 == 0))
    copy, made = log.until(log.end), ProducedLog(log.entries(0, log.end))
    for one in (log, copy):
        one.add(Entry(300, 0, None, 1, aborts=True))
    made.add(Entry(300, 0, None, 1, aborts=True))
    for one in (log, copy):
        assert (one._entries, one._aborted, one._aborted_until, one.open) == (
            made._entries,
            made._aborted,
            made._aborted_until,
            made.open,
        )


def test_a_plain_consumer_gets_markers_and_no_aborted_record() -> None:
    readable = {offset for offset, _ in LOG.readable(IsolationLevel.READ_COMMITTED, 0, LOG.end)}
    assert readable.issuperset(record.offset for record in COMMITTED)
    assert ABORTED.offset not in readable
    assert LOG.end - 1 in readable  # a marker


def test_nothing_is_stable_from_an_open_transaction_on() -> None:
    log = log_of(6)
    ended = log.end
    log.add(Entry(100, 1, b"open", 1))
    log.add(Entry(101, 1, b"plain", None))
    assert [log.stable_end(level) for level in IsolationLevel] == [ended + 2, ended]
    log.add(Entry(102, 1, None, 1, aborts=True))
    assert log.stable_end(IsolationLevel.READ_COMMITTED) == log.end
    assert log.aborted_until(1, ended) == ended + 2
    assert log.aborted_until(2, ended) == -1


class Consumed:
    """The history of a consumer of the log, and its judge."""

    def __init__(self, level: IsolationLevel = IsolationLevel.READ_COMMITTED, start: int = 0) -> None:
        self.history = History(now=lambda: 0.0)
        partition: Any = SimpleNamespace(log=LOG)
        self.judge = DeliveryJudge([partition], level)
        self.history.add(
            Opened, "consumer", group="group", isolation=level.name.lower(), reset="earliest", announces_ends=False
        )
        self.told(Assigned, places=(Place("orders", 0, start),))

    def told(self, kind: type[Event], **fields: Any) -> None:
        self.history.add(kind, "consumer", **fields)

    def gets(self, *records: Record) -> None:
        self.history.add(Polled, "consumer", began=0.0, records=records)
        self.judge.judge(self.history.events)


def consumed(record: LogRecord) -> Record:
    return Record("orders", 0, record.offset, (1, 0), record.leader_epoch, None, record.value, None)


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_a_consumer_that_gets_each_record_breaks_no_rule(level: IsolationLevel) -> None:
    consumer, records = Consumed(level), list(map(consumed, LOG.records(level, 0, LOG.end)))
    consumer.gets(*records[:5])
    consumer.gets(*records[5:])
    consumer.told(Sought, place=Place("orders", 0, 0))
    consumer.gets(records[0])


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("I3", lambda first, second: (first, second, first)),
        ("I4", lambda first, second: (second,)),
        ("I5", lambda first, second: (first, second._replace(value=b"other"))),
        ("I5", lambda first, second: (first, second._replace(leader_epoch=99))),
        ("I5", lambda first, second: (first, second._replace(timestamp=(1, 99)))),
        ("I5", lambda first, second: (first, second._replace(offset=LOG.end))),
    ],
)
def test_a_wrong_delivery_is_found_at_once(rule: str, wrong: Callable[[Record, Record], tuple[Record, ...]]) -> None:
    consumer = Consumed()
    with broken(rule):
        consumer.gets(*wrong(*map(consumed, COMMITTED[:2])))


def test_an_aborted_record_for_a_consumer_is_found_at_once() -> None:
    with broken("I6"):
        Consumed(start=ABORTED.offset).gets(consumed(ABORTED))


@pytest.mark.parametrize("kind", [Paused, Revoked])
def test_a_record_that_nobody_wants_is_found_at_once(kind: type[Paused | Revoked]) -> None:
    consumer = Consumed()
    consumer.told(kind, keys=(("orders", 0),))
    with broken("I7"):
        consumer.gets(consumed(COMMITTED[0]))


@pytest.mark.parametrize("kind", [Positioned, Committed])
def test_a_place_behind_a_missing_record_is_found_at_once(kind: type[Event]) -> None:
    consumer, (first, second) = Consumed(), COMMITTED[:2]
    consumer.gets(consumed(first))
    consumer.told(kind, places=(Place("orders", 0, second.offset),))
    consumer.gets()
    consumer.told(kind, places=(Place("orders", 0, second.offset + 1),))
    with broken("I8"):
        consumer.gets()


def test_a_commit_of_what_another_member_got_breaks_no_rule() -> None:
    consumer = Consumed()
    consumer.told(Committed, places=(Place("orders", 0, COMMITTED[5].offset),), seen=True)
    consumer.told(Committed, places=(Place("orders", 0, COMMITTED[5].offset),))
    consumer.gets()


def test_a_commit_after_a_start_at_the_end_is_judged_from_its_first_record() -> None:
    consumer, later = Consumed(), COMMITTED[5:8]
    consumer.gets(consumed(COMMITTED[0]))
    consumer.told(Sought, place=Place("orders", 0, OFFSET_END))
    consumer.told(Committed, places=(Place("orders", 0, later[0].offset),))
    consumer.gets()
    consumer.gets(consumed(later[0]))
    consumer.told(Committed, places=(Place("orders", 0, later[2].offset),))
    with broken("I8"):
        consumer.gets()


def test_a_commit_of_what_came_before_a_start_at_the_end_breaks_no_rule() -> None:
    consumer = Consumed()
    consumer.gets(*map(consumed, COMMITTED[:3]))
    consumer.told(Sought, place=Place("orders", 0, OFFSET_END))
    consumer.gets()
    consumer.told(Sought, place=Place("orders", 0, COMMITTED[0].offset))
    consumer.told(Committed, places=(Place("orders", 0, COMMITTED[2].offset + 1),))
    consumer.gets()


def test_a_commit_of_markers_that_a_read_at_the_end_passed_breaks_no_rule() -> None:
    consumer = Consumed(start=OFFSET_END)
    consumer.told(Sought, place=Place("orders", 0, COMMITTED[0].offset))
    consumer.told(Committed, places=(Place("orders", 0, LOG.end),))
    consumer.gets()


def test_a_record_below_the_committed_start_is_found_at_once() -> None:
    consumer = Consumed(start=COMMITTED[1].offset)
    with broken("I2"):
        consumer.gets(consumed(COMMITTED[0]))
