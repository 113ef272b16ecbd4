"""The verbs and their options."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from queue import Empty
from typing import Annotated

import typer

from kafka_remote_client.cli.cluster import Places, run_cluster
from kafka_remote_client.cli.cluster_verbs import add_cluster_verbs
from kafka_remote_client.cli.command_group import ConfigFile, Verbs, show_version, use_configuration
from kafka_remote_client.cli.demo import Fault, demo_cluster, run_demo
from kafka_remote_client.cli.demo_output import DemoProgress, show_demo
from kafka_remote_client.cli.given_settings import parse_settings
from kafka_remote_client.cli.ls import found_segments
from kafka_remote_client.cli.old_spellings import output_of, topics_of
from kafka_remote_client.cli.options import (
    DEFAULT_LAYOUT,
    LONGEST,
    SETTING_FORMS,
    EncryptionKeys,
    KeyPrefix,
    Layout,
    OldTopic,
    Output,
    Partition,
    PriceFile,
    StorageClassName,
    Store,
    StoreOptions,
    Topics,
)
from kafka_remote_client.cli.output import OutputFormat, show_segments
from kafka_remote_client.cli.plan import plan_options, read_prices, show_plan
from kafka_remote_client.cli.prices import ReaderPlace, load_prices
from kafka_remote_client.cli.progress import spinner
from kafka_remote_client.cli.record_verbs import add_record_verbs
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.cli.shim import effective_settings, serve, with_shim_options
from kafka_remote_client.cli.shim_sources import read_config_file, read_environment, read_flags, shim_config
from kafka_remote_client.cli.signals import stop_signals
from kafka_remote_client.cli.store_arguments import open_listing, parse_encryption_keys
from kafka_remote_client.cli.tier_verbs import add_tier_verbs
from kafka_remote_client.cli.verify import VerifyCommand, verify
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError, PeerUnreachableError
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.remote_log.layouts import LayoutOptions
from kafka_remote_client.shim.checks import check_shim
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.tier import ShimTier
from kafka_remote_client.spark.planning.job_planner import plan
from kafka_remote_client.verify.verifier import VerifyRequest

__all__ = ["app"]

app = typer.Typer(
    cls=Verbs,
    help="Reads Kafka's tiered segments directly from the object store.",
    epilog="Exit status: 0 done, 1 failed or findings, 2 wrong use, 130 interrupted, 141 output closed (docs/cli.md).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _every_verb(
    context: typer.Context,
    config: ConfigFile = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Takes the options in front of the verb."""
    use_configuration(context, config)


@app.command("ls")
def _ls(
    store: Store,
    topics: Topics = None,
    store_option: StoreOptions = None,
    layout: Layout = DEFAULT_LAYOUT,
    key_prefix: KeyPrefix = "",
    encryption_key: EncryptionKeys = None,
    partition: Partition = None,
    output: Output = OutputFormat.TEXT,
    old_topic: OldTopic = None,
) -> None:
    """Lists topics, partitions and segments of the tier."""
    options = LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or []))
    store_options = parse_settings(store_option or [], "--store-option")
    named = topics_of(topics, old_topic, remark)
    only = named[0] if len(named) == 1 else None  # reads no more of the store than that topic
    listing = open_listing(store, layout, options, store_options=store_options, topic=only)
    with listing as (opened, source), spinner():
        lines = found_segments(opened, source, named, partition)
    show_segments(lines, output)


@app.command("plan")
def _plan(
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers",
            help="Bootstrap servers of the Kafka cluster (kafka.bootstrap.servers).",
            metavar="HOST:PORT,…",
        ),
    ] = None,
    topics: Annotated[list[str] | None, typer.Argument(help="Topics to read (subscribe).", metavar="[TOPIC]...")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", help="Option of format('kafka-remote'); repeatable (docs/spark-options.md).", metavar=SETTING_FORMS
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
        float, typer.Option("--latency-ms", min=0, max=LONGEST, help="Latency of one GET in milliseconds.")
    ] = 20.0,
    megabytes_per_second: Annotated[
        float, typer.Option("--megabytes-per-second", min=0.001, help="Throughput of one core in MB/s (10^6 bytes).")
    ] = 100.0,
    prices: PriceFile = None,
    storage_class: StorageClassName = "standard",
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
    output: Output = OutputFormat.TEXT,
    old_topic: OldTopic = None,
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


