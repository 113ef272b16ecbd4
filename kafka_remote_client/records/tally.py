"""``TallyBuilder`` counts the records of batches, and finds their lowest and highest offset and timestamp.

A read uses it instead of ``ColumnBuilder``, so checksums, chain, epochs and the filter of aborted transactions are those of
every read. Only batches whose headers are not enough are decoded (:mod:`~kafka_remote_client.records.header_tally`).
"""

from __future__ import annotations

import attrs

from kafka_remote_client.records._select import AbortedTransactionFilter, BatchList, ColumnBuilder, tally_headers
from kafka_remote_client.records.block import RecordBlock
from kafka_remote_client.records.columns import Columns
from kafka_remote_client.records.control import is_delivered
from kafka_remote_client.records.faults import BatchFault, Fault

__all__ = ["Tally", "TallyBlock", "TallyBuilder"]


@attrs.frozen
class Tally:
    """The number of records, and bounds: offsets in ``[first_offset, last_offset]``, timestamps in ``[oldest, youngest]``.

    For a batch that was counted by its header the bounds are the offsets of the batch; compaction may have removed the records
    at them. Timestamps are in milliseconds, -1 for records without one. ``oldest`` is None unless it was requested. All bounds
    are None without records.
    """

    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    oldest: int | None = None
    youngest: int | None = None

    def __add__(self, later: Tally) -> Tally:
        """The tally of both; ``later`` has the higher offsets."""
        if not (self.records and later.records):
            return self if self.records else later
        oldest = None if self.oldest is None or later.oldest is None else min(self.oldest, later.oldest)
        youngest = None if self.youngest is None or later.youngest is None else max(self.youngest, later.youngest)
        return Tally(self.records + later.records, self.first_offset, later.last_offset, oldest, youngest)


class TallyBlock(RecordBlock):
    """The tally of batches instead of their records: ``len()`` is the number of records, and no record can be read."""

    __slots__ = ("tally",)

    def __init__(self, tally: Tally, next_offset: int, last_leader_epoch: int) -> None:
        super().__init__(Columns(), next_offset, last_leader_epoch)
        self.tally = tally

    def __len__(self) -> int:
        return self.tally.records


class TallyBuilder:
    """Has the methods of ``ColumnBuilder`` and keeps no record. ``oldest``: also finds the oldest timestamp."""

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
        """Adds the batches ``[start, stop)``. Returns the first one that was not added, and its fault; ``stop`` and NONE."""
        while True:
            start, records, first, last, oldest, youngest = tally_headers(
                self._batches, start, stop, self._fetch_offset, self._end_offset, self._oldest, self._aborted
            )
            if records:
                self._tally += Tally(records, first, last, oldest if self._oldest else None, youngest)
            if start == stop:
                return stop, Fault.NONE
            try:
                fault = self._decode(start)
            except BatchFault as caught:
                fault = caught.fault
            if fault:
                return start, fault
            start += 1

    def finish(self) -> Tally:
        """The tally of what was added."""
        return self._tally

    def _decode(self, index: int) -> int:
        """Adds one batch whose header is not enough; returns its fault. Raises BatchFault for a malformed control batch."""
        if not is_delivered(self._data, self._batches[index], self._limit, self._aborted):
            return Fault.NONE
        builder = ColumnBuilder(
            self._data,
            self._batches,
            arena=True,
            fetch_offset=self._fetch_offset,
            end_offset=self._end_offset,
            max_decompressed_bytes=self._limit,
            block_bytes=self._limit,  # bounds what the kernel reserves by the ratio of other blocks; one batch always fits
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
