"""One attempt to write a split: files by folder and size, with row groups and statistics."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_remote_client.errors import ConfigurationError, ExportError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.records.arrow import schema_of
from kafka_remote_client.scanning.export.paths import JobPaths
from kafka_remote_client.scanning.export.split_writer import ParquetWriting, write_split
from kafka_remote_client.scanning.export.table_types import TableFormat
from kafka_remote_client.scanning.export.target import target_of
from kafka_remote_client.scanning.export.written_files import WrittenSplit
from kafka_remote_client.scanning.splits import Split
from tests.support.counted_files import counted_files

SPLIT = Split(TopicPartition("orders", 3), 100, 200, 1000)
COLUMNS = ("topic", "partition", "offset", "timestamp", "value")
HOUR = 3_600_000_000


def batches(*times: int, columns: tuple[str, ...] = COLUMNS) -> Iterator[pa.RecordBatch]:
    """Batches of one record of about 100 bytes, with ascending offsets."""
    for number, time in enumerate(times):
        row = {"topic": "orders", "partition": 3, "offset": 100 + number, "timestamp": time, "value": b"%0100d" % number}
        schema = schema_of(columns)
        yield pa.record_batch([pa.array([row[name]], schema.field(name).type) for name in columns], schema=schema)


def written(folder: Path, some: Iterator[pa.RecordBatch], filesystem: Any = None, **options: Any) -> WrittenSplit:
    steps = write_split(target_of(str(folder), filesystem), JobPaths("job"), ParquetWriting(**options), SPLIT, some)
    try:
        while True:
            assert next(steps) > 0
    except StopIteration as done:
        return done.value


def test_row_groups_have_a_size_and_offset_statistics(tmp_path: Path) -> None:
    split = written(tmp_path, batches(*range(0, 6000, 1000)), row_group_bytes=250)
    (file,) = split.files
    assert (file.path, file.rows) == ("orders-3-100-200-00000.parquet", 6)
    assert (file.first_offset, file.last_offset, file.oldest, file.youngest) == (100, 105, 0, 5)
    assert (tmp_path / file.staged).stat().st_size == file.size_in_bytes
    found = pq.read_metadata(tmp_path / file.staged)
    assert [found.row_group(n).num_rows for n in range(found.num_row_groups)] == [2, 2, 2]
    columns = {found.row_group(1).column(n).path_in_schema: found.row_group(1).column(n) for n in range(found.num_columns)}
    assert (columns["offset"].statistics.min, columns["offset"].statistics.max) == (102, 103)
    assert columns["timestamp"].statistics.has_min_max
    assert columns["value"].statistics is None
    assert {column.compression for column in columns.values()} == {"ZSTD"}


def test_a_new_file_begins_at_the_size_limit(tmp_path: Path) -> None:
    split = written(tmp_path, batches(*range(6)), row_group_bytes=250, file_bytes=1)
    assert [file.rows for file in split.files] == [2, 2, 2]
    assert [file.path[-13:-8] for file in split.files] == ["00000", "00001", "00002"]


def test_partition_folders_replace_the_topic_column(tmp_path: Path) -> None:
    split = written(tmp_path, batches(0, HOUR, 0, 30 * HOUR), partition_by=["topic", "hour"])
    assert [(file.path.rpartition("/")[0], file.rows) for file in split.files] == [
        ("topic=orders/day=1970-01-01/hour=00", 2),
        ("topic=orders/day=1970-01-01/hour=01", 1),
        ("topic=orders/day=1970-01-02/hour=06", 1),
    ]
    assert split.files[0].partition == {"topic": "orders", "day": "1970-01-01", "hour": "00"}
    assert "topic" not in pq.read_schema(tmp_path / split.files[0].staged).names
    kept = written(tmp_path, batches(0), partition_by="topic", format=TableFormat.ICEBERG)
    assert "topic" in pq.read_schema(tmp_path / kept.files[0].staged).names
    without = written(tmp_path, batches(0, columns=("value",)), partition_by="topic")
    assert (without.files[0].first_offset, without.files[0].oldest) == (None, None)


def test_few_files_are_open_at_a_time(tmp_path: Path) -> None:
    split = written(tmp_path, batches(*(hour * HOUR for hour in (*range(100), 0))), partition_by="hour", row_group_bytes=1)
    first = [file for file in split.files if file.path.startswith("day=1970-01-01/hour=00")]
    assert [file.rows for file in first] == [1, 1]
    assert len(split.files) == 101


def test_two_attempts_stage_separately_under_one_final_name(tmp_path: Path) -> None:
    one, other = (written(tmp_path, batches(0, 1)).files[0] for _ in range(2))
    assert one.staged != other.staged
    assert one.path == other.path


def test_the_footer_equals_the_files_metadata(tmp_path: Path) -> None:
    (file,) = written(tmp_path, batches(0, 1), format=TableFormat.ICEBERG).files
    assert file.footer is not None
    found = pq.read_metadata(BytesIO(base64.b64decode(file.footer)))
    assert found.num_rows == 2
    assert found.row_group(0).column(2).statistics.max == 101
    assert file.path == file.staged
    assert file.path.startswith("data/job/orders-3-100-200-00000-")


def test_no_file_is_written_without_records(tmp_path: Path) -> None:
    assert written(tmp_path, iter(())) == WrittenSplit(SPLIT.id)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("at", [("open", 1), ("write", 1), ("write", 2), ("write", 5), ("close", 1)])
def test_a_full_disk_raises_and_closes_all_files(tmp_path: Path, at: tuple[str, int]) -> None:
    seen = []

    def full(operation: str, path: str) -> None:
        seen.append(operation)
        if operation == at[0] and seen.count(operation) >= at[1]:
            raise OSError(28, "No space left on device")

    with pytest.raises(ExportError, match=r"cannot write _staging/.*No space left on device"):
        written(tmp_path, batches(0, HOUR, 1), counted_files(full), partition_by="hour", row_group_bytes=100)


def test_an_aborted_attempt_closes_all_files(tmp_path: Path) -> None:
    target = target_of(tmp_path)
    steps = write_split(target, JobPaths("job"), ParquetWriting(row_group_bytes=1), SPLIT, batches(0, 1, 2))
    assert next(steps) == 1
    assert len(target.names("_staging/job/files")) == 1
    steps.close()
    assert target.names("_staging/job/files") == []


def test_a_read_error_is_not_reported_as_a_write_error(tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(0)
        raise OSError(5, "read error of the tier")

    with pytest.raises(OSError, match="read error of the tier"):
        written(tmp_path, failing(), row_group_bytes=1)


def test_records_of_another_schema_are_refused(tmp_path: Path) -> None:
    mixed = [*batches(0), *batches(1, columns=("value", "offset"))]
    with pytest.raises(ExportError, match="the columns of its records changed"):
        written(tmp_path, iter(mixed), row_group_bytes=1)


def test_invalid_write_settings_are_refused() -> None:
    for wrong in ({"compression": "brotlier"}, {"row_group_bytes": 0}, {"file_bytes": 5 << 30}, {"partition_by": "minute"}):
        with pytest.raises(ConfigurationError):
            ParquetWriting(**wrong)
    with pytest.raises(ConfigurationError, match="needs the column timestamp"):
        ParquetWriting(partition_by="day").check(["offset"])
    ParquetWriting(partition_by="day").check(["timestamp"])
    ParquetWriting(partition_by="topic").check(["offset"])


def test_files_without_a_column_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="needs a column beside topic"):
        ParquetWriting(partition_by="topic").check(["topic"])
    ParquetWriting(partition_by="topic", format=TableFormat.ICEBERG).check(["topic"])
    ParquetWriting().check(["topic"])
