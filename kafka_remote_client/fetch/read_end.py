"""Why a read from the tier ended, and where the broker goes on. A value: a reader reads until it comes.

References: docs/design.md, "Contracts between packages".
"""

from __future__ import annotations

import attrs

from kafka_remote_client.errors import DirectFetchError, LocationNotGrantedError
from kafka_remote_client.fallback import Fallback
from kafka_remote_client.model import UNKNOWN_EPOCH, PartitionOffsets, RemoteLogSegmentId

__all__ = ["ReadEnd"]


@attrs.frozen
class ReadEnd:
    """Why reading from the tier ended. ``next_offset`` is where to go on, ``leader_epoch`` the epoch of the last batch read.

    ``reason`` is "end" (the bound was reached), a ``NotRemote`` reason, the cause of ``error``, or a refusal of the engine such
    as "breaker-open", whose ``error`` is the failure that led to it. ``offsets`` is what was last learnt about the partition's
    tiers. ``segment`` is the one that was being read when ``error`` came.
    """

    reason: str
    next_offset: int
    leader_epoch: int = UNKNOWN_EPOCH
    error: DirectFetchError | None = None
    offsets: PartitionOffsets = attrs.field(factory=PartitionOffsets)
    out_of_range: bool = False
    segment: RemoteLogSegmentId | None = None

    def fallback(self, topic: str, partition: int) -> Fallback:
        """This end as the reason why the broker takes over, for an owner that expected more from the tier.

        Where the shim grants nothing behind the tier's end all is well. An owner that expected more has an error.
        """
        error = self.error
        if error is None and self.reason == LocationNotGrantedError.cause:
            error = LocationNotGrantedError(topic, partition, self.next_offset)
        return Fallback(self.reason, error, topic, partition, self.next_offset, self.segment)
