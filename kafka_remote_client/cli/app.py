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
from kafka_remote_client.cli.dump import DumpRequest, dump
from kafka_remote_client.cli.export import ExportCommand, ExportFormat, export
from kafka_remote_client.cli.given_settings import parse_settings
from kafka_remote_client.cli.ls import found_segments
from kafka_remote_client.cli.old_spellings import output_of, topics_of
from kafka_remote_client.cli.options import (
    DEFAULT_LAYOUT,
    LONGEST,
    SETTING_FORMS,
    EncryptionKeys,
    Isolation,
    KeyPrefix,
    Layout,
    OldTopic,
    Output,
    Partition,
    Store,
    StoreOptions,
    TopicId,
    Topics,
)
from kafka_remote_client.cli.output import OutputFormat, remark, show_segments
from kafka_remote_client.cli.plan import plan_options, show_plan
from kafka_remote_client.cli.progress import spinner
from kafka_remote_client.cli.shim import effective_settings, serve, with_shim_options
from kafka_remote_client.cli.shim_sources import read_config_file, read_environment, read_flags, shim_config
from kafka_remote_client.cli.signals import stop_signals
from kafka_remote_client.cli.store_arguments import open_listing, parse_encryption_keys, parse_topic_id
from kafka_remote_client.cli.tier_verbs import add_tier_verbs
from kafka_remote_client.cli.typed_options import (
    KeyFormat,
    KeySchema,
    OnError,
    OnErrorPolicy,
    SchemaRegistry,
    ValueFormat,
    ValueSchema,
    typed_arguments,
)
from kafka_remote_client.cli.verify import VerifyCommand, verify
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError, PeerUnreachableError
from kafka_remote_client.fallback import OnFallback
from kafka_remote_client.location.bootstrap import named_servers
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.remote_log.layouts import LayoutOptions
from kafka_remote_client.shim.checks import check_shim
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.tier import ShimTier
from kafka_remote_client.spark.planning.job_figures import Prices
from kafka_remote_client.spark.planning.job_planner import plan
from kafka_remote_client.verify.verifier import VerifyRequest

__all__ = ["app"]

app = typer.Typer(
    cls=Verbs,
    help="Reads Kafka's tiered segments directly from the object store.",
    epilog="Exit status: 0 done, 1 failed or findings, 2 wrong use, 130 interrupted, 141 output closed (docs/cli.md).",
    no_args_is_help=True,
    add_completion=False,
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


@app.command("dump")
def _dump(
    store: Store,
    topics: Annotated[list[str] | None, typer.Argument(help="Topics to read.", metavar="TOPIC...")] = None,
    store_option: StoreOptions = None,
    layout: Layout = DEFAULT_LAYOUT,
    key_prefix: KeyPrefix = "",
    encryption_key: EncryptionKeys = None,
    partition: Partition = None,
    start: Annotated[int | None, typer.Option("--start", min=0, help="Start offset, inclusive.")] = None,
    end: Annotated[int | None, typer.Option("--end", min=0, help="End offset, exclusive.")] = None,
    isolation_level: Annotated[Isolation, typer.Option("--isolation-level")] = Isolation.READ_COMMITTED,
    topic_id: TopicId = None,
    allow_offset_gaps: Annotated[
        bool, typer.Option("--allow-offset-gaps", help="Accept offset gaps, for topics that were compacted before.")
    ] = False,
    output: Annotated[OutputFormat, typer.Option("--output", help="Format: json (one object per line).")] = OutputFormat.JSON,
    old_topic: OldTopic = None,
) -> None:
    """Prints the records of topics from the tier, without a broker."""
    if output is not OutputFormat.JSON:
        raise typer.BadParameter("only --output json is supported", param_hint="--output")
    level = IsolationLevel[isolation_level.name]
    named = topics_of(topics, old_topic, remark)
    if not named:
        raise typer.BadParameter("name at least one topic", param_hint="TOPIC...")
    if topic_id is not None and len(named) > 1:
        raise typer.BadParameter("--topic-id needs exactly one topic", param_hint="--topic-id")
    options = LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or []))
    store_options = parse_settings(store_option or [], "--store-option")
    identity = parse_topic_id(topic_id)
    for topic in named:
        request = DumpRequest(topic, partition, start, end, level, allow_offset_gaps)
        with open_listing(store, layout, options, store_options=store_options, topic=topic, topic_id=identity) as (
            opened,
            source,
        ):
            for line in dump(request, opened, source, remark):
                sys.stdout.write(line + "\n")
            sys.stdout.flush()


