"""One assigned partition as the consumer sees it: which path feeds it, what was handed out, and what comes next.

A flow on the REMOTE route owns a reader and keeps the inner consumer's partition paused; on the BROKER route the inner consumer
delivers. ``next_offset`` is the offset to hand out next (or a logical one while that is not known yet); ``position`` is what
``Consumer.position`` answers: the offset after the last one handed out, OFFSET_INVALID before the first and after a seek.
"""

from __future__ import annotations

from enum import Enum, auto

from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, Message, TopicPartition

from kafka_remote_client.fetch.remote_reader import ReadEnd, RemoteReader
from kafka_remote_client.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, PartitionOffsets
from kafka_remote_client.records import RecordBlock

__all__ = ["PartitionFlow", "Route"]

_LONGEST_BACKOFF_SECONDS = 30.0


class Route(Enum):
    """Who delivers a partition's next record."""

    BROKER = auto()
    REMOTE = auto()


class PartitionFlow:
    """See the module. Not thread-safe: only the application's calls touch it."""

    def __init__(self, topic: str, partition: int, next_offset: int, leader_epoch: int = UNKNOWN_EPOCH) -> None:
        self.topic = topic
        self.partition = partition
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        self.position = OFFSET_INVALID
        self.route = Route.BROKER
        self.paused = False
        self.moved = False
        """Whether ``next_offset`` differs from where the inner consumer stands, so that a hand-over has to seek."""
        self.offsets = PartitionOffsets()
        self.recheck_at = 0.0
        self.failures = 0
        self.reader: RemoteReader | None = None
        self._block: RecordBlock | None = None
        self._index = 0

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition

    def topic_partition(self, offset: int = OFFSET_INVALID) -> TopicPartition:
        """This partition as confluent_kafka's value, with the leader epoch where one is known."""
        if offset >= 0 and self.leader_epoch != UNKNOWN_EPOCH:
            return TopicPartition(self.topic, self.partition, offset, leader_epoch=self.leader_epoch)
        return TopicPartition(self.topic, self.partition, offset)

    def here(self) -> TopicPartition:
        """This partition at its next offset."""
        return self.topic_partition(self.next_offset)

    def inner_start(self) -> TopicPartition:
        """Where the inner consumer is assigned the partition.

        One that lies in the tier is parked at the high watermark: it is paused a moment later, and until then librdkafka would
        already ask the broker for a page of the tier. The place is a number, because a logical offset is looked up in the
        background and would overtake a later seek.
        """
        if not self.below_local:
            return self.here()
        self.moved = True
        return TopicPartition(self.topic, self.partition, self.offsets.high_watermark)

    def learn(self, offsets: PartitionOffsets) -> None:
        """Takes the tiers' bounds; "the beginning" becomes the log's start."""
        self.offsets = offsets
        if self.next_offset == OFFSET_BEGINNING and offsets.log_start != UNKNOWN_OFFSET:
            self.next_offset = offsets.log_start

    @property
    def may_be_tiered(self) -> bool:
        """Whether the next offset names a place in the log's past."""
        return self.next_offset >= 0 or self.next_offset == OFFSET_BEGINNING

    @property
    def below_local(self) -> bool:
        """Whether the next offset is known to lie below the broker's local log."""
        known = self.offsets.high_watermark != UNKNOWN_OFFSET
        return known and 0 <= self.next_offset < self.offsets.earliest_local

    def sought(self, target: PartitionFlow) -> None:
        """The application moved the partition to where ``target`` stands; the inner consumer was moved with it."""
        self.next_offset = target.next_offset
        self.leader_epoch = target.leader_epoch
        self.offsets = target.offsets
        self.recheck_at = target.recheck_at
        self.position = OFFSET_INVALID
        self.route = Route.BROKER
        self.moved = False

    def detach(self) -> None:
        """Stops reading; nothing that was read ahead is delivered any more."""
        if self.reader is not None:
            self.reader.stop()
        self.reader = None
        self._block = None
        self._index = 0

    def take(self, limit: int) -> tuple[list[Message], int] | ReadEnd | None:
        """Up to ``limit`` next messages and the bytes of their block's share, the reader's end, or ``None``.

        The messages count as handed out: ``next_offset``, ``position`` and ``leader_epoch`` move past them.
        """
        if self._block is None:
            item = self.reader.take() if self.reader is not None else None
            if item is None or isinstance(item, ReadEnd):
                return item
            self._block, self._index = item, 0
        block = self._block
        stop = min(len(block), self._index + limit)
        messages = block.messages(self.topic, self.partition, self._index, stop)
        size = block.nbytes * (stop - self._index) // len(block)
        self.handed_out(block.offset(stop - 1), block.leader_epoch(stop - 1))
        self.moved = True
        self._index = stop
        if stop == len(block):
            self._block = None
        return messages, size

    def handed_out(self, offset: int, leader_epoch: int) -> None:
        """The record at ``offset`` was given to the application."""
        self.next_offset = self.position = offset + 1
        self.leader_epoch = leader_epoch

    def backoff_seconds(self, first: float) -> float:
        """The pause after one more failure in a row: doubles from ``first`` to 30 s."""
        self.failures += 1
        return min(_LONGEST_BACKOFF_SECONDS, first * float(2 ** min(self.failures - 1, 10)))
