from __future__ import annotations

import re
import struct

import pytest

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.records.batch import BATCH_OVERHEAD
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.segment_log import SegmentLog
from tests.support.golden import golden_local, read_text
from tests.support.golden_metadata import golden_cache, golden_store
from tests.support.tier import LAYOUT, MemoryStore, batch, legacy_entry


def log_of(data: bytes, start=0, end=1000, chunk=65536, size=None) -> SegmentLog:
    store = MemoryStore()
    store.objects["x.log"] = data
    return SegmentLog(store, "x.log", start, end, len(data) if size is None else size, chunk)


def test_headers_are_read_from_batch_to_batch():
    batches = [batch(0, 3), batch(3, 2, epoch=4), batch(5, marker="abort", producer_id=7, timestamps=[77])]
    headers = list(log_of(b"".join(batches)).walk(0))
    assert [(f.position, f.end) for f in headers] == [
        (0, len(batches[0])),
        (len(batches[0]), len(batches[0]) + len(batches[1])),
        (len(batches[0]) + len(batches[1]), sum(map(len, batches))),
    ]
    assert [(f.base_offset, f.last_offset, f.leader_epoch, f.magic, f.is_control) for f in headers] == [
        (0, 2, 0, 2, False),
        (3, 4, 4, 2, False),
        (5, 5, 0, 2, True),
    ]
    assert [f.max_timestamp for f in headers] == [1002, 1004, 77]


@pytest.mark.parametrize("chunk", [BATCH_OVERHEAD, 100, 1000, 10**6])
def test_the_read_size_changes_nothing(chunk):
    data = b"".join(batch(n * 2, 2, payload=n * 13) for n in range(30))
    assert list(log_of(data, chunk=chunk).walk(0)) == list(log_of(data).walk(0))


def test_only_the_headers_of_large_batches_are_read():
    data = b"".join(batch(n, payload=100_000) for n in range(5))
    log = log_of(data, chunk=BATCH_OVERHEAD)
    assert len(list(log.walk(0))) == 5
    assert all(end - start <= BATCH_OVERHEAD for _, _, start, end in log.store.calls)


def test_old_formats_give_the_fields_that_they_have():
    data = legacy_entry(3, 0) + legacy_entry(7, 1, timestamp=99)
    headers = list(log_of(data).walk(0))
    assert [(f.base_offset, f.last_offset, f.leader_epoch, f.magic, f.max_timestamp) for f in headers] == [
        (3, 3, -1, 0, -1),
        (7, 7, -1, 1, 99),
    ]


def test_header_reads_one_header():
    first = batch(0, 3)
    log = log_of(first + batch(3))
    assert log.header(len(first)).base_offset == 3
    assert log.store.calls == [("get_range", "x.log", len(first), len(first) + BATCH_OVERHEAD)]


def changed(raw: bytes, at: int, fmt: str, value: int) -> bytes:
    return raw[:at] + struct.pack(fmt, value) + raw[at + struct.calcsize(fmt) :]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no batch header"),
        (batch(0)[:16], "no batch header"),
        (changed(batch(0), 16, ">b", 3), "magic 3"),
        (changed(batch(0), 16, ">b", -1), "magic -1"),
        (changed(batch(0), 8, ">i", 48), "60 bytes"),
        (changed(batch(0), 8, ">i", -1), "11 bytes"),
        (changed(batch(0), 8, ">i", 2**31 - 1), "no batch begins"),
        (batch(0)[:-1], "no batch begins"),
        (changed(batch(0), 23, ">i", -1), "offsets 0 to -1"),
        (batch(1001), "offsets 1001 to 1001"),
        (changed(batch(0), 0, ">q", -5), "offsets -5"),
        (legacy_entry(0, 1, b"")[:33], "no batch begins"),
    ],
)
def test_raises_for_bytes_that_are_not_a_batch_of_the_segment(data, says):
    with pytest.raises(CorruptIndexError, match=says):
        log_of(data, size=max(len(data), 1)).header(0)


@pytest.mark.parametrize("data", [batch(0)[:40], legacy_entry(0, 1)[:20]])
def test_raises_when_the_store_ends_before_the_segment_does(data):
    with pytest.raises(CorruptIndexError, match="cut off"):
        log_of(data, size=1000).header(0)


def test_raises_when_offsets_fall():
    with pytest.raises(CorruptIndexError, match="offset 4 at"):
        list(log_of(batch(0, 5) + batch(4)).walk(0))


def test_raises_for_a_tail_that_is_not_a_batch():
    with pytest.raises(CorruptIndexError, match="no batch header"):
        list(log_of(batch(0) + b"\0" * 10).walk(0))


def test_golden_batches_equal_the_output_of_kafkas_own_tool():
    text = read_text(golden_local() / "dump-log-segments" / "txn-0.txt.gz")
    line = (
        r"baseOffset: (\d+) lastOffset: (\d+) .*partitionLeaderEpoch: (\d+) "
        r".*isControl: (\w+) .*position: (\d+) CreateTime: (\d+)"
    )
    printed = [
        (int(base), int(last), int(epoch), control == "true", int(position), int(time))
        for base, last, epoch, control, position, time in re.findall(line, text)
    ]
    ours = []
    for segment in golden_cache("txn").list_all_remote_log_segments():
        log = SegmentLog.of(golden_store(), LAYOUT.object_key(segment, ObjectKind.LOG), segment)
        ours += [(f.base_offset, f.last_offset, f.leader_epoch, f.is_control, f.position, f.max_timestamp) for f in log.walk(0)]
    assert ours == printed
