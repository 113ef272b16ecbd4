"""Loopback ports for servers of tests, each given out once, and the mark of tests that need an IPv6 loopback.

They are below those that Linux chooses itself (32768 and up), so that no connection of another test takes one between the check
and the use. A client that goes on trying to reach a stopped server does not reach a listener of another process either: one of
Spark's for the rows of a query accepts a single connection, and the query fails if that is not its own. A counter behind a file
lock separates the processes of a run, and the runs of all checkouts of a user, because it is in the directory for temporary
files. It begins at a random number, to avoid the ports of another user's run.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.artifacts import file_lock

__all__ = ["HOST", "free_ports", "needs_ipv6_loopback", "servers_on_free_ports"]

HOST = "127.0.0.1"
_FIRST, _LAST = 15_000, 32_000
_COUNTER = Path(tempfile.gettempdir()) / f"kafka-remote-next-port-{os.getuid()}"


def free_ports(count: int) -> list[int]:
    """Returns that many consecutive free ports, which no other call gets for thousands of calls."""
    with file_lock(_COUNTER.with_suffix(".lock")):
        # A process that is killed while it writes leaves an empty file.
        counter = _COUNTER.read_text() if _COUNTER.is_file() else ""
        first = int(counter) if counter else random.randrange(_FIRST, _LAST)
        while True:
            if not _FIRST <= first <= _LAST - count:
                first = _FIRST
            ports = list(range(first, first + count))
            taken = [port for port in ports if not _is_free(port)]
            if not taken:
                _COUNTER.write_text(str(first + count))
                return ports
            first = taken[-1] + 1


@contextlib.contextmanager
def servers_on_free_ports() -> Iterator[None]:
    """Gives each ``socket.create_server`` of this process that leaves the port open one of :func:`free_ports`."""
    create_server = socket.create_server

    def create(address: tuple[str, int], **options: Any) -> socket.socket:
        host, port = address
        while port == 0:
            try:
                return create_server((host, *free_ports(1)), **options)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:  # taken meanwhile, or at another address of this machine
                    raise
        return create_server(address, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "create_server", create)
        yield


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _has_ipv6_loopback() -> bool:
    """Whether this machine can listen on ``::1``. It asks the system."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6_loopback = pytest.mark.skipif(not _has_ipv6_loopback(), reason="this machine has no IPv6 loopback")
