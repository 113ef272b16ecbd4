"""Judges what a simulated reader delivers, by the model's log. Independent of the code under simulation.

===  ============================================================================================================
J1   records come in order, each once, with offset, leader epoch and value of the log; none is missing
J2   under read_committed no record of an aborted transaction is delivered; a marker never is
J3   no record at or after the read's end bound is delivered
J4   a read ends exactly after its last record: all that it skipped are markers and aborted records
J5   the position after passed markers has the leader epoch of the offset before it
J6   a block does not change until its owner releases it
J7   memory for a GET is taken only if it fits; at the end none is held, and each buffer has come back once
J8   never more GETs, location requests and begun grants of one read than allowed, and one range of a read in decoding
J9   some event always follows while a read is open, and a read does not request one location after the other in vain
J10  no location is used that a client must refuse
J11  no GET goes to a store before its Retry-After of more than 2 s is over, and at most one in the breaker's time to a store
     that has just failed as often as opens it; no read ends because of an open breaker without such a store
J12  no range is requested more often or sooner than its errors permit, nor after a Retry-After of more than 2 s, no location
     sooner than the broker's throttle time or after the time-out of a pending one
J13  hedges are at most their share of the GETs, and none follows its GET within 25 ms
J14  a partition leaves the store for the broker only when half of its last ranges were slower than the sufficient pace, one on
     trial at a time, and returns
J15  a location names only records that were the leader's while it was requested, none below the log's start
J16  a client without READ gets no location
J17  the shim's store opens no URL after its expiry, and no other object or range than it was signed for
J18  bytes that are those of the segment never look damaged while the log keeps its leaders
J19  a read that stops at the local log gets no location at or after its start while the log keeps its leaders
===  ============================================================================================================
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import attrs

from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.records import RecordBlock

__all__ = ["JudgedLog", "LogRecord", "ReadJudge", "ViolationError", "records_of"]


class ViolationError(AssertionError):
    """``rule``: J1 to J19, I1 to I12 (tests/support/invariants), or "group" (tests/support/group_judgement.py)."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule


class LogRecord(NamedTuple):
    """A record as an application sees it."""

    offset: int
    leader_epoch: int
    value: bytes


class JudgedLog(Protocol):
    """What was produced to a partition."""

    def records(self, level: IsolationLevel, start: int, end: int) -> tuple[LogRecord, ...]:
        """Returns the records in ``[start, end)``."""

    def epoch_before(self, offset: int) -> int:
        """Returns the leader epoch of the offset before, -1 at the log's start."""

    def is_inside_batch(self, offset: int) -> bool:
        """Whether an offset is in a batch, but not its first."""


def records_of(block: RecordBlock) -> tuple[LogRecord, ...]:
    """Returns the records of a block as values, independent of its memory."""
    rows = block.rows()
    return tuple(
        [LogRecord(offset, epoch, b"" if value is None else bytes(value)) for offset, _, _, epoch, _, value, _ in rows]
    )


@attrs.define
class ReadJudge:
    """Follows one read from ``position`` to ``end`` (exclusive; ``None`` = no bound)."""

    name: str
    log: JudgedLog
    level: IsolationLevel
    position: int
    end: int | None = None

    def took(self, records: tuple[LogRecord, ...], next_offset: int) -> None:
        """A block was delivered, after which reading continues at ``next_offset``."""
        expected = self.log.records(self.level, self.position, next_offset)
        if records != expected:
            raise ViolationError(*self._difference(records, expected))
        if self.end is not None and records and records[-1].offset >= self.end:
            raise ViolationError("J3", f"{self.name}: offset {records[-1].offset} is not below the end {self.end}")
        self.position = next_offset

    def ended(self, end: ReadEnd) -> None:
        """The read ended."""
        self._passed_to(end.next_offset, f"the end ({end.reason})")
        if end.reason == "end" and self.end is not None and end.next_offset < self.end:
            raise ViolationError("J4", f"{self.name}: it ended at {end.next_offset}, before its bound {self.end}")
        self.position = end.next_offset

    def passed(self, position: int, epoch: int) -> None:
        """The read says that it has passed everything below ``position``, whose last epoch is ``epoch``."""
        self._passed_to(position, "the position")
        self.position = position
        if epoch != -1 and epoch != self.log.epoch_before(position):
            raise ViolationError("J5", f"{self.name}: epoch {epoch} before {position}, not {self.log.epoch_before(position)}")

    def _passed_to(self, offset: int, what: str) -> None:
        if offset < self.position:
            raise ViolationError("J4", f"{self.name}: {what} moved back from {self.position} to {offset}")
        skipped = self.log.records(self.level, self.position, offset if self.end is None else min(offset, self.end))
        if skipped:
            raise ViolationError("J4", f"{self.name}: {what} {offset} skips the record at {skipped[0].offset}")

    def _difference(self, records: tuple[LogRecord, ...], expected: tuple[LogRecord, ...]) -> tuple[str, str]:
        reached = max((one.offset for one in records), default=self.position) + 1
        known = {one.offset for one in self.log.records(IsolationLevel.READ_UNCOMMITTED, self.position, reached)}
        visible = {one.offset for one in expected}
        hidden = [one.offset for one in records if one.offset in known and one.offset not in visible]
        if self.level is IsolationLevel.READ_COMMITTED and any(offset >= self.position for offset in hidden):
            return "J2", f"{self.name}: the aborted record {max(hidden)} was delivered"
        offsets = [one.offset for one in records]
        wanted = [one.offset for one in expected]
        if offsets == wanted:
            wrong = next(one.offset for one, other in zip(records, expected, strict=True) if one != other)
            return "J1", f"{self.name}: the record at {wrong} has another epoch or value"
        return "J1", f"{self.name}: from {self.position} on came {offsets[:8]}…, not {wanted[:8]}…"
