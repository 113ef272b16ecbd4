"""The commands of the scheduler. Those for workers take long. Deliver, End and Passed take no time: the thread that reports an
event executes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from kafka_remote_client.fetch.grant_read import GrantRead, RangeRead
from kafka_remote_client.fetch.memory import Lease

if TYPE_CHECKING:
    from kafka_remote_client.fetch.partition_read import PartitionRead

__all__ = ["BatchUnderWay", "Decode", "Deliver", "End", "Fetch", "Locate", "LocationBatch", "Passed", "Work", "reads_of"]


@attrs.frozen(eq=False)
class Locate:
    """Request the location of ``offset``. ``leader_epoch``: of the record before it. ``ahead``: while earlier grants are read.

    ``window``: the bytes to request, in ranges of ``range_bytes``. ``renews``: the grant of an earlier request,
    whose URLs are replaced. ``asked_at``: when.
    """

    read: PartitionRead
    offset: int
    leader_epoch: int
    window: int
    range_bytes: int
    ahead: bool
    asked_at: float
    renews: GrantRead | None = None


@attrs.define(eq=False)
class Fetch:
    """Read one range into the buffer of ``lease``. ``overtaken``: another GET won. ``answered_at``: of the first byte."""

    read: PartitionRead
    grant: GrantRead
    range: RangeRead
    hedges: bool = False
    lease: Lease | None = None
    overtaken: bool = False
    answered_at: float = 0.0

    def drop(self) -> None:
        """Drops the result and frees its memory."""
        if self.lease is not None:
            self.lease.drop()
            self.lease = None


@attrs.frozen(eq=False)
class Decode:
    """Decode one range that has arrived, or handle its failure."""

    read: PartitionRead
    grant: GrantRead
    range: RangeRead


@attrs.frozen(eq=False)
class Deliver:
    """Notify the owner that records wait, and none did before."""

    read: PartitionRead


@attrs.frozen(eq=False)
class End:
    """Notify the owner that the end of the read waits, and nothing did before."""

    read: PartitionRead


@attrs.frozen(eq=False)
class Passed:
    """Notify the owner that the read has passed markers or aborted records after its last record."""

    read: PartitionRead


@attrs.frozen(eq=False)
class LocationBatch:
    """Request these locations together."""

    locates: tuple[Locate, ...]


@attrs.define
class BatchUnderWay:
    """A batch of locations: the unanswered ones, the total number, and the number of pending ones among the others."""

    left: set[Locate]
    count: int
    pending: int = 0


Work = LocationBatch | Fetch | Decode
"""The commands for workers."""


def reads_of(command: Work) -> list[PartitionRead]:
    """Whose reads the command is for."""
    return [locate.read for locate in command.locates] if isinstance(command, LocationBatch) else [command.read]
