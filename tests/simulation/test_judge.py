"""Each rule of the simulation's judge of records and buffers can fire."""

from __future__ import annotations

import pytest

from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.model import IsolationLevel
from tests.simulation.buffers import Buffers
from tests.simulation.judge import ReadJudge, ViolationError
from tests.simulation.model_log import ModelLog, model_log

LOG = model_log(5)
EVERY = LOG.visible[IsolationLevel.READ_UNCOMMITTED]
COMMITTED = LOG.visible[IsolationLevel.READ_COMMITTED]
ABORTED = next(record for record in EVERY if record not in COMMITTED)


def judge(level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED, start: int = 0, end: int | None = None) -> ReadJudge:
    return ReadJudge("orders-5", LOG, level, start, end)


def broken(rule: str) -> pytest.RaisesExc[ViolationError]:
    return pytest.raises(ViolationError, match=f"^{rule}: ")


def test_the_log_has_what_the_rules_are_about() -> None:
    logs = [model_log(seed) for seed in range(20)]
    assert all(log.visible[IsolationLevel.READ_COMMITTED] for log in logs)
    assert any(log.aborted for log in logs)
    assert any(len(segment.metadata.segment_leader_epochs) > 1 for log in logs for segment in log.segments)
    assert {len(log.segments) for log in logs} >= {2, 3, 4, 5, 6}


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_a_correct_read_breaks_no_rule(level: IsolationLevel) -> None:
    reading = judge(level)
    for segment in LOG.segments:
        reading.took(LOG.records(level, segment.start, segment.end), segment.end)
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


def test_the_log_names_the_transactions_of_an_interval() -> None:
    log: ModelLog = next(log for log in map(model_log, range(50)) if log.aborted)
    (transaction, marker), *_ = log.aborted
    assert transaction in log.aborted_in(marker, marker + 1)
    assert transaction not in log.aborted_in(marker + 1, log.end)
    assert transaction not in log.aborted_in(0, transaction.first_offset)