@app.command("export")
def _export(
    store: Store,
    topics: Annotated[list[str], typer.Argument(help="Topics to export.", metavar="TOPIC...")],
    target: Annotated[
        str,
        typer.Option(
            "--target",
            help="Folder or its URL (s3://BUCKET/PREFIX, gs://…, abfs://…), or the name of an Iceberg table.",
            metavar="URL|NAMESPACE.TABLE",
        ),
    ],
    form: Annotated[ExportFormat, typer.Option("--format", help="Format of the table.")] = ExportFormat.PARQUET,
    catalog: Annotated[
        str | None,
        typer.Option("--catalog", help="Catalog of the Iceberg table in pyiceberg's configuration.", metavar="NAME"),
    ] = None,
    store_option: StoreOptions = None,
    layout: Layout = DEFAULT_LAYOUT,
    key_prefix: KeyPrefix = "",
    encryption_key: EncryptionKeys = None,
    topic_id: TopicId = None,
    partition: Annotated[list[int] | None, typer.Option("--partition", min=0, help="Partition to export; repeatable.")] = None,
    start: Annotated[int | None, typer.Option("--start", min=0, help="Start offset, inclusive.")] = None,
    end: Annotated[int | None, typer.Option("--end", min=0, help="End offset, exclusive.")] = None,
    since: Annotated[str | None, typer.Option("--since", help="Start time, inclusive, in ISO 8601.", metavar="TIME")] = None,
    until: Annotated[str | None, typer.Option("--until", help="End time, exclusive, in ISO 8601.", metavar="TIME")] = None,
    column: Annotated[
        list[str] | None, typer.Option("--column", help="Column to export; repeatable. Default: all.", metavar="NAME")
    ] = None,
    isolation_level: Annotated[Isolation, typer.Option("--isolation-level")] = Isolation.READ_COMMITTED,
    job: Annotated[
        str, typer.Option("--job", help="Name of the job. A killed job continues; a finished job writes nothing.")
    ] = "export",
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            "--partition-by", help="Write one folder for each topic, day or hour; repeatable.", metavar="topic|day|hour"
        ),
    ] = None,
    compression: Annotated[
        str, typer.Option("--compression", help="Compression codec: zstd, snappy, gzip, lz4 or none.", metavar="CODEC")
    ] = "zstd",
    value_format: ValueFormat = None,
    value_schema: ValueSchema = None,
    key_format: KeyFormat = None,
    key_schema: KeySchema = None,
    schema_registry: SchemaRegistry = None,
    on_error: OnError = OnErrorPolicy.RAISE,
    threads: Annotated[
        int | None,
        typer.Option("--threads", min=1, help="Number of splits to write in parallel; default: the cores, at most 8."),
    ] = None,
    commit_group: Annotated[
        str | None,
        typer.Option("--commit-group", help="Consumer group that continues where the export ends.", metavar="GROUP"),
    ] = None,
    consumer: Annotated[
        list[str] | None,
        typer.Option(
            "--consumer",
            help="librdkafka setting for --commit-group, --live and --on-fallback; repeatable.",
            metavar=SETTING_FORMS,
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Also export the records that are not tiered yet.")] = False,
    on_fallback: Annotated[
        OnFallback, typer.Option("--on-fallback", help="What happens if a part of the tier cannot be read.")
    ] = OnFallback.FAIL,
    output: Annotated[OutputFormat, typer.Option("--output", help="Format: text, or json (one object).")] = OutputFormat.TEXT,
) -> None:
    """Exports topics from the tier to Parquet files, Iceberg or Delta, exactly once. Needs no broker by default."""
    settings = parse_settings(consumer or [], "--consumer")
    needing = {
        "--commit-group": commit_group is not None,
        "--live": live,
        "--on-fallback": on_fallback is OnFallback.BROKER,
    }
    for option in (name for name, is_set in needing.items() if is_set and not named_servers(settings)[1]):
        raise typer.BadParameter("needs --consumer bootstrap.servers=HOST:PORT", param_hint=option)
    if catalog is not None and form is not ExportFormat.ICEBERG:
        raise typer.BadParameter("needs --format iceberg", param_hint="--catalog")
    reading = {
        "partitions": partition or None,
        "start_offset": start,
        "end_offset": end,
        "since": since,
        "until": until,
        "columns": column or None,
        "isolation_level": isolation_level.value,
        "live": live,
        "on_fallback": on_fallback.value,
        "broker": settings if live or on_fallback is OnFallback.BROKER else None,
        "layout": layout,
        "key_prefix": key_prefix,
        "encryption_keys": parse_encryption_keys(encryption_key or []),
        "store_options": parse_settings(store_option or [], "--store-option"),
        "threads": threads,
    }
    command = ExportCommand(
        store=store,
        topics=topics,
        target=target,
        reading=reading,
        writing={
            "job": job,
            "partition_by": partition_by or (),
            "compression": compression,
            **typed_arguments(value_format, value_schema, key_format, key_schema, schema_registry, on_error),
        },
        topic_id=parse_topic_id(topic_id),
        group=commit_group,
        consumer=settings,
        format=form,
        catalog=catalog,
        output=output,
    )
    export(command, remark)


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
    price_per_1000_gets: Annotated[
        float,
        typer.Option("--price-per-1000-gets", min=0, help="Price of 1,000 GETs in dollars; default: S3 Standard, us-east-1."),
    ] = Prices().per_1000_gets,
    price_per_gb: Annotated[
        float, typer.Option("--price-per-gb", min=0, help="Price of transferring 1 GB in dollars; free within a region.")
    ] = Prices().per_gb,
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
            prices=Prices(price_per_1000_gets, price_per_gb),
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


add_cluster_verbs(app)
add_tier_verbs(app)
