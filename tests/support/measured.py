"""The resources of a run, measured outside of the client: threads and connections of this process, and the engine's bytes.

::

    threads   threading.enumerate() by name, and librdkafka's own (/proc/self/task/*/comm)
    sockets   /proc/self/fd, and each socket itself: connections that this process made, not those that it accepted
    bytes     the engine's budget, which is the only source

Servers run in the same process. Their threads have names of their own, and whatever a server connects to is given as one of
``servers`` (ports).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.descriptors import connections_made
from tests.support.history import History, Measured
from tests.support.waiting import wait_until

__all__ = ["Holdings", "connections_beside", "measured", "running_threads"]

_SERVERS = (
    "kafka-remote-shim",
    "kafka-remote-embedded",
    "kafka-remote-tiered-kafka",
    "origin-",
    "scripted-origin-",
    "http-",
    "tcp-fault-proxy",
    "asyncio_",
)
_FOR_GOOD = "kafka-remote-closer"
"""A thread that the process has once, from its first consumer on; a second one would be a leak."""
_SETTLE_SECONDS = 10.0


def running_threads(*, native: bool = True) -> tuple[str, ...]:
    """The names of all threads but the servers'. ``native``: with librdkafka's, which begin with ``rdk:``."""
    names = [thread.name for thread in threading.enumerate() if not thread.name.startswith(_SERVERS)]
    for task in Path("/proc/self/task").iterdir() if native else ():
        with suppress(OSError):  # it has ended meanwhile
            name = (task / "comm").read_text().strip()
            names += [name] if name.startswith("rdk:") else []
    if _FOR_GOOD in names:
        names.remove(_FOR_GOOD)
    return tuple(sorted(names))


def connections_beside(servers: Collection[int] = ()) -> tuple[str, ...]:
    """The open TCP connections that this process made, except those to ports of ``servers``."""
    return tuple(sorted(str(one) for one in connections_made() if one.peer is None or one.peer[1] not in servers))


class Holdings:
    """The bytes of a run's engines: the maximum over the calls of :meth:`look`."""

    def __init__(self) -> None:
        self._engines: list[Any] = []
        self.most = 0

    def of(self, consumer: Any) -> None:
        """Adds one of this project's consumers."""
        self._engines.append(consumer._direct_engine)

    @property
    def held(self) -> int:
        """Bytes held now."""
        return sum(engine.memory.held for engine in self._engines)

    def look(self) -> None:
        self.most = max(self.most, self.held)


@contextmanager
def measured(
    history: History,
    holdings: Holdings,
    *,
    bound: int,
    servers: Collection[int] = (),
    native: bool = True,
    seconds: float = _SETTLE_SECONDS,
) -> Iterator[None]:
    """Records the resources before, during and after the block, in which consumers are created and closed.

    ``bound``: the byte limit. ``native``: False if librdkafka's producers and admin clients outlive the
    block. It waits up to ``seconds`` for everything that ends shortly after the close.
    """
    before, connections = running_threads(native=native), connections_beside(servers)
    history.add(Measured, moment="before", threads=before, sockets=connections)
    yield
    history.add(Measured, moment="during", bytes_held=holdings.most, bound=bound)

    def ended() -> bool:
        more = Counter(running_threads(native=native)) - Counter(before)
        return not more and len(connections_beside(servers)) <= len(connections)

    with suppress(TimeoutError):
        wait_until(ended, "the end of threads and connections", seconds=seconds, pause=0.01)
    history.add(
        Measured,
        moment="after",
        threads=running_threads(native=native),
        sockets=connections_beside(servers),
        bytes_held=holdings.held,
        bound=bound,
    )
