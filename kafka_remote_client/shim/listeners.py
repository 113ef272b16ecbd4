"""One listener per broker, so that each broker has a separate address for the shim's clients.

A shim has no credentials for its cluster: it learns the brokers from the answers that it forwards. It binds the listener of a
new node id before it forwards the answer with this id, because the client may connect at once.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from kafka_remote_client.errors import ConfigurationError, ProtocolError
from kafka_remote_client.shim.bootstrap_servers import BootstrapServers
from kafka_remote_client.shim.config import Address, ShimConfig, parse_address

__all__ = ["BOOTSTRAP", "Accept", "Listeners"]

_LOG = logging.getLogger(__name__)

Accept = Callable[[int, socket.socket], None]
"""Takes over a non-blocking connection of the listener with a node id."""

BOOTSTRAP = -1
"""The node id of the bootstrap listener: no broker in particular."""

_BACKLOG = 512
_ACCEPTS_AT_ONCE = 4
"""Connections that a listener accepts in one turn of the loop."""
_PAUSE_SECONDS = 1.0
"""The pause before accepting is retried if no descriptor is free."""
_MAX_NODES = 1_024
_MAX_KNOWN_ADDRESSES = 16
_MAX_PORT = 65_535


class Listeners:
    """The shim's sockets by node id, and the known addresses of the brokers.

    ``accept`` is called with a node id and a connection to that node's listener; ``moved`` with a node id
    that has an address which it never had. One that returns to an earlier address has not moved: some clusters name a
    broker by several addresses in turn. ``servers``: the cluster's bootstrap servers. Runs in the event loop that :meth:`start`
    was called in.
    """

    def __init__(self, config: ShimConfig, accept: Accept, moved: Callable[[int], None]) -> None:
        self._config = config
        self._accept = accept
        self._moved = moved
        self._host, self._port = parse_address(config.listen)
        self.servers = BootstrapServers(config.upstream)
        self._addresses: dict[int, Address] = {}
        self._upstream: dict[int, Address] = {}
        self._earlier: dict[int, list[Address]] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._pausing: asyncio.TimerHandle | None = None

    @property
    def bootstrap(self) -> Address:
        """The address for a client's first connection, after the start."""
        return self._addresses[BOOTSTRAP]

    def start(self) -> None:
        """Binds the bootstrap listener and those of the node ids in the configuration. Raises ConfigurationError."""
        try:
            self._bind(BOOTSTRAP, self._port)
            for node_id in self._config.node_ids:
                self._bind(node_id, self._port_of(node_id))
        except OSError as error:
            raise ConfigurationError(f"cannot listen: {error.strerror}") from None

    def stop(self) -> None:
        """Closes all listeners. Accepted connections stay open."""
        self._end_pause()
        loop = asyncio.get_running_loop()
        for listening in self._sockets.values():
            loop.remove_reader(listening.fileno())
            listening.close()
        self._sockets.clear()

    def pause(self, seconds: float) -> None:
        """Accepts no connection for ``seconds``. Clients wait in the listeners' backlogs."""
        if self._pausing is not None or not self._sockets:
            return
        loop = asyncio.get_running_loop()
        for listening in self._sockets.values():
            loop.remove_reader(listening.fileno())
        self._pausing = loop.call_later(seconds, self._go_on)

    def upstream(self, node_id: int) -> tuple[Address, ...]:
        """Returns the target of a connection to that node's listener: the broker, or the cluster's bootstrap addresses."""
        known = self._upstream.get(node_id)
        return self.servers.in_order() if known is None else (known,)

    def advertise(self, node_id: int, host: str, port: int) -> Address:
        """The address that clients get in place of that broker's. Binds a new node's listener before it returns.

        Raises ProtocolError if the cluster has more nodes than a shim listens for, and OSError if the new node's port is taken.
        Clients cache addresses, so a node is never advertised with a port that it may not have after a restart.
        """
        if node_id < 0 or not host:
            return host, port  # "no node": an offline leader, a coordinator that was not found
        if node_id not in self._addresses:
            if len(self._addresses) > _MAX_NODES:
                raise ProtocolError(f"the cluster names more than {_MAX_NODES} nodes")
            self._bind(node_id, self._port_of(node_id))
        if self._upstream.get(node_id) != (host, port):
            self._upstream[node_id] = (host, port)
            earlier = self._earlier.setdefault(node_id, [])
            if (host, port) not in earlier:
                earlier.append((host, port))
                del earlier[:-_MAX_KNOWN_ADDRESSES]
                self._moved(node_id)
        return self._addresses[node_id]

    def _port_of(self, node_id: int) -> int:
        base = self._config.node_port_base
        if base is None:
            base = self._port + 1 if self._port else 0
        return base + node_id if base else 0

    def _bind(self, node_id: int, port: int) -> None:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        whose = "" if node_id == BOOTSTRAP else f" for node {node_id}"
        if port > _MAX_PORT:
            raise OSError(errno.EADDRNOTAVAIL, f"port {port}{whose} is above {_MAX_PORT}; set a lower node_port_base")
        try:
            listening = socket.create_server((self._host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            raise OSError(error.errno, f"{self._host}:{port}{whose}: {error.strerror}") from None
        # Also for the connections, which inherit it.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.setblocking(False)
        host = self._config.advertised_host or self._host
        self._addresses[node_id] = (host, listening.getsockname()[1])
        self._sockets[node_id] = listening
        if self._pausing is None:
            self._listen(node_id)

    def _listen(self, node_id: int) -> None:
        asyncio.get_running_loop().add_reader(self._sockets[node_id].fileno(), self._accept_some, node_id)

    def _go_on(self) -> None:
        self._end_pause()
        for node_id in self._sockets:
            self._listen(node_id)

    def _end_pause(self) -> None:
        if self._pausing is not None:
            self._pausing.cancel()
            self._pausing = None

    def _accept_some(self, node_id: int) -> None:
        for _ in range(_ACCEPTS_AT_ONCE):
            try:
                client, _address = self._sockets[node_id].accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptors or memory
                _LOG.warning("accepting connections fails, next attempt in %.0f s: %s", _PAUSE_SECONDS, error.strerror)
                self.pause(_PAUSE_SECONDS)
                return
            client.setblocking(False)
            self._accept(node_id, client)
            if self._pausing is not None:
                return
