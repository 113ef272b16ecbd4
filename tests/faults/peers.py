"""The state of a Kafka server as seen from outside: it answers, refuses or is silent.

This is the witness of faults that kill or pause a process: its clients get a different result. It sends a request like a
client, on a separate connection, and does not know which process got a signal.

References: Kafka's ApiVersionsRequest, version 0 (key 18), which every broker answers as a first request.
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
    """The result of a request."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """Nothing listens, or the connection ended without an answer."""
    SILENT = "silent"
    """The connection is open and no answer arrives."""


def look_at(address: str, *, seconds: float = _SILENT_SECONDS) -> Look:
    """Sends a request to ``host:port``, and waits ``seconds`` for the first byte of the answer."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=seconds) as connection:
            connection.sendall(struct.pack(">i", len(_ASK)) + _ASK)
            return Look.ANSWERED if connection.recv(1) else Look.REFUSED
    except TimeoutError:
        return Look.SILENT
    except OSError:
        return Look.REFUSED
