"""What an export prints of its progress and its result."""

from __future__ import annotations

import json

import pytest

from kafka_remote_client.cli.export_report import export_progress, show_result
from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.export.result import ExportResult
from kafka_remote_client.scanning.export.run import ExportProgress
from kafka_remote_client.scanning.export.written_files import WrittenFile


def written(path: str, rows: int) -> WrittenFile:
    return WrittenFile(path=path, staged=path, size_in_bytes=10 * rows, rows=rows)


RESULT = ExportResult(
    "nightly",
    (written("a.parquet", 3), written("b.parquet", 4)),
    {TopicPartition("orders", 0): 8},
    splits=2,
    resumed=1,
    dead_letters=(written("_dead_letters/nightly/a.parquet", 1),),
)


def test_progress_is_a_line_for_each_tenth_of_the_splits() -> None:
    lines: list[str] = []
    with export_progress(lines.append) as progress:
        for splits in range(21):
            progress(ExportProgress(splits, 20, 10 * splits))
            progress(ExportProgress(splits, 20, 10 * splits))
    assert len(lines) == 11
    assert lines[0] == "0 of 20 splits written, 0 records by this run"
    assert lines[-1] == "20 of 20 splits written, 200 records by this run"


def test_result_as_text_names_unreadable_records_and_the_group(capsys: pytest.CaptureFixture[str]) -> None:
    show_result(RESULT, OutputFormat.TEXT, target="/table", group="readers")
    assert capsys.readouterr().out == (
        "job nightly: 7 records in 2 files, 70 bytes\n"
        'starting offsets of the next read: {"orders":{"0":8}}\n'
        "1 records do not parse; they are in _dead_letters/nightly\n"
        "committed for group readers\n"
    )


def test_result_as_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    show_result(RESULT, OutputFormat.JSON, target="/table", group=None)
    told = json.loads(capsys.readouterr().out)
    assert (told["target"], told["group"], told["resumed_splits"]) == ("/table", None, 1)
    assert told["starting_offsets"] == {"orders": {"0": 8}}
