"""``consume_arrow`` beside ``consume``: the same records in the same order, positions, stored and committed offsets.

What every delivering call promises is shown in test_direct_consumer and test_tiered_consumer, and what a callback may do in
the middle of one in test_callbacks; here is what ``consume_arrow`` has of its own.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from itertools import cycle
from typing import Any
from uuid import uuid4

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, Message, TopicPartition
from confluent_kafka.error import ConsumeError

from kafka_remote_client import AIOConsumer, AsyncDeserializingConsumer, Consumer, DeserializingConsumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.consumer import aio as ours_of_aio
from kafka_remote_client.consumer.arrow_batches import PlainBatches, table_of
from kafka_remote_client.consumer.deliveries import Deliveries
from kafka_remote_client.consumer.direct_consumer import DirectConsumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.records.arrow import RECORD_SCHEMA
from tests.faults.streams import mixed_segments, write_stream
from tests.support.arrow_reading import by_arrow, messages_in
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    Row,
    by_consume,
    by_poll,
    direct_settings,
    fill_topic,
    from_broker,
    from_store,
    plain_rows,
    plain_settings,
    read_to_ends,
    row,
    small_cluster,
    take,
    tiers,
)

pytestmark = pytest.mark.embedded

COUNT = 300
TOPIC = "orders"
PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with small_cluster(tmp_path_factory.mktemp("tier")) as made:
        fill_topic(made, TOPIC, COUNT, partitions=range(PARTITIONS))
        write_stream(made, "mixed", mixed_segments(0), local=0)
        yield made


@pytest.fixture(scope="module")
def local_start(cluster: EmbeddedCluster) -> int:
    start = tiers(cluster, TOPIC).earliest_local
    assert 100 < start < COUNT - 5
    return start


@pytest.fixture(scope="module")
def expected(cluster: EmbeddedCluster) -> list[Row]:
    return plain_rows(cluster, TOPIC)


def at(offset: int, partition: int = 0) -> TopicPartition:
    return TopicPartition(TOPIC, partition, offset)


def rows_in(table: pa.Table) -> list[Row]:
    return [row(message) for message in messages_in(table)]


def arrow_rows(consumer: Consumer, count: int, limit: int = 50) -> list[Row]:
    """Reads at least ``count`` records with calls for ``wanted`` records; no call returns more than its limit."""
    rows: list[Row] = []
    deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
    while len(rows) < count:
        assert not deadline.expired(), f"{len(rows)} of {count} records came"
        table = consumer.consume_arrow(limit, 0.1)
        table.validate(full=True)
        assert table.num_rows <= limit
        rows += rows_in(table)
    return rows


# -- records ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_transactions_and_codecs_come_as_consume_gives_them(cluster: EmbeddedCluster, level: str) -> None:
    with Consumer(direct_settings(cluster, isolation_level=level)) as consumer:
        consumer.assign([TopicPartition("mixed", 0, 0)])
        assert read_to_ends(consumer, by_arrow)["mixed", 0] == plain_rows(cluster, "mixed", isolation_level=level)
        assert from_store(consumer) > 0


@pytest.mark.parametrize("limit", [1, 7, 100_000])
def test_a_limit_cuts_blocks_and_loses_nothing(cluster: EmbeddedCluster, expected: list[Row], limit: int) -> None:
    count = 40 if limit == 1 else COUNT
    with Consumer(direct_settings(cluster, enable_partition_eof=False)) as consumer:
        consumer.assign([at(0)])
        assert arrow_rows(consumer, count, limit) == expected[:count]


def test_the_three_calls_take_turns(cluster: EmbeddedCluster, expected: list[Row]) -> None:
    with Consumer(direct_settings(cluster)) as consumer:
        consumer.assign([at(0)])
        rows: list[Row] = []
        for size, one in zip((1, 5, 17, 1, 60, 3, 90, 40), cycle((by_poll, by_arrow, by_consume)), strict=False):
            rows += take(consumer, size, one)
        assert rows == expected[: len(rows)]


def test_a_tables_schema_is_the_same_with_and_without_records(cluster: EmbeddedCluster) -> None:
    with Consumer(direct_settings(cluster)) as consumer:
        assert consumer.consume_arrow(10, 0).equals(RECORD_SCHEMA.empty_table())
        assert consumer.consume_arrow(0).equals(RECORD_SCHEMA.empty_table())
        consumer.assign([at(0)])
        assert consumer.consume_arrow(10, PATIENCE_SECONDS).schema == RECORD_SCHEMA


def test_records_of_the_store_are_never_messages(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[Message]:
        raise AssertionError("messages were made")

    monkeypatch.setattr("kafka_remote_client.records.block.RecordBlock.messages", refuse)
    with Consumer(direct_settings(cluster)) as consumer:
        consumer.assign([at(0)])
        assert len(arrow_rows(consumer, 60, 20)) == 60
        assert (from_store(consumer), from_broker(consumer)) == (60, 0)


# -- places ----------------------------------------------------------------------------------------------------------------


def test_positions_and_stored_offsets_follow_as_for_consume(cluster: EmbeddedCluster, local_start: int) -> None:
    stood: list[list[Any]] = []
    for one in (by_arrow, by_consume):
        group = f"group-{uuid4()}"
        seen: list[Any] = []
        with Consumer(direct_settings(cluster, group_id=group)) as consumer:
            consumer.assign([at(0), at(local_start - 3, 1)])
            take(consumer, 20, one)
            consumer.pause([at(0)])
            take(consumer, 5, one)
            consumer.resume([at(0)])
            consumer.assign([at(10)])
            seen += take(consumer, 8, one)
            consumer.seek(at(local_start + 2))
            seen += [tp.offset for tp in consumer.position([at(0)])]
            seen += take(consumer, 4, one)
            seen += [(tp.offset, tp.leader_epoch) for tp in consumer.position([at(0)])]
            seen += [(tp.partition, tp.offset) for tp in consumer.commit(asynchronous=False)]
        with Consumer(direct_settings(cluster, group_id=group)) as consumer:
            consumer.assign([at(OFFSET_INVALID)])
            seen += take(consumer, 3, one)
        stood.append(seen)
    assert stood[0] == stood[1]


def test_a_restarted_group_continues_after_the_last_table(cluster: EmbeddedCluster, expected: list[Row]) -> None:
    settings = direct_settings(cluster, enable_auto_commit=True, enable_partition_eof=False)
    rows: list[Row] = []
    for count in (30, 110, 160):
        with Consumer(settings) as consumer:
            consumer.assign([at(OFFSET_INVALID)])
            while len(rows) < min(count, COUNT):
                rows += rows_in(consumer.consume_arrow(13, 0.1))
    assert rows == expected[: len(rows)]


def test_members_of_a_group_read_each_record_once_by_consume_arrow(cluster: EmbeddedCluster) -> None:
    sessions = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500}
    settings = direct_settings(cluster, enable_auto_commit=True, enable_partition_eof=False, **sessions)
    rows: dict[tuple[str, int], list[Row]] = {}
    for share in (PARTITIONS * COUNT // 2, PARTITIONS * COUNT):
        with Consumer(settings) as member:
            member.subscribe([TOPIC])
            deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
            while sum(map(len, rows.values())) < share:
                assert not deadline.expired(), f"{sum(map(len, rows.values()))} of {share} records came"
                for one in rows_in(member.consume_arrow(64, 0.1)):
                    rows.setdefault(one[:2], []).append(one)
            assert from_store(member) > 0
    for partition in range(PARTITIONS):
        assert rows[TOPIC, partition] == plain_rows(cluster, TOPIC, partition)


# -- errors ----------------------------------------------------------------------------------------------------------------


def end_of_partition(partition: int = 0) -> Message:
    return Message(TOPIC, partition, COUNT, error=KafkaError(KafkaError._PARTITION_EOF))


def test_an_error_ends_the_batch_and_is_raised_by_the_next_call(cluster: EmbeddedCluster, expected: list[Row]) -> None:
    with Consumer(direct_settings(cluster)) as consumer:
        assert isinstance(consumer, DirectConsumer)
        consumer.assign([at(0)])
        assert arrow_rows(consumer, 10, 10) == expected[:10]
        deliveries = consumer._direct_deliveries
        run = None
        while run is None:
            run = deliveries._take_run(40)
        behind = deliveries._take_run(1)
        assert behind is not None
        deliveries.gathered.add(run)
        deliveries.gathered.add([end_of_partition()])
        deliveries.gathered.add(behind)
        assert rows_in(consumer.consume_arrow(1000, PATIENCE_SECONDS)) == expected[10 : 10 + len(run[0])]
        stands = 10 + len(run[0])
        assert consumer.position([at(0)])[0].offset == stands
        with pytest.raises(ConsumeError) as raised:
            consumer.consume_arrow(1000, PATIENCE_SECONDS)
        assert raised.value.code == KafkaError._PARTITION_EOF
        assert raised.value.kafka_message is not None
        assert raised.value.kafka_message.offset() == COUNT
        assert consumer.position([at(0)])[0].offset == stands
        assert take(consumer, 60, by_arrow) == expected[stands : stands + 60]


def gather_behind_an_error(deliveries: Deliveries) -> None:
    run = None
    while run is None:
        run = deliveries._take_run(30)
    deliveries.gathered.add([end_of_partition()])
    deliveries.gathered.add(run)


def test_a_run_that_waits_behind_an_error_is_cut_or_becomes_messages(cluster: EmbeddedCluster, expected: list[Row]) -> None:
    with Consumer(direct_settings(cluster)) as consumer:
        assert isinstance(consumer, DirectConsumer)
        for then in (by_arrow, by_consume, by_poll):
            consumer.assign([at(0)])
            take(consumer, 1, by_arrow)
            gather_behind_an_error(consumer._direct_deliveries)
            with pytest.raises(ConsumeError):
                consumer.consume_arrow(10, 0)
            assert take(consumer, 3, by_arrow) == expected[1:4]
            assert consumer.position([at(0)])[0].offset == 4
            assert take(consumer, 50, then) == expected[4:54]


def test_a_seek_takes_back_an_error_and_the_run_behind_it(cluster: EmbeddedCluster, expected: list[Row]) -> None:
    with Consumer(direct_settings(cluster)) as consumer:
        assert isinstance(consumer, DirectConsumer)
        consumer.assign([at(0)])
        take(consumer, 1, by_arrow)
        deliveries = consumer._direct_deliveries
        gather_behind_an_error(deliveries)
        consumer.seek(at(5))
        assert (deliveries.gathered.pieces, len(deliveries.gathered)) == ([], 0)
        assert take(consumer, 20, by_arrow) == expected[5:25]


# -- the other classes -----------------------------------------------------------------------------------------------------


def test_with_direct_fetch_off_the_records_are_the_same(cluster: EmbeddedCluster, expected: list[Row]) -> None:
    with Consumer(plain_settings(cluster)) as consumer:
        assert not isinstance(consumer, DirectConsumer)
        consumer.assign([at(0)])
        assert read_to_ends(consumer, by_arrow)[TOPIC, 0] == expected
        with pytest.raises(ValueError, match="num_messages"):
            consumer.consume_arrow(-1)
    with pytest.raises(RuntimeError):
        consumer.consume_arrow()


def test_with_direct_fetch_off_errors_come_one_by_one_after_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    record = Message(TOPIC, 0, 7, b"k", b"v", timestamp=(1, 5), leader_epoch=2)
    batches = iter([[end_of_partition(0), record, end_of_partition(1)], []])

    class Stock:
        @staticmethod
        def consume(*_: object) -> list[Message]:
            return next(batches)

    monkeypatch.setattr("kafka_remote_client.consumer.arrow_batches.confluent_kafka.Consumer", Stock)
    plain, consumer = PlainBatches(), Stock()
    assert plain.consume(consumer, 5, 1.0)["offset"].to_pylist() == [7]
    for partition in (0, 1):
        with pytest.raises(ConsumeError) as raised:
            plain.consume(consumer, 5, 1.0)
        assert raised.value.kafka_message is not None
        assert raised.value.kafka_message.partition() == partition
    assert plain.consume(consumer, 5, 1.0).num_rows == 0


def test_what_confluent_kafka_refuses_is_refused(cluster: EmbeddedCluster) -> None:
    with Consumer(direct_settings(cluster)) as consumer:
        for wrong in (-1, 1_000_001):
            with pytest.raises(ValueError, match="num_messages"):
                consumer.consume_arrow(wrong, 0.1)
        with pytest.raises(TypeError):
            consumer.consume_arrow("5")
        with pytest.raises(TypeError):
            consumer.consume_arrow(5, "1")
    with pytest.raises(RuntimeError):
        consumer.consume_arrow(1, 0)


@pytest.mark.parametrize("enabled", [True, False])
def test_a_deserializing_consumer_refuses(cluster: EmbeddedCluster, enabled: bool) -> None:
    settings = direct_settings(cluster) | {"fetch.remote.enabled": enabled}
    with DeserializingConsumer[Any, Any](settings) as consumer, pytest.raises(NotImplementedError, match="consume_arrow"):
        consumer.consume_arrow(1, 0)


def test_without_pyarrow_nothing_is_consumed(
    cluster: EmbeddedCluster, expected: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    for settings in (direct_settings(cluster), plain_settings(cluster)):
        with Consumer(settings) as consumer:
            consumer.assign([at(0)])
            with monkeypatch.context() as without:
                without.delitem(sys.modules, "kafka_remote_client.consumer.arrow_batches")
                without.setitem(sys.modules, "pyarrow", None)
                with pytest.raises(ImportError):
                    consumer.consume_arrow(1, PATIENCE_SECONDS)
            assert take(consumer, 3) == expected[:3]


@pytest.mark.parametrize("settings", [direct_settings, plain_settings])
@pytest.mark.parametrize("deserializes", [False, True])
def test_a_coroutine_gives_the_same_table(
    cluster: EmbeddedCluster, expected: list[Row], settings: Any, deserializes: bool
) -> None:
    async def scenario() -> list[Row]:
        made = settings(cluster, enable_partition_eof=False)
        consumer = await AsyncDeserializingConsumer[Any, Any](made) if deserializes else AIOConsumer(made)
        async with consumer:
            await consumer.assign([at(0)])
            return rows_in(await consumer.consume_arrow(40, PATIENCE_SECONDS))

    assert asyncio.run(scenario()) == expected[:40]


def test_a_coroutine_of_a_stock_consumer_gives_the_same_table(
    cluster: EmbeddedCluster, expected: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours_of_aio, "_begin", None)

    async def scenario() -> list[Row]:
        async with AIOConsumer(plain_settings(cluster, enable_partition_eof=False)) as consumer:
            assert type(consumer._consumer) is confluent_kafka.Consumer
            await consumer.assign([at(0)])
            return rows_in(await consumer.consume_arrow(40, PATIENCE_SECONDS))

    assert asyncio.run(scenario()) == expected[:40]


def test_headers_that_confluent_kafka_cannot_read_are_null() -> None:
    class Unreadable:
        """``headers()`` of confluent_kafka fails on a name that is not UTF-8."""

        def __getattr__(self, name: str) -> Any:
            return getattr(Message(TOPIC, 0, 1, b"k", b"v", timestamp=(1, 5), leader_epoch=0), name)

        def headers(self) -> None:
            raise SystemError

    (found,) = table_of([Unreadable()]).to_pylist()
    assert found["headers"] is None
    assert found["value"] == b"v"
