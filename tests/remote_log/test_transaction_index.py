"""Kafka's TransactionIndexTest.testCollectAbortedTransactions, damage, and the golden indexes."""

from __future__ import annotations

import re

import pytest

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.transaction_index import AbortedTxn, TransactionIndex
from tests.support.golden import golden_local, read_text
from tests.support.golden_metadata import golden_cache, golden_store, golden_tail
from tests.support.tier import LAYOUT, txn_entries

ORACLE = [AbortedTxn(0, 0, 10, 11), AbortedTxn(1, 5, 15, 13), AbortedTxn(2, 18, 35, 25), AbortedTxn(3, 32, 50, 40)]


@pytest.mark.parametrize(
    ("fetch_offset", "upper", "expected", "complete"),
    [
        (0, 100, ORACLE, False),
        (0, 32, ORACLE[:3], True),
        (0, 35, ORACLE, True),
        (10, 35, ORACLE, True),
        (11, 35, ORACLE[1:], True),
        (20, 41, ORACLE[2:], False),
    ],
)
def test_collects_the_transactions_that_kafka_collects(fetch_offset, upper, expected, complete):
    result = TransactionIndex(ORACLE).collect_aborted_txns(fetch_offset, upper)
    assert (list(result.aborted_transactions), result.is_complete) == (expected, complete)


def test_a_transaction_that_ended_before_the_range_is_left_out():
    result = TransactionIndex([AbortedTxn(1, 0, 9, 10)]).collect_aborted_txns(10, 20)
    assert result.aborted_transactions == ()


def test_an_empty_index_is_never_complete():
    empty = TransactionIndex.parse(b"", 0, 9)
    assert empty.collect_aborted_txns(0, 1).is_complete is False
    assert (len(empty), empty.nbytes) == (0, 0)


def test_parses_entries():
    index = TransactionIndex.parse(txn_entries((7, 3, 12, 13), (8, 10, 15, 16)), 10, 19)
    assert list(index) == [AbortedTxn(7, 3, 12, 13), AbortedTxn(8, 10, 15, 16)]
    assert index.nbytes == 68
    assert next(iter(index)).transaction == AbortedTransaction(7, 3)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (bytes(33), "33 bytes"),
        (txn_entries((1, 0, 12, 13), version=1), "version 1"),
        (txn_entries((1, 0, 12, 13), version=256), "version 256"),
        (txn_entries((1, 0, 9, 13)), "from 0 to 9 after 9"),
        (txn_entries((1, 0, 20, 21)), "ends at 19"),
        (txn_entries((1, 13, 12, 13)), "from 13 to 12"),
        (txn_entries((1, -1, 12, 13)), "from -1 to 12"),
        (txn_entries((1, 0, 12, 13), (2, 0, 12, 13)), "to 12 after 12"),
    ],
)
def test_an_invalid_index_raises(data, says):
    with pytest.raises(CorruptIndexError, match=says):
        TransactionIndex.parse(data, 10, 19)


def test_golden_indexes_equal_the_output_of_kafkas_own_tool():
    text = read_text(golden_local() / "dump-log-segments" / "txn-0.txt.gz")
    line = r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)\n"
    printed = [AbortedTxn(*map(int, groups)) for groups in re.findall(line, text)]
    indexes = RemoteIndexCache(golden_store(), LAYOUT)
    ours = [entry for m in golden_cache("txn").list_all_remote_log_segments() for entry in indexes.transaction_index(m)]
    assert ours == printed
    assert len(ours) > 20


def test_the_golden_tail_has_the_transaction_with_a_local_marker():
    assert list(golden_tail()) == [AbortedTxn(8, 2455, 2695, 2696)]
