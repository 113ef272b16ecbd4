"""What a server of Kafka's protocol looks like from outside: whether it answers, refuses or is silent.

The witness of faults that kill or pause a process: what its clients get of it is another thing than before. It asks as a client
does, on a connection of its own, and knows nothing of who was sent which signal.

References: Kafka's ApiVersionsRequest, version 0 (key 18), which every broker answers before anything else is said.
"""

from __future__ import annotations

import socket
import struct
from enum import Enum

__all__ = ["Look", "look_at"]

_ASK = struct.pack(">hhih", 18, 0, 1, -1)
"""API key, version, correlation id, no client id."""
_SILENT_SECONDS = 1.0


class Look(Enum):
    """What came of a question."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """Nobody listens, or the connection ended without a word."""
    SILENT = "silent"
    """The connection stands and nothing comes."""


def look_at(address: str, *, seconds: float = _SILENT_SECONDS) -> Look:
    """Asks the server at ``host:port``, and waits so long for the first byte of its answer."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=seconds) as connection:
            connection.sendall(struct.pack(">i", len(_ASK)) + _ASK)
            return Look.ANSWERED if connection.recv(1) else Look.REFUSED
    except TimeoutError:
        return Look.SILENT
    except OSError:
        return Look.REFUSED
