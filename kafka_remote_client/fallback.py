"""A fallback: why a partition continues at the broker, as one value for the code that counts or logs it.

::

    engine (ReadEnd), location source  ->  Fallback  ->  consumer, Spark task  ->  metrics (cause), log (text), failed job

``FallbackLog`` makes log lines of these values. A fallback with an error is one WARNING for each cause and host, then at most
one per minute with a count. One without an error (the broker is faster, the offset is not tiered yet, the application turned
direct fetch off) is normal operation and an INFO line.

References: KIP-1254, "Fallback"; docs/failures.md.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import ClassVar

import attrs

from kafka_remote_client.clock import Clock
from kafka_remote_client.errors import Action, DirectFetchError
from kafka_remote_client.log_limit import LogLimit, more_warnings
from kafka_remote_client.model import RemoteLogSegmentId

__all__ = ["BrokerReadError", "Fallback", "FallbackLog", "OnFallback", "TierUnavailableError"]

_LOGICAL = {
    -1: "at the end",
    -2: "at the beginning",
    -1000: "at the committed offset",
    -1001: "at the offset that auto.offset.reset selects",
}
"""Logical offsets (librdkafka's RD_KAFKA_OFFSET_…), in words."""


class OnFallback(Enum):
    """``remote.onFallback``: what happens where tiered records cannot be read from the store."""

    BROKER = "broker"
    FAIL = "fail"


class TierUnavailableError(DirectFetchError):
    """Tiered records cannot be read from the store, and the broker may not be read instead, or there is none."""

    action: ClassVar[Action] = Action.STOP
    cause: ClassVar[str] = "tier-unavailable"


class BrokerReadError(DirectFetchError):
    """The brokers sent no records in time, or a permanent error, or records that are damaged."""

    action: ClassVar[Action] = Action.STOP
    cause: ClassVar[str] = "broker-read"


@attrs.frozen
class Fallback:
    """Reading ``topic``-``partition`` from the store ended; the broker delivers from ``offset`` on.

    ``cause`` is the short name that metrics count by. ``error`` is what failed, ``None`` where nothing did. ``segment`` is the
    one that was being read. ``taken_over`` is False where the broker delivered before too: then no fallback is counted.
    """

    cause: str
    error: DirectFetchError | None
    topic: str
    partition: int
    offset: int
    segment: RemoteLogSegmentId | None = None
    taken_over: bool = True

    @property
    def place(self) -> str:
        """Where the broker continues, in words."""
        return _LOGICAL.get(self.offset, f"at offset {self.offset}")

    @property
    def host(self) -> str:
        """The store or the peer that failed, as ``host:port``; empty where no host did."""
        return "" if self.error is None or self.error.host is None else self.error.host

    @property
    def text(self) -> str:
        """The error's text, or the cause where there is none. Holds no URL."""
        return self.cause if self.error is None else str(self.error) or self.cause

    def __str__(self) -> str:
        if self.error is None:
            return f"direct fetch ended for {self.topic}-{self.partition}: {self.cause}"
        return f"direct fetch disabled for {self.topic}-{self.partition}: {self.text}"


class FallbackLog:
    """Writes fallbacks to ``log``. Not thread-safe: one consumer or one task writes to it."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._limit: LogLimit[tuple[str, str]] = LogLimit(clock, _is_same)

    def write(self, fallback: Fallback, *, warned: bool = False) -> None:
        """Writes one line: a WARNING, or INFO where the same cause and host had a WARNING within the last minute.

        ``warned``: another process wrote the WARNING, so this is INFO.
        """
        if fallback.error is None:
            self._log.info("%s; the broker continues %s", fallback, fallback.place)
            return
        kind = (fallback.cause, fallback.host)
        if warned:
            self._limit.leave_out(kind)
        elif (left_out := self._limit.admit(kind)) is not None:
            more = more_warnings(left_out)
            self._log.warning("%s; the broker continues %s (%s%s)", fallback, fallback.place, fallback.cause, more)
            return
        self._log.info("%s; the broker continues %s (%s)", fallback, fallback.place, fallback.cause)


def _is_same(known: tuple[str, str], new: tuple[str, str]) -> bool:
    """Whether both have the same cause and host. An error that names no host may be of any."""
    return known[0] == new[0] and (known[1] == new[1] or not known[1] or not new[1])
