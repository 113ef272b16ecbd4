"""The flows of all assigned partitions (Kafka's SubscriptionState keeps the same facts for Java's consumer)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence

import attrs
from confluent_kafka import TopicPartition

from kafka_remote_client.consumer.message_run import Piece
from kafka_remote_client.consumer.messages import key_of
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.route_state import Route

__all__ = ["Routes", "SubscriptionState"]

_Key = tuple[str, int]


@attrs.frozen
class Routes:
    """What calls that deliver ask of all routes. The lists are not to be changed."""

    any_not_by_broker: bool
    """Whether a partition that is not paused is read from the tier, or its route is not decided yet."""
    redirected: bool
    """Whether the inner consumer is not to be believed about some partition."""
    undecided: list[PartitionFlow]
    """The partitions whose route is not decided."""
    by_broker: list[TopicPartition]
    """The partitions that the inner consumer delivers."""
    inside: tuple[list[PartitionFlow], list[TopicPartition]]
    """Flows whose route is the broker's, and the same partitions without offsets."""

    @classmethod
    def of(cls, flows: Collection[PartitionFlow]) -> Routes:
        """As they are now."""
        inside = [flow for flow in flows if flow.route is Route.BROKER]
        return cls(
            any(flow.route is not Route.BROKER and not flow.paused for flow in flows),
            any(flow.damage or flow.nothing_committed or not flow.delivered_by_broker for flow in flows),
            [flow for flow in flows if flow.route.awaits],
            [flow.bare for flow in flows if flow.delivered_by_broker],
            (inside, [flow.bare for flow in inside]),
        )


class SubscriptionState:
    """Assigned partitions by (topic, partition), whose turn it is to deliver from the tier, and which ones are paused.

    librdkafka remembers pauses of partitions of all topics that it once knew, assigned or not, so this does too:
    ``parked`` are those that were paused inside for a direct read and not resumed since.
    """

    def __init__(self) -> None:
        self._flows: dict[_Key, PartitionFlow] = {}
        self._topics: set[str] = set()
        self._paused: set[_Key] = set()
        self._announced: deque[PartitionFlow] = deque()
        self._passed: deque[PartitionFlow] = deque()
        self._turns: OrderedDict[PartitionFlow, None] = OrderedDict()
        self._routes: Routes | None = None
        self.parked: set[_Key] = set()
        self.advanced: set[PartitionFlow] = set()
        """Flows of which records were gathered from the tier and are not handed out yet."""

    def __len__(self) -> int:
        return len(self._flows)

    def __iter__(self) -> Iterator[PartitionFlow]:
        return iter(list(self._flows.values()))

    def get(self, topic: str, partition: int) -> PartitionFlow | None:
        return self._flows.get((topic, partition))

    def of(self, partitions: Iterable[TopicPartition]) -> list[PartitionFlow]:
        """The flows of those partitions that have one."""
        return [flow for tp in partitions if (flow := self.get(tp.topic, tp.partition)) is not None]

    def add(self, flow: PartitionFlow) -> None:
        """Adds a partition; one that the application had paused before still is."""
        flow.paused = flow.key in self._paused
        self._topics.add(flow.topic)
        self._flows[flow.key] = flow
        self.reroute()

    def remove(self, keys: Iterable[_Key]) -> list[PartitionFlow]:
        """Drops partitions and gives them back; their readers are stopped before this returns."""
        removed = []
        for key in list(keys):
            flow = self._flows.pop(key, None)
            if flow is not None:
                flow.detach()
                self.advanced.discard(flow)
                removed.append(flow)
        self.reroute()
        return removed

    def set_paused(self, key: _Key, paused: bool) -> PartitionFlow | None:
        """Notes that the application paused or resumed a partition; its flow, where it has one."""
        if paused and key[0] in self._topics:
            self._paused.add(key)
        elif not paused:
            self._paused.discard(key)
        flow = self._flows.get(key)
        if flow is not None:
            flow.paused = paused
            self.reroute()
        return flow

    def is_paused(self, key: _Key) -> bool:
        """Whether the partition is paused inside: by the application, or for a direct read."""
        return key in self.parked or key in self._paused

    def is_only_parked(self, key: _Key) -> bool:
        """Whether nothing but a direct read keeps the partition paused inside, assigned or not."""
        return key in self.parked and key not in self._paused

    def reroute(self) -> None:
        """Some flow changed its route: cached facts about all routes are computed again when they are next needed."""
        self._routes = None

    @property
    def routes(self) -> Routes:
        """What is known of all routes."""
        if self._routes is None:
            self._routes = Routes.of(self._flows.values())
        return self._routes

    def delivered_in(self, batch: Sequence[Piece]) -> list[TopicPartition]:
        """Partitions that the inner consumer delivers, at least those with a message in ``batch``; not to be changed.

        Looks at the messages or at the partitions, whichever are fewer.
        """
        by_broker = self.routes.by_broker
        if len(batch) >= len(by_broker):
            return by_broker
        flows = [self._flows.get(key) for key in set(map(key_of, batch))]
        return [flow.bare for flow in flows if flow is not None and flow.delivered_by_broker]

    def announce(self, flow: PartitionFlow) -> None:
        """The flow has something to take. Any thread may say so."""
        self._announced.append(flow)

    def announce_passed(self, flow: PartitionFlow) -> None:
        """The flow's reader has passed something behind its last record. Any thread may say so."""
        self._passed.append(flow)

    def pass_over(self) -> None:
        """Takes for gathered what readers have passed without a record. Looks only at flows that were reported.

        Where records still wait in front of it, it is looked at again the next time.
        """
        waiting = []
        for flow in {self._passed.popleft(): None for _ in range(len(self._passed))}:
            if flow.has_ready:
                waiting.append(flow)
            elif self._flows.get(flow.key) is flow and flow.pass_over():
                self.advanced.add(flow)
        self._passed.extend(waiting)

    def next_ready(self) -> PartitionFlow | None:
        """The flow whose turn it is, of those that have something to take. Looks at no other, however many are assigned."""
        while self._announced:
            self._turns.setdefault(self._announced.popleft())
        while self._turns:
            flow = next(iter(self._turns))
            if flow.has_ready:
                self._turns.move_to_end(flow)
                return flow
            del self._turns[flow]  # it is announced again once it has something
        return None
