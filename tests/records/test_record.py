from __future__ import annotations

import struct

import pytest

from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.records import RecordBlock, read_batches
from tests.support.batches import Rec, batch, record, varint

pytestmark = pytest.mark.usefixtures("kernel")


def rows(data: bytes) -> list[tuple[object, ...]]:
    return list(read_batches(data).rows())


def fails(raw: bytes, words: str, *, count: int = 1, last_delta: int = 0, codec: int = 0) -> None:
    with pytest.raises(CorruptRecordError, match=words):
        read_batches(batch(0, raw, count=count, last_delta=last_delta, codec=codec))


def test_keys_values_and_headers_may_be_null_empty_or_full() -> None:
    records = [
        Rec(0, None, None),
        Rec(1, b"", b""),
        Rec(2, b"key", b"value", [(b"a", b"1"), (b"a", None), (b"", b""), ("ключ✓".encode(), b"\xff")]),
    ]
    assert rows(batch(7, records)) == [
        (7, 1000, 0, 0, None, None, []),
        (8, 1000, 0, 0, b"", b"", []),
        (9, 1000, 0, 0, b"key", b"value", [("a", b"1"), ("a", None), ("", b""), ("ключ✓", b"\xff")]),
    ]


def test_header_name_that_is_not_utf8_reads_as_in_java() -> None:
    block = read_batches(batch(0, [Rec(headers=[(b"a\xffb", b"x"), (b"nul\0", None)])]))
    assert block.headers(0) == [("a�b", b"x"), ("nul\0", None)]
    assert block.to_arrow("t", 0).to_pydict()["headers"] == [[{"key": "a�b", "value": b"x"}, {"key": "nul\0", "value": None}]]


def test_header_names_of_messages_end_at_nul() -> None:
    names = [b"a\0b", b"\0", b"", b"a\0\xff", b"\xe2\x82\0", b"whole"]
    block = read_batches(batch(0, [Rec(n, headers=[(name, b"x")]) for n, name in enumerate(names)]))
    for found in (block.messages("t", 0), block.messages("t", 0, 1, 4)):
        for message in found:
            assert message.headers() == [(names[message.offset()].split(b"\0")[0].decode("utf-8", "replace"), b"x")]
    assert [block.headers(n)[0][0] for n in range(len(names))] == [name.decode("utf-8", "replace") for name in names]


def test_create_time_is_base_plus_delta_and_wraps_like_a_java_long() -> None:
    top = 2**63 - 1
    records = [Rec(0, timestamp=-5), Rec(1, timestamp=2**40), Rec(2, timestamp=0)]
    assert [row[1] for row in rows(batch(0, records, timestamp=100))] == [95, 2**40 + 100, 100]
    assert [row[1] for row in rows(batch(0, [Rec(timestamp=1)], timestamp=top))] == [-(2**63)]
    assert [row[1] for row in rows(batch(0, [Rec(timestamp=-top - 1)], timestamp=-1))] == [top]


def test_log_append_time_gives_every_record_the_batch_maximum() -> None:
    block = read_batches(batch(0, [Rec(0, timestamp=3), Rec(1, timestamp=4)], attributes=0x08))
    assert [(row[1], row[2]) for row in block.rows()] == [(2000, 1), (2000, 1)]


def test_delete_horizon_keeps_deltas_relative_to_the_base_timestamp() -> None:
    assert [row[1] for row in rows(batch(0, [Rec(0, timestamp=-7)], attributes=0x40, timestamp=5000))] == [4993]


def test_offset_holes_of_compaction_are_kept() -> None:
    block = read_batches(batch(10, [Rec(2), Rec(5)], last_delta=9) + batch(30, [Rec(0)]))
    assert [row[0] for row in block.rows()] == [12, 15, 30]
    assert block.next_offset == 31


def test_empty_batch_yields_nothing_and_moves_the_offset() -> None:
    block = read_batches(batch(10, [], last_delta=9, timestamp=-1))
    assert len(block) == 0
    assert block.next_offset == 20


def test_producer_fields_and_sequence_wrap_do_not_change_records() -> None:
    data = bytearray(batch(0, [Rec(0), Rec(1)], producer=5))
    data[53:57] = struct.pack(">i", 2**31 - 1)
    from tests.support.batches import fix_crc

    assert len(read_batches(fix_crc(bytes(data)))) == 2


@pytest.mark.parametrize("count", [2, 3, 1000, 2**31 - 1])
def test_a_record_count_that_is_too_large_is_damage(count: int) -> None:
    fails(record(Rec()), "record count|does not end", count=count, last_delta=5)


def test_a_record_count_that_is_too_large_but_plausible_is_damage() -> None:
    fails(record(Rec(value=b"x" * 20)), "integer without an end", count=2, last_delta=5)


