"""The required deliveries: the records that a plain consumer got from the same partitions, and their ends."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.history import History, Key, Moved, Polled, Record

__all__ = ["Oracle"]


class Oracle:
    """Records by partition, by increasing offset. ``ends``: the first unreadable offset; only offsets below are checked.

    ``errors``: codes of the plain consumer's errors in each partition, except ends.
    """

    def __init__(
        self,
        records: Mapping[Key, Iterable[Record]],
        ends: Mapping[Key, int] | None = None,
        errors: Mapping[Key, list[int]] | None = None,
    ) -> None:
        self._by_offset = {key: {record.offset: record for record in found} for key, found in records.items()}
        self._offsets = {key: sorted(found) for key, found in self._by_offset.items()}
        last = {key: offsets[-1] + 1 for key, offsets in self._offsets.items() if offsets}
        self.ends = {**last, **(ends or {})}
        self.errors = dict(errors or {})

    @classmethod
    def of(cls, history: History, consumer: str | None = None) -> Oracle:
        """Returns the records of a recorded consumer (or of all in a history), and the reported ends.

        Records that a truncation removed (:class:`Moved` with an end) are left out.
        """
        records: dict[Key, list[Record]] = {}
        ends: dict[Key, int] = {}
        errors: dict[Key, list[int]] = {}
        for event in history:
            if isinstance(event, Moved) and event.end is not None:
                records[event.key] = [one for one in records.get(event.key, []) if one.offset < event.end]
                ends.pop(event.key, None)
            if not isinstance(event, Polled) or consumer not in (None, event.consumer):
                continue
            for record in event.records:
                records.setdefault(record.place, []).append(record)
            for failure in event.errors:
                if failure.key is None:
                    continue
                if not failure.is_end:
                    errors.setdefault(failure.key, []).append(failure.code)
                elif failure.offset is not None:
                    ends[failure.key] = max(ends.get(failure.key, 0), failure.offset)
        return cls(records, ends, errors)

    @classmethod
    def of_rows(cls, topic: str, partition: int, rows: Iterable[tuple[Any, ...]], end: int | None = None) -> Oracle:
        """Rows of one partition as ``tests.support.reading.row`` gives them."""
        key = (topic, partition)
        found = [
            Record(
                topic, partition, offset, timestamp, epoch, name, value, None if headers is None else tuple(map(tuple, headers))
            )
            for offset, timestamp, epoch, name, value, headers in rows
        ]
        return cls({key: found}, None if end is None else {key: end})

    def has_partition(self, key: Key) -> bool:
        """Whether the partition was read at all."""
        return key in self.ends

    def offsets(self, key: Key, start: int, stop: int) -> list[int]:
        """The offsets of all records in ``[start, stop)``."""
        found = self._offsets.get(key, [])
        return found[bisect_left(found, start) : bisect_left(found, stop)]

    def next_offset(self, key: Key, offset: int) -> int | None:
        """The offset of the first record at or after ``offset``."""
        found = self._offsets.get(key, [])
        index = bisect_left(found, offset)
        return found[index] if index < len(found) else None

    def reach(self, key: Key, offset: int) -> int:
        """Returns how far a position at ``offset`` may move without passing a record: over markers and aborted records."""
        following = self.next_offset(key, offset)
        return max(offset, self.ends.get(key, offset)) if following is None else following

    def get(self, key: Key, offset: int) -> Record | None:
        """The record at ``offset``."""
        return self._by_offset.get(key, {}).get(offset)

    def __len__(self) -> int:
        return sum(map(len, self._offsets.values()))
