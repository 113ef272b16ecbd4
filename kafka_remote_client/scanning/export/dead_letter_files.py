"""Dead letter files: the records of a split that do not parse, as Parquet files with their bytes and the errors.

::

    split  ->  records that parse  ->  files of the table
           ->  other records         ->  _staging/<job>/files/…   ->  _dead_letters/<job>/<split id>-<part>.parquet

The split's record lists them with the files of the table, so of several attempts both kinds come from the same one. They are
published before the table's commit.

References: docs/tables.md, "Export".
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import attrs
import pyarrow as pa

from kafka_remote_client.scanning.export.paths import JobPaths
from kafka_remote_client.scanning.export.row_groups import RowGroups
from kafka_remote_client.scanning.export.split_writer import ParquetWriting, SplitAttempt
from kafka_remote_client.scanning.export.table_types import TableFormat
from kafka_remote_client.scanning.export.target import ExportTarget
from kafka_remote_client.scanning.export.written_files import WrittenFile
from kafka_remote_client.scanning.splits import Split

__all__ = ["DeadLetterFiles"]


class DeadLetterFiles:
    """A context manager, which closes all files at an exception. ``add`` and ``finish`` raise ExportError."""

    def __init__(self, target: ExportTarget, paths: JobPaths, writing: ParquetWriting, split: Split) -> None:
        plain = attrs.evolve(writing, partition_by=(), format=TableFormat.PARQUET)
        self._attempt = SplitAttempt(target, paths, plain, split, f"{paths.dead_letters}/")
        self._groups = RowGroups((), writing.row_group_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self._attempt.abandon(error)

    def add(self, records: pa.Table) -> None:
        """Collects records, and writes them when they fill a row group."""
        for some in records.to_batches():
            for group in self._groups.add(some):
                self._attempt.write(group)

    def finish(self) -> tuple[WrittenFile, ...]:
        """Writes the remaining records. Returns the files; none if all records parse."""
        for group in self._groups.rest():
            self._attempt.write(group)
        return self._attempt.finish()
