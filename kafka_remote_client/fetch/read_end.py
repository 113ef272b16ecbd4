"""Why a read from the tier ended, and where the broker continues. A value, which is a reader's last item.

References: docs/design.md, "Contracts between packages".
"""

from __future__ import annotations

from uuid import UUID

import attrs

from kafka_remote_client.errors import DirectFetchError, LocationNotGrantedError
from kafka_remote_client.fallback import Fallback
from kafka_remote_client.model import UNKNOWN_EPOCH, PartitionOffsets, RemoteLogSegmentId
from kafka_remote_client.wire import ZERO_UUID

__all__ = ["ReadEnd"]


@attrs.frozen
class ReadEnd:
    """Why reading from the tier ended. Reading continues at ``next_offset``; ``leader_epoch`` is that of the last batch read.

    ``reason`` is "end" (the bound was reached), a ``NotRemote`` reason, the cause of ``error``, or a refusal of the engine such
    as "breaker-open", whose ``error`` is the failure that led to it. ``offsets`` are the last known bounds of the partition's
    tiers. ``segment`` is the one that was read when ``error`` happened. ``topic_id``: of the topic whose records were read;
    ``topic_id_of_leader``: of the one that the leader had when it refused; zeros = not known.
    """

    reason: str
    next_offset: int
    leader_epoch: int = UNKNOWN_EPOCH
    error: DirectFetchError | None = None
    offsets: PartitionOffsets = attrs.field(factory=PartitionOffsets)
    out_of_range: bool = False
    segment: RemoteLogSegmentId | None = None
    topic_id: UUID = ZERO_UUID
    topic_id_of_leader: UUID = ZERO_UUID

    @property
    def is_of_another_topic(self) -> bool:
        """Whether the leader's log is not the one that was read: the topic was deleted and created again."""
        return ZERO_UUID not in {self.topic_id, self.topic_id_of_leader} and self.topic_id != self.topic_id_of_leader

    def fallback(self, topic: str, partition: int) -> Fallback:
        """Returns this end as a fallback, for an owner that expected more from the tier.

        A shim grants nothing after the tier's end, which is normal. For an owner that expected more it is an error.
        """
        error = self.error
        if error is None and self.reason == LocationNotGrantedError.cause:
            error = LocationNotGrantedError(topic, partition, self.next_offset)
        return Fallback(self.reason, error, topic, partition, self.next_offset, self.segment)
