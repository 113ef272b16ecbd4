"""By when the next byte of a body has to be there: the range's own deadline, or sooner where the body flows too slowly.

A body may take 2 s whatever it brings, and from then on only as long as what came is worth at the floor, the setting
``fetch.remote.min.bytes.per.second`` (0 = none)::

    next byte by = min(the range's deadline, begun + max(2 s, bytes that came / floor) + time not spent waiting)

Time in which the caller does not read, because it is busy with what came, is not the store's.

References: KIP-1254 "Fallback", reliability faults F24 and F25.
"""

from __future__ import annotations

from kafka_remote_client.clock import Clock, Deadline

__all__ = ["BodyDeadline"]

_GRACE_SECONDS = 2.0


class BodyDeadline(Deadline):
    """The deadline of one body, from now on, within ``total``. ``floor``: bytes per second; 0 = ``total`` alone counts."""

    __slots__ = ("_begun", "_floor", "_idle_since", "_received", "_total")

    def __init__(self, clock: Clock, total: Deadline, floor: int) -> None:
        super().__init__(clock, 0.0)
        self._total = total
        self._floor = floor
        self._received = 0
        self._begun = self._idle_since = self._at
        self._move()

    def waits(self) -> None:
        """A reader waits for bytes from now on."""
        now = self._clock.monotonic()
        self._begun += now - self._idle_since
        self._idle_since = now
        self._move()

    def received(self, count: int) -> None:
        """So many bytes came, and the caller does not wait until it calls :meth:`waits` again."""
        self._received += count
        self._idle_since = self._clock.monotonic()
        self._move()

    def _move(self) -> None:
        self._at = self._total.at
        if self._floor:
            self._at = min(self._at, self._begun + max(_GRACE_SECONDS, self._received / self._floor))
