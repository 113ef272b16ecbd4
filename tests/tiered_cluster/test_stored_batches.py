"""Batches of all formats are read from a log as they are: damaged ones too, for a broker does not check what it sends."""

from __future__ import annotations

import pytest

from kafka_remote_client.tiered_cluster.stored_batches import record_times, stored_batches
from tests.support.batches import (
    CODECS,
    Rec,
    abort_marker,
    batch,
    compress,
    legacy_message,
    legacy_set,
    record,
    xerial,
)

LOG_APPEND_TIME = 0x08


def times(data: bytes) -> list[tuple[int, int]]:
    return [time for one in stored_batches(data) for time in record_times(one)]


def ten(base: int, codec: int = 0) -> bytes:
    records = [Rec(n, value=b"v" * 20, timestamp=n) for n in range(10)]
    return batch(base, records, codec=codec, timestamp=1000 + base, max_timestamp=1009 + base, epoch=4)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_has_its_offsets_and_the_times_of_its_records(codec: str) -> None:
    data = ten(60, CODECS[codec])
    (found,) = stored_batches(data)
    assert (found.base_offset, found.last_offset, found.leader_epoch, found.max_timestamp) == (60, 69, 4, 1069)
    assert found.data == data
    assert times(data) == [(60 + n, 1060 + n) for n in range(10)]


def test_a_damaged_batch_is_read_as_it_is() -> None:
    damaged = bytearray(ten(0) + ten(10))
    damaged[70] ^= 1
    assert b"".join(one.data for one in stored_batches(bytes(damaged))) == bytes(damaged)


@pytest.mark.parametrize("cut", [1, 70])
def test_a_cut_batch_is_refused(cut: int) -> None:
    with pytest.raises(ValueError, match="batch at offset 0 ends at byte"):
        list(stored_batches(ten(0)[:-cut]))


def test_snappy_may_have_the_framing_of_java() -> None:
    records = [Rec(n, value=b"v" * 50_000, timestamp=n) for n in range(3)]
    payload = xerial(b"".join(map(record, records)))
    data = batch(5, records, codec=2, payload=payload, timestamp=10, max_timestamp=12)
    assert times(data) == [(5, 10), (6, 11), (7, 12)]


def test_log_append_time_is_the_time_of_all_records() -> None:
    data = batch(5, [Rec(0), Rec(1, timestamp=9)], attributes=LOG_APPEND_TIME, timestamp=10, max_timestamp=99)
    assert times(data) == [(5, 99), (6, 99)]


def test_a_marker_is_a_record_with_a_time() -> None:
    assert times(abort_marker(3, 7, timestamp=50, max_timestamp=50)) == [(3, 50)]


def test_old_formats_have_timestamps_from_magic_1_on() -> None:
    of_magic_0, of_magic_1 = (
        b"".join(legacy_message(n + first, b"v", magic=magic, timestamp=100 + n) for n in range(3))
        for magic, first in ((0, 6), (1, 0))
    )
    data = (
        legacy_message(0, b"v", magic=0)
        + legacy_message(1, b"v", timestamp=90)
        + legacy_set(4, of_magic_1, codec=1, timestamp=102)
        + legacy_message(5, b"v", key=b"k", timestamp=200)
        + legacy_set(8, of_magic_0, codec=1, magic=0)
        + legacy_message(11, compress(1, of_magic_1), key=b"key", attributes=1 | LOG_APPEND_TIME, timestamp=300)
    )
    assert [(one.last_offset, one.leader_epoch) for one in stored_batches(data)] == [(n, -1) for n in (0, 1, 4, 5, 8, 11)]
    assert times(data) == [
        *((0, -1), (1, 90), (2, 100), (3, 101), (4, 102), (5, 200)),
        *((6, -1), (7, -1), (8, -1), (9, 300), (10, 300), (11, 300)),
    ]
