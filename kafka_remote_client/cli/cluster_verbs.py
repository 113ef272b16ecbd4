"""The verbs that ask a running cluster, and their options."""

from __future__ import annotations

import re
from contextlib import ExitStack, closing
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from kafka_remote_client.cli.doctor import Examination, examine, show_steps
from kafka_remote_client.cli.given_settings import parse_settings
from kafka_remote_client.cli.lag import COLUMNS as LAG_COLUMNS
from kafka_remote_client.cli.lag import lag_lines
from kafka_remote_client.cli.locate import locate, open_source, show_located
from kafka_remote_client.cli.offsets import COLUMNS as OFFSETS_COLUMNS
from kafka_remote_client.cli.offsets import (
    log_offset_at,
    open_cluster,
    parse_time,
    partition_lines,
    read_metadata,
    tiered_offset_at,
)
from kafka_remote_client.cli.options import (
    DEFAULT_GRACE,
    DEFAULT_LAYOUT,
    DEFAULT_METADATA_TIMEOUT,
    DEFAULT_TIMEOUT,
    BootstrapServers,
    ConsumerSettings,
    EncryptionKeys,
    Grace,
    Isolation,
    KeyPrefix,
    Layout,
    MetadataTimeout,
    MetadataTopicName,
    NoMetadata,
    Output,
    StoreOptions,
    Timeout,
)
from kafka_remote_client.cli.output import OutputFormat, show_lines
from kafka_remote_client.cli.store_arguments import open_listing, parse_encryption_keys
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.config import split_config
from kafka_remote_client.location.leaders import open_leaders
from kafka_remote_client.location.source import LocationSource
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.remote_log.layouts import LayoutOptions

__all__ = ["add_verbs"]


_NEGATIVE = re.compile(r"-\d+")
_USAGE_ERROR: Any = typer.BadParameter.__base__
"""Typer does not export it."""


class _LocateCommand(TyperCommand):
    """A negative number looks like an option. The error says what it is instead."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except _USAGE_ERROR as error:
            option = getattr(error, "option_name", None)
            number = next((one for one in given if option and one.startswith(option) and _NEGATIVE.fullmatch(one)), None)
            if number is None:
                raise
            text = f"{number} is negative; PARTITION and OFFSET start at 0; kafka-remote offsets shows the ends of a log"
            raise typer.BadParameter(text, ctx=ctx) from None


def add_verbs(app: typer.Typer) -> None:
    """Adds the verbs of this module."""
    app.command("offsets")(_offsets)
    app.command("locate", cls=_LocateCommand)(_locate)
    app.command("lag")(_lag)
    app.command("doctor")(_doctor)


def _offsets(
    topics: Annotated[list[str], typer.Argument(help="Topics to show.", metavar="TOPIC")],
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
    with open_cluster(bootstrap_servers, parse_settings(consumer or [], "--consumer"), timeout) as leaders:
        lines = partition_lines(leaders, list(dict.fromkeys(topics)), time_ms, SystemClock(), timeout)
    show_lines(lines, OFFSETS_COLUMNS | ({} if time is None else {"at time": "time_offset"}), output)


def _locate(
    topic: Annotated[str, typer.Argument(help="Topic.", metavar="TOPIC")],
    partition: Annotated[int, typer.Argument(min=0, help="Partition.", metavar="PARTITION")],
    place: Annotated[str, typer.Argument(help="Offset, or a time: ISO 8601, or @MILLISECONDS.", metavar="OFFSET|TIME")],
    bootstrap_servers: Annotated[
        str | None,
        typer.Option("--bootstrap-servers", help="The shim, or the cluster for other location sources.", metavar="HOST:PORT,…"),
    ] = None,
    consumer: ConsumerSettings = None,
    store: Annotated[
        str | None, typer.Option("--store", help="URL of the tier, to look there without a broker.", metavar="URL")
    ] = None,
    store_option: StoreOptions = None,
    layout: Layout = DEFAULT_LAYOUT,
    key_prefix: KeyPrefix = "",
    encryption_key: EncryptionKeys = None,
    isolation_level: Annotated[Isolation, typer.Option("--isolation-level")] = Isolation.READ_COMMITTED,
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Says which tier has an offset: segment, bytes, aborted transactions, or the reason."""
    if (store is None) == (bootstrap_servers is None):
        raise typer.BadParameter("give either --bootstrap-servers or --store", param_hint="--store")
    clock, is_offset = SystemClock(), place.isascii() and place.isdecimal()
    time_ms = 0 if is_offset else parse_time(place, "OFFSET|TIME")
    level = IsolationLevel[isolation_level.name]

    def show(source: LocationSource, offset: int) -> None:
        question = LocationQuestion(topic=topic, partition=partition, offset=offset, isolation_level=level)
        show_located(locate(source, question, clock, timeout), output)

    if store is not None:
        options = LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or []))
        given = parse_settings(store_option or [], "--store-option")
        with open_listing(store, layout, options, store_options=given, topic=topic) as (_, listing):
            show(listing, int(place) if is_offset else tiered_offset_at(listing, topic, partition, time_ms, place))
        return
    assert bootstrap_servers is not None
    settings = {"bootstrap.servers": bootstrap_servers, **parse_settings(consumer or [], "--consumer")}
    with open_source(settings, clock) as source:
        if is_offset:
            show(source, int(place))
            return
        inner = split_config(settings)[1]
        with closing(open_leaders(inner, clock, min(timeout, DEFAULT_TIMEOUT))) as leaders:
            show(source, log_offset_at(leaders, topic, partition, time_ms, place, clock, timeout))


