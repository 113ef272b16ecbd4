"""``RemoteLogInputStream``, named after Kafka's class: the whole batches in bytes of a segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.records._select import scan_batches
from kafka_remote_client.records.batch import ANY_OFFSET, BatchHeader, BatchRules

__all__ = ["RemoteLogInputStream"]


class RemoteLogInputStream:
    """Iterates over the headers of the whole batches in ``data``. Each batch is verified; records are not decoded.

    A truncated batch at the end is left out, as in Kafka's class: it begins at ``consumed`` and has ``needed`` bytes (0 = not
    known). With the default rules batches only need rising offsets. ``expected_offset``: the base offset of the first batch, if
    known. Iteration raises CorruptRecordError or UnsupportedFormatError after the valid batches before the damage.
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
        """The whole, valid batches. This raises nothing for damage after them."""
        return self._batches

    @property
    def error(self) -> DirectFetchError | None:
        """The exception that iteration raises at its end: CorruptRecordError, UnsupportedFormatError, or None."""
        return self._batches.error

    def __iter__(self) -> Iterator[BatchHeader]:
        yield from self._batches
        if self._batches.error is not None:
            raise self._batches.error

    @property
    def consumed(self) -> int:
        """Bytes of all whole, valid batches."""
        return self._batches[len(self._batches) - 1].end if len(self._batches) else 0

    @property
    def needed(self) -> int:
        """Size in bytes of the batch that the buffer's end truncates, 0 = not known."""
        return self._batches.needed
