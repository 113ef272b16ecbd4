"""Walks a log from batch to batch in bounded memory, and continues after damage.

Theory of operation. The walk reads piece by piece, and prepends an incomplete batch to the next piece. It verifies each batch
as a reader does, then decodes it. At the first batch that fails, it determines how far the damage reaches:

- the batch is valid and only its position is wrong: it continues with the next batch, with any offset;
- another batch may begin where this one ends by its size: it continues there;
- otherwise it continues at the next position in the offset index, and then at the one after.

So one damaged batch is one problem, and so are all bytes between two valid batches. Listeners get valid batches and, before
the next of them, the lost bytes. Each position of the index is tried once, so the walk ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

import attrs

from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.errors import DirectFetchError, UnsupportedFormatError
from kafka_remote_client.records import BatchHeader, BatchRules, RemoteLogInputStream
from kafka_remote_client.records.batch import (
    ANY_OFFSET,
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    PREFIX_SIZE,
    BatchPrefix,
    checksum_matches,
)
from kafka_remote_client.records.completed_fetch import FetchState
from kafka_remote_client.verify.finding import FindingKind, Problem
from kafka_remote_client.verify.stored_segment import DamagedPieceError, LogSource

__all__ = ["MAX_PROBLEMS", "BatchListener", "LogEnd", "LogWalk"]

MAX_PROBLEMS = 100
"""The walk stops after this number of problems."""

_ANY_BATCH = BatchRules(start_offset=-(2**63), end_offset=MAX_OFFSET)


class BatchListener(Protocol):
    """Gets the batches of a log, in order. Positions are those of the log as Kafka wrote it."""

    def batch(self, header: BatchHeader, data: memoryview) -> None:
        """A valid batch. ``data``: the whole batch, valid during the call only."""

    def lost(self, start: int, end: int, first_offset: int, last_offset: int) -> None:
        """Bytes ``[start, end)`` hold no readable batch. They may have held these offsets (both inclusive)."""


@attrs.frozen
class LogEnd:
    """Where the walk ended. ``whole``: all bytes are of valid batches. ``next_offset``: the one after the last valid batch."""

    whole: bool
    next_offset: int
    batches: int


@attrs.define
class LogWalk:
    """One walk over one log. ``resync``: the positions of batches in the offset index, ascending.

    ``end_offset`` is inclusive. ``max_batch_bytes`` bounds the memory: a larger batch is not checked.
    """

    source: LogSource
    start_offset: int
    end_offset: int = MAX_OFFSET - 1
    resync: Sequence[int] = ()
    allow_offset_gaps: bool = False
    max_batch_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
    problems: list[Problem] = attrs.field(factory=list)
    _listeners: Sequence[BatchListener] = attrs.field(default=(), init=False)
    _position: int = attrs.field(default=0, init=False)
    _buffer: bytes = attrs.field(default=b"", init=False)
    _expected: int = attrs.field(default=ANY_OFFSET, init=False)
    _next_offset: int = attrs.field(default=0, init=False)
    _lost_from: int | None = attrs.field(default=None, init=False)
    _out_of_sync: bool = attrs.field(default=False, init=False)
    _last_resync: int = attrs.field(default=-1, init=False)
    _batches: int = attrs.field(default=0, init=False)

    def run(self, listeners: Sequence[BatchListener] = ()) -> LogEnd:
        """Walks to the end of the log. Raises the store's errors."""
        self._listeners = listeners
        self._expected = self._next_offset = self.start_offset
        continues = True
        while continues and self._position < self.source.size and len(self.problems) < MAX_PROBLEMS:
            continues = self._step()
        if self._lost_from is None and self._position < self.source.size:
            self._lost_from = self._position
        if self._lost_from is not None:
            self._report_lost(self.source.size, MAX_OFFSET)
        return LogEnd(not self.problems, self._next_offset, self._batches)

    def _step(self) -> bool:
        """Reads one more piece and processes the batches in the buffer. False: the walk cannot continue."""
        at = self._position + len(self._buffer)
        try:
            fresh = self.source.read(at) if at < self.source.size else b""
        except DamagedPieceError as error:
            self._begin_loss()
            self.problems.append(Problem(FindingKind.CHUNK_DAMAGED, str(error), position=at, size=error.end - at))
            self._out_of_sync = True
            return self._jump_to_index(error.end - 1)
        if not fresh:
            return self._end_early()
        self._buffer = self._buffer + fresh if self._buffer else fresh
        return self._process_buffer()

    def _process_buffer(self) -> bool:
        """Processes all whole batches in the buffer, valid or damaged."""
        rules = BatchRules(
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            allow_offset_gaps=self.allow_offset_gaps,
        )
        while True:
            stream = RemoteLogInputStream(self._buffer, rules, expected_offset=self._expected)
            error, may_be_sound = stream.error, True
            undecodable = _first_undecodable(memoryview(self._buffer)[: stream.consumed])
            end = stream.consumed
            if undecodable is not None:
                (error, end), may_be_sound = undecodable, False
            view = memoryview(self._buffer)
            for header in stream.batches:
                if header.position < end:
                    self._deliver(header, view[header.position : header.end])
            self._advance(end)
            left = self.source.size - self._position
            if error is None and stream.needed > left:
                # If the index has a later batch, or many bytes are left, the size is wrong. Else the remaining bytes decide.
                return self._end_early() if self._has_later_position() or left > self.max_batch_bytes else True
            if error is None and stream.needed > self.max_batch_bytes:
                error = UnsupportedFormatError(f"the batch has {stream.needed} bytes, more than {self.max_batch_bytes}")
            if error is None:
                return True
            if not self._skip_damaged(error, may_be_sound=may_be_sound) or len(self.problems) >= MAX_PROBLEMS:
                return False
            if not self._buffer:
                return True

    def _deliver(self, header: BatchHeader, data: memoryview) -> None:
        position = self._position + header.position
        if self._lost_from is not None:
            self._report_lost(position, header.base_offset - 1)
        for listener in self._listeners:
            listener.batch(header._replace(position=position), data)
        self._batches += 1
        self._expected = self._next_offset = header.last_offset + 1
        self._out_of_sync = False

    def _skip_damaged(self, error: DirectFetchError, *, may_be_sound: bool) -> bool:
        """Reports the damaged batch at the position and continues after it. False: the walk cannot continue."""
        prefix = BatchPrefix.read(self._buffer)
        size = prefix.size
        whole = prefix.has_room_for_a_header and size <= len(self._buffer)
        standalone = _standalone_batch(self._buffer[:size]) if whole and may_be_sound else None
        self._begin_loss()
        if standalone is not None:
            self.problems.append(self._misplaced(standalone))
            self._out_of_sync = False
            return self._jump(self._position + size)
        reported, self._out_of_sync = self._out_of_sync, True
        if not reported:  # otherwise no valid batch followed the last problem, which includes this one
            kind = FindingKind.BATCH_UNSUPPORTED if isinstance(error, UnsupportedFormatError) else FindingKind.BATCH_DAMAGED
            words = str(error).partition(": ")[2] or str(error)
            self.problems.append(Problem(kind, words, self._position, prefix.base_offset, size if whole else None))
            if whole and self._may_begin_batch(size):
                return self._jump(self._position + size)
        return self._jump_to_index(self._lost_from or 0)

    def _misplaced(self, header: BatchHeader) -> Problem:
        base, last = header.base_offset, header.last_offset
        if not self.start_offset <= base <= last <= self.end_offset:
            kind = FindingKind.BATCH_OUTSIDE_SEGMENT
            words = f"the batch has offsets {base} to {last}, the segment {self.start_offset} to {self.end_offset}"
        else:
            kind = FindingKind.BATCH_CHAIN
            words = f"the batch has offsets {base} to {last}, the valid batches before it end at {self._next_offset - 1}"
        return Problem(kind, words, self._position, base, header.size)

    def _end_early(self) -> bool:
        """Handles a log whose last bytes are not a whole batch: the log is cut off, or the batch's size is wrong."""
        rest, self._buffer = self._buffer, b""
        left = self.source.size - self._position
        self._begin_loss()
        if self._out_of_sync:
            return self._jump_to_index(self._lost_from or 0)
        self._out_of_sync = True
        if checksum_matches(rest) or (rest and self._has_later_position()) or left > self.max_batch_bytes:
            words = "its size field reaches beyond the end of the log"
            base = BatchPrefix.read(rest).base_offset if len(rest) >= PREFIX_SIZE else None
            self.problems.append(Problem(FindingKind.BATCH_DAMAGED, words, self._position, base))
            return self._jump_to_index(self._position)
        words = f"the last {left} bytes are not a whole batch"
        self.problems.append(Problem(FindingKind.LOG_CUT, words, self._position, size=left))
        return False

    def _has_later_position(self) -> bool:
        """Returns whether the index has a later position within the log."""
        following = bisect_right(self.resync, self._position)
        return following < len(self.resync) and self.resync[following] < self.source.size

    def _may_begin_batch(self, at: int) -> bool:
        """Returns whether a batch may begin at ``at`` of the buffer. True also if too few bytes are there to decide."""
        if len(self._buffer) - at < PREFIX_SIZE:
            return True
        return not BatchPrefix.read(self._buffer, at).fault(_ANY_BATCH.max_batch_bytes)

    def _jump_to_index(self, after: int) -> bool:
        """Continues at the next position of the index above ``after`` that was not tried. False: there is none."""
        at = bisect_right(self.resync, max(after, self._last_resync))
        if at == len(self.resync):
            return False
        self._last_resync = self.resync[at]
        return self._jump(self._last_resync)

    def _jump(self, position: int) -> bool:
        """Continues at ``position``, with any offset."""
        self._expected = ANY_OFFSET
        self._advance(position - self._position)
        return True

    def _advance(self, count: int) -> None:
        self._position += count
        self._buffer = self._buffer[count:] if count >= 0 else b""

    def _begin_loss(self) -> None:
        if self._lost_from is None:
            self._lost_from = self._position

    def _report_lost(self, end: int, last_offset: int) -> None:
        assert self._lost_from is not None  # the caller's condition
        for listener in self._listeners:
            listener.lost(self._lost_from, end, self._next_offset, last_offset)
        self._lost_from = None


def _standalone_batch(data: bytes) -> BatchHeader | None:
    """Returns the batch that fills ``data``, if it is valid without its context."""
    stream = RemoteLogInputStream(data, _ANY_BATCH)
    return stream.batches[0] if stream.error is None and len(stream.batches) else None


def _first_undecodable(data: memoryview) -> tuple[DirectFetchError, int] | None:
    """Decodes the records of whole, valid batches. Returns the first error and the position of its batch."""
    state = FetchState(BatchRules(), 0, None, MAX_OFFSET, block_bytes=DEFAULT_MAX_DECOMPRESSED_BYTES)
    done = 0
    while done < len(data):
        try:
            _, consumed = state.feed(data[done:], copies=False)
        except DirectFetchError as error:
            return error, done
        done += consumed
    return None
