"""Kafka's FetcherTest scenarios for read_committed, on the table of batches that each of them names."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kafka_remote_client.model import AbortedTransaction, IsolationLevel
from kafka_remote_client.records import RemoteLogInputStream, read_batches
from tests.support.batches import Rec, abort_marker, batch, commit_marker
from tests.support.decoders import IMPLEMENTATIONS

pytestmark = pytest.mark.usefixtures("kernel")


def txn(base: int, producer: int, count: int = 2, *, transactional: bool = True, **more: object) -> bytes:
    """A producer's batch of ``count`` records."""
    return batch(base, [Rec(i) for i in range(count)], producer=producer, attributes=0x10 if transactional else 0, **more)


def committed(data: bytes, aborted: Iterable[tuple[int, int]], fetch_offset: int = 0) -> tuple[list[int], int]:
    """Offsets returned under read_committed, and the next offset."""
    entries = [AbortedTransaction(producer, first) for producer, first in aborted]
    block = read_batches(
        data, isolation_level=IsolationLevel.READ_COMMITTED, aborted_transactions=entries, fetch_offset=fetch_offset
    )
    return [block.offset(i) for i in range(len(block))], block.next_offset


def test_skips_aborted_transactions() -> None:
    assert committed(txn(0, 1) + abort_marker(2, 1), [(1, 0)]) == ([], 3)


def test_returns_committed_transactions() -> None:
    assert committed(txn(0, 1) + commit_marker(2, 1), []) == ([0, 1], 3)


def test_commits_and_aborts_interleaved() -> None:
    data = txn(0, 1) + txn(2, 2) + txn(4, 1) + abort_marker(6, 2) + txn(7, 2) + commit_marker(9, 1) + commit_marker(10, 2)
    assert committed(data, [(2, 2)]) == ([0, 1, 4, 5, 7, 8], 11)


def test_multiple_abort_markers() -> None:
    data = txn(0, 1) + abort_marker(2, 1) + abort_marker(3, 1) + txn(4, 1) + commit_marker(6, 1)
    assert committed(data, [(1, 0)]) == ([4, 5], 7)


def test_abort_marker_with_no_data() -> None:
    data = abort_marker(0, 1) + txn(1, 1) + commit_marker(3, 1)
    assert committed(data, []) == ([1, 2], 4)


def test_transaction_that_begins_and_ends_in_one_marker_does_not_stay_active() -> None:
    """(a) before (b): the list's entry begins at the marker itself, its data having been compacted away."""
    data = abort_marker(0, 1) + txn(1, 1) + commit_marker(3, 1)
    assert committed(data, [(1, 0)]) == ([1, 2], 4)


def test_same_producer_aborts_again() -> None:
    data = txn(0, 1) + abort_marker(2, 1) + txn(3, 1) + commit_marker(5, 1) + txn(6, 1) + abort_marker(8, 1)
    assert committed(data, [(1, 6), (1, 0)]) == ([3, 4], 9)


def test_commit_marker_ends_nothing() -> None:
    """An active aborted transaction goes on past a commit marker of its producer, as in Kafka."""
    data = txn(0, 1) + commit_marker(2, 1) + txn(3, 1) + abort_marker(5, 1)
    assert committed(data, [(1, 0)]) == ([], 6)


def test_idempotent_batches_are_never_filtered() -> None:
    data = txn(0, 1) + txn(2, 1, transactional=False) + txn(4, 9, transactional=False) + abort_marker(6, 1)
    assert committed(data, [(1, 0)]) == ([2, 3, 4, 5], 7)


def test_unsorted_and_repeated_list() -> None:
    data = txn(0, 1) + txn(2, 2) + txn(4, 3) + abort_marker(6, 3) + abort_marker(7, 1) + commit_marker(8, 2)
    assert committed(data, [(3, 4), (1, 0), (3, 4), (1, 0)]) == ([2, 3], 9)


def test_compacted_topic() -> None:
    """Holes between batches, a marker whose data is gone, and a transaction with its first batch gone."""
    data = txn(3, 1) + abort_marker(10, 2) + txn(20, 2) + abort_marker(30, 1) + commit_marker(31, 2)
    assert committed(data, [(1, 0), (2, 5)]) == ([20, 21], 32)


def test_uncommitted_mode_returns_aborted_records() -> None:
    block = read_batches(txn(0, 1) + abort_marker(2, 1))
    assert [block.offset(i) for i in range(len(block))] == [0, 1]
    assert block.next_offset == 3


def test_position_after_wholly_filtered_batch() -> None:
    assert committed(txn(0, 1, 5), [(1, 0)]) == ([], 5)


def test_filtered_batch_is_not_read_at_all() -> None:
    broken = batch(0, b"not a record", producer=1, attributes=0x10, last_delta=3)
    assert committed(broken, [(1, 0)]) == ([], 4)


def test_markers_before_the_fetch_offset_never_reach_the_filter() -> None:
    """The first marker ends an older transaction: acted on, it would end the one of the list before that begins."""
    data = txn(0, 1) + abort_marker(2, 1) + txn(3, 1) + abort_marker(5, 1)
    assert committed(data, [(1, 3)], fetch_offset=3) == ([], 6)
    early = abort_marker(0, 1) + txn(1, 1) + abort_marker(3, 1)
    assert committed(early, [(1, 0)], fetch_offset=1) == ([], 4)


def test_the_filter_by_itself_follows_its_three_rules(kernel: str) -> None:
    entries = [AbortedTransaction(1, 5), AbortedTransaction(1, 5), AbortedTransaction(7, 9)]
    state = IMPLEMENTATIONS[kernel].AbortedTransactionFilter(iter(entries))
    assert state.entries == tuple(entries)

    def dropped(data: bytes, *, is_abort_marker: bool = False) -> bool:
        (header,) = RemoteLogInputStream(data)
        return bool(state.drops(header, is_abort_marker=is_abort_marker))

    assert not dropped(txn(2, 1))
    assert dropped(txn(4, 1))
    assert dropped(txn(4, 1)), "a batch may be fed again"
    assert not dropped(txn(6, 1, transactional=False))
    assert not dropped(txn(6, 8))
    assert not dropped(txn(6, 7))
    assert not dropped(abort_marker(8, 8), is_abort_marker=True)
    assert not dropped(abort_marker(8, 1), is_abort_marker=True)
    assert not dropped(txn(8, 1, 1))
    assert dropped(txn(9, 7, 1))
    assert not dropped(txn(10, 0, 1))
