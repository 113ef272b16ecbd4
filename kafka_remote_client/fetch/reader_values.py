"""What a reader gives its owner and its engine: the end of a read, tasks, and blocks that wait. Values only.

References: docs/design.md, "States of a reader".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.fallback import Fallback
from kafka_remote_client.fetch.grant_read import GrantRead, RangeRead
from kafka_remote_client.fetch.memory import Lease
from kafka_remote_client.model import UNKNOWN_EPOCH, PartitionOffsets, RemoteLogSegmentId
from kafka_remote_client.records import RecordBlock

if TYPE_CHECKING:
    from kafka_remote_client.fetch.remote_reader import RemoteReader

__all__ = ["LocateTask", "RangeTask", "ReadEnd", "ReadyBlock"]


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
        """This end as the reason why the broker takes over, for an owner that expected more from the tier."""
        return Fallback(self.reason, self.error, topic, partition, self.next_offset, self.segment)


@attrs.frozen(eq=False)
class LocateTask:
    """Ask where ``offset`` lies. ``leader_epoch``: of the record before it. ``ahead``: while earlier grants are being read.

    ``renews``: the grant that it was asked for already, and whose URLs are to be replaced.
    """

    reader: RemoteReader
    offset: int
    leader_epoch: int
    ahead: bool
    renews: GrantRead | None = None


@attrs.frozen(eq=False)
class RangeTask:
    """Read one range."""

    reader: RemoteReader
    grant: GrantRead
    read: RangeRead


@attrs.frozen(eq=False)
class ReadyBlock:
    """Decoded records that wait to be taken, and what they hold of the memory: ``extra`` bytes beside a share of ``lease``.

    ``source_bytes`` is the size of the batches that they were decoded from.
    """

    block: RecordBlock
    extra: int
    lease: Lease | None
    source_bytes: int = 0
