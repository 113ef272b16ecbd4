"""What one read of a partition delivers, and how: the argument of :meth:`FetchEngine.reader`."""

from __future__ import annotations

from uuid import UUID

import attrs

from kafka_remote_client.model import UNKNOWN_EPOCH, IsolationLevel, PartitionOffsets
from kafka_remote_client.wire import ZERO_UUID

__all__ = ["ReadRequest"]


@attrs.frozen
class ReadRequest:
    """Read a partition from ``start_offset``, which may be OFFSET_BEGINNING (-2): the log's start.

    ``end_offset`` is exclusive. ``leader_epoch``: of the record before ``start_offset``. ``stop_at_local``: end where the
    broker's local log begins, because from there on the broker is the better source. ``borrow``: blocks refer to memory that is
    reused after the next one is taken or this one is released. ``offsets``: the known bounds of the partition's tiers.
    ``window``: bytes of each window and of one of its ranges, for an owner that must know them before and takes everything up
    to the end; ``None`` = as measured.
    ``topic_id``: of the topic whose records are before ``start_offset``; zeros = not known.
    ``tally``: as of :class:`~kafka_remote_client.records.CompletedFetch`.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int | None = None
    leader_epoch: int = UNKNOWN_EPOCH
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    stop_at_local: bool = False
    borrow: bool = False
    offsets: PartitionOffsets = attrs.field(factory=PartitionOffsets)
    window: tuple[int, int] | None = None
    tally: bool | None = None
    topic_id: UUID = ZERO_UUID
