"""Logs when a shim becomes ready or not ready, and when it starts or stops granting: one line for each change.

::

    page   | becomes healthy                                  | becomes unhealthy, or is at first
    readyz | INFO ready: a broker answers                     | WARNING not ready: …
    tierz  | INFO the tier can be read: locations are granted | WARNING locations of some or all partitions are not granted: …

It checks as often as the cached results of the pages expire. The first check of the tier follows after the metadata topic was
read to its end, or after ten seconds. A check that raises counts as unhealthy.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.shim.health import READY_SECONDS, TIER_SECONDS, Health
from kafka_remote_client.threads import start_thread

__all__ = ["HealthLog"]

_LOG = logging.getLogger(__name__)
_UNKNOWN = "unknown"
_PATIENCE_SECONDS = 1.0
_SETTLE_SECONDS = 0.5


class HealthLog:
    """Checks in a separate thread. A context manager. ``settled`` waits that many seconds for the tier to be read."""

    def __init__(self, health: Health, settled: Callable[[float], bool], clock: Clock | None = None) -> None:
        self._health = health
        self._settled = settled
        self._clock = clock or SystemClock()
        self._stopped = threading.Event()
        self._logged: dict[str, str | None] = {}
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        self._thread = start_thread("kafka-remote-health", self.run)

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE_SECONDS)  # a broker that does not answer must not hold up the end

    def run(self) -> None:
        """Checks until the end."""
        self._look("/readyz", "ready: a broker answers", "not ready: %s")
        self._wait_settled()
        while not self._stopped.is_set():
            self._look("/readyz", "ready: a broker answers", "not ready: %s")
            self._look(
                "/tierz",
                "the tier can be read: locations are granted",
                "locations of some or all partitions are not granted: %s",
            )
            self._clock.wait(self._stopped, READY_SECONDS)

    def _wait_settled(self) -> None:
        waited = 0.0
        while waited < TIER_SECONDS and not self._stopped.is_set() and not self._settled(_SETTLE_SECONDS):
            waited += _SETTLE_SECONDS

    def _look(self, page: str, healthy: str, unhealthy: str) -> None:
        found = self._health.pages[page]()
        if found == self._logged.get(page, _UNKNOWN) or self._stopped.is_set():  # when stopped, what it looked at was closed
            return
        self._logged[page] = found
        if found is None:
            _LOG.info(healthy)
        else:
            _LOG.warning(unhealthy, found)