def test_a_record_count_that_is_too_small_is_damage() -> None:
    fails(record(Rec(0)) + record(Rec(1)), "bytes remain", last_delta=5)
    fails(record(Rec(0)), "bytes remain", count=0)


def body(*parts: bytes) -> bytes:
    raw = b"".join(parts)
    return varint(len(raw)) + raw


NULL, ZERO = varint(-1), varint(0)
LONG, LONGER = b"\x80" * 5 + b"\x00", b"\x80" * 10 + b"\x00"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (varint(-1) + b"\0" * 8, "record's size"),
        (varint(5) + b"\0" * 8, "record's size"),
        (varint(100) + b"\0" * 8, "record's size"),
        (varint(2**31 - 1) + b"\0" * 8, "record's size"),
        (LONG + b"\0" * 8, "integer without an end"),
        (b"\x80" * 9, "integer without an end"),
        (body(b"\0", LONGER, ZERO, NULL, NULL, ZERO), "integer without an end"),
        (body(b"\0", ZERO, LONG, NULL, NULL, ZERO), "integer without an end"),
        (body(b"\0", ZERO, ZERO, LONG, NULL, ZERO), "integer without an end"),
        (body(b"\0", ZERO, ZERO, NULL, LONG, ZERO), "integer without an end"),
        (body(b"\0", ZERO, ZERO, NULL, NULL, LONG), "integer without an end"),
        (body(b"\0", ZERO, ZERO, NULL, NULL, varint(2), LONG), "integer without an end"),
        (body(b"\0", ZERO, ZERO, NULL, NULL, varint(2), ZERO, LONG), "integer without an end"),
        (body(b"\0", ZERO, ZERO, varint(-2), NULL, ZERO), "key's size"),
        (body(b"\0", ZERO, ZERO, varint(105), NULL, ZERO), "key's size"),
        (body(b"\0", ZERO, ZERO, varint(-(2**31)), NULL, ZERO), "key's size"),
        (body(b"\0", ZERO, ZERO, NULL, varint(-2), ZERO), "value's size"),
        (body(b"\0", ZERO, ZERO, NULL, varint(105), ZERO), "value's size"),
        (body(b"\0", ZERO, ZERO, NULL, NULL, varint(-1)), "headers do not fit"),
        (body(b"\0", ZERO, ZERO, NULL, NULL, varint(2**31 - 1)), "headers do not fit"),
        (body(b"\0", ZERO, ZERO, NULL, NULL, varint(1), varint(-1), NULL), "headers do not fit"),
        (body(b"\0", ZERO, ZERO, NULL, NULL, varint(1), varint(10), NULL), "headers do not fit"),
        (body(b"\0", ZERO, ZERO, NULL, NULL, varint(1), ZERO, varint(-2)), "headers do not fit"),
        (body(b"\0", ZERO, ZERO, NULL, NULL, varint(1), ZERO, varint(10)), "headers do not fit"),
        (body(b"\0", ZERO, ZERO, NULL, NULL, ZERO, b"\0"), "do not fill"),
        (body(b"\0", ZERO, varint(-1), NULL, NULL, ZERO), "do not increase"),
        (body(b"\0", ZERO, varint(1), NULL, NULL, ZERO), "do not increase"),
    ],
)
@pytest.mark.parametrize("codec", [0, 3])
def test_raises_for_a_record_with_inconsistent_fields(raw: bytes, words: str, codec: int) -> None:
    fails(raw, words, codec=codec)


def test_records_must_rise_within_the_batch() -> None:
    fails(record(Rec(1)) + record(Rec(1)), "do not increase", count=2, last_delta=5)


def test_over_long_varints_that_end_are_read_as_in_java() -> None:
    padded = b"\x80\x80\x80\x80\x00"
    raw = body(b"\0", b"\x80" * 9 + b"\x00", padded, NULL, NULL, ZERO)
    assert [row[0] for row in rows(batch(3, raw))] == [3]
    # the fifth byte adds four bits, the tenth adds one: the rest overflows the int or long
    overflowing = body(b"\0", b"\x80" * 9 + b"\x7e", b"\x80\x80\x80\x80\x70", NULL, NULL, ZERO)
    assert [row[:2] for row in rows(batch(3, overflowing))] == [(3, 1000)]


def test_unused_record_attributes_are_ignored() -> None:
    assert len(rows(batch(0, body(b"\xff", ZERO, ZERO, NULL, NULL, ZERO)))) == 1


def test_large_batch_of_100_mib() -> None:
    value = bytes(100 * 1024 * 1024)
    block: RecordBlock = read_batches(batch(0, [Rec(value=value)]))
    assert len(block.value(0)) == len(value)
