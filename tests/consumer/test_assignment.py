"""What pause and resume do. test_rebalance and test_direct_consumer test assignments on the embedded cluster."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition

from kafka_remote_client.consumer.assignment import Assignment
from kafka_remote_client.consumer.inner_consumer import InnerConsumer
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.model import PartitionOffsets
from kafka_remote_client.wire import ZERO_UUID


class Calls:
    """The inner consumer, the routing and the deliveries: calls by name, with the partitions."""

    def __init__(self) -> None:
        self.made: list[tuple[str, list[int]]] = []
        self.closing = True

    def resume(self, partitions: Any) -> None:
        if not isinstance(partitions, list):
            raise TypeError("expected list of TopicPartition")
        self.made.append(("resume", [tp.partition for tp in partitions]))

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.made.append(("pause", [tp.partition for tp in partitions]))

    def settle(self) -> None: ...

    def seal(self, _flows: object) -> None: ...

    def begin(self, _flows: object, *, assigned: bool) -> None: ...

    def take_back(self, flow: PartitionFlow) -> None:
        self.made.append(("take_back", [flow.partition]))

    def seek(self, partition: TopicPartition) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE, f"offset {partition.offset}: refused"))

    def begin_again(self, partitions: list[TopicPartition], *, in_group: bool) -> None:
        self.made.append(("group" if in_group else "no group", [tp.partition for tp in partitions]))

    def go_remote(self, flow: PartitionFlow, _event: object) -> None:
        self.made.append(("go_remote", [flow.partition]))

    def go_broker(self, flow: PartitionFlow, _event: object) -> None:
        self.made.append(("go_broker", [flow.partition]))


class _Reader:
    offsets, topic_id = PartitionOffsets(), ZERO_UUID
    stopped = False

    def stop(self) -> None:
        self.stopped = True


def assignment(calls: Any, *flows: PartitionFlow) -> Assignment:
    known = SubscriptionState()
    for flow in flows:
        known.add(flow)
    none: Any = None
    inner = InnerConsumer.of(lambda name: getattr(calls, name, lambda *_, **__: None))
    return Assignment(inner, known, none, calls, calls, calls, False)


def test_only_partitions_that_the_broker_delivers_are_resumed_inside() -> None:
    flows = [PartitionFlow("t", number, 5) for number in range(4)]
    for flow, route in zip(flows, (Route.REMOTE, Route.BROKER, Route.BROKER, Route.REMOTE), strict=True):
        flow.route = route
    flows[2].moved = True
    calls = Calls()
    assigned = assignment(calls, *flows)
    for flow in flows[:3]:
        flow.paused = True
    assigned.resume([TopicPartition("t", number) for number in range(5)])
    assert calls.made == [("go_remote", [0]), ("go_broker", [2]), ("resume", [1, 4])]
    assert not any(flow.paused for flow in flows)


def test_a_paused_partition_reads_no_further_and_returns_its_records() -> None:
    flows = [PartitionFlow("t", number, 5) for number in range(2)]
    reader: Any = _Reader()
    flows[0].reader = reader
    calls = Calls()
    assignment(calls, *flows).pause([TopicPartition("t", number) for number in (0, 9)])
    assert calls.made == [("pause", [0, 9]), ("take_back", [0])]
    assert [flow.paused for flow in flows] == [True, False]
    assert (reader.stopped, flows[0].reader) == (True, None)


@pytest.mark.parametrize(("code", "paused"), [(KafkaError._STATE, True), (KafkaError._UNKNOWN_PARTITION, False), (None, True)])
def test_a_pause_before_the_assignment_counts_for_a_known_partition(code: int | None, paused: bool) -> None:
    class Knowing(Calls):
        def store_offsets(self, *, offsets: list[TopicPartition]) -> None:
            self.made.append(("store", [tp.partition for tp in offsets]))
            if code is not None:
                raise KafkaException(KafkaError(code))

    calls = Knowing()
    assigned = assignment(calls)
    assigned.pause([TopicPartition("t", 3)])
    assert calls.made == [("pause", [3]), ("store", [3])]
    flow = PartitionFlow("t", 3, 5)
    assigned._flows.add(flow)
    assert flow.paused is paused


def test_the_inner_consumer_refuses_what_is_no_list_of_partitions() -> None:
    wrong: Any = "t"
    with pytest.raises(TypeError, match="expected list of TopicPartition"):
        assignment(Calls()).resume(wrong)


def test_a_consumer_that_has_not_subscribed_commits_as_outside_a_group() -> None:
    calls = Calls()
    assigned = assignment(calls)
    assert len(assigned._resolve([TopicPartition("t", 1, 5)])) == 1
    assigned.in_group = True
    assigned._resolve([TopicPartition("t", 2, 5)])
    assert calls.made == [("no group", [1]), ("group", [2])]


@pytest.mark.parametrize(
    ("paused", "offset", "calls_made"),
    [
        (False, 7, [("pause", [0]), ("resume", [0])]),
        (True, 7, [("pause", [0])]),
        (False, OFFSET_END, [("resume", [0]), ("resume", [0])]),
        (True, OFFSET_END, [("pause", [0])]),
    ],
)
def test_a_refused_seek_leaves_a_partition_running_or_paused(paused: bool, offset: int, calls_made: list[Any]) -> None:
    flow = PartitionFlow("t", 0, 5)
    flow.route = Route.BROKER
    calls = Calls()
    assigned = assignment(calls, flow)
    flow.paused = paused
    with pytest.raises(KafkaException, match=f"offset {offset}: refused"):
        assigned.seek(TopicPartition("t", 0, offset))
    assert calls.made == calls_made
    assert flow.next_offset == 5


def test_an_early_seek_to_the_end_comes_before_the_resume() -> None:
    """The partition waits at offset 0, and a fetch there may be out of range."""
    flow = PartitionFlow("t", 0, OFFSET_BEGINNING)
    flow.route = Route.AWAITS_BOUNDS
    calls = Calls()
    with pytest.raises(KafkaException, match=f"offset {OFFSET_END}: refused"):
        assignment(calls, flow).seek(TopicPartition("t", 0, OFFSET_END))
    assert calls.made == [("pause", [0])]
