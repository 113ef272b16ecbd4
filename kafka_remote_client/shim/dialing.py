"""Connects a client's broker side: to the broker of the client's listener, or to a bootstrap server."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl

from kafka_remote_client.shim.bootstrap_servers import with_patience
from kafka_remote_client.shim.config import Address, ShimConfig
from kafka_remote_client.shim.listeners import Listeners
from kafka_remote_client.shim.peer_log import PeerLog

__all__ = ["dial"]


async def dial(
    protocol: asyncio.Protocol,
    node_id: int,
    listeners: Listeners,
    config: ShimConfig,
    tls: ssl.SSLContext | None,
    peer_log: PeerLog,
) -> Address | None:
    """Connects ``protocol`` and returns the address. ``None`` if no address of the listener answers; the log says why."""
    for (host, port), seconds in with_patience(listeners.upstream(node_id), config):
        try:
            async with asyncio.timeout(seconds):
                await _connect(protocol, host, port, tls, seconds)
        except (OSError, UnicodeError, OverflowError) as error:  # also TimeoutError; a name or port that cannot exist
            # A TLS error does not go away by itself, and no client causes it.
            level = logging.WARNING if isinstance(error, ssl.SSLError) else logging.INFO
            broker, why = f"{host}:{port}", str(error) or f"no answer within {seconds:g} s"
            peer_log.tell(broker, "broker", f"broker {broker} cannot be reached: {why}", level)
            listeners.servers.failed((host, port))
        else:
            return host, port
    return None


async def _connect(protocol: asyncio.Protocol, host: str, port: int, tls: ssl.SSLContext | None, seconds: float) -> None:
    """Tries the addresses of a name one after the other. All but the last share half of ``seconds``. Raises OSError.

    Not by asyncio's Happy Eyeballs, which leave a connected socket open if they are cancelled at that moment.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    name = host if tls is not None else None
    for number, (*_, address) in enumerate(found, 1):
        try:
            async with asyncio.timeout(seconds / (2 * len(found)) if number < len(found) else None):
                await loop.create_connection(lambda: protocol, *address[:2], ssl=tls, server_hostname=name)
        except OSError:
            if number == len(found):
                raise
        else:
            return
