"""The position in one partition of ``__remote_log_metadata``, and whether its events can be trusted. Pure.

Theory of operation::

    REPLAYING ── reached the end as it was when reading began ──► READY
      ▲   └──────────────── doubt ──────► DISTRUSTED ◄──── doubt ───┘
      └──────────────── read again ───────────┘

Only a READY partition may be used: before, a deleted segment can still look alive. A doubt is a malformed record, a record that
no broker writes, or a gap in the offsets. An unknown event may have changed anything, so the partition is not used until it was
read again from its first offset.

A compacted topic (KIP-1266) has gaps. Compaction removes all records without a key and keeps the last record of each key, so
after compacted offsets there is a record with a key. A gap before the first record with a key is a doubt: events are lost.

A partition that continues from a snapshot reads the record before the stored offset again. The same offset with the same leader
epoch means the same records up to there. Another epoch is a doubt: an unclean election truncated the log below that offset.
librdkafka does not check this when it begins at an offset. A missing record is a doubt too: compaction may have removed it.

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
    """An event of a partition."""

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
    """One metadata partition: read from ``start``, and ready at ``end`` (exclusive), its end offset when reading began.

    ``leader_epoch``: of the record before ``next_offset``, -1 = unknown.
    """

    __slots__ = ("_compacted", "_end", "_unconfirmed", "leader_epoch", "next_offset", "state")

    def __init__(self, start: int, end: int) -> None:
        self.state = FollowState.REPLAYING
        self.read_anew(start, end)

    @classmethod
    def continued(cls, next_offset: int, end: int, leader_epoch: int) -> FollowedPartition:
        """A partition whose events below ``next_offset`` come from a snapshot, if the last of them has ``leader_epoch``.

        ``next_offset`` is at most ``end``. Reading begins one record before it.
        """
        partition = cls(next_offset - 1, end)
        partition.leader_epoch = leader_epoch
        partition._unconfirmed = True
        return partition

    def read_anew(self, start: int, end: int) -> None:
        """Begins to read the partition again, with its current first and end offset. Earlier events do not count."""
        self._end = end
        self._compacted = False
        self._unconfirmed = False
        self.leader_epoch = UNKNOWN_EPOCH
        self.next_offset = start
        self.state = TRANSITIONS[self.state, FollowEvent.READ_AGAIN]
        self._reached(start)

    def record(self, offset: int, leader_epoch: int = UNKNOWN_EPOCH, *, keyed: bool = False) -> bool:
        """Takes the record at ``offset``, with or without a key. False = its event is in the snapshot.

        Raises RemoteLogMetadataError unless it is the next record, or a later one and this or an earlier record has a key; and
        if it is not the last record of the snapshot.
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

    @property
    def catches_up(self) -> bool:
        """Whether the last record is the one that makes the partition ready."""
        return self.next_offset >= self._end and self.state is FollowState.REPLAYING

    def applied(self) -> None:
        """Records that the event of the last record was applied."""
        self._reached(self.next_offset)

    def end_of_partition(self, offset: int) -> None:
        """Records that the partition ends at ``offset`` at the moment.

        Raises RemoteLogMetadataError if the last record of the snapshot did not arrive before.
        """
        if self._unconfirmed:
            raise RemoteLogMetadataError(f"no record at offset {self.next_offset}, it was compacted away or truncated")
        self._reached(offset)

    def doubt(self) -> None:
        """Distrusts the partition until it was read again."""
        self.state = TRANSITIONS[self.state, FollowEvent.DOUBT]

    def _reached(self, offset: int) -> None:
        if offset >= self._end:
            self.state = TRANSITIONS[self.state, FollowEvent.CAUGHT_UP]
