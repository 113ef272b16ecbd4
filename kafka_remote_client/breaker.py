"""Health of one store host: a circuit breaker and a budget of retries. Pure: the caller tells the time.

Theory of operation of the breaker. CLOSED lets everything through and counts failures of the last 10 s. Enough of them open it:
OPEN lets nothing through, so that a dead store does not cost every poll a time-out. After the reset time one range may try
(HALF_OPEN); its success closes the breaker, its failure opens it again.

A store that asks to be left alone (Retry-After) opens its breaker at once, for as long as it asked.

The retry budget is a token bucket: a retry costs 5 tokens, a success gives 1 back, so retries cannot multiply the load on a
store that is already failing. A time-out is not retried at all (KIP-1254).

References: docs/reliability.md; the token cost is that of botocore's standard retry mode.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from functools import partial

__all__ = ["BreakerState", "StoreHealth", "StoresHealth"]

_FAILURE_WINDOW_SECONDS = 10.0
_BUCKET = 500
_RETRY_COST = 5


class BreakerState(Enum):
    """What the breaker lets through."""

    CLOSED = auto()
    OPEN = auto()
    HALF_OPEN = auto()


class StoreHealth:
    """Breaker and retry budget of one host. ``now`` is always monotonic seconds."""

    def __init__(self, failures: int, reset_seconds: float) -> None:
        self._limit = failures
        self._reset = reset_seconds
        self._failures: deque[float] = deque()
        self._tokens = _BUCKET
        self._next_try = 0.0
        """When one may try, while it is not CLOSED."""
        self.state = BreakerState.CLOSED

    def allows(self, now: float) -> bool:
        """Whether a range may be requested from this store. In HALF_OPEN exactly one caller gets True."""
        if self.state is not BreakerState.CLOSED and now >= self._next_try:
            # Also where one was let through that never reported back (its reader was stopped): another one may try.
            self.state = BreakerState.HALF_OPEN
            self._next_try = now + self._reset
            return True
        return self.state is BreakerState.CLOSED

    def open_until(self, now: float) -> float:
        """When a range may be requested, as far as is known: ``now`` if at once. Unlike :meth:`allows` it promises nothing."""
        return now if self.state is BreakerState.CLOSED else max(now, self._next_try)

    def succeeded(self) -> None:
        """A range arrived. One that was asked for before the breaker opened says nothing about the store by now."""
        if self.state is not BreakerState.OPEN:
            self.state = BreakerState.CLOSED
            self._failures.clear()
        self._tokens = min(_BUCKET, self._tokens + 1)

    def failed(self, now: float) -> None:
        if self.state is BreakerState.HALF_OPEN:
            self._open(now + self._reset)
            return
        self._failures.append(now)
        while self._failures[0] < now - _FAILURE_WINDOW_SECONDS:
            self._failures.popleft()
        if self.state is BreakerState.CLOSED and len(self._failures) >= self._limit:
            self._open(now + self._reset)

    def left_alone(self, until: float) -> None:
        """The store asked for it. One that is left alone for longer already stays so."""
        if self.state is not BreakerState.OPEN or until > self._next_try:
            self._open(until)

    def take_retry(self) -> bool:
        """Takes the tokens of one retry; False when the budget is used up."""
        if self._tokens < _RETRY_COST:
            return False
        self._tokens -= _RETRY_COST
        return True

    def _open(self, until: float) -> None:
        self.state = BreakerState.OPEN
        self._next_try = until
        self._failures.clear()


class StoresHealth:
    """The health of each store, by host. Each begins healthy."""

    def __init__(self, failures: int, reset_seconds: float) -> None:
        self._made = partial(StoreHealth, failures, reset_seconds)
        self._by_host: dict[str, StoreHealth] = {}

    def of(self, host: str) -> StoreHealth:
        health = self._by_host.get(host)
        if health is None:
            health = self._by_host[host] = self._made()
        return health
