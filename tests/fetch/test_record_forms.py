from __future__ import annotations

from collections.abc import Generator

import pytest

from kafka_remote_client.fetch.record_forms import RecordForms
from kafka_remote_client.fetch.remote_reader import ReadEnd
from kafka_remote_client.records import RecordBlock, read_batches
from tests.support.batches import Rec, batch

END = ReadEnd("local", 12)


class Reader(RecordForms):
    topic, partition = "t", 3

    def __init__(self) -> None:
        self.asked: list[float | None] = []
        self.left = 0

    def blocks(self, timeout: float | None = None) -> Generator[RecordBlock | ReadEnd, None, None]:
        self.asked.append(timeout)
        try:
            yield read_batches(batch(7, [Rec(0, b"k", b"a"), Rec(1, None, b"b")]))
            yield read_batches(batch(10, [Rec(0, b"k", None)]))
            yield END
        finally:
            self.left += 1


def test_messages_are_those_of_a_consumer_and_the_end_is_kept() -> None:
    reader = Reader()
    assert reader.end is None
    found = [(m.topic(), m.partition(), m.offset(), m.key(), m.value()) for m in reader.messages(5.0)]
    assert found == [("t", 3, 7, b"k", b"a"), ("t", 3, 8, None, b"b"), ("t", 3, 10, b"k", None)]
    assert (reader.end, reader.asked, reader.left) == (END, [5.0], 1)


def test_record_batches_hold_the_same_records() -> None:
    reader = Reader()
    found = [row for records in reader.record_batches() for row in records.select(["partition", "offset", "value"]).to_pylist()]
    assert [tuple(row.values()) for row in found] == [(3, 7, b"a"), (3, 8, b"b"), (3, 10, None)]
    assert (reader.end, reader.asked, reader.left) == (END, [None], 1)


@pytest.mark.parametrize("form", ["messages", "record_batches"])
def test_leaving_the_iteration_leaves_the_reader(form: str) -> None:
    reader = Reader()
    records: Generator[object, None, None] = getattr(reader, form)()
    next(records)
    records.close()
    assert (reader.end, reader.left) == (None, 1)
