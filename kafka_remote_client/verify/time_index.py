"""Compares the time index with the batches of its log.

Each entry has an offset within a batch. The batch's highest timestamp is the entry's, and no earlier batch has a higher one.
The last entry, which the broker writes when it rolls the segment, has the highest timestamp of all.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_remote_client.records import BatchHeader
from kafka_remote_client.remote_log.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset
from kafka_remote_client.verify.finding import FindingKind, Problem
from kafka_remote_client.verify.first_of_many import FirstOfMany

__all__ = ["TimeIndexCheck"]


class TimeIndexCheck:
    """A BatchListener. Entries for lost offsets are not judged. ``highest``: the highest timestamp of all batches so far."""

    def __init__(self, index: TimeIndex) -> None:
        self._index = index
        self._entries: Iterator[TimestampOffset] = iter(index)
        self._next = next(self._entries, None)
        self._whole = True
        self._bad = FirstOfMany()
        self.highest = NO_TIMESTAMP

    def batch(self, header: BatchHeader, data: memoryview) -> None:
        while self._next is not None and self._next.offset <= header.last_offset:
            if self._next.offset < header.base_offset:
                self._refuse("no batch holds that offset")
            elif self._next.timestamp != header.max_timestamp:
                self._refuse(f"the highest timestamp of that batch is {header.max_timestamp}")
            elif self._next.timestamp < self.highest:
                self._refuse(f"a batch before has the timestamp {self.highest}")
            self._next = next(self._entries, None)
        self.highest = max(self.highest, header.max_timestamp)

    def lost(self, start: int, end: int, first_offset: int, last_offset: int) -> None:
        self._whole = False
        while self._next is not None and self._next.offset <= last_offset:
            if self._next.offset < first_offset:
                self._refuse("no batch holds that offset")
            self._next = next(self._entries, None)

    @property
    def ends_before_index(self) -> bool:
        """Returns whether the log has ended and the index has entries past its end."""
        return self._next is not None

    def problems(self) -> list[Problem]:
        """Returns at most one problem, after the walk has ended."""
        while self._next is not None:
            self._refuse("the log ends before it")
            self._next = next(self._entries, None)
        last = self._index.last_entry().timestamp
        if self._whole and not self._bad.count and last != self.highest:
            self._bad.add(f"its last entry has the timestamp {last}, the highest of all batches is {self.highest}")
        return self._bad.problems(FindingKind.TIME_INDEX_MISMATCH, len(self._index), "entries")

    def _refuse(self, why: str) -> None:
        assert self._next is not None  # the callers' condition
        self._bad.add(f"timestamp {self._next.timestamp} at offset {self._next.offset}: {why}", None, self._next.offset)
