"""The cluster's bootstrap servers in the order in which a shim tries them.

::

    servers   a, b, c            in the order of the configuration
    a fails   b, c, a            until b fails: no client waits for a again
    time      b, c: admission_timeout / 6 each; a, the last one: connect_timeout

A host that is switched off answers nothing at all, so only time tells that it is gone. A client has admission_timeout in total.
So all servers but the last get half of that together.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from kafka_remote_client.shim.config import Address, ShimConfig

__all__ = ["BootstrapServers", "with_patience"]


class BootstrapServers:
    """Thread safe: clients use it in the event loop, and the check of readiness in a thread of its own."""

    def __init__(self, addresses: tuple[Address, ...]) -> None:
        self._lock = threading.Lock()
        self._addresses = addresses

    def in_order(self) -> tuple[Address, ...]:
        """All of them; those that failed last come last."""
        return self._addresses

    def failed(self, address: Address) -> None:
        """This one did not answer. Any other address changes nothing."""
        with self._lock:
            others = tuple(one for one in self._addresses if one != address)
            failed = tuple(one for one in self._addresses if one == address)
            self._addresses = others + failed


def with_patience(addresses: tuple[Address, ...], config: ShimConfig) -> Iterator[tuple[Address, float]]:
    """The addresses, each with the seconds that it gets."""
    share = min(config.connect_timeout, config.admission_timeout / (2 * len(addresses)))
    for place, address in enumerate(addresses, 1):
        yield address, share if place < len(addresses) else config.connect_timeout
