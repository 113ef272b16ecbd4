from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import Action
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.spark.offsets.data_loss import DataLoss, DataLossError

TP = TopicPartition("t", 3)
OFFSET = st.integers(0, 50)


def test_a_range_within_the_log_does_not_change() -> None:
    assert DataLoss().bounded(TP, 5, 10, 5, 10) == (5, 10)


def test_an_empty_or_backward_range_reads_nothing_and_loses_nothing() -> None:
    assert DataLoss().bounded(TP, 10, 5, 0, 3) == (10, 10)
    assert DataLoss().bounded(TP, 5, 5, 7, 9) == (5, 5)


def test_fails_if_records_are_gone() -> None:
    with pytest.raises(
        DataLossError, match="t-3: the offsets 5 to 7 were deleted; the log starts at 8; set failOnDataLoss=false"
    ) as raised:
        DataLoss().bounded(TP, 5, 10, 8, 20)
    assert raised.value.action is Action.STOP


def test_fails_if_the_log_ends_too_soon() -> None:
    with pytest.raises(DataLossError, match="t-3: the offsets 8 to 9 are not in the log; the log ends at 8"):
        DataLoss().bounded(TP, 5, 10, 0, 8)


def test_continues_with_the_remaining_records_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert DataLoss(fail=False).bounded(TP, 5, 20, 8, 12) == (8, 12)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "continuing because failOnDataLoss is false" in caplog.text


@given(OFFSET, OFFSET, OFFSET, OFFSET)
def test_the_remaining_range_is_the_part_in_the_log(start: int, end: int, log_start: int, size: int) -> None:
    log_end = log_start + size
    first, last = DataLoss(fail=False).bounded(TP, start, end, log_start, log_end)
    assert list(range(first, last)) == [n for n in range(start, end) if log_start <= n < log_end]


def test_continues_at_the_log_s_start_when_the_broker_has_lost_an_offset() -> None:
    assert DataLoss(fail=False).resumed(TP, 5, 20, 9) == 9
    with pytest.raises(DataLossError, match="the offsets 5 to 8 were deleted"):
        DataLoss().resumed(TP, 5, 20, 9)


@pytest.mark.parametrize("log_start", [20, 25, 3])
def test_ends_if_nothing_of_the_range_is_left(log_start: int) -> None:
    assert DataLoss(fail=False).resumed(TP, 5, 20, log_start) == 20


def test_a_deleted_partition_has_nothing_left(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataLossError, match="deleted with the offsets 5 to 8"):
        DataLoss().gone(TP, 5, 9)
    with caplog.at_level(logging.WARNING):
        assert DataLoss(fail=False).gone(TP, 5, 9) == 9
    assert "continuing" in caplog.text
