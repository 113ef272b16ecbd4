from __future__ import annotations

import datetime as dt
import gc
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message

from kafka_remote_client.errors import UnsupportedFormatError
from kafka_remote_client.records import RecordBlock, _kernel, arrow, read_batches
from kafka_remote_client.records.message_layout import message_layout
from tests.support.artifacts import ROOT
from tests.support.batches import Rec, batch, legacy_message

pytestmark = pytest.mark.usefixtures("kernel")

RECORDS = [
    Rec(0, b"k", b"value", [(b"h", b"1"), (b"h", None), ("ключ".encode(), b"")], timestamp=1),
    Rec(1, None, None, timestamp=1),
    Rec(3, b"", b"", [(b"", b"x")], timestamp=2),
    *(Rec(4 + i, b"key", None if i % 3 else b"%d" % i) for i in range(20)),
]


def block() -> RecordBlock:
    return read_batches(batch(100, RECORDS, epoch=3) + batch(200, RECORDS, attributes=8, epoch=4, codec=3))


def test_accessors_equal_the_rows() -> None:
    found = block()
    assert len(found) == 46
    for i, row in enumerate(found.rows()):
        assert row == (
            found.offset(i),
            found.timestamp(i),
            found.timestamp_type(i),
            found.leader_epoch(i),
            found.key(i),
            found.value(i),
            found.headers(i),
        )
    assert found.next_offset == 224
    assert found.last_leader_epoch == 4
    assert repr(found) == "<RecordBlock of 46 records, next offset 224>"


@pytest.mark.parametrize("index", [-1, 46, 2**40])
def test_an_index_out_of_range_is_refused(index: int) -> None:
    found = block()
    for read in (
        found.offset,
        found.timestamp,
        found.timestamp_type,
        found.leader_epoch,
        found.key,
        found.value,
        found.headers,
    ):
        with pytest.raises(IndexError):
            read(index)


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [(0, None, 46), (0, 500, 46), (40, 500, 6), (46, None, 0), (60, 70, 0), (5, 3, 0), (-5, 2, 2), (3, -1, 0), (2, 5, 3)],
)
def test_slices_are_cut_to_the_block(start: int, stop: int | None, expected: int) -> None:
    found = block()
    assert len(found.messages("t", 0, start, stop)) == expected
    assert len(list(found.rows(start, stop))) == expected


def test_messages_equal_consumed_ones() -> None:
    first, second, *_ = found = block().messages("topic", 7)
    assert (first.topic(), first.partition(), first.offset(), first.key(), first.value()) == ("topic", 7, 100, b"k", b"value")
    assert first.headers() == [("h", b"1"), ("h", None), ("ключ", b"")]
    assert (first.timestamp(), first.leader_epoch(), first.latency(), first.error()) == ((1, 1001), 3, None, None)
    assert (second.key(), second.value(), second.headers()) == (None, None, None)
    assert found[-1].timestamp() == (2, 2000)
    assert found[-1].leader_epoch() == 4
    assert [m.offset() for m in found] == [block().offset(i) for i in range(46)]


def test_messages_do_not_leak_references() -> None:
    found = block()
    topic = str(b"topic", "ascii")  # not interned: another owner could release an interned string meanwhile
    before = sys.getrefcount(topic)
    messages = found.messages(topic, 0)
    assert [m.value() for m in messages] == [row[5] for row in found.rows()]
    del messages
    assert sys.getrefcount(topic) == before


