"""Kafka's FetcherTest scenarios for read_committed, each with its table of batches."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.model import AbortedTransaction, IsolationLevel
from kafka_remote_client.records import CompletedFetch, RemoteLogInputStream, read_batches
from kafka_remote_client.records.batch import BatchRules
from kafka_remote_client.records.completed_fetch import FetchState, aborted_filter
from tests.support.batches import Rec, abort_marker, batch, commit_marker, control_batch, metadata
from tests.support.decoders import IMPLEMENTATIONS, SEAM, outcome

pytestmark = pytest.mark.usefixtures("kernel")


def txn(base: int, producer: int, count: int = 2, *, transactional: bool = True, **more: object) -> bytes:
    """A producer's batch of ``count`` records."""
    return batch(base, [Rec(i) for i in range(count)], producer=producer, attributes=0x10 if transactional else 0, **more)


def committed(data: bytes, aborted: Iterable[tuple[int, int]], fetch_offset: int = 0) -> tuple[list[int], int]:
    """Returns the offsets under read_committed, and the next offset."""
    entries = [AbortedTransaction(producer, first) for producer, first in aborted]
    block = read_batches(
        data, isolation_level=IsolationLevel.READ_COMMITTED, aborted_transactions=entries, fetch_offset=fetch_offset
    )
    return [block.offset(i) for i in range(len(block))], block.next_offset


def test_blocks_that_end_between_markers_drop_the_same_records() -> None:
    """The filter has passed the end of each block: aborted and committed transactions of one producer follow each other."""
    data, aborted = b"", []
    for number in range(12):
        data += txn(3 * number, 1) + (abort_marker if number % 3 == 1 else commit_marker)(3 * number + 2, 1)
        aborted += [(1, 3 * number)] if number % 3 == 1 else []
    entries = [AbortedTransaction(producer, first) for producer, first in reversed(aborted)]
    state = FetchState(BatchRules(), 0, aborted_filter(IsolationLevel.READ_COMMITTED, entries), MAX_OFFSET, block_bytes=1)
    offsets, rest, blocks = [], memoryview(data), 0
    while len(rest):
        block, consumed = state.feed(rest, copies=False)
        offsets += [block.offset(i) for i in range(len(block))]
        rest, blocks = rest[consumed:], blocks + 1
    assert (offsets, state.next_fetch_offset) == committed(data, aborted)
    assert offsets == [3 * number + i for number in range(12) if number % 3 != 1 for i in range(2)]
    assert blocks > 6


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


def test_transaction_of_one_marker_does_not_stay_active() -> None:
    """The list's entry begins at the marker itself, because its data was compacted away."""
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
    """Holes between batches, a marker without its data, and a transaction without its first batch."""
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
    """The first marker ends an older transaction. If it reached the filter, the transaction would end before it begins."""
    data = txn(0, 1) + abort_marker(2, 1) + txn(3, 1) + abort_marker(5, 1)
    assert committed(data, [(1, 3)], fetch_offset=3) == ([], 6)
    early = abort_marker(0, 1) + txn(1, 1) + abort_marker(3, 1)
    assert committed(early, [(1, 0)], fetch_offset=1) == ([], 4)


def test_the_filter_alone_follows_its_three_rules(kernel: str) -> None:
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


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("count", [1, 2])
def test_markers_that_brokers_do_not_write_count_too(codec: int, count: int) -> None:
    """Markers that are compressed, or several in a batch: the first one counts."""

    def markers(base: int, first: int) -> bytes:
        keys = [struct.pack(">hh", 0, kind) for kind in (first, 1 - first)[:count]]
        records = [Rec(n, key=key, value=b"\0" * 6) for n, key in enumerate(keys)]
        return batch(base, records, attributes=0x30, producer=1, codec=codec)

    ends = txn(0, 1) + markers(2, 0) + txn(4, 1) + commit_marker(6, 1)
    assert committed(ends, [(1, 0)]) == ([4, 5], 7)
    goes_on = txn(0, 1) + markers(2, 1) + txn(4, 1) + abort_marker(6, 1)
    assert committed(goes_on, [(1, 0)]) == ([], 7)
    assert [row[0] for row in read_batches(ends).rows()] == [0, 1, 4, 5]
    of_nobody = batch(0, [Rec(n, key=b"\0\0\0\0") for n in range(count)], attributes=0x30, codec=codec)
    assert committed(of_nobody + txn(2, 1), []) == ([2, 3], 4)


def test_an_empty_control_batch_ends_nothing_compressed_or_not() -> None:
    for codec in (0, 1):
        data = txn(0, 1) + batch(2, [], attributes=0x30, producer=1, last_delta=0, codec=codec) + txn(3, 1)
        assert committed(data, [(1, 0)]) == ([], 5)


def test_thousands_of_transactions_in_one_buffer() -> None:
    data, expected, aborted = [], [], []
    for n in range(0, 9_000, 3):
        ends = n % 7 == 0
        data += [txn(n, n % 5), abort_marker(n + 2, n % 5) if ends else commit_marker(n + 2, n % 5)]
        if ends:
            aborted.append((n % 5, n))
        else:
            expected += [n, n + 1]
    assert committed(b"".join(data), aborted) == (expected, 9_000)


