"""Admission of requests to the store, and the health that its answers show. Pure (no I/O).

=====================================  ==============================================================  ======================
request                                is rejected while                                               as
=====================================  ==============================================================  ======================
a location                             the breaker of the last used host is open                       ``breaker-open``
a range                                the breaker of its host is open; a Retry-After of more than 2 s ``breaker-open``
                                       opens it too
a range, if the owner can continue at  the broker is the faster one (fetch/preference.py)              ``slower-than-broker``
the broker
=====================================  ==============================================================  ======================
"""

from __future__ import annotations

from kafka_remote_client.breaker import BreakerState, StoresHealth
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import (
    Action,
    DirectFetchError,
    RemoteStorageError,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
)
from kafka_remote_client.fetch import policy
from kafka_remote_client.fetch.fetch_budget import FetchBudget
from kafka_remote_client.fetch.grant_read import RangeRead
from kafka_remote_client.fetch.preference import SLOWER_THAN_BROKER, BrokerPreference, Key
from kafka_remote_client.fetch.range_place import UNNAMED_HOST

__all__ = ["Admission"]

_BREAKER_OPEN = "breaker-open"


class Admission:
    """The state of the stores of one engine. Not thread-safe: the engine's lock guards it. Times are monotonic seconds."""

    def __init__(self, config: RemoteFetchConfig, budget: FetchBudget) -> None:
        self.preference = BrokerPreference(config.slow_bytes_per_second, config.recheck_interval_ms / 1000)
        self._retries = config.retries
        self._budget = budget
        self._stores = StoresHealth(config.breaker_failures, config.breaker_reset_ms / 1000)
        self._last_host: str | None = None
        self._failures: dict[str, RemoteStorageError] = {}

    def suspended_until(self, now: float) -> float:
        """When a location may be requested: ``now`` unless the last used host has an open breaker. Any thread may call it."""
        return now if self._last_host is None else self._stores.of(self._last_host).open_until(now)

    def refuses_location(self, now: float) -> str | None:
        """Returns why a location must not be requested, so that the broker takes over; ``None`` if it may be."""
        return _BREAKER_OPEN if self.suspended_until(now) > now else None

    def refuses_range(self, wanted: RangeRead, partition: Key | None, now: float) -> str | None:
        """Returns why a range must not be requested, so that the broker takes over; after ``None`` it must be requested.

        ``partition``: its partition, if the owner can continue at the broker.
        """
        host = self._last_host = wanted.host
        if partition is not None and self.preference.leaves(partition, now):
            return SLOWER_THAN_BROKER
        return None if self._stores.of(host).allows(now) else _BREAKER_OPEN

    @property
    def last_failure(self) -> RemoteStorageError | None:
        """The last failure of the last used host, for the message about its open breaker."""
        if self._last_host is None or self._last_host not in self._failures:
            return None
        last = self._failures[self._last_host]
        store = "the store" if self._last_host == UNNAMED_HOST else f"the store {self._last_host}"
        failure = RemoteStorageError(f"{store} failed repeatedly, so requests to it are suspended: {last}")
        failure.__cause__ = last
        return failure.with_context(host=self._last_host)

    def allows_hedge(self, wanted: RangeRead) -> bool:
        """Whether a late range may be requested again: its store has no known failure."""
        return self._stores.of(wanted.host).state is BreakerState.CLOSED

    def succeeded(self, came: RangeRead, seconds: float, transfer_seconds: float) -> None:
        """A range arrived after ``seconds``, of these ``transfer_seconds`` from its first byte to the last."""
        self._stores.of(came.host).succeeded()
        self._budget.landed(came.size, seconds, transfer_seconds)

    def failed(self, failed: RangeRead, error: RemoteStorageError, now: float) -> None:
        """A range failed."""
        host = failed.host
        health = self._stores.of(host)
        self._failures[host] = error
        known = isinstance(error, RemoteStorageThrottledError) and not self._budget.request_rate.throttled(now)
        if policy.is_store_failure(error) and not known:
            health.failed(now)
        pause = policy.store_pause(error)
        if pause:
            health.left_alone(now + pause)
        if isinstance(error, RemoteStorageTimeoutError):
            self._budget.sizer.timed_out()

    def decide(self, read: RangeRead, error: DirectFetchError, *, relocated: bool) -> Action:
        """Returns the action after a failed range (fetch/policy.py)."""
        return policy.decide(
            error,
            attempts=read.attempts,
            corrupt=read.corrupt,
            retries=self._retries,
            relocated=relocated,
            health=self._stores.of(read.host),
        )
