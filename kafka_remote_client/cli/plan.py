"""``kafka-remote plan``: the predicted cost of a job of ``format("kafka-remote")``, beside the measured one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from kafka_remote_client.cli import options
from kafka_remote_client.cli.given_settings import parse_settings, utf_8
from kafka_remote_client.cli.old_spellings import topics_of
from kafka_remote_client.cli.output import OutputFormat, show_json
from kafka_remote_client.cli.prices import PriceTable, ReaderPlace, load_prices
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.errors import ConfigurationError, PeerUnreachableError, missing_extra
from kafka_remote_client.parsing import parse_json
from kafka_remote_client.spark.planning.job_figures import Prices
from kafka_remote_client.spark.planning.job_plan import JobPlan
from kafka_remote_client.spark.planning.job_planner import plan

if TYPE_CHECKING:
    from kafka_remote_client.spark.reading.task_counters import CountedJob

__all__ = ["add_verb", "plan_options", "read_prices", "show_plan"]


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("plan")(_plan)


def plan_options(pairs: Sequence[str], file: str | None, named: Mapping[str, str | None]) -> dict[str, str]:
    """Returns the source's options: a JSON file, overridden by ``KEY=VALUE`` pairs, overridden by separate arguments.

    Raises ConfigurationError for a file without a JSON object, and for an invalid pair.
    """
    given = {name: value for name, value in named.items() if value is not None}
    return {**_from_file(file), **parse_settings(list(pairs), "--option"), **given}


def _from_file(file: str | None) -> dict[str, str]:
    if file is None:
        return {}
    try:
        read = parse_json(Path(file).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(f"--options-file: {file} cannot be read: {error.strerror}") from None
    except ValueError:
        read = None
    if not isinstance(read, dict) or not all(isinstance(value, str | int) for value in read.values()):
        raise ConfigurationError(f"--options-file: {file} must hold a JSON object of options")
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in read.items()}


def read_prices(table: PriceTable, storage_class: str, reader: ReaderPlace) -> Prices:
    """The prices of direct reads: GETs, and of a GB retrieval and transfer. Raises ConfigurationError for an unknown class."""
    stored = table.of_class(storage_class)
    return Prices(stored.per_1000_gets, stored.retrieval_per_gb + table.from_store(reader))


def _counted_job(path: str) -> CountedJob:
    """The counters at the path. Raises MissingExtraError, and ConfigurationError as ``load_counters``."""
    try:
        from kafka_remote_client.spark.reading.task_counters import load_counters  # noqa: PLC0415 - needs an extra
    except ModuleNotFoundError as error:
        raise missing_extra("--compare", error, "arrow") from None
    return load_counters(path)


def show_plan(plan: JobPlan, compare: str | None, output: OutputFormat) -> None:
    """Prints the plan, and beside it the figures of the counters at ``compare``.

    Raises for the counters ConfigurationError, and MissingExtraError without pyarrow.
    """
    job = None if compare is None else _counted_job(compare)
    counted = None if job is None else plan.counted(job.counters, splits=job.splits, seconds=job.seconds)
    if output is OutputFormat.JSON:
        told = plan.as_dict() if counted is None else {**plan.as_dict(), "counted": attrs.asdict(counted)}
        show_json(told)
        return
    print(plan)
    if counted is not None:
        print()
        print(plan.compared_with(counted))


def _plan(
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers",
            help="Bootstrap servers of the Kafka cluster (kafka.bootstrap.servers).",
            metavar="HOST:PORT,…",
            callback=utf_8,
        ),
    ] = None,
    topics: Annotated[list[str] | None, typer.Argument(help="Topics to read (subscribe).", metavar="TOPIC")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            help="Option of format('kafka-remote'); repeatable (docs/spark-options.md).",
            metavar=options.SETTING_FORMS,
        ),
    ] = None,
    options_file: Annotated[
        str | None, typer.Option("--options-file", help="File with a JSON object of options, for secrets.", metavar="FILE")
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option("--cores", min=1, help="Number of tasks that run in parallel; default: the cores of this machine."),
    ] = None,
    latency_ms: Annotated[
        float, typer.Option("--latency-ms", min=0, max=options.LONGEST, help="Latency of one GET in milliseconds.")
    ] = 20.0,
    megabytes_per_second: Annotated[
        float,
        typer.Option(
            "--megabytes-per-second", min=0.001, max=options.LONGEST, help="Throughput of one core in MB/s (10^6 bytes)."
        ),
    ] = 100.0,
    prices: options.PriceFile = None,
    storage_class: options.StorageClassName = "standard",
    reader: Annotated[ReaderPlace, typer.Option("--reader", help="Where the tasks run, seen from the store.")] = (
        ReaderPlace.SAME_ZONE
    ),
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            help="Counters of a finished job: a file or the directory remote.countersDirectory.",
            metavar="FILE_OR_DIRECTORY",
        ),
    ] = None,
    output: options.Output = OutputFormat.TEXT,
    old_topic: options.OldTopic = None,
) -> None:
    """Estimates the segments, GETs, bytes, splits, cost and time of a Spark job. Reads no data."""
    subscribed = topics_of(topics, old_topic, remark)
    named = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": ",".join(subscribed) or None}
    try:
        found = plan(
            plan_options(option or [], options_file, named),
            cores=cores,
            latency_ms=latency_ms,
            megabytes_per_second=megabytes_per_second,
            prices=read_prices(load_prices(prices), storage_class, reader),
        )
    except PeerUnreachableError as error:
        raise ConfigurationError(str(error)) from error
    show_plan(found, compare, output)
