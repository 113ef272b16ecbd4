"""All connections of one shim: which clients may connect, how long they may be idle, and how they end.

Runs inside one event loop; :class:`~kafka_remote_client.shim.server.Shim` gives it a loop and a thread of its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from kafka_remote_client.clock import Clock
from kafka_remote_client.shim.broker import BrokerStrategy
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.connection import ClientConnection, Surroundings
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.listeners import Listeners
from kafka_remote_client.shim.tls import broker_context, listener_context

__all__ = ["Proxy"]


class Proxy:
    """A Kafka-protocol proxy: listeners, and a pair of connections per client. Not thread safe.

    Raises ConfigurationError for TLS settings that cannot be followed.
    """

    def __init__(self, config: ShimConfig, strategy: BrokerStrategy, counters: Counters, clock: Clock) -> None:
        self._config = config
        self._counters = counters
        self._clock = clock
        self._connections: set[ClientConnection] = set()
        self._by_ip: Counter[str] = Counter()
        self._emptied = asyncio.Event()
        self._stopping = False
        self._sweeping: asyncio.TimerHandle | None = None
        self.listeners = Listeners(config, self._accept, self._moved)
        self._around = Surroundings(
            config, self.listeners, strategy, counters, clock, listener_context(config), broker_context(config)
        )

    def start(self) -> None:
        """Binds the listeners. Raises ConfigurationError when an address cannot be had."""
        self.listeners.start()
        self._sweep_later()

    async def stop(self) -> None:
        """Closes the listeners, ends all connections, and returns when they are gone.

        One that asyncio has accepted and not told of yet is sent away when it is.
        """
        self._stopping = True
        await self.listeners.stop()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in tuple(self._connections):
            connection.drop("stopped")
        while self._connections:
            self._emptied.clear()
            await self._emptied.wait()

    # For connections.

    def opened(self, connection: ClientConnection) -> bool:
        if self._stopping:
            return False
        self._counters.add("connections")
        config = self._config
        too_many = len(self._connections) >= config.max_connections
        if too_many or self._by_ip[connection.peer] >= config.max_connections_per_ip:
            self._counters.add("connections_refused")
            return False
        self._connections.add(connection)
        self._by_ip[connection.peer] += 1
        return True

    def closed(self, connection: ClientConnection) -> None:
        if connection not in self._connections:
            return
        self._counters.add("connections_closed")
        self._connections.remove(connection)
        self._by_ip[connection.peer] -= 1
        if not self._by_ip[connection.peer]:
            del self._by_ip[connection.peer]
        if not self._connections:
            self._emptied.set()

    # Within.

    def _accept(self, node_id: int) -> ClientConnection:
        return ClientConnection(node_id, self._around, self)

    def _moved(self, node_id: int) -> None:
        """A node's address was learnt or changed: clients connected to another address in its name must reconnect."""
        (current,) = self.listeners.upstream(node_id)
        for connection in tuple(self._connections):
            if connection.node_id == node_id and connection.upstream not in (None, current):
                connection.close()

    def _sweep_later(self) -> None:
        pause = min(1.0, self._config.first_request_timeout / 2, self._config.idle_timeout / 2)
        self._sweeping = asyncio.get_running_loop().call_later(pause, self._sweep)

    def _sweep(self) -> None:
        now = self._clock.monotonic()
        for connection in tuple(self._connections):
            if connection.overdue(now):
                connection.drop("idle")
        self._sweep_later()
