"""Checks the byte ranges that callers request, in one place for all fetchers and stores."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from kafka_remote_client.errors import RangeNotSatisfiableError

__all__ = ["TO_THE_END", "WantedRange", "bytes_between"]

TO_THE_END = -1


@attrs.frozen
class WantedRange:
    """Bytes ``[start, end)``; ``end`` None reads to the object's end."""

    start: int
    end: int | None

    @classmethod
    def of(cls, start_position: int, end_position: int) -> WantedRange:
        """From the arguments of ``fetch_log_segment``. Raises RangeNotSatisfiableError for what is not a range."""
        if start_position < 0 or (end_position != TO_THE_END and end_position <= start_position):
            raise RangeNotSatisfiableError(f"not a byte range: [{start_position}, {end_position})")
        return cls(start_position, None if end_position == TO_THE_END else end_position)

    def end_in(self, size: int) -> int:
        """The end of this range in an object of ``size`` bytes. Raises RangeNotSatisfiableError where it ends too early."""
        end = size if self.end is None else self.end
        if self.start >= end or end > size:
            raise RangeNotSatisfiableError(f"the object has {size} bytes and does not contain {self}")
        return end

    def __str__(self) -> str:
        return f"bytes [{self.start}, {'end' if self.end is None else self.end})"


def bytes_between(start: int, end: int, read: Callable[[], bytes]) -> bytes:
    """What ``read`` gives for bytes ``[start, end)``, as RemoteObjectStore.get_range has it.

    Nothing where the range is empty, or the object ends before it. Raises ValueError for what is no range.
    """
    if not 0 <= start <= end:
        raise ValueError(f"not a byte range: [{start}, {end})")
    if start == end:
        return b""
    try:
        return read()
    except RangeNotSatisfiableError:
        return b""
