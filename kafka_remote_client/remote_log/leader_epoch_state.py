"""The segments of one leader epoch of one partition: finds the segment of an offset.

Theory of operation. Two leaders may upload the same offsets (the new one does not know how far the old one got). Within an
epoch each offset has one segment, so a segment that was finished later and covers more *evicts* the earlier ones: they are
never read. Only readable segments are here. Kafka also lists the others, to delete them.

Each event updates two sorted lists, start offsets and ends of segments, so that a look-up is a binary search. A partition may
have a hundred thousand segments, and each grant needs a look-up.

References: Kafka's RemoteLogLeaderEpochState.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from kafka_remote_client.model import UNKNOWN_OFFSET, RemoteLogSegmentId

__all__ = ["RemoteLogLeaderEpochState"]


class RemoteLogLeaderEpochState:
    """Not thread safe: :class:`RemoteLogMetadataCache` has the lock."""

    __slots__ = ("_by_end", "_ends", "_highest", "_ids", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ids: dict[int, RemoteLogSegmentId] = {}
        self._ends: dict[int, int] = {}
        self._by_end: list[tuple[int, int]] = []  # (end of the segment, -start)
        self._highest = UNKNOWN_OFFSET

    @classmethod
    def restored(
        cls, highest_offset: int, starts: list[int], ids: list[RemoteLogSegmentId], ends: list[int]
    ) -> RemoteLogLeaderEpochState:
        """The state with these readable segments. ``starts`` rises; ``ends``: the end offsets of whole segments."""
        state = cls()
        state._starts = starts
        state._ids = dict(zip(starts, ids, strict=True))
        state._ends = dict(zip(starts, ends, strict=True))
        state._by_end = sorted((end, -start) for start, end in state._ends.items())
        state._highest = highest_offset
        return state

    def contents(self) -> tuple[int, list[int], list[RemoteLogSegmentId], list[int]]:
        """The arguments of :meth:`restored` for a state like this one."""
        ids, ends = [self._ids[start] for start in self._starts], [self._ends[start] for start in self._starts]
        return self._highest, list(self._starts), ids, ends

    @property
    def highest_offset(self) -> int:
        """The highest end offset ever finished in this epoch; deletes do not lower it. UNKNOWN_OFFSET: none."""
        return self._highest

    def floor(self, offset: int) -> RemoteLogSegmentId | None:
        """The segment with the greatest start at or below ``offset``."""
        at = bisect_right(self._starts, offset)
        return self._ids[self._starts[at - 1]] if at else None

    def ceiling(self, offset: int) -> RemoteLogSegmentId | None:
        """The segment with the least start at or above ``offset``."""
        at = bisect_left(self._starts, offset)
        return self._ids[self._starts[at]] if at < len(self._starts) else None

    @property
    def is_readable(self) -> bool:
        """Whether any segment can be read."""
        return bool(self._starts)

    def newest(self) -> RemoteLogSegmentId | None:
        """The readable segment with the highest end offset; of equal ones the one that starts first."""
        return self._ids[-self._by_end[-1][1]] if self._by_end else None

    def copy_finished(
        self, start_offset: int, segment_id: RemoteLogSegmentId, end_offset: int, segment_end: int | None = None
    ) -> None:
        """Adds a segment with the offsets ``[start_offset, end_offset]`` of this epoch. ``segment_end``: its own end offset."""
        while self._starts and self._starts[-1] > start_offset and self._highest <= end_offset:
            self._remove(self._starts[-1])
        if start_offset in self._ids:
            self._remove(start_offset)
        insort(self._starts, start_offset)
        self._ids[start_offset] = segment_id
        self._ends[start_offset] = end = end_offset if segment_end is None else segment_end
        insort(self._by_end, (end, -start_offset))
        self._highest = max(self._highest, end_offset)

    def delete_started(self, start_offset: int, segment_id: RemoteLogSegmentId) -> None:
        if self._ids.get(start_offset) == segment_id:
            self._remove(start_offset)

    def _remove(self, start_offset: int) -> None:
        del self._starts[bisect_left(self._starts, start_offset)]
        del self._by_end[bisect_left(self._by_end, (self._ends.pop(start_offset), -start_offset))]
        del self._ids[start_offset]
