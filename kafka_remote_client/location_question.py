"""The question that every location source answers: where do the records of a partition lie from an offset on?

One value goes all the way. A reader asks it; code that passes it on adds what the reader cannot know::

    field              | added by  | note
    topic, partition   | reader    |
    offset             | reader    | the grant begins here
    leader_epoch       | reader    | of the last record consumed before offset; -1 = not known
    isolation_level    | reader    |
    max_bytes          | reader    | size of the window; 0 = the source's choice
    range_bytes        | reader    | size of one range of the window; 0 = the source's choice
    read_end_offset    | reader    | the first offset that the read does not want; None = no bound
    topic_id           | source    | by the partition's leader; zeros = not known
    formats            | source    | storage formats that the reader can read
    log_start_offset   | source    | by the leader: the first offset of the log
    end_offset         | source    | by the leader: the first offset that the reader may not have; None = no bound

References: KIP-1254, docs/wire-format.md.
"""

from __future__ import annotations

from typing import SupportsIndex
from uuid import UUID

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.model import UNKNOWN_EPOCH, IsolationLevel, TopicIdPartition
from kafka_remote_client.wire import ZERO_UUID

__all__ = ["LocationQuestion"]


def _offset(value: SupportsIndex) -> int:
    return arguments.offset(value, "offset")


def _max_bytes(value: SupportsIndex) -> int:
    return arguments.whole(value, "max_bytes", 0)


def _isolation_level(value: IsolationLevel | str) -> IsolationLevel:
    return arguments.isolation_level(value)


@attrs.frozen(kw_only=True)
class LocationQuestion:
    """See the module. Raises ConfigurationError for what is no offset, no size or no isolation level."""

    topic: str
    partition: int
    offset: int = attrs.field(converter=_offset)
    isolation_level: IsolationLevel = attrs.field(converter=_isolation_level)
    leader_epoch: int = UNKNOWN_EPOCH
    max_bytes: int = attrs.field(default=0, converter=_max_bytes)
    range_bytes: int = 0
    read_end_offset: int | None = None
    topic_id: UUID = ZERO_UUID
    formats: tuple[str, ...] = ()
    log_start_offset: int = 0
    end_offset: int | None = None

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """The partition under its topic's id."""
        return TopicIdPartition(self.topic_id, self.topic, self.partition)

    def __str__(self) -> str:
        return f"Fetch of {self.topic}-{self.partition} at {self.offset}"
