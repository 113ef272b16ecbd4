"""The flows of all assigned partitions (Kafka's SubscriptionState keeps the same facts for Java's consumer)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from kafka_remote_client.consumer.partition_flow import PartitionFlow, Route

__all__ = ["SubscriptionState"]


class SubscriptionState:
    """Assigned partitions by (topic, partition), and the turns of those that are read directly."""

    def __init__(self) -> None:
        self._flows: dict[tuple[str, int], PartitionFlow] = {}
        self._turns: deque[PartitionFlow] = deque()
        self.generation = 0
        """Raised whenever records gathered for the application could have lost their owner: revoke, seek, pause."""

    def __len__(self) -> int:
        return len(self._flows)

    def __iter__(self) -> Iterator[PartitionFlow]:
        return iter(list(self._flows.values()))

    def get(self, topic: str, partition: int) -> PartitionFlow | None:
        return self._flows.get((topic, partition))

    def add(self, flow: PartitionFlow) -> None:
        self._flows[flow.key] = flow

    def remove(self, keys: Iterable[tuple[str, int]]) -> None:
        """Drops partitions; their readers are stopped before this returns."""
        self.generation += 1
        for key in keys:
            flow = self._flows.pop(key, None)
            if flow is not None:
                flow.detach()
        self.reroute()

    def clear(self) -> None:
        self.remove(list(self._flows))

    def reroute(self) -> None:
        """Some flow changed its route: the turns are dealt anew."""
        self._turns = deque(flow for flow in self._flows.values() if flow.route is Route.REMOTE and not flow.paused)

    @property
    def any_remote(self) -> bool:
        return bool(self._turns)

    def remote_flows(self) -> Iterator[PartitionFlow]:
        """The flows that are read directly, beginning with the one whose turn it is."""
        for _ in range(len(self._turns)):
            flow = self._turns[0]
            self._turns.rotate(-1)
            yield flow
