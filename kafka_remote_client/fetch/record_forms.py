"""The forms in which a reader's records are wanted: blocks, messages, Arrow record batches. They differ in nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from confluent_kafka import Message

from kafka_remote_client.records import RecordBlock

if TYPE_CHECKING:
    import pyarrow as pa

    from kafka_remote_client.fetch.remote_reader import ReadEnd

__all__ = ["RecordForms"]


class RecordForms(ABC):
    """A reader of one partition. Each form takes what was not taken yet, so one of them is used, once.

    ``end``: why and where reading ended, once all was taken; from its ``next_offset`` the broker goes on.
    """

    topic: str
    partition: int
    end: ReadEnd | None = None

    @abstractmethod
    def blocks(self, timeout: float | None = None) -> Generator[RecordBlock | ReadEnd, None, None]:
        """All blocks and then the end, waiting for each at most ``timeout`` seconds (forever when ``None``).

        Raises RemoteStorageTimeoutError when nothing came in time, and ConfigurationError for a ``timeout`` that is negative,
        NaN or infinite; stops the reader when the iteration is left.
        """

    def messages(self, timeout: float | None = None) -> Iterator[Message]:
        """The records as a consumer gives them. Raises as :meth:`blocks`."""
        with closing(self._blocks(timeout)) as blocks:
            for block in blocks:
                yield from block.messages(self.topic, self.partition)

    def record_batches(self, timeout: float | None = None) -> Iterator[pa.RecordBatch]:
        """The records with the schema of Spark's Kafka source. Raises as :meth:`blocks`, and ImportError without pyarrow."""
        with closing(self._blocks(timeout)) as blocks:
            for block in blocks:
                yield block.to_arrow(self.topic, self.partition)

    def _blocks(self, timeout: float | None) -> Generator[RecordBlock, None, None]:
        with closing(self.blocks(timeout)) as items:
            for item in items:
                if isinstance(item, RecordBlock):
                    yield item
                else:
                    self.end = item
