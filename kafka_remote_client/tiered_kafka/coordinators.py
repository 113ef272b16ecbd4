"""Answers the messages of the coordinators of groups and transactions. Each broker is the coordinator of all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from kafka_remote_client.tiered_kafka.messages import Value
from kafka_remote_client.tiered_kafka.topics import Topics

__all__ = ["Coordinators"]

_Handler: TypeAlias = Callable[[int, dict[str, Any]], Value | Awaitable[Value]]


class Coordinators:
    """Runs in the cluster's thread."""

    def __init__(self, topics: Topics, addresses: Mapping[int, tuple[str, int]]) -> None:
        self._topics = topics
        self._addresses = addresses
        self._next_producer_id = 0

    def handlers(self) -> Mapping[str, _Handler]:
        """The messages by name, and what answers them."""
        return {"FindCoordinator": self._find_coordinator, "InitProducerId": self._init_producer_id}

    def _find_coordinator(self, node_id: int, _request: dict[str, Any]) -> Value:
        host, port = self._addresses[node_id]
        return {"node_id": node_id, "host": host, "port": port}

    def _init_producer_id(self, _node: int, _request: dict[str, Any]) -> Value:
        self._next_producer_id += 1
        return {"producer_id": self._next_producer_id}
