"""The flows of all assigned partitions (Kafka's SubscriptionState keeps the same facts for Java's consumer)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence

import attrs
from confluent_kafka import TopicPartition

from kafka_remote_client.consumer.message_positions import key_of
from kafka_remote_client.consumer.message_run import Piece
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.route_state import Route

__all__ = ["Routes", "SubscriptionState"]

_Key = tuple[str, int]


@attrs.frozen
class Routes:
    """Facts about all routes for delivering calls. Do not change the lists."""

    any_not_by_broker: bool
    """Whether a partition that is not paused is read from the tier, or its route is not decided yet."""
    redirected: bool
    """Whether messages of the inner consumer about some partition need a check."""
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
            any(flow.damage or flow.nothing_committed or flow.doubted or not flow.delivered_by_broker for flow in flows),
            [flow for flow in flows if flow.route.awaits],
            [flow.bare for flow in flows if flow.delivered_by_broker],
            (inside, [flow.bare for flow in inside]),
        )


class SubscriptionState:
    """Assigned partitions by (topic, partition), their turns to deliver from the tier, and the paused ones.

    librdkafka remembers pauses of all partitions that it knows, assigned or not, so this class does too.
    ``parked`` are those that the inner consumer paused for a direct read and did not resume since.
    """

    def __init__(self) -> None:
        self._flows: dict[_Key, PartitionFlow] = {}
        self._paused: set[_Key] = set()
        self._announced: deque[PartitionFlow] = deque()
        self._passed: deque[PartitionFlow] = deque()
        self._turns: OrderedDict[PartitionFlow, None] = OrderedDict()
        self._routes: Routes | None = None
        self.parked: set[_Key] = set()
        self.advanced: set[PartitionFlow] = set()
        """Flows with records that were gathered from the tier and are not delivered yet."""

    def __len__(self) -> int:
        return len(self._flows)

    def __iter__(self) -> Iterator[PartitionFlow]:
        return iter(list(self._flows.values()))

    def get(self, topic: str, partition: int) -> PartitionFlow | None:
        return self._flows.get((topic, partition))

    def of(self, partitions: Iterable[TopicPartition]) -> list[PartitionFlow]:
        """Returns the flows of those partitions that have one."""
        return [flow for tp in partitions if (flow := self.get(tp.topic, tp.partition)) is not None]

    def beside(self, partitions: Iterable[TopicPartition]) -> list[PartitionFlow]:
        """Returns the flows of all other partitions."""
        keys = {(tp.topic, tp.partition) for tp in partitions}
        return [flow for flow in self if flow.key not in keys]

    def add(self, flow: PartitionFlow) -> None:
        """Adds a partition. If the application had paused it before, it is still paused."""
        flow.paused = flow.key in self._paused
        self._flows[flow.key] = flow
        self.reroute()

    def remove(self, keys: Iterable[_Key]) -> list[PartitionFlow]:
        """Drops partitions and returns their flows; it stops their readers first."""
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
        """Records that the application paused or resumed a partition. Returns its flow, if any."""
        if paused:
            self._paused.add(key)
        else:
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
        """Whether only a direct read keeps the inner partition paused, assigned or not."""
        return key in self.parked and key not in self._paused

    def reroute(self) -> None:
        """A flow changed its route: cached facts about all routes are recomputed at their next use."""
        self._routes = None

    @property
    def routes(self) -> Routes:
        """Returns the facts about all routes."""
        if self._routes is None:
            self._routes = Routes.of(self._flows.values())
        return self._routes

    def delivered_in(self, batch: Sequence[Piece]) -> list[TopicPartition]:
        """Returns the partitions of the inner consumer, at least those with a message in ``batch``. Do not change the list.

        It examines the messages or the partitions, whichever are fewer.
        """
        by_broker = self.routes.by_broker
        if len(batch) >= len(by_broker):
            return by_broker
        flows = [self._flows.get(key) for key in set(map(key_of, batch))]
        return [flow.bare for flow in flows if flow is not None and flow.delivered_by_broker]

    def announce(self, flow: PartitionFlow) -> None:
        """Marks that the flow has something to take. Any thread may call it."""
        self._announced.append(flow)

    def announce_passed(self, flow: PartitionFlow) -> None:
        """Marks that the flow's reader has passed something after its last record. Any thread may call it."""
        self._passed.append(flow)

    def pass_over(self) -> None:
        """Counts offsets that readers passed without a record as gathered. It examines only the marked flows.

        If records still wait in front of them, it examines the flow again the next time.
        """
        waiting = []
        for flow in {self._passed.popleft(): None for _ in range(len(self._passed))}:
            if flow.has_ready:
                waiting.append(flow)
            elif self._flows.get(flow.key) is flow and flow.pass_over():
                self.advanced.add(flow)
        self._passed.extend(waiting)

    def next_ready(self) -> PartitionFlow | None:
        """Returns the next flow in turn that has something to take. Its cost does not depend on the number of partitions."""
        while self._announced:
            self._turns.setdefault(self._announced.popleft())
        while self._turns:
            flow = next(iter(self._turns))
            if flow.has_ready:
                self._turns.move_to_end(flow)
                return flow
            del self._turns[flow]  # it is marked again when it has something
        return None
