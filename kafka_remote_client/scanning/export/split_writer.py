"""Writes the records of a split as Parquet files, and collects the statistics that a commit needs.

::

    record batches  ->  row groups  ->  files, one open for each folder, ended at ``file_bytes``  ->  WrittenFile

References: docs/tables.md, "Export"; Apache Parquet, "Column Chunks".
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from io import BytesIO
from typing import TypedDict

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError, ExportError
from kafka_remote_client.scanning.export.paths import FILE_BYTES, ROW_GROUP_BYTES, JobPaths, file_name
from kafka_remote_client.scanning.export.row_groups import PartitionBy, RowGroup, RowGroups, partition_by, values_of
from kafka_remote_client.scanning.export.table_types import TableFormat
from kafka_remote_client.scanning.export.target import ExportTarget
from kafka_remote_client.scanning.export.written_files import WrittenFile, WrittenSplit
from kafka_remote_client.scanning.splits import Split

__all__ = ["ParquetWriting", "SplitAttempt", "WritingArguments", "write_split"]

_LARGEST_FILE = 4 << 30
"""S3 copies at most 5 GB in one request, and a file may exceed ``file_bytes`` by one row group."""
_OPEN_FILES = 64
_COUNTED = ("topic", "partition", "offset", "timestamp", "timestampType")
"""Columns with statistics. Statistics of keys and values take space, and no query uses them."""
_DICTIONARY_COLUMNS = ("topic", "partition", "timestampType", "headers.list.element.key")
_DELTA_COLUMNS = ("offset", "timestamp")
_CODECS = ("zstd", "snappy", "gzip", "lz4", "none")


def _row_group_bytes(value: int) -> int:
    return arguments.whole(value, "row_group_bytes", 1)


def _file_bytes(value: int) -> int:
    return arguments.whole(value, "file_bytes", 1, _LARGEST_FILE)


class WritingArguments(TypedDict, total=False):
    """The fields of :class:`ParquetWriting` that users give."""

    partition_by: str | Sequence[str]
    row_group_bytes: int
    file_bytes: int
    compression: str


@attrs.frozen(kw_only=True)
class ParquetWriting:
    """How files are written.

    ``by`` (given as ``partition_by``): the table's partitions. ``row_group_bytes``: size of a row group in Arrow's memory,
    uncompressed. ``file_bytes``: size at which a file ends, compressed. ``format``: the format of the table. Raises
    ConfigurationError.
    """

    by: tuple[PartitionBy, ...] = attrs.field(default=(), converter=partition_by, alias="partition_by")
    row_group_bytes: int = attrs.field(default=ROW_GROUP_BYTES, converter=_row_group_bytes)
    file_bytes: int = attrs.field(default=FILE_BYTES, converter=_file_bytes)
    compression: str = "zstd"
    format: TableFormat = TableFormat.PARQUET

    def __attrs_post_init__(self) -> None:
        if self.compression not in _CODECS:
            raise ConfigurationError(f"compression {self.compression!r} is not one of {', '.join(_CODECS)}")

    def check(self, columns: Sequence[str]) -> None:
        """Raises ConfigurationError if partitions need a column that is not read, or if no column is left in the files."""
        if {PartitionBy.DAY, PartitionBy.HOUR} & set(self.by) and "timestamp" not in columns:
            raise ConfigurationError("partition_by day or hour needs the column timestamp")
        if self.drops_topic and set(columns) == {"topic"}:
            raise ConfigurationError("partition_by topic needs a column beside topic: a file without columns has no records")

    @property
    def drops_topic(self) -> bool:
        """Whether files have no column topic, because the folder's name or the table's metadata has the topic."""
        return PartitionBy.TOPIC in self.by and self.format is not TableFormat.ICEBERG

    @property
    def options(self) -> dict[str, object]:
        """The options that a job keeps: a run with other values would write another table."""
        return {
            "format": self.format,
            "partition_by": self.by or None,
            "row_group_bytes": self.row_group_bytes,
            "file_bytes": self.file_bytes,
            "compression": self.compression,
        }


@attrs.define
class _OpenFile:
    """A file that is being written. ``metadata`` gets its Parquet footer when the writer closes it."""

    staged: str
    part: int
    values: Mapping[str, str]
    sink: pa.NativeFile
    closing: ExitStack
    writer: pq.ParquetWriter
    metadata: list[pq.FileMetaData]
    rows: int = 0
    offsets: list[int] = attrs.field(factory=list)
    times: list[int] = attrs.field(factory=list)


def write_split(
    target: ExportTarget, paths: JobPaths, writing: ParquetWriting, split: Split, batches: Iterable[pa.RecordBatch]
) -> Generator[int, None, WrittenSplit]:
    """Writes the records of a split below ``paths``. Yields the number of rows of each row group after writing it.

    Closing the generator closes all files. Raises ExportError, and the errors of ``batches``.
    """
    attempt = SplitAttempt(target, paths, writing, split)
    groups = RowGroups(writing.by, writing.row_group_bytes)
    try:
        for records in batches:
            for group in groups.add(records):
                yield attempt.write(group)
        for group in groups.rest():
            yield attempt.write(group)
        return WrittenSplit(split.id, attempt.finish())
    except BaseException as error:
        attempt.abandon(error)
        raise


class SplitAttempt:
    """The files of one attempt to write a split. ``below``: the folder of all files, with a slash at its end, or empty."""

    def __init__(self, target: ExportTarget, paths: JobPaths, writing: ParquetWriting, split: Split, below: str = "") -> None:
        self._target = target
        self._paths = paths
        self._writing = writing
        self._split = split
        self._below = below
        self._name = uuid.uuid4().hex
        self._open: dict[int | None, _OpenFile] = {}
        self._written: list[WrittenFile] = []
        self._parts = 0

    def write(self, group: RowGroup) -> int:
        """Appends a row group to the open file of its folder. Returns the number of its rows."""
        table = group.records
        if self._writing.drops_topic and "topic" in table.column_names:
            table = table.drop_columns(["topic"])
        file = self._open.pop(group.slot, None) or self._begin(group.slot, table.schema)
        self._open[group.slot] = file  # dicts keep the order: the least recently used file comes first
        if table.schema != file.writer.schema:
            raise ExportError(f"cannot export split {self._split.id} at row {file.rows}: the columns of its records changed")
        with self._target.failing("write", file.staged):
            file.writer.write_table(table, row_group_size=len(table))
            size = file.sink.tell()
        file.rows += len(table)
        _add_bounds(file.offsets, table, "offset")
        _add_bounds(file.times, table, "timestamp", 1000)
        if size >= self._writing.file_bytes:
            self._end(group.slot)
        elif len(self._open) > _OPEN_FILES:
            self._end(next(iter(self._open)))
        return len(table)

    def finish(self) -> tuple[WrittenFile, ...]:
        """Closes the open files. Returns all files, sorted by path."""
        while self._open:
            self._end(next(iter(self._open)))
        return tuple(sorted(self._written, key=lambda file: file.path))

    def abandon(self, error: BaseException) -> None:
        """Closes the open files after ``error``. The staging folder is removed later, and the closed files with it."""
        for file in self._open.values():
            with suppress(OSError, ValueError, RuntimeError):
                file.writer.close()  # otherwise the garbage collector closes it
            file.writer.is_open = False
            with suppress(ExportError):  # the file is removed, so a failure to close it does not matter
                file.closing.__exit__(type(error), error, error.__traceback__)
        self._open.clear()

    def _begin(self, slot: int | None, schema: pa.Schema) -> _OpenFile:
        values = values_of(self._writing.by, self._split.topic_partition.topic, slot)
        part, self._parts = self._parts, self._parts + 1
        name = self._paths.in_place if self._writing.format.in_place else self._paths.staged
        staged = name(self._split.id, part, self._name)
        collected: list[pq.FileMetaData] = []
        names = set(schema.names)
        with ExitStack() as opening:
            created: AbstractContextManager[pa.NativeFile] = self._target.create(staged)
            sink = opening.enter_context(created)
            writer = pq.ParquetWriter(
                sink,
                schema,
                compression=self._writing.compression,
                use_dictionary=[name for name in _DICTIONARY_COLUMNS if name.partition(".")[0] in names],
                column_encoding={name: "DELTA_BINARY_PACKED" for name in _DELTA_COLUMNS if name in names},
                # Iceberg's manifests have statistics of all columns, truncated to a few bytes.
                write_statistics=True
                if self._writing.format is TableFormat.ICEBERG
                else [name for name in _COUNTED if name in names],
                metadata_collector=collected,
                memory_pool=pa.system_memory_pool(),
            )
            return _OpenFile(staged, part, values, sink, opening.pop_all(), writer, collected)

    def _end(self, slot: int | None) -> None:
        file = self._open[slot]
        with self._target.failing("write", file.staged):
            file.writer.close()
            size = file.sink.tell()
            file.closing.close()
        del self._open[slot]
        self._target.sync(file.staged)
        directory = self._below + "".join(f"{name}={value}/" for name, value in file.values.items())
        self._written.append(
            WrittenFile(
                file.staged,
                file.staged if self._writing.format.in_place else file_name(self._split.id, file.part, directory),
                file.rows,
                size,
                *_bounds(file.offsets),
                *_bounds(file.times),
                partition=file.values,
                footer=_footer(file.metadata[0]) if self._writing.format is TableFormat.ICEBERG else None,
            )
        )


def _add_bounds(found: list[int], table: pa.Table, name: str, unit: int = 1) -> None:
    """Adds the minimum and the maximum of a column to ``found``, divided by ``unit``."""
    if name not in table.column_names:
        return
    bounds = pc.min_max(table[name].cast(pa.int64()))
    found += (bounds[end].as_py() // unit for end in ("min", "max"))


def _bounds(found: Sequence[int]) -> tuple[int | None, int | None]:
    return (min(found), max(found)) if found else (None, None)


def _footer(metadata: pq.FileMetaData) -> str:
    file = BytesIO()
    metadata.write_metadata_file(file)
    return base64.b64encode(file.getvalue()).decode("ascii")
