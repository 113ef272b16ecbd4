"""A tier as a table: ``scan("s3://bucket/tier", "orders", since="2026-01-01").to_arrow()``.

::

    scan(...)   ->  TableScan (a value: what, and where)  ->  open()  ->  OpenScan: plan, splits, record blocks, Arrow
                       .select .where .head                   |
                       .to_arrow, Arrow stream  <-------------+

The scan opens, lists and reads nothing before the caller requests records, and each request reads again.

References: docs/tables.md; Arrow's PyCapsule interface (``__arrow_c_stream__``).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from kafka_remote_client import arguments
from kafka_remote_client.records.arrow import schema_of
from kafka_remote_client.scanning.broker_part import BrokerAddress, check_brokers
from kafka_remote_client.scanning.export.table_exports import TableExports
from kafka_remote_client.scanning.open_scan import OpenScan
from kafka_remote_client.scanning.predicate import And, Predicate
from kafka_remote_client.scanning.progress_bar import PassedOffsets, terminal_bar
from kafka_remote_client.scanning.scan import Scan
from kafka_remote_client.scanning.scan_plan import ScanPlan
from kafka_remote_client.scanning.tier_address import TierAddress

if TYPE_CHECKING:
    import polars as pl


__all__ = ["TableScan"]


def _threads(value: int | None) -> int | None:
    return None if value is None else arguments.whole(value, "threads", 1)


@attrs.frozen
class TableScan(TableExports):
    """A read (``scan``), the address of its tier (``address``), and of its brokers, if it may read there. It can be pickled.

    ``threads``: number of partitions that are read at the same time; ``None``: the number of cores, at most 8. ``progress``:
    whether reads without a limit, and exports, show a progress bar in a terminal or a notebook.

    Reading raises ConfigurationError for a missing store, topic or partition, TierUnavailableError or BrokerReadError if
    something cannot be read to its end, and the store's errors. It never returns a part of a table as the whole.
    """

    scan: Scan
    address: TierAddress
    threads: int | None = attrs.field(default=None, converter=_threads)
    brokers: BrokerAddress | None = None
    progress: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_brokers(self.scan, self.brokers)

    def select(self, *columns: str) -> TableScan:
        """Returns a scan of only these columns, in this order. Raises ConfigurationError for unknown ones."""
        return self._with(columns=columns)

    def where(self, predicate: Predicate) -> TableScan:
        """Returns a scan of the records for which this predicate is also true."""
        known = self.scan.predicate
        return self._with(predicate=predicate if known is None else And((known, predicate)))

    def head(self, limit: int) -> TableScan:
        """Returns a scan of at most that many records. A lower limit stays."""
        wanted = arguments.whole(limit, "limit", 0)
        return self._with(limit=wanted if self.scan.limit is None else min(wanted, self.scan.limit))

    @property
    def schema(self) -> pa.Schema:
        """The schema of the records: the selected columns of Spark's Kafka source."""
        return schema_of(self.scan.columns)

    def open(self) -> OpenScan:
        """Opens the tier for a read split by split. It reads no records."""
        return self._opened(None)

    def plan(self) -> ScanPlan:
        """Returns the plan: splits with ids, GETs and bytes. It reads only metadata."""
        with self.open() as opened:
            return opened.plan

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Yields the records as they arrive: those of one partition in the order of their offsets, partitions mixed."""
        bar = terminal_bar(self.scan.description) if self.progress and self.scan.limit is None else None
        if bar is None:
            with self.open() as opened:
                yield from opened.stream()
            return
        passed = PassedOffsets(bar)
        with closing(bar), self._opened(passed) as opened:
            passed.total = sum(split.end - split.start for split in opened.plan.splits)
            yield from opened.stream()

    def to_reader(self) -> pa.RecordBatchReader:
        """Returns the records as a stream for pyarrow's functions. It reads nothing before the first batch."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Implements Arrow's stream interface, with which DuckDB, pandas, Polars and others read the records as they arrive."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """Returns all records, in memory."""
        return self.to_reader().read_all()

    def to_pandas(self, **options: Any) -> Any:
        """Returns all records as a ``pandas.DataFrame``; ``options``: those of ``pyarrow.Table.to_pandas``. Needs pandas."""
        return self.to_arrow().to_pandas(**options)

    def count(self) -> int:
        """Returns the number of records, by batch headers if possible; see :meth:`OpenScan.count`."""
        with self.open() as opened:
            return opened.count()

    def to_polars(self) -> pl.LazyFrame:
        """Returns the records as a ``polars.LazyFrame``. Its ``collect`` reads only what the query needs.

        Raises ImportError without Polars (extra ``polars``).
        """
        from kafka_remote_client.scanning.polars_source import lazy_frame  # noqa: PLC0415 - Polars is an extra

        return lazy_frame(self)

    def _opened(self, passed: PassedOffsets | None) -> OpenScan:
        topics = self.scan.topics
        tier = self.address.open(topics[0] if len(topics) == 1 else None)
        return OpenScan(self.scan, tier, brokers=self.brokers, threads=self.threads, passed=passed)

    def _with(self, **changes: Any) -> TableScan:
        return attrs.evolve(self, scan=attrs.evolve(self.scan, **changes))