@pytest.mark.parametrize("kind", [256, 255, -1, 2])
def test_no_other_type_ends_a_transaction(kind: int) -> None:
    assert committed(txn(0, 1) + control_batch(2, 1, kind) + txn(3, 1), [(1, 0)]) == ([], 5)


@pytest.mark.parametrize(
    "broken",
    [
        batch(2, b"", attributes=0x30, producer=1, count=1),
        batch(2, b"", attributes=0x30, producer=1, count=2, last_delta=1),
        batch(2, b"x", attributes=0x30, producer=1, count=0),
        batch(2, b"\x0e\0\0", attributes=0x30, producer=1, count=1),
        batch(2, b"", attributes=0x30, producer=1, count=1, codec=1, payload=b"no gzip"),
        control_batch(2, 1, 0, key=b"\0\0\0"),
        control_batch(2, 1, 0, key=b"\x80\0\0\0"),
        control_batch(2, 1, 0, key=b"\0\0\0", codec=1),
    ],
)
def test_raises_for_a_control_batch_that_does_not_parse(broken: bytes) -> None:
    data = txn(0, 1) + broken
    completed = CompletedFetch(metadata(), 0, IsolationLevel.READ_COMMITTED, [], at_segment_start=True)
    block, used = completed.feed(data)
    assert ([row[0] for row in block.rows()], used) == ([0, 1], len(txn(0, 1)))
    with pytest.raises(CorruptRecordError, match="base offset 2"):
        completed.feed(data[used:])


KINDS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3), st.sampled_from([0, 0, 1])), max_size=40)


@settings(deadline=None)
@given(kinds=KINDS, aborted=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60)), max_size=8), cap=st.integers(40, 400))
def test_runs_damage_and_full_blocks_are_equal_in_all_implementations(
    kinds: list[tuple[int, int, int]], aborted: list[tuple[int, int]], cap: int
) -> None:
    parts, offset = [], 0
    for kind, producer, codec in kinds:
        if kind < 3:
            records = [Rec(0, value=b"v" * 30), Rec(1)]
            parts.append(batch(offset, records, producer=producer, attributes=0x10, codec=codec))
        elif kind == 3:
            parts.append(batch(offset, b"\x02\0", producer=producer, attributes=0x10, last_delta=1))
        elif kind < 6:
            parts.append(control_batch(offset, producer, kind - 4, codec=codec))
        else:
            parts.append(batch(offset, [Rec(0)], producer=-1 if kind == 6 else producer))
        offset += 2 if kind < 4 else 1
    entries = [AbortedTransaction(producer, first) for producer, first in aborted]
    seen = []
    for implementation in IMPLEMENTATIONS.values():
        with pytest.MonkeyPatch.context() as patch:
            for module, name in SEAM:
                patch.setattr(module, name, getattr(implementation, name))
            found = outcome(
                b"".join(parts), IsolationLevel.READ_COMMITTED, entries, max_decompressed_bytes=cap, at_segment_start=True
            )
        seen.append(found)
    assert all(found == seen[0] for found in seen)


def test_damage_leaves_the_filter_after_the_last_delivered_batch() -> None:
    """The marker after the damage must not end anything, nor the transaction after it begin."""
    damaged = batch(2, b"\x02\0", producer=1, attributes=0x10, last_delta=1)
    sound = txn(2, 1)
    completed = CompletedFetch(
        metadata(),
        0,
        IsolationLevel.READ_COMMITTED,
        [AbortedTransaction(2, 5), AbortedTransaction(1, 6)],
        at_segment_start=True,
    )
    after = commit_marker(4, 1) + txn(5, 2, 1) + txn(6, 1, 1) + abort_marker(7, 1) + abort_marker(8, 2) + txn(9, 2, 1)
    block, used = completed.feed(txn(0, 1) + damaged + after)
    assert ([row[0] for row in block.rows()], used) == ([0, 1], len(txn(0, 1)))
    with pytest.raises(CorruptRecordError):
        completed.feed(damaged + after)
    block, _ = completed.feed(sound + after)
    assert [row[0] for row in block.rows()] == [2, 3, 9]


def test_a_restored_filter_excludes_batches_below_the_fetch_offset() -> None:
    """Those batches never went through the filter, so restoring it leaves them out too."""
    damaged = batch(4, b"\x02\0", producer=1, attributes=0x10, last_delta=1)
    completed = CompletedFetch(
        metadata(),
        2,
        IsolationLevel.READ_COMMITTED,
        [AbortedTransaction(2, 7), AbortedTransaction(1, 8)],
        at_segment_start=True,
    )
    after = commit_marker(6, 1) + txn(7, 2, 1) + txn(8, 1, 1) + abort_marker(9, 1) + abort_marker(10, 2) + txn(11, 2, 1)
    front = txn(0, 1) + txn(2, 1)
    block, used = completed.feed(front + damaged + after)
    assert ([row[0] for row in block.rows()], used) == ([2, 3], len(front))
    block, _ = completed.feed(txn(4, 1) + after)
    assert [row[0] for row in block.rows()] == [4, 5, 11]
