"""``kafka-remote export``: topics from the tier to a table, with the brokers if asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import attrs

from kafka_remote_client.cli.output import OutputFormat, show_json, show_text
from kafka_remote_client.errors import missing_extra

if TYPE_CHECKING:
    from kafka_remote_client.scanning.export.result import ExportResult
    from kafka_remote_client.scanning.export.run import ExportProgress
    from kafka_remote_client.scanning.scan_plan import ScanPlan

__all__ = ["ExportCommand", "ExportFormat", "export"]


class ExportFormat(StrEnum):
    """``--format``."""

    PARQUET = "parquet"
    ICEBERG = "iceberg"
    DELTA = "delta"


@attrs.frozen(kw_only=True)
class ExportCommand:
    """The arguments of the verb. ``reading``: of ``scan``; ``writing``: of ``to_parquet``.

    ``target``: a folder, or the name of an Iceberg table, which is in ``catalog``. ``dry_run``: only the plan is shown.
    """

    store: str
    topics: Sequence[str]
    target: str
    reading: Mapping[str, Any]
    writing: Mapping[str, Any]
    topic_id: UUID | None = None
    group: str | None = None
    consumer: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    format: ExportFormat = ExportFormat.PARQUET
    catalog: str | None = None
    output: OutputFormat = OutputFormat.TEXT
    dry_run: bool = False


def export(command: ExportCommand, say: Callable[[str], None]) -> None:
    """Runs or resumes the job and prints what it made. ``say`` gets its progress where no bar can be shown.

    Raises MissingExtraError without pyarrow or what writes the format, and as ``TableScan.to_parquet`` and
    ``ExportResult.commit_to_group``.
    """
    try:
        from kafka_remote_client.scanning.table_scan import scan  # noqa: PLC0415 - needs an extra
    except ModuleNotFoundError as error:
        raise missing_extra("kafka-remote export", error, "arrow") from None
    from kafka_remote_client.scanning.progress_bar import export_bar  # noqa: PLC0415 - as above

    table = scan(command.store, command.topics, topic_id=command.topic_id, **command.reading)
    if command.dry_run:
        _show_plan(table.plan(), command.output)
        return
    with export_bar("export") as bar:
        writing = {**command.writing, "progress": bar or _Told(say)}
        if command.format is ExportFormat.ICEBERG:
            result = table.to_iceberg(command.catalog or "default", command.target, **writing)
        elif command.format is ExportFormat.DELTA:
            result = table.to_delta(command.target, **writing)
        else:
            result = table.to_parquet(command.target, **writing)
    if command.group is not None:
        result.commit_to_group(command.group, command.consumer)
    _show(result, command)


def _show_plan(plan: ScanPlan, output: OutputFormat) -> None:
    if output is OutputFormat.TEXT:
        show_text(str(plan))
        return
    show_json(
        {
            "splits": len(plan.splits),
            "partitions": len(plan.ends),
            "segments": plan.segments,
            "known_segments": plan.known_segments,
            "gets": plan.gets,
            "read_bytes": plan.read_bytes,
            "broker_bytes": plan.broker_bytes,
        }
    )


class _Told:
    """Says how far an export is, once for each tenth of its splits."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._tenth = -1

    def __call__(self, progress: ExportProgress) -> None:
        tenth = progress.splits * 10 // max(1, progress.all_splits)
        if tenth > self._tenth:
            self._tenth = tenth
            self._say(f"{progress.splits} of {progress.all_splits} splits written, {progress.rows} records by this run")


def _show(result: ExportResult, command: ExportCommand) -> None:
    if command.output is OutputFormat.JSON:
        told = {
            "job": result.job,
            "target": command.target,
            "records": result.rows,
            "files": len(result.files),
            "bytes": result.size_in_bytes,
            "unreadable_records": result.unreadable,
            "splits": result.splits,
            "resumed_splits": result.resumed,
            "starting_offsets": json.loads(result.starting_offsets()),
            "group": command.group,
        }
        sys.stdout.write(json.dumps(told, separators=(",", ":"), ensure_ascii=False) + "\n")
        return
    sys.stdout.write(
        f"job {result.job}: {result.rows} records in {len(result.files)} files, {result.size_in_bytes} bytes\n"
        f"starting offsets of the next read: {result.starting_offsets()}\n"
    )
    if result.unreadable:
        folder = result.dead_letters[0].path.rpartition("/")[0]
        sys.stdout.write(f"{result.unreadable} records do not parse; they are in {folder}\n")
    if command.group is not None:
        sys.stdout.write(f"committed for group {command.group}\n")
