"""The progress of directly read partitions that an application gets, and when it gets it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition

from kafka_remote_client import AIOConsumer, Consumer
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.read_progress import Progress, ProgressReports, ReadPace
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import PartitionOffsets
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    by_consume,
    by_poll,
    direct_settings,
    filled_cluster,
    plain_rows,
    read_to_ends,
    rows_of,
    take,
    tiers,
)

BOUNDS = PartitionOffsets(log_start=0, earliest_local=100, latest_tiered=99, high_watermark=150)


def remote_flow(offset: int = 0, partition: int = 0) -> PartitionFlow:
    flow = PartitionFlow("orders", partition, offset)
    flow.route, flow.offsets = Route.REMOTE, BOUNDS
    return flow


def test_the_time_left_is_that_of_the_pace_so_far() -> None:
    pace = ReadPace()
    assert pace.seconds_left(10.0, 20, 100) is None
    assert pace.seconds_left(11.0, 20, 100) is None, "it stands still"
    assert pace.seconds_left(12.0, 60, 100) == pytest.approx(2.0)
    assert pace.seconds_left(13.0, 100, 100) == 0.0


def test_old_reports_do_not_count_for_ever() -> None:
    pace = ReadPace()
    for second in range(20):
        pace.seconds_left(float(second), second, 10_000)
    for second in range(20, 29):
        left = pace.seconds_left(float(second), 19 + 100 * (second - 19), 10_000)
    assert left == pytest.approx((10_000 - 919) / 100)


def test_a_seek_back_begins_a_new_pace() -> None:
    pace = ReadPace()
    pace.seconds_left(0.0, 50, 100)
    pace.seconds_left(1.0, 60, 100)
    assert pace.seconds_left(2.0, 10, 100) is None


def test_each_partition_is_told_of_once_an_interval() -> None:
    reports = ProgressReports(5.0)
    flows = [remote_flow(), remote_flow(40, partition=1)]
    assert [(report.partition, report.offset, report.end_offset) for report in reports.due(1.0, flows)] == [
        (0, 0, 100),
        (1, 40, 100),
    ]
    assert reports.due(5.9, flows) == []
    flows[0].next_offset, flows[0].record_bytes = 50, 1234
    assert reports.due(6.0, flows)[0] == Progress("orders", 0, 50, 100, 1234, 5.0)


def test_a_partition_that_leaves_the_store_is_reported_once_more() -> None:
    reports = ProgressReports(1.0)
    flow = remote_flow()
    reports.due(1.0, [flow])
    flow.route, flow.next_offset = Route.BROKER, 100
    assert [(report.offset, report.end_offset, report.seconds_left) for report in reports.due(2.0, [flow])] == [(100, 100, 0.0)]
    assert reports.due(3.0, [flow]) == []
    assert reports.due(4.0, []) == []


def test_progress_leaves_out_paused_unknown_and_broker_partitions() -> None:
    paused, unknown, by_broker = remote_flow(), remote_flow(), remote_flow()
    paused.paused = True
    unknown.offsets = PartitionOffsets()
    by_broker.route = Route.BROKER
    assert ProgressReports(1.0).due(1.0, [paused, unknown, by_broker]) == []


cluster = filled_cluster("orders", 400)


class TestConsumer:
    pytestmark = pytest.mark.embedded

    @pytest.mark.parametrize("one", [by_poll, by_consume])
    def test_an_application_sees_a_read_move_to_where_the_broker_takes_over(self, cluster: EmbeddedCluster, one: Any) -> None:
        received: list[Progress] = []
        settings = direct_settings(cluster, fetch_remote_progress_cb=received.append, fetch_remote_progress_interval_ms=100)
        with Consumer(settings) as consumer:
            consumer.assign([TopicPartition("orders", 0, 0)])
            assert received == [], "it is called by poll() and consume() alone"
            rows = take(consumer, 1, one)
            rows += read_to_ends(consumer, one)["orders", 0]
            while received[-1].seconds_left != 0.0:
                one(consumer)
        assert rows == plain_rows(cluster, "orders")
        local_start = tiers(cluster, "orders").earliest_local
        assert {(report.topic, report.partition, report.end_offset) for report in received} == {("orders", 0, local_start)}
        assert [report.offset for report in received] == sorted(report.offset for report in received)
        assert received[-1].offset == local_start
        assert received[-1].record_bytes > 0

    @pytest.mark.parametrize("one", [by_poll, by_consume])
    def test_an_exception_in_it_comes_out_of_the_call_and_costs_no_record(self, cluster: EmbeddedCluster, one: Any) -> None:
        failures = iter(range(3))

        def fail(_: Progress) -> None:
            if next(failures, None) is not None:
                raise ZeroDivisionError("mine")

        settings = direct_settings(cluster, fetch_remote_progress_cb=fail, fetch_remote_progress_interval_ms=100)
        rows, raised = [], 0
        with Consumer(settings) as consumer:
            consumer.assign([TopicPartition("orders", 0, 0)])
            while raised < 3 or len(rows) < 300:
                try:
                    rows += rows_of(one(consumer))
                except ZeroDivisionError:
                    raised += 1
                if len(rows) >= 300 and raised < 3:
                    consumer.seek(TopicPartition("orders", 0, 100))
                    del rows[100:]
        assert rows == plain_rows(cluster, "orders")[: len(rows)]

    def test_it_may_seek_and_close(self, cluster: EmbeddedCluster) -> None:
        def end(report: Progress) -> None:
            received.append(report)
            if len(received) == 1:
                consumer.seek(TopicPartition("orders", 0, 200))
            elif came:
                consumer.close()

        received: list[Progress] = []
        came: list[Message] = []
        settings = direct_settings(cluster, fetch_remote_progress_cb=end, fetch_remote_progress_interval_ms=100)
        consumer = Consumer(settings)
        consumer.assign([TopicPartition("orders", 0, 0)])
        first = consumer.poll(PATIENCE_SECONDS)
        assert first is not None
        assert first.offset() == 200
        came.append(first)
        with pytest.raises(RuntimeError, match="Consumer closed"):
            deque(iter(lambda: consumer.poll(0.05), received), maxlen=0)
        assert received[0].offset == 0

    def test_progress_callbacks_may_be_coroutines(self, cluster: EmbeddedCluster) -> None:
        received: list[Progress] = []

        async def tell(report: Progress) -> None:
            await asyncio.sleep(0)
            received.append(report)

        async def scenario() -> None:
            settings = direct_settings(cluster, fetch_remote_progress_cb=tell, fetch_remote_progress_interval_ms=100)
            async with AIOConsumer(settings) as consumer:
                await consumer.assign([TopicPartition("orders", 0, 0)])
                assert await consumer.poll(PATIENCE_SECONDS) is not None

        asyncio.run(scenario())
        assert received

    def test_what_cannot_be_called_is_refused(self, cluster: EmbeddedCluster) -> None:
        with pytest.raises(ConfigurationError, match=r"fetch\.remote\.progress\.cb must be callable"):
            Consumer(direct_settings(cluster, fetch_remote_progress_cb="hush"))
