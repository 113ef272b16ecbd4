"""Records of one block that wait for delivery as Arrow: a *run* represents them among messages.

``consume_arrow`` gathers runs and messages of the broker path in one ordered list. Code that drops gathered records, or
reads their positions, treats both alike: a run has the methods of its first record's message. It holds a record
batch and not the block, because the memory of a block is reused when its reader releases it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs
from confluent_kafka import Message

from kafka_remote_client.model import UNKNOWN_EPOCH
from kafka_remote_client.records import RecordBlock

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MessageRun", "Piece"]


@attrs.frozen(eq=False)
class MessageRun:
    """Records of one partition in a row, at least one, with ``records.arrow.RECORD_SCHEMA``. ``len()`` counts them."""

    batch: pa.RecordBatch
    _topic: str
    _partition: int

    @classmethod
    def of(cls, block: RecordBlock, topic: str, partition: int, start: int, stop: int) -> MessageRun:
        """The records ``[start, stop)`` of a block."""
        return cls(block.slice_to_arrow(topic, partition, start, stop), topic, partition)

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        """Of the first record."""
        return int(self.batch["offset"][0].as_py())

    def error(self) -> None:
        """Returns ``None``: records are not errors."""

    @property
    def end(self) -> tuple[int, int]:
        """The offset after the last record, and that record's leader epoch."""
        epoch = self.batch["leader_epoch"][-1].as_py()
        return self.batch["offset"][-1].as_py() + 1, UNKNOWN_EPOCH if epoch is None else epoch

    def split(self, count: int) -> tuple[MessageRun, MessageRun]:
        """Returns the first ``count`` records and the others, both non-empty."""
        head, tail = self.batch.slice(0, count), self.batch.slice(count)
        return attrs.evolve(self, batch=head), attrs.evolve(self, batch=tail)

    def messages(self) -> list[Message]:
        """The records as messages."""
        from kafka_remote_client.records.arrow import messages_of  # noqa: PLC0415 - pyarrow is an extra

        return messages_of(self.batch)


Piece: TypeAlias = Message | MessageRun
"""A gathered item: a record or an error of either tier, or several records."""
