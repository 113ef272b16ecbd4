"""Counts by headers equal counts of the records: golden segments, generated batches, every bound, both decoders."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.model import AbortedTransaction, IsolationLevel
from kafka_remote_client.records import RecordBlock, tally
from kafka_remote_client.records.batch import BatchRules
from kafka_remote_client.records.completed_fetch import FetchState, aborted_filter
from kafka_remote_client.records.tally import Tally, TallyBlock
from tests.records.test_golden import segments
from tests.records.test_parity import one_batch
from tests.support.batches import Rec, batch, control_batch, legacy_message
from tests.support.decoders import IMPLEMENTATIONS
from tests.support.tier import batch as plain_batch

needs_both = pytest.mark.skipif(len(IMPLEMENTATIONS) < 2, reason="the kernel is not built")
pytestmark = pytest.mark.usefixtures("kernel")
UNCOMMITTED, COMMITTED = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED
END = 2**63 - 1


def read(data: bytes, start: int, end: int, aborted: list[AbortedTransaction] | None, oldest: bool | None) -> list[Any]:
    """Returns the blocks or tallies of all valid batches, and whether damage ended the read."""
    level = UNCOMMITTED if aborted is None else COMMITTED
    state = FetchState(BatchRules(), start, aborted_filter(level, aborted), end, 1 << 30, tally=oldest)
    view, blocks = memoryview(data), []
    try:
        while len(view):
            block, consumed = state.feed(view, copies=False)
            blocks.append(block)
            if not consumed:
                break
            view = view[consumed:]
    except CorruptRecordError as error:
        blocks.append(str(error))
    blocks.append(state.next_fetch_offset)
    return blocks


def told(found: list[Any]) -> Tally:
    total = Tally()
    for block in found:
        if isinstance(block, TallyBlock):
            total += block.tally
    return total


def counted(found: list[Any], oldest: bool) -> Tally:
    rows = [row for block in found if isinstance(block, RecordBlock) for row in block.rows()]
    if not rows:
        return Tally()
    times = [row[1] for row in rows]
    return Tally(len(rows), rows[0][0], rows[-1][0], min(times) if oldest else None, max(times))


@pytest.mark.parametrize("partition", ["codec-zstd-rdk-0", "codec-gzip-java-0", "codec-none-java-0", "logappend-0", "txn-0"])
@pytest.mark.parametrize("oldest", [False, True])
def test_tallies_of_golden_segments_equal_those_of_their_records(partition: str, oldest: bool) -> None:
    for metadata, path in segments(partition)[:2]:
        data, first, last = path.read_bytes(), metadata.start_offset, metadata.end_offset
        for start, end in ((first, END), (first + 7, last - 3), (last + 1, END), (first + 1, first + 2)):
            assert told(read(data, start, end, None, oldest)) == counted(read(data, start, end, None, None), oldest)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_tallies_of_generated_batches_equal_those_of_their_records(data: st.DataObject) -> None:
    content, base = b"", 0
    for _ in range(data.draw(st.integers(1, 4))):
        one, base = data.draw(one_batch(base))
        content += one
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(content) - 1))
        content = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    start = data.draw(st.integers(0, base))
    end = data.draw(st.integers(start, base) | st.just(END))
    aborted = data.draw(
        st.none() | st.lists(st.builds(AbortedTransaction, st.integers(0, 3), st.integers(0, base)), max_size=2)
    )
    records, tallies = read(content, start, end, aborted, None), read(content, start, end, aborted, True)
    total, expected = told(tallies), counted(records, True)
    assert tallies[-1] >= records[-1]  # damage in the records of a batch with a valid checksum is found by reading its records
    if tallies[-1] == records[-1]:
        # Timestamps in headers are those that a broker wrote; made-up batches need not agree with them.
        assert (total.records, total.first_offset is None) == (expected.records, expected.records == 0)


def test_an_emptied_batch_and_a_gap_count_no_record() -> None:
    compacted = batch(0, [Rec(0, b"k", b"v", [], 5), Rec(7, b"k", b"v", [], 6)], last_delta=9)
    emptied = batch(10, [], last_delta=9, timestamp=99)
    assert told(read(compacted + emptied, 0, END, None, False)) == Tally(2, 0, 9, None, compacted_youngest(compacted))
    assert told(read(emptied, 0, END, None, False)) == Tally()


def compacted_youngest(data: bytes) -> int:
    return int.from_bytes(data[35:43], "big", signed=True)


def test_control_batches_never_count_and_aborted_ones_do_uncommitted() -> None:
    data = plain_batch(0, 3, producer_id=7) + plain_batch(3, 1, producer_id=7, marker="abort") + plain_batch(4, 2)
    aborted = [AbortedTransaction(7, 0)]
    assert told(read(data, 0, END, None, False)).records == 5
    assert told(read(data, 0, END, aborted, False)).records == 2
    assert told(read(data, 0, END, [], False)).records == 5


@pytest.mark.parametrize("committed", [False, True])
def test_damage_is_found_as_in_every_read(committed: bool) -> None:
    good = plain_batch(0, 3)
    broken = bytearray(plain_batch(3, 3))
    broken[-1] ^= 1
    found = read(good + bytes(broken), 0, END, [] if committed else None, False)
    assert told(found).records == 3
    assert any(isinstance(one, str) for one in found)
    marker = bytearray(control_batch(3, 7, 0))
    assert told(read(good + bytes(marker), 0, END, [] if committed else None, False)).records == 3


def test_a_marker_that_does_not_parse_ends_the_count() -> None:
    marker = batch(2, [Rec(0, b"\x80\x00\x00\x00", b"", [], 0)], attributes=0x30, producer=7)
    found = read(plain_batch(0, 2) + marker, 0, END, [], False)
    assert told(found).records == 2
    assert any(isinstance(one, str) for one in found)


def test_records_that_do_not_parse_end_the_count_if_they_are_read() -> None:
    damaged = batch(0, [Rec(0, b"k", b"v", [], 5)], count=2)
    found = read(damaged, 0, END, None, True)
    assert told(found).records == 0
    assert any(isinstance(one, str) for one in found)


def test_old_formats_are_decoded() -> None:
    data = legacy_message(0, b"v", timestamp=9) + legacy_message(1, b"v", magic=0)
    assert told(read(data, 0, END, None, True)) == Tally(2, 0, 1, -1, 9)


def test_only_batches_without_usable_headers_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    class Noted(tally.ColumnBuilder):  # type: ignore[misc] # either implementation
        def append(self, start: int, stop: int) -> Any:
            looked_at.append(start)
            return super().append(start, stop)

    monkeypatch.setattr(tally, "ColumnBuilder", Noted)
    data = b"".join(plain_batch(3 * n, 3) for n in range(5)) + plain_batch(15, 1, log_append_time=5)
    read(data, 0, END, None, False)
    assert looked_at == []
    read(data, 4, 14, None, False)
    assert looked_at == [1, 4]
    looked_at.clear()
    read(data, 0, END, None, True)
    assert looked_at == [0, 1, 2, 3, 4]


def test_tallies_add_up() -> None:
    one, other = Tally(2, 0, 4, 5, 9), Tally(1, 5, 5, 3, 3)
    assert one + other == Tally(3, 0, 5, 3, 9)
    assert one + Tally() == Tally() + one == one
    assert one + Tally(1, 5, 5, None, 3) == Tally(3, 0, 5, None, 9)


@needs_both
@pytest.mark.parametrize("partition", ["codec-zstd-rdk-0", "logappend-0", "txn-0"])
def test_both_decoders_tally_headers_alike(partition: str) -> None:
    aborted = [AbortedTransaction(producer, first) for producer in range(3) for first in (0, 100)]
    for metadata, path in segments(partition)[:2]:
        data, start = memoryview(path.read_bytes()), metadata.start_offset
        for oldest in (False, True):
            for at, end in ((start, END), (start + 9, metadata.end_offset - 4)):
                found = []
                for made in IMPLEMENTATIONS.values():
                    batches = made.scan_batches(data, -1, BatchRules())
                    begins, each = 0, []
                    while begins < len(batches):
                        told = made.tally_headers(
                            batches, begins, len(batches), at, end, oldest, made.AbortedTransactionFilter(aborted)
                        )
                        each.append(told)
                        begins = told[0] + 1
                    found.append(each)
                assert found[0] == found[1]


def test_a_batch_at_a_bound_reserves_no_more_than_its_limit() -> None:
    """The kernel reserves memory by the ratio of the last block, here 30,000: without a limit, hundreds of gigabytes."""
    assert len(read(batch(0, [Rec(0, value=bytes(60 << 20))], codec=4), 0, END, None, None)[0]) == 1
    large = batch(0, [Rec(n, value=random.Random(n).randbytes(1 << 20)) for n in range(20)], codec=1)
    assert told(read(large, 5, END, None, False)).records == 15
