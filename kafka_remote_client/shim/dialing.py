"""Connects a client's broker side: to the broker of the client's listener, or to a bootstrap server."""

from __future__ import annotations

import asyncio
import logging
import ssl

from kafka_remote_client.shim.bootstrap_servers import with_patience
from kafka_remote_client.shim.config import Address, ShimConfig
from kafka_remote_client.shim.listeners import Listeners
from kafka_remote_client.shim.peer_log import PeerLog

__all__ = ["dial"]

_NEXT_ADDRESS_SECONDS = 0.25
"""How long an address of a name may not answer before the next one is tried as well (RFC 8305, Connection Attempt Delay)."""


async def dial(
    protocol: asyncio.Protocol,
    node_id: int,
    listeners: Listeners,
    config: ShimConfig,
    tls: ssl.SSLContext | None,
    peer_log: PeerLog,
) -> Address | None:
    """Connects ``protocol`` and returns the address. ``None`` if no address of the listener answers; the log says why."""
    loop = asyncio.get_running_loop()
    for (host, port), seconds in with_patience(listeners.upstream(node_id), config):
        try:
            async with asyncio.timeout(seconds):
                await loop.create_connection(lambda: protocol, host, port, ssl=tls, happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS)
        except (OSError, UnicodeError, OverflowError) as error:  # also TimeoutError; a name or port that cannot exist
            # A TLS error does not go away by itself, and no client causes it.
            level = logging.WARNING if isinstance(error, ssl.SSLError) else logging.INFO
            broker, why = f"{host}:{port}", str(error) or f"no answer within {seconds:g} s"
            peer_log.tell(broker, "broker", f"broker {broker} cannot be reached: {why}", level)
            listeners.servers.failed((host, port))
        else:
            return host, port
    return None