@app.command("shim")
@with_shim_options
def _shim(
    *,
    config_file: Annotated[
        str | None,
        typer.Option("--config", help="Configuration file. Environment and options override it.", metavar="TOML"),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Print the settings, check that brokers and store can be reached, and exit: 0 yes, 1 no, 2 invalid settings.",
        ),
    ] = False,
    **given: object,
) -> None:
    """Runs a proxy in front of a Kafka cluster that grants locations of tiered records to clients."""

    def read() -> ShimConfig:
        from_file = {} if config_file is None else read_config_file(config_file)
        return shim_config(from_file, read_environment(os.environ), read_flags(given))

    if check:
        config = read()
        for line in effective_settings(config):
            sys.stdout.write(line + "\n")
        if config.store is not None:
            ShimTier(config, Counters(), SystemClock()).close()  # raises for settings that a start refuses
        findings = list(check_shim(config, SystemClock()))
        for finding in findings:
            remark(finding)
        raise typer.Exit(1 if findings else 0)
    told = stop_signals()
    try:
        counters = serve(read, remark, lambda: told.get() == signal.SIGHUP)
    except OSError as error:
        raise ConfigurationError(f"cannot listen: {error.strerror}") from None
    remark(", ".join(f"{name} {count}" for name, count in sorted(counters.items())))


@app.command("demo")
def _demo(
    records: Annotated[int, typer.Option("--records", min=100, help="Number of records to write and read.")] = 200_000,
    fault: Annotated[Fault | None, typer.Option("--fault", help="Fault to inject into the store during the read.")] = None,
) -> None:
    """Runs the whole system on this machine. Needs no broker, Java or Docker."""
    clock = SystemClock()
    with (
        tempfile.TemporaryDirectory(prefix="kafka-remote-demo-") as directory,
        demo_cluster(directory, records, clock) as cluster,
        DemoProgress(records) as progress,
    ):
        result = run_demo(cluster, records=records, fault=fault, clock=clock, wrote=progress.wrote, read=progress.read)
    show_demo(result)
    for failure in result.failures:
        remark(f"the demo failed: {failure}")
    if not result.worked:
        raise typer.Exit(1)


@app.command("cluster")
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
) -> None:
    """Runs a cluster with a tiered topic "orders" until Ctrl-C. Needs no broker, Java or Docker."""
    told = stop_signals()

    def stopped(seconds: float) -> bool:
        try:
            return told.get(timeout=seconds) != signal.SIGHUP
        except Empty:
            return False

    places = Places(directory, port, shim_port, origin_port, not no_shim)
    run_cluster(places, records, SystemClock(), lambda line: print(line, flush=True), stopped)


@app.command("verify")
def _verify(
    store: Store,
    topics: Topics = None,
    layout: Layout = DEFAULT_LAYOUT,
    store_option: StoreOptions = None,
    key_prefix: KeyPrefix = "",
    encryption_key: EncryptionKeys = None,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "--bootstrap-servers",
            help="Bootstrap servers of the cluster whose metadata topic is compared with the store.",
            metavar="HOST:PORT,…",
        ),
    ] = None,
    metadata_topic: Annotated[str, typer.Option("--metadata-topic", help="Name of the metadata topic.")] = METADATA_TOPIC,
    metadata_consumer: Annotated[
        list[str] | None,
        typer.Option(
            "--metadata-consumer", help="librdkafka setting for reading the metadata topic; repeatable.", metavar=SETTING_FORMS
        ),
    ] = None,
    metadata_timeout: Annotated[
        float,
        typer.Option("--metadata-timeout", min=0, max=LONGEST, help="Time-out in seconds for reading the metadata topic."),
    ] = 120.0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Check objects, sizes, manifests and indexes, but no record data.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=64, help="Number of segments to check in parallel.")] = 4,
    allow_offset_gaps: Annotated[
        bool, typer.Option("--allow-offset-gaps", help="Accept offset gaps, for topics that were compacted before.")
    ] = False,
    grace: Annotated[
        float,
        typer.Option("--grace", min=0, max=LONGEST, help="Seconds after which an unfinished copy or deletion is a finding."),
    ] = 900.0,
    output: Output = OutputFormat.TEXT,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
) -> None:
    """Checks a tier for damage. Exit status: 0 sound, 1 findings, 2 failed to check."""
    command = VerifyCommand(
        store=store,
        store_options=parse_settings(store_option or [], "--store-option"),
        layout=layout,
        layout_options=LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or [])),
        request=VerifyRequest(tuple(topics or ()), quick, jobs, allow_offset_gaps, int(grace * 1000)),
        bootstrap_servers=bootstrap_server,
        metadata_topic=metadata_topic,
        metadata_consumer=parse_settings(metadata_consumer or [], "--metadata-consumer"),
        metadata_timeout=metadata_timeout,
        output=output_of(output, as_json=as_json, say=remark),
    )
    raise typer.Exit(verify(command, remark))


add_record_verbs(app)
add_cluster_verbs(app)
add_tier_verbs(app)
