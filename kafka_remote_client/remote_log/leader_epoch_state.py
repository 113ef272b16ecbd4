"""The segments of one leader epoch of one partition: finds the segment of an offset.

Theory of operation. Two leaders may upload the same offsets (the new one does not know how far the old one got). Within an
epoch each offset has one segment, so a segment that was finished later and covers more *evicts* the earlier ones: they are
never read. Only readable segments are here. Kafka also lists the others, to delete them.

Each event updates lists in the order of start offsets, and one in the order of the segments' ends once that is needed. So a
look-up is a binary search. A partition may have a hundred thousand segments, and each grant needs a look-up. Segments usually
arrive in order, and are appended.

A segment is known here by the bytes of its id.

References: Kafka's RemoteLogLeaderEpochState.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from kafka_remote_client.model import UNKNOWN_OFFSET

__all__ = ["RemoteLogLeaderEpochState"]


class RemoteLogLeaderEpochState:
    """Not thread safe: :class:`RemoteLogMetadataCache` has the lock."""

    __slots__ = ("_by_end", "_ends", "_highest", "_ids", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ids: list[bytes] = []  # of the segments, in the order of their starts
        self._ends: list[int] = []  # of the segments, in the same order
        self._by_end: list[tuple[int, int]] | None = None  # (end of the segment, -start); made when it is first needed
        self._highest = UNKNOWN_OFFSET

    @classmethod
    def restored(cls, highest_offset: int, starts: list[int], ids: list[bytes], ends: list[int]) -> RemoteLogLeaderEpochState:
        """The state with these readable segments. ``starts`` rises; ``ends``: the end offsets of whole segments."""
        state = cls()
        state._starts = starts
        state._ids = ids
        state._ends = ends
        state._highest = highest_offset
        return state

    def contents(self) -> tuple[int, list[int], list[bytes], list[int]]:
        """The arguments of :meth:`restored` for a state like this one."""
        return self._highest, list(self._starts), list(self._ids), list(self._ends)

    @property
    def highest_offset(self) -> int:
        """The highest end offset ever finished in this epoch; deletes do not lower it. UNKNOWN_OFFSET: none."""
        return self._highest

    def floor(self, offset: int) -> bytes | None:
        """The segment with the greatest start at or below ``offset``."""
        at = bisect_right(self._starts, offset)
        return self._ids[at - 1] if at else None

    def ceiling(self, offset: int) -> bytes | None:
        """The segment with the least start at or above ``offset``."""
        at = bisect_left(self._starts, offset)
        return self._ids[at] if at < len(self._starts) else None

    @property
    def is_readable(self) -> bool:
        """Whether any segment can be read."""
        return bool(self._starts)

    def newest(self) -> bytes | None:
        """The readable segment with the highest end offset; of equal ones the one that starts first."""
        if self._by_end is None:
            self._by_end = sorted((end, -start) for start, end in zip(self._starts, self._ends, strict=True))
        return self._ids[bisect_left(self._starts, -self._by_end[-1][1])] if self._by_end else None

    def copy_finished(self, start_offset: int, segment_id: bytes, end_offset: int, segment_end: int) -> None:
        """Adds a segment with the offsets ``[start_offset, end_offset]`` of this epoch. ``segment_end``: its own end offset."""
        starts = self._starts
        while starts and starts[-1] > start_offset and self._highest <= end_offset:
            self._remove(len(starts) - 1)
        at = len(starts)
        if starts and starts[-1] >= start_offset:
            at = bisect_left(starts, start_offset)
            if starts[at] == start_offset:
                self._remove(at)
        starts.insert(at, start_offset)
        self._ids.insert(at, segment_id)
        self._ends.insert(at, segment_end)
        if self._by_end is not None:
            insort(self._by_end, (segment_end, -start_offset))
        self._highest = max(self._highest, end_offset)

    def delete_started(self, start_offset: int, segment_id: bytes) -> None:
        at = bisect_left(self._starts, start_offset)
        if at < len(self._starts) and self._starts[at] == start_offset and self._ids[at] == segment_id:
            self._remove(at)

    def _remove(self, at: int) -> None:
        start, end = self._starts.pop(at), self._ends.pop(at)
        del self._ids[at]
        if self._by_end is not None:
            del self._by_end[bisect_left(self._by_end, (end, -start))]
