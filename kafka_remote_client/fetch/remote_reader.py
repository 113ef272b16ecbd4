"""What the owner of a partition's read holds: it takes record blocks and at last one ReadEnd. Thread-safe.

A reader belongs to one assignment and one position: a seek stops it and makes a new one. Consumer, bounded reads and the
command line stand on this class. What is read, and when, is up to :mod:`~kafka_remote_client.fetch.scheduler`.

References: KIP-1254, "AsyncKafkaConsumer Path"; docs/design.md.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Protocol

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
    """What a reader asks of its engine, all of it under the engine's lock."""

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
    """See the module. Built by ``FetchEngine.reader``, which says what its arguments mean.

    Blocks, messages and Arrow record batches differ in form only. Each takes what was not taken yet, so one of them is used,
    once; ``end`` then tells why and where reading ended.
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
        """Where the read stands."""
        return self._read.state

    @property
    def offsets(self) -> PartitionOffsets:
        """What was last learnt about the partition's tiers."""
        return self._read.offsets

    @property
    def has_ready(self) -> bool:
        """Whether :meth:`take` would return something. May be asked without the lock."""
        return self._read.has_ready

    def take(self) -> RecordBlock | ReadEnd | None:
        """The next block, the end, or ``None`` while nothing is there. Gives the memory of the block before back."""
        return self._engine.take(self._read)

    def release(self) -> None:
        """The owner is done with the block taken last: its memory is free, though it may be long until the next one comes."""
        self._engine.release(self._read)

    def passed(self) -> tuple[int, int] | None:
        """Where reading stands and its leader epoch, if all blocks below were taken; else ``None``."""
        return self._engine.passed(self._read)

    def stop(self) -> None:
        """Gives the reader up. When it returns nothing more is delivered; what is in flight is dropped as it lands."""
        self._engine.stop(self._read)

    def blocks(self, timeout: float | None = None) -> Generator[RecordBlock | ReadEnd, None, None]:
        """All blocks and then the end, waiting for each at most ``timeout`` seconds (forever when ``None``).

        Raises RemoteStorageTimeoutError when nothing came in time, and ConfigurationError for a ``timeout`` that is negative,
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
