"""From symptom to action: the one place that decides what follows a failure. Pure (no I/O).

An error's kind is what was seen and says what is done first (errors.py); :data:`POLICY` says for each how often that is done
before the broker's turn, and whether it speaks against the store's health (breaker.py). A kind that is not listed is
treated as the nearest kind that it is one of. docs/failures.md is this table, generated.

What needs a retry also needs one from the store's budget, which a store that fails uses up. What has no budget left goes to the
broker, from the exact next offset; nothing is lost by that but speed.

References: KIP-1254, "Fallback"; docs/reliability.md.
"""

from __future__ import annotations

from enum import Enum

import attrs

from kafka_remote_client.breaker import StoreHealth
from kafka_remote_client.errors import (
    Action,
    ConfigurationError,
    CorruptRecordError,
    DirectFetchError,
    ForbiddenLocationError,
    InvalidStorageResponseError,
    LocationError,
    LocationExpiredError,
    LocationThrottledError,
    NotAnnouncedError,
    PeerUnreachableError,
    RangeNotSatisfiableError,
    RemoteLogError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
    UnsupportedFormatError,
)

__all__ = [
    "PENDING_PAUSE_SECONDS",
    "POLICY",
    "Budget",
    "Rule",
    "decide",
    "is_store_failure",
    "location_pause",
    "retry_pause",
    "rule_for",
    "store_pause",
]

PENDING_PAUSE_SECONDS = 0.01
"""The pause before a pending location is asked for again. The peer has waited already."""
_THROTTLED_RETRIES = 10
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_LONGEST_THROTTLE_SECONDS = 30.0


class Budget(Enum):
    """How often the error's action is taken before the broker's turn."""

    NONE = "-"
    THROTTLED = "10 times, and the host's retry budget"
    SETTING = "`fetch.remote.retries` times, and the host's retry budget"
    ONCE = "once, and the host's retry budget"
    ONCE_BETWEEN = "once between two good ranges"


@attrs.frozen
class Rule:
    """One line of the table. ``symptom``: what was seen. ``counts``: the breaker counts it against the store."""

    error: type[DirectFetchError]
    symptom: str
    budget: Budget = Budget.NONE
    counts: bool = False


POLICY: tuple[Rule, ...] = (
    # The store did not give the range.
    Rule(RemoteStorageTimeoutError, "connecting or reading timed out", counts=True),
    Rule(RemoteStorageThrottledError, "503, 429, SlowDown: the store asks for less", Budget.THROTTLED, counts=True),
    Rule(
        RemoteStorageUnavailableError,
        "unknown host, refused, reset or truncated connection; 5xx, 408; a missing bucket",
        Budget.SETTING,
        counts=True,
    ),
    Rule(
        InvalidStorageResponseError,
        "an answer that is not the range: 200, Content-Range, lengths, encoding, not HTTP",
        Budget.SETTING,
        counts=True,
    ),
    Rule(SegmentNotFoundError, "404, 410, 412: deleted, or another version", Budget.ONCE_BETWEEN),
    Rule(RangeNotSatisfiableError, "416, or the object ends inside the range", Budget.ONCE_BETWEEN),
    Rule(LocationExpiredError, "the URL has expired", Budget.ONCE_BETWEEN),
    Rule(RemoteStorageAccessError, "401, 403: signature or credentials", Budget.ONCE_BETWEEN, counts=True),
    Rule(ForbiddenLocationError, "a redirect, or a URL that the settings do not permit"),
    Rule(RemoteStorageError, "a refused certificate; any other failure of a fetcher", counts=True),
    # The store gave it, and it is not what Kafka wrote.
    Rule(CorruptRecordError, "checksum, chain, lineage or sizes are wrong", Budget.ONCE),
    Rule(UnsupportedFormatError, "an unknown format, magic or codec; a batch above the size limit"),
    # Its location is unknown.
    Rule(LocationThrottledError, "the broker throttles this client"),
    Rule(PeerUnreachableError, "no connection to the shim or broker for location requests"),
    Rule(NotAnnouncedError, "location requests go to a plain broker instead of a shim"),
    Rule(LocationError, "no location in time, or an invalid one"),
    Rule(RemoteLogError, "files of the tier are invalid"),
    # The rest.
    Rule(ConfigurationError, "an invalid setting"),
    Rule(DirectFetchError, "anything else"),
)

_RULES = {rule.error: rule for rule in POLICY}


def rule_for(error: DirectFetchError) -> Rule:
    """The line of the table that an error falls under: that of its own kind, or of the nearest above it."""
    return next(_RULES[kind] for kind in type(error).__mro__ if kind in _RULES)


def decide(
    error: DirectFetchError, *, attempts: int, corrupt: int, retries: int, relocated: bool, health: StoreHealth
) -> Action:
    """What follows ``error`` of a range: RETRY, RELOCATE or BROKER. Takes retry tokens when it answers RETRY.

    ``attempts`` and ``corrupt`` count those of this range so far, ``relocated`` tells whether a fresh location was asked for
    since the last good one, ``retries`` is the setting.
    """
    rule = rule_for(error)
    allowed = {
        Budget.NONE: False,
        Budget.THROTTLED: attempts <= _THROTTLED_RETRIES and retries > 0,
        Budget.SETTING: attempts <= retries,
        Budget.ONCE: corrupt <= 1,
        Budget.ONCE_BETWEEN: not relocated,
    }[rule.budget]
    if not allowed or store_pause(error) > 0 or (error.action is Action.RETRY and not health.take_retry()):
        return Action.BROKER
    return error.action


def retry_pause(error: DirectFetchError, attempts: int, jitter: float) -> float:
    """Seconds before the next attempt: what the store asked for, else doubling from 50 ms with full jitter, at most 2 s."""
    if isinstance(error, RemoteStorageThrottledError) and error.retry_after is not None:
        return error.retry_after
    ceiling = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * float(2 ** max(0, attempts - 1)))
    return ceiling * jitter


def store_pause(error: DirectFetchError) -> float:
    """Seconds for which nothing is asked of a store that wants to be left alone for longer than a range can wait; 0 = none.

    At most 30 s, so that a store that is well again is read again soon, whatever it said.
    """
    if not isinstance(error, RemoteStorageThrottledError) or (error.retry_after or 0.0) <= _LONGEST_PAUSE_SECONDS:
        return 0.0
    return min(error.retry_after or 0.0, _LONGEST_THROTTLE_SECONDS)


def location_pause(answer: object) -> float:
    """Seconds after which a location is asked again because the broker wants to be left alone till then; 0 = it is answered.

    Beyond 30 s a partition that has nothing else to read is better off with the broker path, which is throttled by itself.
    """
    if isinstance(answer, LocationThrottledError) and answer.retry_after <= _LONGEST_THROTTLE_SECONDS:
        return answer.retry_after
    return 0.0


def is_store_failure(error: DirectFetchError) -> bool:
    """Whether the failure speaks against the store's health (so that the breaker counts it)."""
    return rule_for(error).counts
