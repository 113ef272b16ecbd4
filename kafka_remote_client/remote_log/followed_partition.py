"""How far one partition of ``__remote_log_metadata`` was read, and whether what was read can be trusted. Pure.

Theory of operation::

    REPLAYING ── reached the end as it was when reading began ──► READY
      ▲   └──────────────── doubt ──────► DISTRUSTED ◄──── doubt ───┘
      └──────────────── read again ───────────┘

Only a READY partition may be used: before, a segment that is already deleted can still look alive. A doubt is a record that
does not parse, one that no broker writes, or a hole in the offsets: an event that we do not know may have changed anything, so
what this metadata partition says is used no more, until all of it was read again from its first offset.

A compacted topic (KIP-1266) has holes. Compaction removes all records without a key and keeps the last record of each key, so
what was compacted is followed by a record with a key. A hole before the first record with a key is a doubt: events are lost.

A partition that continues from a snapshot reads the record before the stored offset again. The same offset in the same leader
epoch means the same records up to there. Any other epoch is a doubt: an unclean election truncated the log below that offset.
librdkafka does not check this when it begins at an offset. No such record is a doubt, too: compaction may have removed it.

References: Kafka's ConsumerTask (UserTopicIdPartition.isInitialized), LogCleaner; KIP-101; KIP-405; KIP-1266.
"""

from __future__ import annotations

from enum import Enum

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import UNKNOWN_EPOCH

__all__ = ["TRANSITIONS", "FollowEvent", "FollowState", "FollowedPartition"]


class FollowState(Enum):
    """States of the table above."""

    REPLAYING = "replaying"
    READY = "ready"
    DISTRUSTED = "distrusted"


class FollowEvent(Enum):
    """What moves a partition from one state to another."""

    CAUGHT_UP = "caught up"
    DOUBT = "doubt"
    READ_AGAIN = "read again"


TRANSITIONS: dict[tuple[FollowState, FollowEvent], FollowState] = {
    (FollowState.REPLAYING, FollowEvent.CAUGHT_UP): FollowState.READY,
    (FollowState.REPLAYING, FollowEvent.DOUBT): FollowState.DISTRUSTED,
    (FollowState.READY, FollowEvent.CAUGHT_UP): FollowState.READY,
    (FollowState.READY, FollowEvent.DOUBT): FollowState.DISTRUSTED,
    (FollowState.DISTRUSTED, FollowEvent.CAUGHT_UP): FollowState.DISTRUSTED,
    (FollowState.DISTRUSTED, FollowEvent.DOUBT): FollowState.DISTRUSTED,
    (FollowState.REPLAYING, FollowEvent.READ_AGAIN): FollowState.REPLAYING,
    (FollowState.READY, FollowEvent.READ_AGAIN): FollowState.REPLAYING,
    (FollowState.DISTRUSTED, FollowEvent.READ_AGAIN): FollowState.REPLAYING,
}


class FollowedPartition:
    """One metadata partition, to be read from ``start`` and ready at ``end`` (exclusive): its offsets when reading began.

    ``leader_epoch``: of the record before ``next_offset``, -1 = unknown.
    """

    __slots__ = ("_compacted", "_end", "_unconfirmed", "leader_epoch", "next_offset", "state")

    def __init__(self, start: int, end: int) -> None:
        self.state = FollowState.REPLAYING
        self.read_anew(start, end)

    @classmethod
    def continued(cls, next_offset: int, end: int, leader_epoch: int) -> FollowedPartition:
        """All before ``next_offset`` is known from a snapshot, if the record before it still has ``leader_epoch``.

        ``next_offset`` is at most ``end``. Reading begins one record before it.
        """
        partition = cls(next_offset - 1, end)
        partition.leader_epoch = leader_epoch
        partition._unconfirmed = True
        return partition

    def read_anew(self, start: int, end: int) -> None:
        """Reading begins again, at what are the partition's offsets now. What was read of it before counts no more."""
        self._end = end
        self._compacted = False
        self._unconfirmed = False
        self.leader_epoch = UNKNOWN_EPOCH
        self.next_offset = start
        self.state = TRANSITIONS[self.state, FollowEvent.READ_AGAIN]
        self._reached(start)

    def record(self, offset: int, leader_epoch: int = UNKNOWN_EPOCH, *, keyed: bool = False) -> bool:
        """The record at ``offset`` arrived, with a key or without; False = the snapshot has its event already.

        Raises RemoteLogMetadataError when it is not the next one, unless it or one before it has a key and it comes later; and
        when it is not the one that the snapshot ends with.
        """
        known, self.leader_epoch = self.leader_epoch, leader_epoch
        expected, self.next_offset = self.next_offset, offset + 1
        confirms, self._unconfirmed = self._unconfirmed, False
        self._compacted = self._compacted or keyed
        if offset < expected or (offset > expected and (confirms or not self._compacted)):
            raise RemoteLogMetadataError(f"expected offset {expected}, got {offset}")
        if confirms and leader_epoch != known:
            raise RemoteLogMetadataError(
                f"leader epoch {leader_epoch} instead of {known}, the log was truncated after the snapshot"
            )
        return not confirms

    def applied(self) -> None:
        """What arrived last has taken effect."""
        self._reached(self.next_offset)

    def end_of_partition(self, offset: int) -> None:
        """The broker has nothing at or after ``offset`` at the moment.

        Raises RemoteLogMetadataError if the record that a snapshot ends with did not come before.
        """
        if self._unconfirmed:
            raise RemoteLogMetadataError(f"no record at offset {self.next_offset}, it was compacted away or truncated")
        self._reached(offset)

    def doubt(self) -> None:
        """From here on this partition says nothing."""
        self.state = TRANSITIONS[self.state, FollowEvent.DOUBT]

    def _reached(self, offset: int) -> None:
        if offset >= self._end:
            self.state = TRANSITIONS[self.state, FollowEvent.CAUGHT_UP]
