"""Maps symptoms to actions: the only place that decides what follows a failure. Pure (no I/O).

An error's kind is the symptom, and has the first action (errors.py). :data:`POLICY` has for each kind how often that action is
tried before the broker takes over, and whether it counts against the store's health (breaker.py). A kind that is not listed is
treated as its nearest listed base class. docs/failures.md is generated from this table.

A retry also needs a token of the store's retry budget, which a failing store uses up. Without budget the read moves to the
broker, from the exact next offset; that costs only speed.

References: KIP-1254, "Fallback"; docs/reliability.md.
"""

from __future__ import annotations

from enum import Enum

import attrs

from kafka_remote_client.breaker import StoreHealth
from kafka_remote_client.errors import (
    Action,
    BrokerResponseError,
    ClientCertificateError,
    ConfigurationError,
    CorruptChunkError,
    CorruptIndexError,
    CorruptRecordError,
    DataKeyError,
    DirectFetchError,
    ForbiddenLocationError,
    InvalidStorageResponseError,
    LocationError,
    LocationExpiredError,
    LocationNotGrantedError,
    LocationThrottledError,
    NoSegmentsError,
    NotAnnouncedError,
    ObjectNotFoundError,
    PeerCertificateError,
    PeerUnreachableError,
    ProtocolError,
    RangeNotSatisfiableError,
    RemoteLogError,
    RemoteLogMetadataError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
    SaslAuthenticationError,
    SecurityProtocolError,
    SegmentNotFoundError,
    UnservedConnectionError,
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
"""The pause before a pending location is requested again. The peer has already waited."""
_THROTTLED_RETRIES = 10
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_LONGEST_THROTTLE_SECONDS = 30.0
_UNREACHABLE_PAUSE_SECONDS = 0.7
"""Longer than the first pause of :mod:`~kafka_remote_client.protocol.peer`, so that the second request connects again."""


class Budget(Enum):
    """How often the error's action is tried before the broker takes over."""

    NONE = "-"
    THROTTLED = "10 times, and the host's retry budget"
    SETTING = "`fetch.remote.retries` times, and the host's retry budget"
    ONCE = "once, and the host's retry budget"
    ONCE_BETWEEN = "once until the next good range"


@attrs.frozen
class Rule:
    """One line of the table. ``symptom``: the observation. ``counts``: the breaker counts it against the store."""

    error: type[DirectFetchError]
    symptom: str
    budget: Budget = Budget.NONE
    counts: bool = False

    @property
    def first_action(self) -> Action:
        """What follows the first failure of this kind: the error's own action, or BROKER where a retry has no budget."""
        retries = self.error.action in {Action.RETRY, Action.RELOCATE}
        return Action.BROKER if retries and self.budget is Budget.NONE else self.error.action


POLICY: tuple[Rule, ...] = (
    # The store did not give the range.
    Rule(RemoteStorageTimeoutError, "connecting or reading timed out", counts=True),
    Rule(RemoteStorageThrottledError, "503, 429, SlowDown: the store limits its request rate", Budget.THROTTLED, counts=True),
    Rule(
        RemoteStorageUnavailableError,
        "unknown host, refused, reset or truncated connection; 5xx, 408, 499; a missing bucket",
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
    # The store gave the range, but not with the bytes that Kafka wrote.
    Rule(CorruptRecordError, "checksum, chain, lineage or sizes are wrong", Budget.ONCE),
    Rule(UnsupportedFormatError, "an unknown format, magic or codec; a batch above the size limit"),
    # Its location is unknown.
    Rule(LocationThrottledError, "the broker throttles this client"),
    Rule(PeerUnreachableError, "no connection to the shim or broker for location requests, nor 0.7 s later"),
    Rule(ClientCertificateError, "the shim or broker refuses this client's certificate, or requires one"),
    Rule(PeerCertificateError, "the certificate of the shim or broker cannot be verified"),
    Rule(SecurityProtocolError, "the shim's or broker's port has another security.protocol"),
    Rule(UnservedConnectionError, "the shim or broker closes new connections before it serves a request, also 0.7 s later"),
    Rule(NotAnnouncedError, "location requests go to a plain broker instead of a shim"),
    Rule(LocationNotGrantedError, "the shim grants no location of an offset that is tiered"),
    Rule(SaslAuthenticationError, "the shim or broker and this client do not accept each other's identity"),
    Rule(ProtocolError, "bytes of the shim or broker do not follow Kafka's protocol"),
    Rule(BrokerResponseError, "the shim or broker answered with an error code"),
    Rule(LocationError, "no location in time, or an invalid one"),
    # The client reads the tier's files itself.
    Rule(NoSegmentsError, "the store has no segment of the topic: perhaps another store, prefix or layout"),
    Rule(RemoteLogMetadataError, "a metadata record or a manifest has an unknown version or does not parse"),
    Rule(CorruptIndexError, "an index, checkpoint or snapshot contradicts its format or its segment"),
    Rule(CorruptChunkError, "a chunk fails its tag, its decompression, or its size in the chunk table"),
    Rule(DataKeyError, "the key of an encrypted segment is not available"),
    Rule(ObjectNotFoundError, "an object that the metadata name is not in the store"),
    Rule(RemoteLogError, "other files of the tier are invalid"),
    # The rest.
    Rule(ConfigurationError, "an invalid setting"),
    Rule(DirectFetchError, "anything else"),
)

_RULES = {rule.error: rule for rule in POLICY}


def rule_for(error: DirectFetchError) -> Rule:
    """Returns the table's line for an error: that of its kind, or of its nearest base class."""
    return next(_RULES[kind] for kind in type(error).__mro__ if kind in _RULES)


def decide(
    error: DirectFetchError, *, attempts: int, corrupt: int, retries: int, relocated: bool, health: StoreHealth
) -> Action:
    """Returns the action after ``error`` of a range: RETRY, RELOCATE or BROKER. RETRY takes retry tokens.

    ``attempts`` and ``corrupt`` count those of this range so far, ``relocated`` is whether a new location was requested
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
    """Returns the seconds before the next attempt: Retry-After, or doubling from 50 ms with full jitter, at most 2 s."""
    if isinstance(error, RemoteStorageThrottledError) and error.retry_after is not None:
        return error.retry_after
    ceiling = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * float(2 ** max(0, attempts - 1)))
    return ceiling * jitter


def store_pause(error: DirectFetchError) -> float:
    """Returns the seconds without requests to a store whose Retry-After is longer than a range can wait; 0 = none.

    At most 30 s, so that a recovered store is used again soon, even after a longer Retry-After.
    """
    if not isinstance(error, RemoteStorageThrottledError) or (error.retry_after or 0.0) <= _LONGEST_PAUSE_SECONDS:
        return 0.0
    return min(error.retry_after or 0.0, _LONGEST_THROTTLE_SECONDS)


def location_pause(answer: object, *, again: bool) -> float:
    """Returns the seconds after which to repeat a location request; 0 = do not. ``again``: the last one was postponed as well.

    A broker's throttle time of more than 30 s is too long for a partition with nothing else to read: the broker path is better,
    although it is also throttled.

    A peer that cannot be reached, or that stops, is asked once more. It may restart, and the brokers are often lost with it.
    librdkafka has to notice that before the fallback seeks: it may stop for good if it loses all brokers while one of them
    validates the offset of a seek (https://github.com/confluentinc/librdkafka/issues/5476).
    """
    if isinstance(answer, PeerUnreachableError | UnservedConnectionError):
        return 0.0 if again else _UNREACHABLE_PAUSE_SECONDS
    if isinstance(answer, LocationThrottledError) and answer.retry_after <= _LONGEST_THROTTLE_SECONDS:
        return answer.retry_after
    return 0.0


def is_store_failure(error: DirectFetchError) -> bool:
    """Whether the failure counts against the store's health, so that the breaker counts it."""
    return rule_for(error).counts
