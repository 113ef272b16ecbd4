"""``RemoteLogInputStream``: whole batches out of bytes that lie in the remote tier, under Kafka's name for it."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_remote_client.records._select import scan_batches
from kafka_remote_client.records.batch import ANY_OFFSET, BatchHeader, BatchRules

__all__ = ["RemoteLogInputStream"]


class RemoteLogInputStream:
    """Iterates over the headers of the whole batches in ``data``, each verified, without looking at records.

    A cut-off batch at the end is left out, as Kafka's class of this name does; ``consumed`` says where it begins and
    ``needed`` how many bytes it would have (0 when that is not known). With the default rules batches need only rise in
    offset. Damage raises CorruptRecordError or UnsupportedFormatError after the good batches before it were given.
    """

    def __init__(self, data: memoryview | bytes | bytearray, rules: BatchRules | None = None) -> None:
        self._batches = scan_batches(memoryview(data), ANY_OFFSET, rules or BatchRules())

    def __iter__(self) -> Iterator[BatchHeader]:
        yield from self._batches
        if self._batches.error is not None:
            raise self._batches.error

    @property
    def consumed(self) -> int:
        """Bytes of all whole, sound batches."""
        return self._batches[len(self._batches) - 1].end if len(self._batches) else 0

    @property
    def needed(self) -> int:
        """Size in bytes of the batch that the buffer's end cuts off, 0 when not known."""
        return self._batches.needed
