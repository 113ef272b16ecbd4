"""Whether a tier answers, so that one that does not costs a process one time-out and not one per task.

::

    event                                 | effect on the tasks of this process
    a location request timed out          | the next tasks use the broker, for RETRY_SECONDS; then one tries the tier again
    a split has the driver's tier_failure | the same, from the first such split on
    a location arrived                    | all tasks use the tier

The driver's planner has one too, for the micro-batches of a stream. The options of a tier identify it, as those of an engine do
(:mod:`~kafka_remote_client.spark.reading.task_engine`). The circuit breaker is that of :mod:`kafka_remote_client.fetch`. With
``remote.onFallback=fail`` none of this applies: the first time-out fails the task.
"""

from __future__ import annotations

import os
import threading

import attrs

from kafka_remote_client.breaker import StoreHealth
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.spark.options.client_options import ClientOptions
from kafka_remote_client.spark.options.source_options import SourceOptions

__all__ = ["KNOWN_TIERS", "RETRY_SECONDS", "TierHealth", "worker_tier_health"]

RETRY_SECONDS = 300.0
KNOWN_TIERS = 8
"""The most tiers that a process remembers."""


@attrs.define(eq=False)
class _Known:
    """A tier: its options, whether it is used, why not, the driver's last failure, and the time of its last answer."""

    remote: RemoteFetchConfig
    client: ClientOptions
    breaker: StoreHealth = attrs.field(factory=lambda: StoreHealth(1, RETRY_SECONDS))
    failure: str = ""
    driver_failure: str | None = None
    worked_at: float | None = None


class TierHealth:
    """Thread safe."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.forget()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._tiers)} known)"

    def failure(self, options: SourceOptions, driver_failure: str | None = None) -> str | None:
        """Returns why the tier is not used now; None = it is used. ``driver_failure``: ``tier_failure`` of the split."""
        now = self._clock.monotonic()
        with self._lock:
            known = self._known(options)
            if driver_failure is not None and driver_failure != known.driver_failure:
                known.driver_failure = known.failure = driver_failure
                known.breaker.failed(now)
            return None if known.breaker.allows(now) else known.failure

    def failed(self, options: SourceOptions, failure: str) -> None:
        """Records that a location request timed out."""
        with self._lock:
            known = self._known(options)
            known.failure = failure
            known.worked_at = None
            known.breaker.failed(self._clock.monotonic())

    def worked(self, options: SourceOptions) -> None:
        """Records that the tier answered."""
        with self._lock:
            known = self._known(options)
            known.worked_at = self._clock.monotonic()
            known.breaker.succeeded()

    def worked_lately(self, options: SourceOptions) -> bool:
        """Whether the tier answered within the last RETRY_SECONDS and has not failed since."""
        with self._lock:
            at = self._known(options).worked_at
            return at is not None and self._clock.monotonic() - at < RETRY_SECONDS

    def forget(self) -> None:
        """Forgets all tiers, also in a process that was just forked."""
        self._lock = threading.Lock()
        self._tiers: list[_Known] = []

    def _known(self, options: SourceOptions) -> _Known:
        """Under the lock. The most recently used one is last."""
        for known in self._tiers:
            if known.remote == options.remote and known.client == options.client:
                self._tiers.remove(known)
                break
        else:
            known = _Known(options.remote, options.client)
        self._tiers = [*self._tiers, known][-KNOWN_TIERS:]
        return known


worker_tier_health = TierHealth()
"""The health of the tiers that the tasks of this process read."""

os.register_at_fork(after_in_child=worker_tier_health.forget)
