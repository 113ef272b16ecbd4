"""Compares the offset index with the batches of its log.

Each entry's position is where a batch begins. Its offset is the last one of the append that began there: the last offset of
that batch, or of a later batch before the next entry's position.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_remote_client.records import BatchHeader
from kafka_remote_client.remote_log.offset_index import OffsetIndex, OffsetPosition
from kafka_remote_client.verify.finding import FindingKind, Problem
from kafka_remote_client.verify.first_of_many import FirstOfMany

__all__ = ["OffsetIndexCheck"]


class OffsetIndexCheck:
    """A BatchListener. Entries that point into lost bytes are not judged."""

    def __init__(self, index: OffsetIndex) -> None:
        self._index = index
        self._entries: Iterator[OffsetPosition] = iter(index)
        self._next = next(self._entries, None)
        self._open: OffsetPosition | None = None
        self._bad = FirstOfMany()

    def batch(self, header: BatchHeader, data: memoryview) -> None:
        while self._next is not None and self._next.position < header.position:
            self._refuse(self._next, "no batch begins there")
            self._step()
        if self._next is not None and self._next.position == header.position:
            if self._open is not None:
                self._refuse(self._open, "no batch before the next entry ends with that offset")
            self._open = self._next
            self._step()
        if self._open is not None and self._open.offset <= header.last_offset:
            if self._open.offset != header.last_offset:
                self._refuse(self._open, "no batch at or after that position ends with that offset")
            self._open = None

    def lost(self, start: int, end: int, first_offset: int, last_offset: int) -> None:
        while self._next is not None and self._next.position < start:
            self._refuse(self._next, "no batch begins there")
            self._step()
        while self._next is not None and self._next.position < end:
            self._step()
        self._open = None

    @property
    def ends_before_index(self) -> bool:
        """Returns whether the log has ended and the index has entries past its end."""
        return self._next is not None

    def problems(self) -> list[Problem]:
        """Returns at most one problem, after the walk has ended."""
        if self._open is not None:
            self._refuse(self._open, "no batch at or after that position ends with that offset")
            self._open = None
        while self._next is not None:
            self._refuse(self._next, "the log ends before it")
            self._step()
        return self._bad.problems(FindingKind.OFFSET_INDEX_MISMATCH, len(self._index), "entries")

    def _step(self) -> None:
        self._next = next(self._entries, None)

    def _refuse(self, entry: OffsetPosition, why: str) -> None:
        self._bad.add(f"offset {entry.offset} at position {entry.position}: {why}", entry.position, entry.offset)