@pytest.fixture(params=["copies", "constructor"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both ways in which the compiled kernel makes messages: by copy and by constructor."""
    try:
        if request.param == "constructor":
            _kernel.use_message_layout(None)
        yield request.param
    finally:
        _kernel.use_message_layout(message_layout(Message, _kernel.message_image))


def everything(message: Message) -> tuple[Any, ...]:
    place = (message.topic(), message.partition(), message.offset(), message.leader_epoch(), message.timestamp())
    return *place, message.key(), message.value(), message.headers(), message.error(), message.latency(), len(message)


@pytest.mark.usefixtures("way")
def test_messages_equal_those_of_the_constructor() -> None:
    old = legacy_message(300, None, magic=0) + legacy_message(301, b"x", timestamp=-5) + legacy_message(302, b"", attributes=8)
    for found in (block(), read_batches(old)):
        messages = found.messages("topic", 7)
        for message, (offset, timestamp, kind, epoch, key, value, headers) in zip(messages, found.rows(), strict=True):
            placed = (kind + 1, timestamp) if kind >= 0 else (0, 0)
            made = Message("topic", 7, offset, key, value, headers or None, None, placed, -1.0, epoch)
            assert type(message) is Message
            assert everything(message) == everything(made)
            assert gc.is_tracked(message) == gc.is_tracked(made)


@pytest.mark.usefixtures("way")
def test_messages_own_references_to_their_parts_only() -> None:
    found, topic = block(), "a topic of its own"
    before = sys.getrefcount(topic)
    messages = found.messages(topic, 0)
    (value, headers), nothing = (messages[0].value(), messages[0].headers()), sys.getrefcount(None)
    assert (sys.getrefcount(value), sys.getrefcount(headers)) == (3, 3)
    messages[1].set_value(b"another")
    messages[1].set_key(b"another")
    messages[1].set_headers([("name", b"1")])
    assert (messages[1].key(), messages[1].value(), messages[1].headers()) == (b"another", b"another", [("name", b"1")])
    assert (messages[0].value(), messages[2].value()) == (b"value", b"")
    for _ in range(200):
        found.messages(topic, 0)
    del messages
    assert sys.getrefcount(topic) == before
    assert (sys.getrefcount(value), sys.getrefcount(headers)) == (2, 2)
    assert abs(sys.getrefcount(None) - nothing) < 1000


def test_arrow_has_sparks_kafka_schema() -> None:
    table = block().to_arrow("topic", 7)
    assert table.schema == pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("timestampType", pa.int32()),
            ("headers", pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))),
        ]
    )
    assert table.schema == arrow.SPARK_KAFKA_SCHEMA
    table.validate(full=True)


def test_a_topic_column_has_at_most_two_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    three = read_batches(batch(0, [Rec(n) for n in range(3)]))
    monkeypatch.setattr(arrow, "_MOST_TEXT", 15)
    for table in (three.to_arrow("topic", 7), three.slice_to_arrow("topic", 7)):
        assert table["topic"].to_pylist() == ["topic"] * 3
    monkeypatch.setattr(arrow, "_MOST_TEXT", 14)
    for convert in (three.to_arrow, three.slice_to_arrow):
        with pytest.raises(UnsupportedFormatError, match="topic's name, 3 times"):
            convert("topic", 7)


def as_arrow(row: tuple[Any, ...]) -> dict[str, Any]:
    offset, timestamp, kind, _, key, value, headers = row
    return {
        "key": key,
        "value": value,
        "topic": "topic",
        "partition": 7,
        "offset": offset,
        "timestamp": dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=timestamp),
        "timestampType": kind,
        "headers": [{"key": name, "value": data} for name, data in headers],
    }


def test_arrow_has_the_same_records_as_rows() -> None:
    found = block()
    table = found.to_arrow("topic", 7)
    assert table.to_pylist() == [as_arrow(row) for row in found.rows()]
    assert table.column("key").null_count == 2
    del found
    assert table.to_pylist()[0]["value"] == b"value"


def test_arrow_of_no_records() -> None:
    empty = read_batches(b"").to_arrow("t", 0)
    empty.validate(full=True)
    assert empty.num_rows == 0


def test_arrow_of_records_without_headers_has_empty_lists() -> None:
    found = read_batches(batch(0, [Rec(0), Rec(1)])).to_arrow("t", 0)
    found.validate(full=True)
    assert found.column("headers").to_pylist() == [[], []]


def test_arrow_columns_may_consist_of_nulls() -> None:
    found = read_batches(batch(0, [Rec(i, None, b"v", [(b"h", None)] * 2) for i in range(3)])).to_arrow("t", 0)
    found.validate(full=True)
    assert found.column("key").to_pylist() == [None] * 3
    assert found.column("key").null_count == 3
    assert found.column("headers").to_pylist() == [[{"key": "h", "value": None}] * 2] * 3


def test_arrow_without_nulls_has_no_validity_bitmap() -> None:
    table = read_batches(batch(0, [Rec(0, b"k", b"v"), Rec(1, b"k", b"v")])).to_arrow("t", 0)
    assert table.column("key").buffers()[0] is None
    assert table.column("key").null_count == 0


def test_missing_timestamp_stays_minus_one_millisecond_as_in_spark() -> None:
    table = read_batches(batch(0, timestamp=-1)).to_arrow("t", 0)
    assert table.column("timestamp").cast(pa.int64()).to_pylist() == [-1000]


@pytest.mark.parametrize("timestamp", [2**63 - 1, -(2**63), 2**63 // 1000 + 1])
def test_timestamp_beyond_microseconds_is_refused(timestamp: int) -> None:
    found = read_batches(batch(0, timestamp=timestamp))
    assert found.timestamp(0) == timestamp
    with pytest.raises(UnsupportedFormatError, match="timestamp"):
        found.to_arrow("t", 0)


@pytest.mark.parametrize("codec", [0, 3])
def test_nbytes_counts_source_and_columns(codec: int) -> None:
    found = read_batches(batch(0, [Rec(i, value=bytes(1000)) for i in range(10)], codec=codec))
    assert 10_000 < found.nbytes < 25_000  # at most half of an arena is unused


def test_block_keeps_its_source_alive() -> None:
    data = bytes(bytearray(batch(0, [Rec(value=b"kept")])))
    found = read_batches(data)
    del data
    assert found.value(0) == b"kept"


def test_more_blocks_than_kept_memory_do_not_disturb_each_other() -> None:
    """The kernel keeps some large pieces of memory for the next block and frees the oldest."""
    data = batch(0, [Rec(i, value=b"%d" % i) for i in range(70_000)])
    for _ in range(2):
        blocks = [read_batches(data) for _ in range(4)]
        for found in blocks:
            assert (len(found), found.offset(69_999), found.value(69_999)) == (70_000, 69_999, b"69999")


def test_what_each_record_has_is_never_null() -> None:
    never_null = [field.name for field in arrow.RECORD_SCHEMA if not field.nullable]
    assert never_null == ["topic", "partition", "offset", "timestamp_type"]


def test_an_arrow_slice_has_the_records_of_the_messages() -> None:
    found = block()
    for start, stop in ((0, 46), (1, 3), (22, 30), (45, 46), (7, 7), (-5, None)):
        table = found.slice_to_arrow("topic", 7, start, stop)
        table.validate(full=True)
        assert table.schema == arrow.RECORD_SCHEMA
        assert as_seen(arrow.messages_of(table)) == as_seen(found.messages("topic", 7, start, stop))
        assert [one["headers"] for one in table.to_pylist()] == [
            [{"key": name, "value": value} for name, value in row[6]] for row in found.rows(start, stop)
        ]


def test_an_arrow_slice_has_null_for_no_timestamp_and_no_leader_epoch() -> None:
    old = read_batches(legacy_message(0, b"v", magic=0, key=b"k")).slice_to_arrow("t", 0)
    assert (old["timestamp"].to_pylist(), old["timestamp_type"].to_pylist()) == ([None], [-1])
    assert old["leader_epoch"].to_pylist() == [None]
    (message,) = arrow.messages_of(old)
    assert (message.timestamp(), message.leader_epoch()) == ((0, 0), None)


def test_an_arrow_slice_outlives_the_buffer_of_its_block() -> None:
    buffer = bytearray(batch(0, [Rec(0, b"key", b"value", [(b"h", b"x")])]))
    found = read_batches(buffer).slice_to_arrow("t", 0)
    before = found.to_pylist()
    buffer[:] = bytes(len(buffer))
    assert found.to_pylist() == before


def test_messages_give_the_same_table_as_their_block() -> None:
    found = block()
    table = arrow.message_table(found.messages("topic", 7))
    assert table.equals(pa.Table.from_batches([found.slice_to_arrow("topic", 7)]))


def as_seen(messages: list[Message]) -> list[tuple[Any, ...]]:
    return [
        (one.topic(), one.partition(), one.offset(), one.timestamp(), one.leader_epoch(), one.key(), one.value(), one.headers())
        for one in messages
    ]


def test_arrow_data_is_made_without_pandas() -> None:
    code = "import sys; from kafka_remote_client.records import read_batches; from tests.support.batches import Rec, batch; "
    code += "read_batches(batch(0, [Rec(0)])).to_arrow('t', 0); print('pyarrow' in sys.modules, 'pandas' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True) == "True False\n"
