"""What ``kafka-remote export`` prints: the plan of a dry run, the progress without a bar, and the result."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafka_remote_client.cli.output import OutputFormat, show_json, show_text

if TYPE_CHECKING:
    from kafka_remote_client.scanning.export.result import ExportResult
    from kafka_remote_client.scanning.export.run import ExportProgress
    from kafka_remote_client.scanning.scan_plan import ScanPlan

__all__ = ["export_progress", "show_plan", "show_result"]


def show_plan(plan: ScanPlan, output: OutputFormat) -> None:
    """The plan of ``--dry-run``."""
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


@contextmanager
def export_progress(say: Callable[[str], None]) -> Iterator[Callable[[ExportProgress], None]]:
    """A progress bar in a terminal; elsewhere ``say`` gets a line for each tenth of the splits."""
    from kafka_remote_client.scanning.progress_bar import export_bar  # noqa: PLC0415 - needs an extra

    with export_bar("export") as bar:
        yield bar or _ProgressLines(say)


class _ProgressLines:
    """Says how far an export is, once for each tenth of its splits."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._tenth = -1

    def __call__(self, progress: ExportProgress) -> None:
        tenth = progress.splits * 10 // max(1, progress.all_splits)
        if tenth > self._tenth:
            self._tenth = tenth
            self._say(f"{progress.splits} of {progress.all_splits} splits written, {progress.rows} records by this run")


def show_result(result: ExportResult, output: OutputFormat, *, target: str, group: str | None) -> None:
    """``target``, ``group``: as the user gave them."""
    if output is OutputFormat.JSON:
        told = {
            "job": result.job,
            "target": target,
            "records": result.rows,
            "files": len(result.files),
            "bytes": result.size_in_bytes,
            "unreadable_records": result.unreadable,
            "splits": result.splits,
            "resumed_splits": result.resumed,
            "starting_offsets": json.loads(result.starting_offsets()),
            "group": group,
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
    if group is not None:
        sys.stdout.write(f"committed for group {group}\n")
