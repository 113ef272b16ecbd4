"""Measures for how long a peer has not read the written bytes.

All bytes that wait at one moment must be sent by a deadline. Then the next deadline applies to the bytes that wait then. So
a peer that takes single bytes does not gain time::

    written  ───────────────┬──────────────────────────►
    mark                    │ all before it is due
    taken    ───────┬───────┤ reached: the next mark
                    └ waits ┘
"""

from __future__ import annotations

__all__ = ["WriteProgress"]


class WriteProgress:
    """Counts the bytes for one peer. Times are those of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._written = 0
        self._mark = 0
        self._since: float | None = None

    def wrote(self, size: int) -> None:
        """Counts bytes that were given to the transport."""
        self._written += size

    def look(self, buffered: int, now: float) -> None:
        """Updates the number of bytes that the transport still holds."""
        if not buffered:
            self._since = None
        elif self._since is None or self._written - buffered >= self._mark:
            self._mark, self._since = self._written, now

    def waited(self, now: float) -> float:
        """For how many seconds the oldest bytes have waited, as of the last :meth:`look`; 0 = none wait."""
        return 0.0 if self._since is None else now - self._since
