"""Transactions end once, and a producer that begins again fences the one before."""

from __future__ import annotations

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.tiered_cluster.error_codes import ErrorCode
from kafka_remote_client.tiered_cluster.transactions import CommittedOffset, Transactions

ORDERS = TopicPartition("orders", 0)


def test_each_producer_without_transactions_has_an_id_of_its_own() -> None:
    state, first, _ = Transactions().begun(None)
    _, second, aborted = state.begun(None)
    assert (first.producer_id, second.producer_id, second.epoch, aborted) == (1, 2, 0, None)


def test_transaction_ends_with_its_partitions_and_offsets() -> None:
    state, begun, _ = Transactions().begun("t")
    assert begun.epoch == 0
    offsets = {("g", ORDERS): CommittedOffset(7)}
    state = state.with_partitions("t", [ORDERS]).with_offsets("t", {}).with_offsets("t", offsets)
    state, ended, error = state.ended("t", committed=True)
    assert error is ErrorCode.NONE
    assert ended is not None
    assert (ended.partitions, ended.offsets) == ({ORDERS}, offsets)
    assert state.ended("t", committed=True)[1:] == (None, ErrorCode.NONE)
    assert state.ended("t", committed=False)[1:] == (None, ErrorCode.INVALID_TXN_STATE)


def test_next_producer_fences_and_aborts() -> None:
    state, first, _ = Transactions().begun("t")
    state, second, aborted = state.begun("t")
    assert (second.producer_id, second.epoch, aborted) == (first.producer_id, 1, None)
    state = state.with_partitions("t", [ORDERS])
    state, third, aborted = state.begun("t")
    assert aborted is not None
    assert (aborted.epoch, aborted.partitions, third.epoch) == (2, {ORDERS}, 3)
    assert state.error("t", first.producer_id, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.error("t", 99, 3) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert state.error("other", first.producer_id, 3) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert state.error("t", first.producer_id, 3) is ErrorCode.NONE


def test_used_up_epochs_give_a_new_producer_id() -> None:
    state, first, _ = Transactions().begun("t")
    epochs = []
    for _ in range(2**15):
        state, begun, _ = state.begun("t")
        epochs.append((begun.producer_id, begun.epoch))
    assert epochs[2**15 - 3 : 2**15 - 1] == [(first.producer_id, 2**15 - 2), (first.producer_id + 1, 0)]
