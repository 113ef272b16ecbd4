"""From symptom to action: the one place that decides what follows a failure. Pure (no I/O).

An error's own ``action`` says what could cure it; this table adds the budgets. What has no budget left goes to the broker.

| error's action | first time | then |
|---|---|---|
| RETRY, a storage error | the same range, after a pause | again, up to ``fetch.remote.retries`` times and the retry budget |
| RETRY, damaged bytes | the same range once more | the broker |
| RELOCATE | a fresh location, once between two good ranges | the broker |
| BROKER, STOP | the broker | |

References: KIP-1254, "Fallback"; docs/reliability.md.
"""

from __future__ import annotations

from kafka_remote_client.errors import (
    Action,
    CorruptRecordError,
    DirectFetchError,
    LocationThrottledError,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
)
from kafka_remote_client.fetch.breaker import StoreHealth

__all__ = ["MAX_CORRUPT", "decide", "is_store_failure", "location_pause", "retry_pause"]

MAX_CORRUPT = 1
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_LONGEST_THROTTLE_SECONDS = 30.0


def decide(
    error: DirectFetchError, *, attempts: int, corrupt: int, retries: int, relocated: bool, health: StoreHealth
) -> Action:
    """What follows ``error``: RETRY, RELOCATE or BROKER. Takes retry tokens when it answers RETRY."""
    if error.action is Action.RETRY:
        allowed = corrupt <= MAX_CORRUPT if isinstance(error, CorruptRecordError) else attempts <= retries
        timeout = isinstance(error, RemoteStorageTimeoutError)
        return Action.RETRY if allowed and health.take_retry(after_timeout=timeout) else Action.BROKER
    if error.action is Action.RELOCATE and not relocated:
        return Action.RELOCATE
    return Action.BROKER


def retry_pause(error: DirectFetchError, attempts: int, jitter: float) -> float:
    """Seconds before the next attempt: what the store asked for, else doubling from 50 ms with full jitter, at most 2 s."""
    if isinstance(error, RemoteStorageThrottledError) and error.retry_after is not None:
        return min(error.retry_after, _LONGEST_PAUSE_SECONDS)
    ceiling = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * float(2 ** max(0, attempts - 1)))
    return ceiling * jitter


def location_pause(answer: object) -> float:
    """Seconds after which a location is asked again because the broker wants to be left alone till then; 0 = it is answered.

    Beyond 30 s a partition that has nothing else to read is better off with the broker path, which is throttled by itself.
    """
    if isinstance(answer, LocationThrottledError) and answer.retry_after <= _LONGEST_THROTTLE_SECONDS:
        return answer.retry_after
    return 0.0


def is_store_failure(error: DirectFetchError) -> bool:
    """Whether the failure speaks against the store's health (so that the breaker counts it)."""
    return error.cause in {"timeout", "unavailable", "throttled", "invalid-response", "storage-error", "access-denied"}
