"""``TallyBuilder``: batches to a count of their records and the bounds of these, with as little decompression as possible.

It takes the place of ``ColumnBuilder`` in a read, so checksums, chain, epochs and the filter of aborted transactions are those
of every read. What headers cannot tell is decoded, batch by batch (:mod:`~kafka_remote_client.records.header_tally`).
"""

from __future__ import annotations

import attrs

from kafka_remote_client.records._select import AbortedTransactionFilter, BatchList, ColumnBuilder, tally_headers
from kafka_remote_client.records.block import RecordBlock
from kafka_remote_client.records.columns import Columns
from kafka_remote_client.records.control import is_abort_marker
from kafka_remote_client.records.faults import BatchFault, Fault

__all__ = ["Tally", "TallyBlock", "TallyBuilder"]

_ANY_SIZE = 2**62


@attrs.frozen
class Tally:
    """So many records, with offsets in ``[first_offset, last_offset]``, no timestamp outside ``[oldest, youngest]``.

    Of batches that were told by their headers the offsets are those of the batch, of which compaction may have taken the
    record. Timestamps are in milliseconds, -1 for records without; ``oldest`` is ``None`` unless it was asked for. All of them
    are ``None`` where there is no record.
    """

    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    oldest: int | None = None
    youngest: int | None = None

    def __add__(self, later: Tally) -> Tally:
        """Both, of which ``later`` has the larger offsets."""
        if not (self.records and later.records):
            return self if self.records else later
        oldest = None if self.oldest is None or later.oldest is None else min(self.oldest, later.oldest)
        youngest = None if self.youngest is None or later.youngest is None else max(self.youngest, later.youngest)
        return Tally(self.records + later.records, self.first_offset, later.last_offset, oldest, youngest)


class TallyBlock(RecordBlock):
    """The tally of some batches in the place of their records: ``len()`` counts them, and no single one can be asked for."""

    __slots__ = ("tally",)

    def __init__(self, tally: Tally, next_offset: int, last_leader_epoch: int) -> None:
        super().__init__(Columns(), next_offset, last_leader_epoch)
        self.tally = tally

    def __len__(self) -> int:
        return self.tally.records


class TallyBuilder:
    """Takes batches as ``ColumnBuilder`` does, and keeps nothing of them. ``oldest``: finds the oldest timestamp too."""

    def __init__(
        self,
        data: memoryview,
        batches: BatchList,
        *,
        fetch_offset: int,
        end_offset: int,
        max_decompressed_bytes: int,
        aborted: AbortedTransactionFilter | None,
        oldest: bool,
    ) -> None:
        self._data = data
        self._batches = batches
        self._fetch_offset = fetch_offset
        self._end_offset = end_offset
        self._limit = max_decompressed_bytes
        self._aborted = aborted
        self._oldest = oldest
        self._tally = Tally()

    def append(self, start: int, stop: int) -> tuple[int, int]:
        """Adds the batches ``[start, stop)``. Returns the first one that is not done and its fault: ``stop`` and NONE."""
        while True:
            start, records, first, last, oldest, youngest = tally_headers(
                self._batches, start, stop, self._fetch_offset, self._end_offset, self._oldest, self._aborted
            )
            if records:
                self._tally += Tally(records, first, last, oldest if self._oldest else None, youngest)
            if start == stop:
                return stop, Fault.NONE
            try:
                fault = self._look_at(start)
            except BatchFault as caught:
                fault = caught.fault
            if fault:
                return start, fault
            start += 1

    def finish(self) -> Tally:
        """The tally of what was added."""
        return self._tally

    def _look_at(self, index: int) -> int:
        """Adds one batch that its header does not tell enough of; its fault. Raises BatchFault for a bad control batch."""
        header = self._batches[index]
        filtered = self._aborted is not None and header.producer_id >= 0
        aborts = header.is_control and is_abort_marker(self._data, header, self._limit, filtered=filtered)
        if self._aborted is not None and filtered and self._aborted.drops(header, is_abort_marker=aborts):
            return Fault.NONE
        if header.is_control:
            return Fault.NONE
        builder = ColumnBuilder(
            self._data,
            self._batches,
            arena=True,
            fetch_offset=self._fetch_offset,
            end_offset=self._end_offset,
            max_decompressed_bytes=self._limit,
            block_bytes=_ANY_SIZE,
            aborted=None,
        )
        _, fault = builder.append(index, index + 1)
        columns = builder.finish()
        count = len(columns)
        if count and not fault:
            times = [columns.timestamp(number) for number in range(count)]
            oldest = min(times) if self._oldest else None
            self._tally += Tally(count, columns.offset(0), columns.offset(count - 1), oldest, max(times))
        return fault
