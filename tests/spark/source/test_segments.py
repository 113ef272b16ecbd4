from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message

import kafka_remote_client.spark
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.records import read_batches
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.reading import split_reader
from kafka_remote_client.spark.reading.broker_limit import BrokerBytesError
from kafka_remote_client.spark.reading.split_records import SplitRecords
from kafka_remote_client.spark.source import pyspark_api, segments
from kafka_remote_client.spark.source.segments import Segments, plan_splits_of
from tests.support.batches import Rec, batch

OPTIONS = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", "fetch.remote.enabled": "false"}
SPLITS = [Split(TopicPartition("t", 3), 5, 8, 100), Split(TopicPartition("t", 4), 0, 2, 50)]
BROKER = "broker-fetch-records-total"
HANDLED: list[str] = []
CODE_BYTES: list[int] = []
"""The size of each function that Spark got, in order."""


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has every offset."""
    HANDLED.clear()

    def read(settings: object, partition: TopicPartition, start: int, end: int, **more: object) -> Iterator[list[Message]]:
        yield read_batches(batch(start, [Rec(n, b"k", b"v") for n in range(end - start)])).messages(*partition)

    monkeypatch.setattr(split_reader, "read_from_broker", read)


def plan(options: Any) -> list[Split]:
    return SPLITS


def handle(records: SplitRecords) -> None:
    HANDLED.append(f"{records.id}: {sum(1 for _ in records)}")


def fail_at_the_second(records: SplitRecords) -> None:
    handle(records)
    if records.partition == 4:
        raise OSError("the table is gone")


def values(records: SplitRecords) -> Iterator[pa.RecordBatch]:
    for found in records.batches():
        yield found.select(["offset"])


def travelled(function: Any) -> Any:
    return pickle.loads(pickle.dumps(function))


class FakeFrame:
    """A DataFrame of rows, one in each partition, or of what a function made of them."""

    def __init__(self, parts: Sequence[Sequence[pa.RecordBatch]], schema: object = None, broadcast: bool = False) -> None:
        self.parts = parts
        self.schema = schema
        self.broadcast = broadcast

    def mapInArrow(self, function: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]], schema: object) -> FakeFrame:
        CODE_BYTES.append(len(pickle.dumps(function)))
        return FakeFrame([list(travelled(function)(iter(part))) for part in self.parts], schema)

    def hint(self, name: str) -> FakeFrame:
        return FakeFrame(self.parts, self.schema, name == "broadcast")

    def join(self, other: FakeFrame, column: str) -> FakeFrame:
        assert other.broadcast, "the partitions are those of this side"
        found = {row[0]: row for row in other.collect()}
        schema = other.parts[0][0].schema
        return FakeFrame(
            [[_rows([found[number]], schema) for batch in part for (number,) in _tuples(batch)] for part in self.parts]
        )

    def drop(self, column: str) -> FakeFrame:
        return FakeFrame([[batch.drop_columns([column]) for batch in part] for part in self.parts])

    def toLocalIterator(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.collect())

    def collect(self) -> list[tuple[Any, ...]]:
        return [row for part in self.parts for batch in part for row in _tuples(batch)]


def _tuples(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in batch.to_pylist()]


def _rows(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([pa.array([row[n] for row in rows], field.type) for n, field in enumerate(schema)], schema=schema)


class FakeRdd:
    """A list, with as many partitions as elements."""

    def __init__(self, parts: Sequence[Iterable[Any]]) -> None:
        self._parts = parts

    def foreachPartition(self, function: Callable[[Iterator[Any]], object]) -> None:
        for part in self._parts:
            assert travelled(function)(iter(part)) is None, "the driver keeps nothing for each task"


class FakeAccumulator:
    def __init__(self, value: Any, param: Any) -> None:
        self.value = value
        self._param = param

    def __reduce__(self) -> tuple[Any, ...]:  # as Spark's: the driver's own stays where it is
        return known_accumulator, (ACCUMULATORS.index(self),)

    def add(self, more: Any) -> None:
        self.value = self._param.addInPlace(self.value, more)


ACCUMULATORS: list[FakeAccumulator] = []


def known_accumulator(number: int) -> FakeAccumulator:
    return ACCUMULATORS[number]


class FakeContext:
    def parallelize(self, elements: Sequence[Any], slices: int) -> FakeRdd:
        assert slices == len(elements)
        return FakeRdd([[element] for element in elements])

    def accumulator(self, value: Any, param: Any) -> FakeAccumulator:
        ACCUMULATORS.append(FakeAccumulator(value, param))
        return ACCUMULATORS[-1]


class ConnectSession:
    def createDataFrame(self, rows: Sequence[Sequence[Any]], schema: str) -> FakeFrame:
        kinds = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
        names = [column.split() for column in schema.split(", ")]
        return FakeFrame([[_rows(rows, pa.schema([(name, kinds[kind]) for name, kind in names]))]])

    def range(self, start: int, end: int, step: int, partitions: int) -> FakeFrame:
        assert (start, step, partitions) == (0, 1, max(1, end))
        return FakeFrame([[pa.record_batch([pa.array([n])], ["id"])] for n in range(end)])


class ClassicSession(ConnectSession):
    sparkContext = FakeContext()  # noqa: N815 - PySpark's name


ConnectSession.__module__ = "pyspark.sql.connect.session"


def made(session: Any = None, splits: Sequence[Split] | None = None) -> Segments:
    return Segments(session or ClassicSession(), OPTIONS, splits, plan=plan)


@pytest.fixture(params=[ClassicSession, ConnectSession], ids=["classic", "connect"])
def session(request: pytest.FixtureRequest) -> Any:
    return request.param()


def test_splits_are_planned_once_when_they_are_asked_for(session: Any) -> None:
    asked = made(session)
    assert repr(asked) == "Segments(not planned yet)"
    assert asked.splits == SPLITS
    asked.splits.clear()
    assert asked.splits == SPLITS
    assert repr(asked) == "Segments(2 splits)"


def test_the_plan_is_that_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    class Partition:
        split = SPLITS[0]

    class Reader:
        def __init__(self, options: object) -> None:
            assert options == OPTIONS

        def partitions(self) -> list[Partition]:
            return [Partition()]

    monkeypatch.setattr(segments, "KafkaRemoteReader", Reader)
    assert plan_splits_of(OPTIONS) == SPLITS[:1]


def test_options_are_refused_when_it_is_made() -> None:
    with pytest.raises(ConfigurationError, match=r"remote\.nonsense"):
        Segments(ClassicSession(), {**OPTIONS, "remote.nonsense": "1"})


def test_each_split_is_handled_in_a_task_and_counted(session: Any) -> None:
    asked = made(session)
    assert asked.counters() == {}
    asked.foreachPartition(handle)
    assert HANDLED == ["t-3-5-8: 3", "t-4-0-2: 2"]
    assert asked.counters()[BROKER] == 5
    asked.foreachPartition(handle)
    assert asked.counters()[BROKER] == 10


def test_the_code_of_a_task_does_not_grow_with_the_splits(session: Any) -> None:
    """Spark sends each split to one task, as a row, and the code of a job to all of its tasks."""
    CODE_BYTES.clear()
    many = [Split(TopicPartition("t", 3), n, n + 1, 100) for n in range(50)]
    for splits in (many[:1], many):
        made(session, splits).to_dataframe()
        made(session, splits).foreachPartition(handle)
    half = len(CODE_BYTES) // 2
    assert CODE_BYTES[:half] == CODE_BYTES[half:]


def test_counters_of_many_jobs_take_the_place_of_one(session: Any) -> None:
    asked = made(session)
    asked.foreachPartition(handle)
    before = len(pickle.dumps(asked._counted))
    for _ in range(10):
        asked.foreachPartition(handle)
    assert len(pickle.dumps(asked._counted)) <= before + 100


def test_a_job_that_fails_counts_nothing() -> None:
    asked = made(ClassicSession())
    with pytest.raises(OSError, match="the table is gone"):
        asked.foreachPartition(fail_at_the_second)
    assert asked.counters() == {}


def test_nothing_to_read_is_nothing_to_do(session: Any) -> None:
    asked = made(session, [])
    asked.foreachPartition(handle)
    assert (HANDLED, asked.splits, asked.counters()) == ([], [], {})
    assert asked.to_dataframe().collect() == []


def test_what_is_finished_is_left_out_by_id_or_by_split(session: Any) -> None:
    asked = made(session)
    assert asked.without(["t-3-5-8"]).splits == SPLITS[1:]
    assert asked.without([SPLITS[1], "t-3-5-6"]).splits == [Split(TopicPartition("t", 3), 6, 8, 66)]
    assert asked.only(SPLITS[:1]).splits == SPLITS[:1]
    with pytest.raises(ConfigurationError, match="not the id of a split"):
        asked.without(["nonsense"])
    asked.without(["t-3-5-8"]).foreachPartition(handle)
    assert HANDLED == ["t-4-0-2: 2"]
    assert asked.counters() == {}


def test_a_function_over_splits_makes_a_dataframe(session: Any) -> None:
    asked = made(session)
    frame: Any = asked.mapInArrow(values, "offset bigint")
    assert frame.schema == "offset bigint"
    assert [offset for (offset,) in frame.collect()] == [5, 6, 7, 0, 1]


def test_dataframe_has_the_columns_of_the_source_and_can_be_counted(session: Any) -> None:
    asked = made(session)
    frame: Any = asked.to_dataframe()
    assert frame.schema.startswith("key binary, value binary, topic string, partition int, offset bigint")
    assert [(row[2], row[3], row[4]) for row in frame.collect()] == [
        *[("t", 3, offset) for offset in (5, 6, 7)],
        *[("t", 4, offset) for offset in (0, 1)],
    ]
    asked.to_dataframe()
    assert asked.counters().get(BROKER) == (10 if isinstance(session, ClassicSession) else None)


def test_options_are_given_as_spark_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark_api, "require_pyspark", lambda: (4, 0))
    spark: Any = ClassicSession()
    options = {"kafka.bootstrap.servers": "b:1", "fetch.remote.enabled": False}
    found = kafka_remote_client.spark.read_segments(spark, options, subscribe="t", minPartitions=7)
    assert isinstance(found, kafka_remote_client.spark.Segments)
    assert found._options == {**OPTIONS, "minPartitions": "7", "remote.onFallback": "fail"}
    found = kafka_remote_client.spark.read_segments(spark, options, subscribe="t", **{"remote.onfallback": "broker"})
    assert found._options == {**OPTIONS, "remote.onfallback": "broker"}


def test_a_limit_of_broker_bytes_is_shared_by_the_splits_of_a_job() -> None:
    """Nothing of these splits is known to be tiered, so each gets a part in proportion to its size."""

    def read(limit: str, *chosen: int) -> int:
        segments = Segments(ClassicSession(), {**OPTIONS, "remote.maxBrokerBytes": limit}, plan=plan)
        frame: Any = segments.only([segments.splits[number] for number in chosen]).to_dataframe()
        return len(frame.collect())

    sizes = [split.size_in_bytes for split in made().splits]
    assert read(str(10 * sum(sizes)), 0, 1) == 5
    with pytest.raises(BrokerBytesError, match="of this job are not tiered"):
        read(str(sum(sizes) - 1), 0, 1)
    with pytest.raises(BrokerBytesError, match="are not tiered"):
        Segments(ClassicSession(), {**OPTIONS, "remote.maxBrokerBytes": "1"}, plan=plan).foreachPartition(print)


def test_the_names_are_found_at_the_top_and_others_are_not() -> None:
    for name in kafka_remote_client.spark.__all__:
        assert name in dir(kafka_remote_client.spark)
        assert getattr(kafka_remote_client.spark, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = kafka_remote_client.spark.nonsense
