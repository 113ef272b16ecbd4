"""A table to which campaigns export the golden tier, and the expected rows of a plain reader: the records of Kafka's consumer.

The rows come from the golden consumer (``tests.support.scanned``), which shares nothing with the product. Plain readers are
pyarrow, pyiceberg and deltalake.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile
from sqlalchemy import event

from kafka_remote_client.scanning.export import commits
from kafka_remote_client.scanning.export.result import ExportResult
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.table_scan import TableScan
from tests.support.counted_files import counted_files
from tests.support.golden import golden_local
from tests.support.scanned import Row, rows_of, tiered_rows

__all__ = ["EXPORTS", "KINDS", "ExportedTable", "connections", "expected"]

KINDS = ("local", "objects", "iceberg", "delta")
"""Parquet files that are renamed, Parquet files in an object store, and the two table formats."""
EXPORTS = (
    "kafka_remote_client/fetch",
    "kafka_remote_client/location",
    "kafka_remote_client/records",
    "kafka_remote_client/scanning",
)
"""The product code of an export."""
Before = Callable[[str, str], None]
_PARTITIONS = (("epochs", 0), ("epochs", 1), ("txn", 0))
_TOPICS = ("epochs", "txn")
_NAME = "kafka.orders"
_SPLIT_BYTES = 100_000
_SPLITS_OF_A_COMMIT = 3
_PIECES = commits.pieces


@attrs.frozen
class ExportedTable:
    """Where it is. ``broker``: the address of the broker, which must get no connection."""

    directory: Path
    kind: str
    broker: str

    @property
    def table(self) -> Path:
        """Its folder."""
        return self.directory / "table"

    def export(self, before: Before, spark: Any = None) -> ExportResult:
        """Runs the export. ``before`` gets the name and the path of each operation before it happens.

        Operations open, write, close, rename, copy or delete a file, send a statement to the catalog's database, or commit to
        Delta. ``spark``: a session; then ``before`` is pickled, and tasks call it too.
        """
        with ExitStack() as patched:
            patched.enter_context(patch.object(commits, "pieces", _small_pieces))
            found: ExportResult = getattr(self, f"_{self.kind}")(self._scan(), before, patched, spark)
        return found

    def rows(self) -> list[Row]:
        """Returns the rows that a plain reader gets."""
        return rows_of(self._visible())

    def check(self) -> None:
        """Raises AssertionError unless the table has the consumer's rows, each once, and nothing else is left."""
        self.check_rows()
        assert list(self.directory.rglob("_staging/*")) == []
        named = {Path(name).name for name in self._files()}
        assert {path.name for path in self.table.rglob("*.parquet")} == named

    def check_rows(self) -> None:
        """Raises AssertionError unless a plain reader sees the consumer's rows, each once."""
        wanted, found = expected(), self.rows()
        assert found == wanted, f"{len(found)} rows, {len(wanted)} expected"

    def check_killed(self) -> None:
        """Raises AssertionError if a reader sees a record twice, or one that is not of the consumer."""
        seen = Counter(map(repr, self.rows()))
        seen.subtract(map(repr, expected()))
        assert max(seen.values(), default=0) <= 0, "a plain reader sees records of a killed attempt"

    def _scan(self) -> TableScan:
        store = (golden_local() / "remote").as_uri()
        table = scan(store, _TOPICS, threads=2, broker={"bootstrap.servers": self.broker})
        return attrs.evolve(table, scan=attrs.evolve(table.scan, split_bytes=_SPLIT_BYTES))

    def _local(self, table: TableScan, before: Before, _: ExitStack, spark: Any) -> ExportResult:
        files = counted_files(before, self.kind)
        return table.to_parquet(self.table, partition_by="day", row_group_bytes=200_000, filesystem=files, spark=spark)

    _objects = _local

    def _delta(self, table: TableScan, before: Before, patched: ExitStack, spark: Any) -> ExportResult:
        _tell(patched, DeltaTable, "create_write_transaction", before)
        return table.to_delta(self.table, filesystem=counted_files(before), spark=spark)

    def _iceberg(self, table: TableScan, before: Before, patched: ExitStack, spark: Any) -> ExportResult:
        _tell(patched, PyArrowFile, "create", before)
        catalog = patched.enter_context(self._catalog())
        event.listen(catalog.engine, "before_cursor_execute", lambda *_: before("execute", ""))
        event.listen(catalog.engine, "commit", lambda _: before("commit", ""))
        return table.to_iceberg(catalog, _NAME, filesystem=counted_files(before), spark=spark)

    @contextmanager
    def _catalog(self) -> Iterator[Any]:
        uri = f"sqlite:///{self.directory}/catalog.db"
        with closing(SqlCatalog("killed", uri=uri, warehouse=self.table.as_uri())) as catalog:
            yield catalog

    def _visible(self) -> pa.Table:
        if not self._exists():
            return pa.table({})
        if self.kind == "iceberg":
            with self._catalog() as catalog:
                return catalog.load_table(_NAME).scan().to_arrow()
        if self.kind == "delta":
            return pa.table(DeltaTable(self.table).to_pyarrow_table())
        return ds.dataset(self.table, format="parquet").to_table()

    def _files(self) -> list[str]:
        """The data files that the table's metadata names; of Parquet all that are visible."""
        if self.kind == "iceberg":
            with self._catalog() as catalog:
                return [task.file.file_path for task in catalog.load_table(_NAME).scan().plan_files()]
        if self.kind == "delta":
            return DeltaTable(self.table).file_uris()
        return [str(file) for file in ds.dataset(self.table, format="parquet").files]

    def _exists(self) -> bool:
        if self.kind == "iceberg":
            with self._catalog() as catalog:
                return bool(catalog.table_exists(_NAME))
        if self.kind == "delta":
            return DeltaTable.is_deltatable(str(self.table))
        return self.table.exists()


def expected() -> list[Row]:
    """The rows of the golden consumer."""
    return [row for place in _PARTITIONS for row in tiered_rows(*place, "read_committed")]


def connections(listener: socket.socket) -> int:
    """1 if a client has connected to the listener, else 0."""
    listener.setblocking(False)
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return 0
    return 1


def _tell(patched: ExitStack, owner: type, name: str, before: Before) -> None:
    """Makes calls of a method operations, and the return from each one more."""
    real = getattr(owner, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        before(name, "")
        found = real(*arguments, **named)
        before(f"after {name}", "")
        return found

    patched.enter_context(patch.object(owner, name, counted))


def _small_pieces(written: Any, size: int = 0) -> Any:
    return _PIECES(written, _SPLITS_OF_A_COMMIT)
