"""The handle of a partition's read: it returns record blocks, and finally one ReadEnd. Thread-safe.

A reader belongs to one assignment and one position: a seek stops it and creates a new one. Consumer, bounded reads and the
command line use this class. :mod:`~kafka_remote_client.fetch.scheduler` decides what to read, and when.

References: KIP-1254, "AsyncKafkaConsumer Path"; docs/design.md.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from confluent_kafka import Message

from kafka_remote_client.fetch.partition_read import PartitionRead
from kafka_remote_client.fetch.partition_state import ReaderState
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.model import PartitionOffsets
from kafka_remote_client.records import RecordBlock

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ReadEngine", "RemoteReader"]


class ReadEngine(Protocol):
    """The calls of a reader to its engine, all under the engine's lock."""

    def take(self, read: PartitionRead) -> RecordBlock | ReadEnd | None:
        """See :meth:`RemoteReader.take`."""

    def release(self, read: PartitionRead) -> None:
        """See :meth:`RemoteReader.release`."""

    def passed(self, read: PartitionRead) -> tuple[int, int] | None:
        """See :meth:`RemoteReader.passed`."""

    def stop(self, read: PartitionRead) -> None:
        """See :meth:`RemoteReader.stop`."""

    def wait_for(self, reader: RemoteReader, timeout: float | None) -> RecordBlock | ReadEnd:
        """The reader's next item, waiting for it."""


class RemoteReader:
    """See the module. ``FetchEngine.reader`` creates it and documents its arguments.

    Blocks, messages and Arrow record batches differ only in form. Each takes the remaining records, so use one of them,
    once; ``end`` then has the reason and the position of the end.
    """

    def __init__(self, engine: ReadEngine, read: PartitionRead) -> None:
        self.topic = read.topic
        self.partition = read.partition
        self.end: ReadEnd | None = None
        self._engine = engine
        self._read = read

    def __repr__(self) -> str:
        return f"RemoteReader({self._read.name}, {self.state.name}, next_offset={self._read.next_offset})"

    @property
    def state(self) -> ReaderState:
        """The state of the read."""
        return self._read.state

    @property
    def offsets(self) -> PartitionOffsets:
        """The last known bounds of the partition's tiers."""
        return self._read.offsets

    @property
    def topic_id(self) -> UUID:
        """The id of the topic that is read; zeros = not known."""
        return self._read.topic_id

    @property
    def has_ready(self) -> bool:
        """Whether :meth:`take` would return something. May be asked without the lock."""
        return self._read.has_ready

    def take(self) -> RecordBlock | ReadEnd | None:
        """Returns the next block, the end, or ``None`` if neither is ready. Releases the memory of the block before."""
        return self._engine.take(self._read)

    def release(self) -> None:
        """Releases the memory of the last taken block, before the next one arrives."""
        self._engine.release(self._read)

    def passed(self) -> tuple[int, int] | None:
        """Returns the position of the read and its leader epoch, if all blocks below were taken; else ``None``."""
        return self._engine.passed(self._read)

    def stop(self) -> None:
        """Stops the reader. Afterwards it delivers nothing, and drops ranges in flight when they arrive."""
        self._engine.stop(self._read)

    def blocks(self, timeout: float | None = None) -> Generator[RecordBlock | ReadEnd, None, None]:
        """Yields all blocks and then the end. It waits for each at most ``timeout`` seconds (forever if ``None``).

        Raises RemoteStorageTimeoutError if nothing arrived in time, and ConfigurationError for a ``timeout`` that is negative,
        NaN or infinite; stops the reader when the iteration is left.
        """
        try:
            while True:
                item = self._engine.wait_for(self, timeout)
                yield item
                if isinstance(item, ReadEnd):
                    return
        finally:
            self.stop()

    def messages(self, timeout: float | None = None) -> Iterator[Message]:
        """Yields the records as a consumer's messages. Raises as :meth:`blocks`."""
        with closing(self._blocks(timeout)) as blocks:
            for block in blocks:
                yield from block.messages(self.topic, self.partition)

    def record_batches(self, timeout: float | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the records in the schema of Spark's Kafka source. Raises as :meth:`blocks`, ImportError without pyarrow."""
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
