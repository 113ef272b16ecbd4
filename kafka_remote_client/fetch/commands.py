"""The commands for workers, which take long. Deliver, End and Passed take no time: the thread that reports an event executes
them.
"""

from __future__ import annotations

import attrs

from kafka_remote_client.fetch.partition_read import Decode, Fetch, Locate, PartitionRead

__all__ = ["BatchUnderWay", "LocationBatch", "Passed", "Work", "reads_of"]


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


@attrs.frozen(eq=False)
class Passed:
    """Notify the owner that the read has passed markers or aborted records after its last record."""

    read: PartitionRead


Work = LocationBatch | Fetch | Decode
"""The commands for workers."""


def reads_of(command: Work) -> list[PartitionRead]:
    """Whose reads the command is for."""
    return [locate.read for locate in command.locates] if isinstance(command, LocationBatch) else [command.read]
