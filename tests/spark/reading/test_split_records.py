from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.records import read_batches
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.options.source_options import parse_options
from kafka_remote_client.spark.reading.split_records import SplitRecords
from tests.support.batches import Rec, batch

SPLIT = Split(TopicPartition("t", 3), 5, 8, 1000)


class FakeReader:
    """Has the split's records, and counts how often it was begun and left."""

    def __init__(self) -> None:
        self.counters = {"remote-fetch-records-total": 3}
        self.begun = self.left = 0
        self._block = read_batches(batch(5, [Rec(n, b"k", b"v%d" % n) for n in range(3)]))

    def _counted(self, items: list[Any]) -> Iterator[Any]:
        self.begun += 1
        try:
            yield from items
        finally:
            self.left += 1

    def messages(self, split: Split) -> Iterator[Message]:
        assert split is SPLIT
        return self._counted(self._block.messages(*split.topic_partition))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        return self._counted([self._block.to_arrow(*split.topic_partition).select(["value", "offset"])])


@pytest.fixture
def reader() -> Any:
    return FakeReader()


def records(reader: Any, **more: str) -> SplitRecords:
    return SplitRecords(parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t", **more}), SPLIT, reader)


def test_it_says_what_it_is(reader: Any) -> None:
    found = records(reader)
    assert (found.id, found.topic, found.partition, found.start_offset, found.end_offset) == ("t-3-5-8", "t", 3, 5, 8)
    assert repr(found) == "SplitRecords(t-3-5-8)"
    assert found.split is SPLIT
    assert found.counters == {"remote-fetch-records-total": 3}
    assert reader.begun == 0


def test_records_come_as_messages_from_the_start_each_time(reader: Any) -> None:
    found = records(reader)
    assert [(message.offset(), message.value()) for message in found] == [(5, b"v0"), (6, b"v1"), (7, b"v2")]
    assert [message.offset() for message in found] == [5, 6, 7]
    assert reader.begun == reader.left == 2


def test_records_come_as_arrow(reader: Any) -> None:
    found = records(reader)
    (only,) = found.batches()
    assert only.column("value").to_pylist() == [b"v0", b"v1", b"v2"]


def test_the_schema_has_the_columns_of_the_options(reader: Any) -> None:
    assert records(reader).schema.names == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType",
    ]  # fmt: skip
    chosen = {"remote.includeKey": "false", "includeHeaders": "true"}
    assert records(reader, **chosen).schema.names[-1] == "headers"
    assert records(reader, **chosen).schema.names[0] == "value"


def test_all_records_make_a_table_and_none_an_empty_one() -> None:
    options = parse_options(
        {"kafka.bootstrap.servers": "b:1", "subscribe": "t", "fetch.remote.enabled": "false", "remote.includeValue": "false"}
    )
    nothing = SplitRecords(options, Split(TopicPartition("t", 3), 8, 8, 0))
    table = nothing.to_arrow()
    assert (table.num_rows, table.schema) == (0, nothing.schema)


def test_what_is_left_half_read_ends_with_the_context(reader: Any) -> None:
    with records(reader) as found:
        next(iter(found))
        next(found.batches())
        assert (reader.begun, reader.left) == (2, 0)
    assert reader.left == 2
