"""``RemoteLogInputStream``: whole batches out of bytes that lie in the remote tier, under Kafka's name for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.records._select import scan_batches
from kafka_remote_client.records.batch import ANY_OFFSET, BatchHeader, BatchRules

__all__ = ["RemoteLogInputStream"]


class RemoteLogInputStream:
    """Iterates over the headers of the whole batches in ``data``, each verified, without looking at records.

    A cut-off batch at the end is left out, as Kafka's class of this name does; ``consumed`` says where it begins and
    ``needed`` how many bytes it would have (0 when that is not known). With the default rules batches need only rise in
    offset; ``expected_offset`` is where the first one has to begin, where that is known. Damage raises CorruptRecordError or
    UnsupportedFormatError after the good batches before it were given.
    """

    def __init__(
        self,
        data: memoryview | bytes | bytearray,
        rules: BatchRules | None = None,
        *,
        expected_offset: int = ANY_OFFSET,
    ) -> None:
        self._batches = scan_batches(memoryview(data), expected_offset, rules or BatchRules())

    @property
    def batches(self) -> Sequence[BatchHeader]:
        """The whole, valid batches, without the exception."""
        return self._batches

    @property
    def error(self) -> DirectFetchError | None:
        """What iteration raises at its end: CorruptRecordError, UnsupportedFormatError, or None."""
        return self._batches.error

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
