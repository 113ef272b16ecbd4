"""The output of ``kafka-remote demo``: a progress line, and the table at its end."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from kafka_remote_client.cli.demo_run import DemoResult, TierTotals
from kafka_remote_client.cli.output import OutputFormat, output_console, show_json

__all__ = ["DemoProgress", "show_demo"]


class DemoProgress:
    """Two bars on standard error: writing, then reading. Without a terminal it prints a line for each tenth."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._told = {"write": 0, "read": 0}
        description, more = TextColumn("{task.description}"), TextColumn("{task.fields[more]}")
        columns = (description, BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), more)
        self._console = Console(stderr=True)
        self._bars = Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        self._write = self._bars.add_task("write", total=records, more="")
        self._read = self._bars.add_task("read ", total=records, more="", start=False)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def wrote(self, done: int) -> None:
        """``done`` records are in the cluster."""
        self._bars.update(self._write, completed=done)
        self._line("write", done, "")

    def read(self, done: int, tiers: Mapping[str, TierTotals]) -> None:
        """``done`` records were read, with the number from each tier."""
        more = ", ".join(f"{name} {totals.records}" for name, totals in tiers.items())
        self._bars.start_task(self._read)
        self._bars.update(self._read, completed=done, more=more)
        self._line("read", done, more)

    def _line(self, what: str, done: int, more: str) -> None:
        tenth = done * 10 // self._records
        if not self._console.is_terminal and tenth > self._told[what]:
            self._told[what] = tenth
            print(f"{what} {done} of {self._records}{f' ({more})' if more else ''}", file=sys.stderr)


def show_demo(result: DemoResult, output: OutputFormat) -> None:
    """The closing tables, or one object, on standard output."""
    if output is OutputFormat.JSON:
        show_json(_facts(result))
    else:
        _show_tables(result)


def _facts(result: DemoResult) -> dict[str, object]:
    return {
        "failures": result.failures,
        "tiers": {name: {"records": totals.records, "bytes": int(totals.bytes)} for name, totals in result.tiers.items()},
        "fetch_requests": result.metrics["remote-fetch-request-total"],
        "location_requests": result.metrics["remote-fetch-location-request-total"],
        "handovers": result.metrics["remote-fetch-handovers-total"],
        "fallbacks": result.fallbacks,
        "partitions": [
            {
                "partition": partition,
                "records": written.records,
                "digest": written.digest,
                "read_equals_written": result.read.get(partition) == written,
            }
            for partition, written in result.data.partitions.items()
        ],
    }


def _show_tables(result: DemoResult) -> None:
    console = output_console()
    tiers = Table("tier", "records", "bytes", "MB/s", title="read by tier")
    for name, totals in result.tiers.items():
        tiers.add_row(name, f"{totals.records}", f"{totals.bytes:.0f}", f"{totals.megabytes_per_second:.1f}")
    console.print(tiers)
    counts = Table("what", "count", title="requests and fallbacks")
    counts.add_row("GETs", str(result.metrics["remote-fetch-request-total"]))
    counts.add_row("location requests", str(result.metrics["remote-fetch-location-request-total"]))
    counts.add_row("hand-overs to the broker", str(result.metrics["remote-fetch-handovers-total"]))
    for reason, count in sorted(result.fallbacks.items()):
        counts.add_row(f"fallbacks: {reason}", str(count))
    if not result.fallbacks:
        counts.add_row("fallbacks", "0")
    console.print(counts)
    digests = Table("partition", "records", "digest", "read", title="digests of the written records")
    for partition, written in result.data.partitions.items():
        read = result.read.get(partition)
        digests.add_row(str(partition), str(written.records), written.digest, "the same" if read == written else "another one:")
        if read != written:
            digests.add_row("", str(read.records if read else 0), read.digest if read else "-", "")
    console.print(digests)
