"""Log lines that peers cause: at most one a minute for each peer and kind, and a hundred a minute in all.

Anyone who reaches a listener can open connections that end in an error. A line for each of them would fill a disk.

::

    minute   connections of 192.0.2.7 that end in an error     lines
    1        500                                               the first one
    2        300                                               the first one, "499 more in the last minute"
"""

from __future__ import annotations

import logging

from kafka_remote_client.clock import Clock

__all__ = ["PeerLog"]

_LOG = logging.getLogger(__name__)

_SECONDS = 60.0
_MAX_LINES = 100


class PeerLog:
    """Used in one event loop. Of bounded size, however many peers there are."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = clock.monotonic() + _SECONDS
        self._left_out: dict[tuple[str, str], int] = {}
        self._before: dict[tuple[str, str], int] = {}
        self._others = 0

    def closing(self, peer: str, kind: str, why: object, level: int = logging.INFO) -> None:
        """A connection of ``peer`` ends. ``kind`` names the sort of reason, ``why`` this one."""
        self.tell(peer, kind, f"closing the connection of {peer}: {why}", level)

    def tell(self, peer: str, kind: str, line: str, level: int) -> None:
        """A line about a peer, which may be left out."""
        self._begin()
        about = peer, kind
        if about in self._left_out:
            self._left_out[about] += 1
        elif len(self._left_out) >= _MAX_LINES:
            self._others += 1
        else:
            self._left_out[about] = 0
            more = self._before.get(about)
            _LOG.log(level, "%s%s", line, f"; {more} more in the last minute" if more else "")

    def _begin(self) -> None:
        now = self._clock.monotonic()
        if now < self._until:
            return
        if self._others:
            _LOG.warning("%d log lines about other peers were left out in the last minute", self._others)
        self._before = self._left_out if now < self._until + _SECONDS else {}
        self._left_out, self._others, self._until = {}, 0, now + _SECONDS
