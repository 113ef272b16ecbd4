"""Leaves a connection alone for as long as the broker's answers ask for (ThrottleTimeMs).

A broker that enforces a quota answers at once, says how long it will read nothing more, and means it: what is sent meanwhile
only waits, and with our time-outs would look like a broker that is gone. The field is the first of each answer that has it::

    API         | has it from | told before the wait, so that clients have to keep it, from
    Fetch       | 1           | 8
    ListOffsets | 2           | 3
    Metadata    | 3           | 6

Before these versions the broker itself waited and answered then, so there is nothing left to keep.

References: KIP-124, KIP-219.
"""

from __future__ import annotations

import threading

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import LocationThrottledError
from kafka_remote_client.protocol.api_keys import FETCH, LIST_OFFSETS, METADATA
from kafka_remote_client.wire import Buffer

__all__ = ["Throttle", "throttle_seconds"]

_CLIENTS_KEEP_FROM = {FETCH.key: 8, LIST_OFFSETS.key: 3, METADATA.key: 6}
_INT32 = 4


def throttle_seconds(api_key: int, version: int, answer: Buffer) -> float:
    """How long the connection that ``answer`` came on is to be left alone, in seconds."""
    first_kept = _CLIENTS_KEEP_FROM.get(api_key)  # type: ignore[call-overload]  # an int finds its ApiKey
    if first_kept is None or version < first_kept or len(answer) < _INT32:
        return 0.0
    return max(0, int.from_bytes(answer[:_INT32], "big", signed=True)) / 1000


class Throttle:
    """The wait that one peer has asked for. Safe to share between threads; ``name`` is the peer's, for messages."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._until = 0.0
        self._closed = threading.Event()

    def asked(self, seconds: float) -> None:
        """An answer asked for that wait from now on. A longer one that was asked for before holds."""
        if seconds > 0:
            self._until = max(self._until, self._clock.monotonic() + seconds)

    def check(self) -> None:
        """Raises LocationThrottledError while the wait lasts."""
        left = self._until - self._clock.monotonic()
        if left > 0:
            raise LocationThrottledError(f"{self._name} throttles this client for {left:.3f} s", left)

    def sit_out(self, deadline: Deadline) -> None:
        """Waits until the wait is over. Raises LocationThrottledError at once when it is longer than the deadline."""
        left = self._until - self._clock.monotonic()
        if 0 < left < deadline.remaining():
            self._clock.wait(self._closed, left)
        else:
            self.check()

    def close(self) -> None:
        """Ends waits under way."""
        self._closed.set()
