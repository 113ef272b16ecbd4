"""Which files and connections this process has open."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

import attrs

__all__ = ["Connection", "connections_made", "open_below"]

_SYN_SENT = 2
"""Of ``TCP_INFO``, whose first byte is the state (Linux' ``tcp_states.h``)."""


@attrs.frozen
class Connection:
    """The two addresses of a TCP connection, each as ``(host, port)``; a connection that is still being made has no peer."""

    local: tuple[str, int]
    peer: tuple[str, int] | None

    def __str__(self) -> str:
        local = f"{self.local[0]}:{self.local[1]}"
        return f"{local}, connecting" if self.peer is None else f"{local} to {self.peer[0]}:{self.peer[1]}"


def open_below(root: Path) -> list[Path]:
    """The open files and directories at or below ``root``."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = descriptor.readlink()
        except OSError:  # closed meanwhile by another thread
            continue
        if target.is_relative_to(root):
            found.append(target)
    return found


def connections_made() -> list[Connection]:
    """The open TCP connections of this process, without those that a listener of this process accepted.

    It asks each descriptor. The kernel's table (/proc/self/net/tcp) has the sockets of all processes, and changes while it is
    read.
    """
    listened: set[int] = set()
    found: list[Connection] = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile, or never connected
            number = int(descriptor.name)
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as sock:
                if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type != socket.SOCK_STREAM:
                    continue
                local = sock.getsockname()
                if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    listened.add(local[1])
                elif sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _SYN_SENT:
                    found.append(Connection(local[:2], None))
                else:
                    found.append(Connection(local[:2], sock.getpeername()[:2]))
    return [connection for connection in found if connection.local[1] not in listened]
