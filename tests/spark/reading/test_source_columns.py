from __future__ import annotations

import pyarrow as pa
import pytest

from kafka_remote_client.errors import ConfigurationError, UnsupportedFormatError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.records import RecordBlock, read_batches
from kafka_remote_client.spark.options.source_options import ColumnChoice, parse_columns
from kafka_remote_client.spark.reading.source_columns import BATCH_ROWS, batches, column_names, ddl, from_messages
from tests.support.batches import Rec, batch, legacy_message

TP = TopicPartition("t", 3)
ALL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
HEADERS = [(b"h", b"1"), (b"h", None)]


def options(**more: str) -> ColumnChoice:
    return parse_columns({f"remote.{name}" if name != "includeHeaders" else name: value for name, value in more.items()})


def block(*records: Rec, attributes: int = 0) -> RecordBlock:
    return read_batches(batch(100, list(records), attributes=attributes))


def arrow(*records: Rec) -> pa.RecordBatch:
    return block(*records).to_arrow(*TP)


def test_columns_are_those_of_spark_s_own_source() -> None:
    assert column_names(options()) == ALL[:-1]
    assert column_names(options(includeHeaders="true")) == ALL
    assert ddl(options(includeHeaders="true")) == (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp_ltz, timestampType int, "
        "headers array<struct<key: string, value: binary>>"
    )


def test_columns_can_be_left_out() -> None:
    assert column_names(options(includeKey="false", includeValue="false")) == ALL[2:-1]
    for name in ALL[:-1]:
        given = {f"include{name[0].upper()}{name[1:]}": "false", "includeHeaders": "true"}
        assert column_names(options(**given)) == tuple(column for column in ALL if column != name)


def test_at_least_one_column_is_kept() -> None:
    without = {f"include{name[0].upper()}{name[1:]}": "false" for name in ALL}
    assert column_names(options(**{**without, "includeHeaders": "true"})) == ("headers",)
    with pytest.raises(ConfigurationError, match="at least one column must be included"):
        options(**without)


def test_batches_have_the_requested_columns_and_bounded_rows() -> None:
    records = arrow(*(Rec(n, b"k", b"v") for n in range(BATCH_ROWS + 1)))
    found = list(batches(records, ("offset", "value")))
    assert [len(part) for part in found] == [BATCH_ROWS, 1]
    assert found[0].schema.names == ["offset", "value"]
    assert found[1].to_pylist() == [{"offset": 100 + BATCH_ROWS, "value": b"v"}]


def test_no_rows_give_no_batch() -> None:
    assert list(batches(arrow(Rec()).slice(0, 0), ALL)) == []


@pytest.mark.parametrize("start", [0, 1])
def test_headers_are_null_if_a_record_has_none(start: int) -> None:
    records = arrow(Rec(0), Rec(1, headers=HEADERS), Rec(2), Rec(3, headers=[(b"x", b"")])).slice(start)
    (found,) = batches(records, ALL)
    found.validate(full=True)
    named = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert found.column("headers").to_pylist() == [None, named, None, [{"key": "x", "value": b""}]][start:]
    assert found.schema == records.schema


def test_headers_may_exist_for_all_records_or_none() -> None:
    with_all = arrow(Rec(0, headers=HEADERS), Rec(1, headers=HEADERS))
    assert next(batches(with_all, ALL)).column("headers").null_count == 0
    assert next(batches(arrow(Rec(0), Rec(1)), ALL)).column("headers").null_count == 2


@pytest.mark.parametrize("attributes", [0, 8])
def test_the_broker_path_gives_the_same_columns(attributes: int) -> None:
    found = block(Rec(0, None, None, timestamp=5), Rec(2, b"", b"v", HEADERS, timestamp=7), attributes=attributes)
    assert from_messages(found.messages(*TP), TP).equals(found.to_arrow(*TP))


def test_a_timestamp_that_no_column_can_hold_is_refused_with_its_place() -> None:
    found = block(Rec(0, timestamp=5), Rec(1, timestamp=1_712_345_678_123_456_789))
    with pytest.raises(UnsupportedFormatError, match=r"t-3 at offset 101: the timestamp 1712345678123457789 is too large"):
        from_messages(found.messages(*TP), TP)


def test_a_record_without_a_timestamp_has_java_s_values() -> None:
    found = read_batches(legacy_message(0, b"v", magic=0))
    one = from_messages(found.messages(*TP), TP)
    assert one.column("timestampType").to_pylist() == [-1]
    assert one.column("timestamp").cast(pa.int64()).to_pylist() == [-1000]
    assert one.equals(found.to_arrow(*TP))


class OddHeaders:
    """A message of librdkafka with a header whose name is not UTF-8, and a time that no column can hold."""

    def headers(self) -> None:
        raise SystemError("<method 'headers' of 'cimpl.Message' objects> returned a result with an exception set")

    def timestamp(self) -> tuple[int, int]:
        return 1, 2**60

    def offset(self) -> int:
        return 7

    def key(self) -> bytes:
        return b"k"

    def value(self) -> None:
        return None


def test_only_the_chosen_columns_of_messages_are_read() -> None:
    names = ("value", "key", "offset", "timestampType")
    found = from_messages([OddHeaders()], TP, names)  # type: ignore[list-item] # a stand-in
    assert found.schema.names == list(names)
    assert found.to_pylist() == [{"value": None, "key": b"k", "offset": 7, "timestampType": 0}]


def test_a_header_name_that_cannot_be_read_is_refused_with_its_place() -> None:
    with pytest.raises(UnsupportedFormatError, match=r"t-3 at offset 7: .* header .* not UTF-8"):
        from_messages([OddHeaders()], TP, ("key", "headers"))  # type: ignore[list-item] # a stand-in
