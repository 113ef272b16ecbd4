"""Limits log lines to one a minute of each kind, and counts those that were left out.

A caller asks before it writes a line: the answer is how many lines of the kind were left out since the last one, or ``None`` if
this one is left out, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import eq
from typing import Generic, TypeVar

import attrs

from kafka_remote_client.clock import Clock

__all__ = ["LogLimit", "more_warnings"]

_QUIET_SECONDS = 60.0

_Kind = TypeVar("_Kind", bound=Hashable)


def more_warnings(left_out: int) -> str:
    """How a warning ends that ``left_out`` others of its kind came before: with nothing for 0."""
    return f"; {left_out} more since the last warning" if left_out else ""


@attrs.define
class _Written:
    """The last line of a kind. ``at``: seconds on the monotonic clock."""

    at: float
    left_out: int = 0


class LogLimit(Generic[_Kind]):
    """The lines of one log. ``same``: whether a line of the first kind was also one of the second; by default the equal kind.

    Not thread-safe: two threads may both write a line.
    """

    def __init__(self, clock: Clock, same: Callable[[_Kind, _Kind], bool] = eq) -> None:
        self._clock = clock
        self._same = same
        self._written: dict[_Kind, _Written] = {}

    def admit(self, kind: _Kind) -> int | None:
        """The number of lines left out since the last one, if this one may be written; ``None`` counts it as left out."""
        now, last = self._clock.monotonic(), self._last(kind)
        if last is not None and now - last.at < _QUIET_SECONDS:
            last.left_out += 1
            return None
        self._written[kind] = _Written(now)
        return 0 if last is None else last.left_out

    def leave_out(self, kind: _Kind) -> None:
        """Counts a line that the caller does not write, if one of its kind was written before."""
        if (last := self._last(kind)) is not None:
            last.left_out += 1

    def _last(self, kind: _Kind) -> _Written | None:
        written = [line for known, line in list(self._written.items()) if self._same(known, kind)]
        return max(written, key=lambda line: line.at, default=None)
