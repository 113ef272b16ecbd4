"""The verbs that ask a running cluster, and their options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated

import typer

from kafka_remote_client.cli.given_settings import parse_settings
from kafka_remote_client.cli.offsets import COLUMNS as OFFSETS_COLUMNS
from kafka_remote_client.cli.offsets import parse_time, partition_lines
from kafka_remote_client.cli.options import DEFAULT_TIMEOUT, BootstrapServers, ConsumerSettings, Output, Timeout
from kafka_remote_client.cli.output import OutputFormat, show_lines
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.location.leaders import PartitionLeaders, open_leaders

__all__ = ["add_cluster_verbs"]


def add_cluster_verbs(app: typer.Typer) -> None:
    """Adds the verbs of this module."""
    app.command("offsets")(_offsets)


def _offsets(
    topics: Annotated[list[str], typer.Argument(help="Topics to show.", metavar="TOPIC...")],
    bootstrap_servers: BootstrapServers,
    consumer: ConsumerSettings = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            help="Also show the first offset at or after this time: ISO 8601, or @MILLISECONDS.",
            metavar="TIME",
        ),
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Prints log start, local start, tiered end and log end of partitions."""
    time_ms = None if time is None else parse_time(time, "--time")
    with _leaders(bootstrap_servers, consumer, timeout) as leaders:
        lines = partition_lines(leaders, list(dict.fromkeys(topics)), time_ms, SystemClock(), timeout)
    show_lines(lines, OFFSETS_COLUMNS | ({} if time is None else {"at time": "time_offset"}), output)


@contextmanager
def _leaders(servers: str, consumer: list[str] | None, timeout: float) -> Iterator[PartitionLeaders]:
    settings = {**parse_settings(consumer or [], "--consumer"), "bootstrap.servers": servers}
    with closing(open_leaders(settings, SystemClock(), min(timeout, DEFAULT_TIMEOUT))) as leaders:
        yield leaders
