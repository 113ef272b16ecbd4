"""An eager group in which librdkafka loses the start of one partition: all are assigned again, each at its exact offset."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.consumer.inner_consumer import InnerConsumer
from kafka_remote_client.consumer.lost_start import LostStarts
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.model import PartitionOffsets
from tests.support.embedded_topics import direct_settings, fill_topic, plain_rows, small_cluster, take
from tests.support.locations import ManualClock

BOUNDS = PartitionOffsets(log_start=10, earliest_local=100, latest_tiered=99, high_watermark=150)
TOPIC = "orders"


class EagerGroup:
    """An inner consumer that refuses incremental calls, and the flows of partitions 0 to 4; partition 0 has lost its start."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.positions = {1: 140}
        self.flows = SubscriptionState()
        self.clock = ManualClock()
        self.starts = LostStarts(self.flows, self.clock)
        self.inner = InnerConsumer.of(lambda name: lambda *args, **kwargs: self._call(name, *args, **kwargs))

    def _call(self, name: str, partitions: list[TopicPartition] | None = None, offsets: Iterable[Any] = ()) -> Any:
        places = [(tp.partition, tp.offset, tp.leader_epoch) for tp in partitions or offsets]
        if name == "position":
            return [TopicPartition("t", p, self.positions.get(p, OFFSET_INVALID), leader_epoch=3) for p, *_ in places]
        if name.startswith("incremental"):
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.calls.append((name, places))
        return None

    def add(self, partition: int, offset: int, route: Route = Route.BROKER, *, moved: bool = False) -> PartitionFlow:
        flow = PartitionFlow("t", partition, offset)
        flow.offsets, flow.route, flow.moved = BOUNDS, route, moved
        self.flows.add(flow)
        return flow

    def lost(self) -> PartitionFlow:
        flow = self.add(0, 100, Route.BROKER, moved=True)
        self.flows.parked.add(flow.key)
        return flow

    def pass_a_second(self, flow: PartitionFlow) -> None:
        self.starts.refused(self.inner, flow)
        self.clock.now += 1.1
        self.starts.refused(self.inner, flow)


def test_eager_group_assigns_all_partitions_at_their_places() -> None:
    group = EagerGroup()
    lost = group.lost()
    delivered = group.add(1, 120)
    group.add(2, 20, Route.REMOTE, moved=True)
    group.add(3, OFFSET_BEGINNING)
    group.add(4, OFFSET_END, moved=True)
    delivered.stores(TopicPartition("t", 1, 130))
    group.pass_a_second(lost)
    assert group.calls == [
        ("resume", [(0, OFFSET_INVALID, None)]),
        ("assign", [(0, 100, None), (1, 140, 3), (2, 150, None), (3, OFFSET_BEGINNING, None), (4, 0, None)]),
        ("store_offsets", [(1, 130, None)]),
    ]
    assert (lost.moved, group.flows.parked) == (False, set())
    assert delivered.here.offset == 140, "a later look at its route begins at the place of the new assignment"


def test_eager_group_waits_for_the_place_of_a_looked_up_partition(caplog: pytest.LogCaptureFixture) -> None:
    """A second look-up of the end returns a later offset: the records in between would be lost."""
    group = EagerGroup()
    lost = group.lost()
    group.add(1, OFFSET_END)
    group.positions = {}
    group.pass_a_second(lost)
    assert [call for call, _ in group.calls] == ["resume"]
    assert lost.moved
    assert "t-0 waits until the offset of t-1 is known" in caplog.text
    group.positions = {1: 150}
    group.clock.now += 1.1
    group.starts.refused(group.inner, lost)
    assert group.calls[-1] == ("assign", [(0, 100, None), (1, 150, 3)])
    assert not lost.moved


@pytest.mark.embedded
def test_eager_group_delivers_everything_once_after_a_lost_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """librdkafka then refuses to seek the partition until it is assigned again."""
    with small_cluster(tmp_path) as cluster:
        fill_topic(cluster, TOPIC, partitions=(0, 1))
        expected = [plain_rows(cluster, TOPIC, partition) for partition in (0, 1)]
        with Consumer(direct_settings(cluster)) as consumer:
            inner = consumer._direct_routing._inner
            again: list[list[TopicPartition]] = []

            def seek(partition: TopicPartition) -> None:
                if not again and partition.partition == 0:
                    raise KafkaException(KafkaError(KafkaError._STATE))
                inner.seek(partition)

            def assign(partitions: list[TopicPartition]) -> None:
                again.append(partitions)
                inner.assign(partitions)

            consumer._direct_routing._inner = attrs.evolve(inner, seek=seek, assign=assign)
            consumer.subscribe([TOPIC])
            rows = take(consumer, sum(map(len, expected)))
            assert [[row for row in rows if row[1] == partition] for partition in (0, 1)] == expected
            consumer.commit(asynchronous=False)
            committed = consumer.committed([TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)], 60.0)
            assert [tp.offset for tp in committed] == list(map(len, expected))
    assert [[tp.partition for tp in partitions] for partitions in again] == [[0, 1, 2, 3]]
    assert "librdkafka has not started orders-0 after 1 s: assigning it again" in caplog.text
