"""Producer state follows batches and markers. Golden snapshots judge the file in test_segment_files."""

from __future__ import annotations

import pytest

from kafka_remote_client.remote_log.producer_snapshot import open_transactions
from kafka_remote_client.tiered_cluster.batches import Batch, Marker, Producer, Record, new_batch, new_marker, placed
from kafka_remote_client.tiered_cluster.indexes import AbortedEntry
from kafka_remote_client.tiered_cluster.producers import ProducerEntry, ProducerState, loaded_snapshot


def data(offset: int, producer: int, *, count: int = 1, epoch: int = 0, transactional: bool = True) -> Batch:
    records = [Record(number, 1000 + offset, None, b"v") for number in range(count)]
    return placed(new_batch(records, producer=Producer(producer, epoch, 0, transactional)), offset, 0)


def marker(kind: Marker, offset: int, producer: int, *, epoch: int = 0) -> Batch:
    return placed(new_marker(kind, Producer(producer, epoch), 2000 + offset, coordinator_epoch=3), offset, 0)


EMPTY = ProducerState()


def after(*batches: Batch, state: ProducerState = EMPTY) -> tuple[ProducerState, list[AbortedEntry]]:
    aborted = []
    for batch in batches:
        state, entry = state.appended(batch)
        aborted += [] if entry is None else [entry]
    return state, aborted


def test_a_batch_without_a_producer_changes_nothing() -> None:
    assert after(placed(new_batch([Record(0, 0)]), 5, 0)) == (ProducerState(), [])


def test_the_last_batch_is_remembered() -> None:
    state, _ = after(data(10, 7, count=4), data(14, 7, count=2))
    assert state.entries == (ProducerEntry(7, 0, 1, 15, 1, 1014, -1, 10),)
    assert state.first_unstable_offset() == 10


def test_an_idempotent_producer_opens_no_transaction() -> None:
    state, _ = after(data(10, 7, transactional=False))
    assert state.first_unstable_offset() is None


@pytest.mark.parametrize("kind", Marker)
def test_transactions_hold_the_offset_until_their_marker_is_replicated(kind: Marker) -> None:
    state, aborted = after(data(10, 7), data(11, 8), marker(kind, 12, 7))
    assert aborted == ([AbortedEntry(7, 10, 12, 11)] if kind is Marker.ABORT else [])
    assert state.first_unstable_offset() == 10
    assert state.replicated(12).first_unstable_offset() == 10
    assert state.replicated(13).first_unstable_offset() == 11
    assert state.entries[0] == ProducerEntry(7, 0, 0, 10, 0, 2012, 3, -1)


def test_the_only_transaction_ends_at_the_offset_after_its_marker() -> None:
    assert after(data(10, 7), marker(Marker.ABORT, 11, 7))[1] == [AbortedEntry(7, 10, 11, 12)]


def test_a_marker_without_a_transaction_is_only_remembered() -> None:
    state, aborted = after(marker(Marker.ABORT, 5, 7))
    assert (aborted, state.first_unstable_offset()) == ([], None)
    assert state.entries == (ProducerEntry(7, 0, -1, -1, 0, 2005, 3, -1),)


def test_a_marker_of_a_newer_epoch_forgets_batches() -> None:
    state, _ = after(data(10, 7, count=3), marker(Marker.COMMIT, 13, 7, epoch=1))
    assert state.entries == (ProducerEntry(7, 1, -1, -1, 0, 2013, 3, -1),)


def test_idle_producers_expire_unless_their_transaction_is_open() -> None:
    state, _ = after(data(10, 7), data(11, 8, transactional=False), data(500, 9, transactional=False))
    assert [entry.producer_id for entry in state.without_expired(1511, 500).entries] == [7, 9]


def test_producers_are_in_the_order_of_a_hash_map() -> None:
    # 16 buckets: 16 and 32 share the first with 0, in the order of insertion. The 13th producer doubles the buckets.
    ids = [32, 5, 16, 1, 0]
    few, _ = after(*(data(n, producer) for n, producer in enumerate(ids)))
    assert ids_in(few.snapshot()) == [32, 16, 0, 1, 5]
    many, _ = after(*(data(9 + n, producer) for n, producer in enumerate(range(100, 108))), state=few)
    assert ids_in(many.snapshot()) == [32, 0, 1, *range(100, 101), 5, *range(101, 108), 16]
    far, _ = after(data(0, 2**32 + 3), data(1, 2**16 + 1), data(2, 1))
    assert ids_in(far.snapshot()) == [2**16 + 1, 1, 2**32 + 3]


def ids_in(snapshot: bytes) -> list[int]:
    return [int.from_bytes(snapshot[at : at + 8], "big") for at in range(10, len(snapshot), 46)]


def test_a_snapshot_is_loaded_with_its_open_transactions() -> None:
    state, _ = after(data(10, 7), data(11, 8), marker(Marker.COMMIT, 12, 8))
    loaded = loaded_snapshot(state.snapshot())
    assert loaded.snapshot() == state.snapshot()
    assert loaded.first_unstable_offset() == 10
    assert [(one.producer_id, one.first_offset) for one in open_transactions(state.snapshot())] == [(7, 10)]


@pytest.mark.parametrize("at", [1, 3, 20, -1])
def test_refuses_a_damaged_snapshot(at: int) -> None:
    damaged = bytearray(after(data(10, 7))[0].snapshot())
    damaged[at] ^= 1
    with pytest.raises(ValueError, match="not a producer snapshot of version 1, or damaged"):
        loaded_snapshot(bytes(damaged))
