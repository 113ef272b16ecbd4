"""The state of a tier that does not answer, so that it costs a process one time-out and not one per task.

::

    event                              | effect on the tasks of this process
    a location timed out               | the next ones use the broker at once, for RETRY_SECONDS; then one of them tries again
    the driver says so in a split      | the same, from the first such split on
    a location arrived                 | all use the tier

The driver's planner keeps one too, for the micro-batches of a stream. A tier is known by the options that reach it, as engines
are (:mod:`~kafka_remote_client.spark.reading.task_engine`). The switch is :mod:`kafka_remote_client.fetch`'s circuit breaker.
Nothing here applies where ``remote.onFallback`` is ``fail``: there the first time-out fails the task.
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
"""How many tiers a process remembers."""


@attrs.define(eq=False)
class _Known:
    """A tier: its options, whether it is used, why not, the driver's last message, and the time of its last answer."""

    remote: RemoteFetchConfig
    client: ClientOptions
    breaker: StoreHealth = attrs.field(factory=lambda: StoreHealth(1, RETRY_SECONDS))
    failure: str = ""
    told: str | None = None
    worked_at: float | None = None


class TierHealth:
    """Thread safe."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.forget()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._tiers)} known)"

    def failure(self, options: SourceOptions, told: str | None = None) -> str | None:
        """Returns why the tier is not used now; ``None`` = it is. ``told``: the driver's message from the plan."""
        now = self._clock.monotonic()
        with self._lock:
            known = self._known(options)
            if told is not None and told != known.told:
                known.told = known.failure = told
                known.breaker.failed(now)
            return None if known.breaker.allows(now) else known.failure

    def failed(self, options: SourceOptions, failure: str) -> None:
        """A location timed out."""
        with self._lock:
            known = self._known(options)
            known.failure = failure
            known.worked_at = None
            known.breaker.failed(self._clock.monotonic())

    def worked(self, options: SourceOptions) -> None:
        """The tier answered."""
        with self._lock:
            known = self._known(options)
            known.worked_at = self._clock.monotonic()
            known.breaker.succeeded()

    def worked_lately(self, options: SourceOptions) -> bool:
        """Whether it answered within the last RETRY_SECONDS, without a failure since."""
        with self._lock:
            at = self._known(options).worked_at
            return at is not None and self._clock.monotonic() - at < RETRY_SECONDS

    def forget(self) -> None:
        """Starts empty, also in a process that was just forked."""
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
"""That of this process."""

os.register_at_fork(after_in_child=worker_tier_health.forget)