def _lag(
    topics: Annotated[list[str], typer.Argument(help="Topics to show.", metavar="TOPIC")],
    bootstrap_servers: BootstrapServers,
    consumer: ConsumerSettings = None,
    metadata_topic: MetadataTopicName = METADATA_TOPIC,
    no_metadata: NoMetadata = False,
    metadata_timeout: MetadataTimeout = DEFAULT_METADATA_TIMEOUT,
    grace: Grace = DEFAULT_GRACE,
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Compares what is copied to the tier with the log end. Counts unfinished segments."""
    clock = SystemClock()
    settings = parse_settings(consumer or [], "--consumer")
    with open_cluster(bootstrap_servers, settings, timeout) as leaders:
        bounds = partition_lines(leaders, list(dict.fromkeys(topics)), None, clock, timeout)
    known = None
    with ExitStack() as opened:
        if not no_metadata:
            known = opened.enter_context(read_metadata(bootstrap_servers, settings, metadata_topic, metadata_timeout))
        lines = lag_lines(bounds, known, clock.time_ms(), int(grace * 1000))
    show_lines(lines, LAG_COLUMNS, output)


def _doctor(
    place: Annotated[
        str, typer.Argument(help="A consumer's configuration (lines KEY=VALUE), or the URL of a store.", metavar="FILE|URL")
    ],
    topic: Annotated[str | None, typer.Option("--topic", help="Tiered topic to try; default: the first one.")] = None,
    store_option: StoreOptions = None,
    layout: Layout = DEFAULT_LAYOUT,
    key_prefix: KeyPrefix = "",
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Checks each step from a configuration to a record. Names the one thing to change."""
    if "://" in place:
        options = parse_settings(store_option or [], "--store-option")
        settings: dict[str, object] = {
            "fetch.remote.enabled": True,
            "fetch.remote.location.source": "listing",
            "fetch.remote.listing.broker": False,
            "remote.storage.store.url": place,
            "remote.storage.store.layout": layout,
            "remote.storage.store.key.prefix": key_prefix,
            **{f"remote.storage.fetcher.{name}": value for name, value in options.items()},
        }
    else:
        settings = dict(parse_settings([f"@{place}"], "FILE"))
    steps = examine(Examination(settings, SystemClock(), timeout, topic))
    show_steps(steps, output)
    if any(step.state == "failed" for step in steps):
        raise typer.Exit(1)
