"""``kafka-remote plan``: the predicted cost of a job of ``format("kafka-remote")``, beside the measured one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from kafka_remote_client.cli.given_settings import parse_settings
from kafka_remote_client.cli.output import OutputFormat, show_json
from kafka_remote_client.cli.prices import PriceTable, ReaderPlace
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.spark.planning.job_figures import Prices
from kafka_remote_client.spark.planning.job_plan import JobPlan
from kafka_remote_client.spark.reading.task_counters import load_counters

__all__ = ["plan_options", "read_prices", "show_plan"]


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
        options = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"--options-file: {file} cannot be read: {error.strerror}") from None
    except ValueError:
        options = None
    if not isinstance(options, dict) or not all(isinstance(value, str | int) for value in options.values()):
        raise ConfigurationError(f"--options-file: {file} must hold a JSON object of options")
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def read_prices(table: PriceTable, storage_class: str, reader: ReaderPlace) -> Prices:
    """The prices of direct reads: GETs, and of a GB retrieval and transfer. Raises ConfigurationError for an unknown class."""
    stored = table.of_class(storage_class)
    return Prices(stored.per_1000_gets, stored.retrieval_per_gb + table.from_store(reader))


def show_plan(plan: JobPlan, compare: str | None, output: OutputFormat) -> None:
    """Returns the plan, and the figures of the counters at the path ``compare``. Raises ConfigurationError for those."""
    job = None if compare is None else load_counters(compare)
    counted = None if job is None else plan.counted(job.counters, splits=job.splits, seconds=job.seconds)
    if output is OutputFormat.JSON:
        told = plan.as_dict() if counted is None else {**plan.as_dict(), "counted": attrs.asdict(counted)}
        show_json(told)
        return
    print(plan)
    if counted is not None:
        print()
        print(plan.compared_with(counted))
