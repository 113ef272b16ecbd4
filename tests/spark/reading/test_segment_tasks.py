from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.records import read_batches
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.reading import split_reader
from kafka_remote_client.spark.reading.segment_tasks import DONE_SCHEMA, CountersParam, ForEachSplit, MapSplits, PlanSplits
from kafka_remote_client.spark.reading.split_records import SplitRecords
from kafka_remote_client.spark.reading.split_rows import split_batch, splits_of_batches
from tests.support.batches import Rec, batch

SECRET = "hunter2"
OPTIONS = {
    "kafka.bootstrap.servers": "b:1",
    "subscribe": "t",
    "fetch.remote.enabled": "false",
    "remote.librdkafka.sasl.password": SECRET,
}
SPLITS = [Split(TopicPartition("t", 3), 5, 8, 100), Split(TopicPartition("t", 4), 0, 2, 50)]
BROKER = "broker-fetch-records-total"


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A broker with every offset, which records the reads of it."""
    events: list[str] = []

    def read(settings: object, partition: TopicPartition, start: int, end: int, **more: object) -> Iterator[list[Message]]:
        events.append("begun")
        try:
            for offset in range(start, end):
                yield read_batches(batch(offset, [Rec(0, b"k", b"v")])).messages(*partition)
        finally:
            events.append("left")

    monkeypatch.setattr(split_reader, "read_from_broker", read)
    return events


def rows(*numbers: int) -> pa.RecordBatch:
    return split_batch(SPLITS[number] for number in numbers)


def planned(options: Any) -> list[Split]:
    assert options == OPTIONS
    return SPLITS


def columns(ddl: str) -> list[str]:
    return [column.split()[0] for column in ddl.split(", ")]


def test_a_plan_made_in_a_task_is_the_same_plan() -> None:
    task = pickle.loads(pickle.dumps(PlanSplits(OPTIONS, planned)))
    given = pa.record_batch([pa.array([0], pa.int64())], ["id"])
    assert list(splits_of_batches(task.batches(iter([given])))) == SPLITS


def test_each_split_is_handled_and_then_counted() -> None:
    seen = []

    def handle(records: SplitRecords) -> None:
        seen.append((records.id, [message.offset() for message in records]))

    counted: list[Any] = []
    ForEachSplit(OPTIONS, handle, counted=counted.append).each(iter(SPLITS))
    assert seen == [("t-3-5-8", [5, 6, 7]), ("t-4-0-2", [0, 1])]
    assert [counters[BROKER] for counters in counted] == [3, 2]


def test_splits_reach_a_task_as_rows() -> None:
    seen = []
    task = ForEachSplit(OPTIONS, lambda records: seen.append(records.id))
    done = list(task.batches(iter([rows(1), rows(), rows(0)])))
    assert seen == ["t-4-0-2", "t-3-5-8"]
    assert {tuple(found.schema.names) for found in done} == {tuple(columns(DONE_SCHEMA))}
    results = [row for found in done for row in found.to_pylist()]
    assert [row["id"] for row in results] == seen
    assert [json.loads(row["counters"])[BROKER] for row in results] == [0, 0]


def test_a_task_fails_with_the_handler_s_error_and_leaves_nothing_open(broker: list[str]) -> None:
    class TableIsGoneError(Exception):
        pass

    def handle(records: SplitRecords) -> None:
        next(iter(records))
        raise TableIsGoneError(records.id)

    with pytest.raises(TableIsGoneError, match="t-3-5-8"):
        ForEachSplit(OPTIONS, handle).each(SPLITS)
    assert broker == ["begun", "left"]


def test_a_handler_may_leave_records_unread(broker: list[str]) -> None:
    counted: list[Any] = []
    ForEachSplit(OPTIONS, lambda records: next(iter(records)), counted=counted.append).each(SPLITS[:1])
    assert broker == ["begun", "left"]
    assert [counters[BROKER] for counters in counted] == [1]


def test_record_batches_of_each_split_become_one_table() -> None:
    counted: list[Any] = []
    task = MapSplits(OPTIONS, SplitRecords.batches, counted.append)
    found = [offset for records in task.batches([rows(0, 1)]) for offset in records.column("offset").to_pylist()]
    assert found == [5, 6, 7, 0, 1]
    assert [counters[BROKER] for counters in counted] == [3, 2]


def test_an_abandoned_split_is_counted_and_ended(broker: list[str]) -> None:
    counted: list[Any] = []
    found = MapSplits(OPTIONS, SplitRecords.batches, counted.append).batches([rows(0, 1)])
    next(found)
    found.close()  # type: ignore[attr-defined] # a generator, as Spark gets it
    assert broker == ["begun", "left"]
    assert [counters[BROKER] for counters in counted] == [1]


def test_without_an_accumulator_nothing_is_counted() -> None:
    assert len(list(MapSplits(OPTIONS, SplitRecords.batches).batches([rows(0)]))) == 3


def test_accumulators_add_counters_up() -> None:
    param = CountersParam()
    assert param.zero({BROKER: 4}) == {}
    assert param.addInPlace({BROKER: 4}, {BROKER: 1}) == {BROKER: 5}


@pytest.mark.parametrize(
    "task",
    [PlanSplits(OPTIONS, planned), ForEachSplit(OPTIONS, print), MapSplits(OPTIONS, list)],
    ids=lambda task: type(task).__name__,
)
def test_no_repr_shows_a_secret(task: object) -> None:
    assert SECRET not in repr(task)
    assert SECRET not in str(task)
