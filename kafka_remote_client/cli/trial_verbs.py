"""The verbs that run the whole system on this machine, ``demo`` and ``cluster``, and their options."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from queue import Empty
from typing import Annotated

import typer

from kafka_remote_client.cli.cluster import JsonOutput, Places, TextOutput, run_cluster
from kafka_remote_client.cli.demo import DemoFault, demo_cluster, run_demo
from kafka_remote_client.cli.demo_output import DemoProgress, show_demo
from kafka_remote_client.cli.options import Output
from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.cli.signals import stop_signals
from kafka_remote_client.clock import SystemClock

__all__ = ["add_verbs"]


def add_verbs(app: typer.Typer) -> None:
    """Adds the verbs of this module."""
    app.command("demo")(_demo)
    app.command("cluster")(_cluster)


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


def _cluster(
    records: Annotated[int, typer.Option("--records", min=1000, help="Number of records to write to the topic.")] = 20_000,
    directory: Annotated[
        Path, typer.Option("--directory", help="Directory of the tier. It must be empty, and is removed at the end.")
    ] = Path("/tmp/kafka-tier"),  # noqa: S108 - the name that the documents use; what is in it is refused
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of the cluster.")] = 9092,
    shim_port: Annotated[int, typer.Option("--shim-port", min=1, max=65535, help="Port of the shim.")] = 9192,
    origin_port: Annotated[int, typer.Option("--origin-port", min=1, max=65535, help="Port of the object origin.")] = 9193,
    no_shim: Annotated[
        bool, typer.Option("--no-shim", help="Leave the last two ports to a shim that you start yourself.")
    ] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Runs a cluster with a tiered topic "orders" until Ctrl-C. Needs no broker, Java or Docker."""
    signals = stop_signals()

    def stopped(seconds: float) -> bool:
        try:
            return signals.get(timeout=seconds) != signal.SIGHUP
        except Empty:
            return False

    places = Places(directory, port, shim_port, origin_port, not no_shim)
    shown = JsonOutput() if output is OutputFormat.JSON else TextOutput()
    run_cluster(places, records, SystemClock(), shown, stopped)
