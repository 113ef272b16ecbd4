"""``kafka-remote demo``: runs the whole system on this machine, and says whether it worked."""

from __future__ import annotations

import tempfile
from typing import Annotated

import typer

from kafka_remote_client.cli.demo_output import DemoProgress, show_demo
from kafka_remote_client.cli.demo_run import DemoFault, demo_cluster, run_demo
from kafka_remote_client.cli.options import Output
from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.clock import SystemClock

__all__ = ["add_verb"]


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("demo")(_demo)


def _demo(
    records: Annotated[int, typer.Option("--records", min=100, help="Number of records to write and read.")] = 200_000,
    fault: Annotated[DemoFault | None, typer.Option("--fault", help="Fault to inject into the store during the read.")] = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Runs the whole system on this machine. Needs no broker, Java or Docker."""
    clock = SystemClock()
    with (
        tempfile.TemporaryDirectory(prefix="kafka-remote-demo-") as directory,
        demo_cluster(directory, records, clock) as cluster,
        DemoProgress(records) as progress,
    ):
        result = run_demo(cluster, records=records, fault=fault, clock=clock, wrote=progress.wrote, read=progress.read)
    show_demo(result, output)
    for failure in result.failures:
        remark(f"the demo failed: {failure}")
    if not result.worked:
        raise typer.Exit(1)
