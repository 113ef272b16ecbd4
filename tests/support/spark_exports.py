"""Jobs of :class:`tests.support.spark.SparkDriver` about exports: attempts of tasks that raise, or are killed, half way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyspark import TaskContext
from pyspark.sql import SparkSession

from kafka_remote_client.scanning.export.parquet import PublishFiles
from kafka_remote_client.scanning.export.run import Export
from kafka_remote_client.scanning.export.spark_tasks import write_in_tasks
from kafka_remote_client.scanning.export.split_writer import ParquetWriting
from kafka_remote_client.scanning.export.target import target_of
from kafka_remote_client.scanning.open_scan import OpenScan
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.scanning.table_scan import TableScan

__all__ = ["exported", "to_tables", "troubled", "typed"]


def _table(store: str, topics: list[str], split_bytes: int) -> TableScan:
    table = scan(store, topics, threads=2)
    return attrs.evolve(table, scan=attrs.evolve(table.scan, split_bytes=split_bytes))


def exported(spark: SparkSession, store: str, topics: list[str], split_bytes: int, target: str) -> Any:
    """Exports with the call that users make."""
    result = _table(store, topics, split_bytes).to_parquet(target, spark=spark, row_group_bytes=20_000)
    return {"rows": result.rows, "splits": result.splits, "resumed": result.resumed}


def typed(spark: SparkSession, store: str, topic: str, split_bytes: int, target: str) -> Any:
    """Exports JSON values as a typed column of a Delta table, and what is not JSON as dead letters."""
    arguments: Any = {"value_format": "json", "value_schema": pa.schema([("n", pa.int64())]), "key_format": "string"}
    result = _table(store, [topic], split_bytes).to_delta(target, spark=spark, on_error="dead_letters", **arguments)
    return {"rows": result.rows, "unreadable": result.unreadable, "splits": result.splits}


def to_tables(spark: SparkSession, store: str, topics: list[str], split_bytes: int, target: str) -> Any:
    """Exports to an Iceberg table with a catalog of SQLite, and to a Delta table."""
    table = _table(store, topics, split_bytes)
    with closing(SqlCatalog("lake", uri=f"sqlite:///{target}/catalog.db", warehouse=Path(target).as_uri())) as catalog:
        iceberg = table.to_iceberg(catalog, "kafka.orders", spark=spark)
    delta = table.to_delta(f"{target}/delta", spark=spark)
    return {"rows": [iceberg.rows, delta.rows], "splits": [iceberg.splits, delta.splits]}


@attrs.frozen(kw_only=True)
class _TroubledExport(Export):
    """``trouble``: "raise" or "kill", by the number of a task, happens to its first attempt after the first batch."""

    trouble: dict[int, str]

    def open(self) -> OpenScan:
        return _TroubledScan(self.scan, self.address.open(), self.trouble)


class _TroubledScan(OpenScan):
    def __init__(self, wanted: Any, tier: Any, trouble: dict[int, str]) -> None:
        super().__init__(wanted, tier)
        self._trouble = trouble

    def record_batches(self, split: Split) -> Any:
        return self._troubled(super().record_batches(split))

    def _troubled(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "a task reads it, and not the driver"
        kind = self._trouble.get(context.partitionId()) if context.attemptNumber() == 0 else None
        for batch in batches:
            yield batch
            if kind == "raise":
                raise RuntimeError("this attempt is to fail")
            if kind == "kill":
                os.kill(os.getpid(), signal.SIGKILL)


def troubled(spark: SparkSession, store: str, topics: list[str], split_bytes: int, target: str, trouble: dict[str, str]) -> Any:
    """The same, with attempts that end half way."""
    table = _table(store, topics, split_bytes)
    export = _TroubledExport(
        scan=table.scan,
        address=table.address,
        target=target_of(target),
        job="export",
        writing=ParquetWriting(row_group_bytes=20_000),
        trouble={int(number): kind for number, kind in trouble.items()},
    )
    result = export.run(PublishFiles(export), write=partial(write_in_tasks, export, spark))
    return {"rows": result.rows, "splits": result.splits, "resumed": result.resumed}
