"""All connections of one shim: which clients may connect, which deadlines they miss, and how they end.

Runs inside one event loop; :class:`~kafka_remote_client.shim.server.Shim` gives it a loop and a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import attrs

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.shim.broker_strategy import BrokerStrategy
from kafka_remote_client.shim.buffers import BufferBudget
from kafka_remote_client.shim.certificate_dates import CertificateDates, certificate_dates
from kafka_remote_client.shim.client_connection import ClientConnection, ConnectionContext
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.listeners import Listeners
from kafka_remote_client.shim.loop_shares import LoopShares
from kafka_remote_client.shim.loop_turns import Client, LoopTurns
from kafka_remote_client.shim.peer_log import PeerLog
from kafka_remote_client.shim.request_rates import RequestRates
from kafka_remote_client.shim.tls import broker_context, limit_tls_buffers, listener_context

__all__ = ["Proxy"]

_LOG = logging.getLogger(__name__)

_MAX_UNADMITTED_DEBT = 0.15
_PAUSE_SECONDS = 0.02
"""Seconds by which clients that are not admitted have overdrawn their share, and for which no connection is accepted then."""
_SWEPT_AT_ONCE = 16
"""Connections whose deadlines are checked in one iteration of the loop."""


class Proxy:
    """A Kafka-protocol proxy: listeners, and a pair of connections per client. Not thread safe.

    Raises ConfigurationError for invalid TLS settings.
    """

    def __init__(self, config: ShimConfig, strategy: BrokerStrategy, counters: Counters, clock: Clock) -> None:
        self._config = config
        self._counters = counters
        self._clock = clock
        self._connections: set[ClientConnection] = set()
        self._by_ip: Counter[str] = Counter()
        self._unadmitted = 0
        self._buffers = BufferBudget(config.max_buffered_bytes)
        self._rates = RequestRates(config.max_request_rate_per_ip, clock)
        # Costs are real time, whatever time deadlines have.
        real = SystemClock()
        self._shares: LoopShares[Client] = LoopShares(config.max_loop_share_per_ip, real)
        self._turns = LoopTurns(self._rates, self._shares, counters, real)
        self._peer_log = PeerLog(clock)
        self._emptied = asyncio.Event()
        self._stopping = False
        self._sweeping: asyncio.TimerHandle | None = None
        self.listeners = Listeners(config, self._accept, self._moved)
        limit_tls_buffers()
        self._context = ConnectionContext(
            config,
            self.listeners,
            strategy,
            counters,
            clock,
            self._buffers,
            self._turns,
            self._peer_log,
            listener_context(config),
            broker_context(config),
        )

        self._certificate: CertificateDates | None = None
        self._look_at_certificate()

    def start(self) -> None:
        """Binds the listeners. Raises ConfigurationError when an address is not available."""
        self.listeners.start()
        self._sweep_later()

    async def stop(self) -> None:
        """Closes the listeners, ends all connections, and returns when they are gone."""
        self._stopping = True
        self.listeners.stop()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in tuple(self._connections):
            connection.drop("stopped")
        await self._gone()
        self._turns.stop()

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """How brokers are verified now; ``None`` = plaintext."""
        return self._context.broker_tls

    @property
    def stopping(self) -> bool:
        """Whether new connections are no longer accepted."""
        return self._stopping

    def gauges(self) -> dict[str, int]:
        """A snapshot of the current numbers; from another thread it is approximate."""
        certificate = self._certificate
        ends = {} if certificate is None else {"certificate_expiry_timestamp_seconds": int(certificate.ends.timestamp())}
        return {"connections_open": len(self._connections), "buffered_bytes": self._buffers.held, **ends}

    def reload(self, context: ConnectionContext) -> None:
        """Uses new limits, deadlines and certificates for connections from now on."""
        self._config, self._context = context.config, context
        self._look_at_certificate()
        self._buffers.limit = context.config.max_buffered_bytes
        self._rates.rate = context.config.max_request_rate_per_ip
        self._shares.limit = context.config.max_loop_share_per_ip

    def reloaded(self, config: ShimConfig) -> ConnectionContext:
        """Returns the argument of :meth:`reload`, from any thread. Raises ConfigurationError."""
        return attrs.evolve(
            self._context, config=config, listener_tls=listener_context(config), broker_tls=broker_context(config)
        )

    async def drain(self) -> None:
        """Closes the listeners, and each connection when its requests in progress are answered.

        Returns when all are closed, or after the drain time-out; :meth:`stop` ends what is left.
        """
        self._stopping = True
        self.listeners.stop()
        for connection in tuple(self._connections):
            connection.drain()
        try:
            async with asyncio.timeout(self._config.drain_timeout):
                await self._gone()
        except TimeoutError:
            _LOG.warning("closing %d connections: drain_timeout has passed", len(self._connections))

    def _look_at_certificate(self) -> None:
        self._certificate = certificate_dates(self._config.ssl_certificate)
        problem = None if self._certificate is None else self._certificate.problem(self._clock.time_ms())
        if problem is not None:
            _LOG.warning("%s: clients that verify it cannot connect", problem)

    # For connections.

    def opened(self, connection: ClientConnection) -> bool:
        if self._stopping:
            return False
        self._counters.add("connections")
        for name, there_are in (
            ("max_connections", len(self._connections)),
            ("max_connections_per_ip", self._by_ip[connection.peer]),
            ("max_unadmitted_connections", self._unadmitted),
        ):
            if there_are >= getattr(self._config, name):
                self._counters.add(f"connections_refused.{name}")
                return False
        self._connections.add(connection)
        self._by_ip[connection.peer] += 1
        self._unadmitted += 1
        return True

    def admitted(self, connection: ClientConnection) -> None:
        self._counters.add("connections_admitted")
        self._unadmitted -= 1

    def crowded(self) -> None:
        for connection in self._buffers.victims(self._connections, self._clock.monotonic()):
            self._peer_log.closing(connection.peer, "buffers", "max_buffered_bytes is exceeded", logging.WARNING)
            connection.drop("buffers")

    def closed(self, connection: ClientConnection) -> None:
        if connection not in self._connections:
            return
        self._counters.add("connections_closed")
        self._connections.remove(connection)
        self._unadmitted -= not connection.admitted
        self._by_ip[connection.peer] -= 1
        if not self._by_ip[connection.peer]:
            del self._by_ip[connection.peer]
        if not self._connections:
            self._emptied.set()

    # Within.

    async def _gone(self) -> None:
        while self._connections:
            self._emptied.clear()
            await self._emptied.wait()

    def _accept(self, node_id: int, client: socket.socket) -> None:
        self._turns.begin()
        connection = ClientConnection(node_id, self._context, self)
        connection.accepted(client)
        self._turns.end(connection)
        if self._shares.unadmitted_debt > _MAX_UNADMITTED_DEBT:
            self._counters.add("accepting_paused")
            self.listeners.pause(_PAUSE_SECONDS)

    def _moved(self, node_id: int) -> None:
        """A node's address is new or changed: clients of its listener that use another address must reconnect."""
        (current,) = self.listeners.upstream(node_id)
        for connection in tuple(self._connections):
            if connection.node_id == node_id and connection.upstream not in (None, current):
                connection.close()

    def _sweep_later(self) -> None:
        config = self._config
        pause = min(1.0, config.admission_timeout / 4, config.write_timeout / 2, config.idle_timeout / 2)
        self._sweeping = asyncio.get_running_loop().call_later(pause, self._sweep)

    def _sweep(self) -> None:
        self._rates.forget()
        self._sweep_some(iter(tuple(self._connections)))

    def _sweep_some(self, connections: Iterator[ClientConnection]) -> None:
        """Drops overdue connections, a few in each iteration of the loop, so that others do not wait for all of them."""
        now = self._clock.monotonic()
        some = tuple(islice(connections, _SWEPT_AT_ONCE))
        for connection in some:
            missed = connection.overdue(now) if connection in self._connections else None
            if missed is not None:
                connection.drop(missed)
        if some:
            self._sweeping = asyncio.get_running_loop().call_later(0, self._sweep_some, connections)
        else:
            self._sweep_later()
