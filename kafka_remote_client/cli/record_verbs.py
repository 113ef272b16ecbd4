"""The verbs that read records of the tier, ``dump`` and ``export``, and their options."""

from __future__ import annotations

import sys
from contextlib import closing
from itertools import islice
from typing import Annotated

import typer

from kafka_remote_client.cli.dump import DumpRequest, dump
from kafka_remote_client.cli.dump_lines import DumpOnError, line_format
from kafka_remote_client.cli.export import ExportCommand, ExportFormat, export
from kafka_remote_client.cli.given_settings import parse_settings
from kafka_remote_client.cli.offsets import parse_time
from kafka_remote_client.cli.old_spellings import topics_of
from kafka_remote_client.cli.options import (
    DEFAULT_LAYOUT,
    SETTING_FORMS,
    EncryptionKeys,
    Isolation,
    KeyPrefix,
    Layout,
    OldTopic,
    Partition,
    Store,
    StoreOptions,
    TopicId,
)
from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.cli.store_arguments import open_listing, parse_encryption_keys, parse_topic_id
from kafka_remote_client.cli.typed_options import (
    ColumnFormat,
    KeyFormat,
    KeySchema,
    OnError,
    OnErrorPolicy,
    SchemaRegistry,
    ValueFormat,
    ValueSchema,
    typed_arguments,
)
from kafka_remote_client.fallback import OnFallback
from kafka_remote_client.location.bootstrap import named_servers
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.remote_log.layouts import LayoutOptions

__all__ = ["add_verbs"]


def add_verbs(app: typer.Typer) -> None:
    """Adds the verbs of this module."""
    app.command("dump")(_dump)
    app.command("export")(_export)


def _dump(
    store: Store,
    topics: Annotated[list[str] | None, typer.Argument(help="Topics to read.", metavar="TOPIC")] = None,
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
    since: Annotated[
        str | None, typer.Option("--since", help="Start time, inclusive, in ISO 8601 or @MILLISECONDS.", metavar="TIME")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="End time, exclusive, in ISO 8601 or @MILLISECONDS.", metavar="TIME")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="Number of records to print at most, of all topics together.")
    ] = None,
    value_format: Annotated[ColumnFormat | None, typer.Option("--value-format", help="Format of the values.")] = None,
    value_schema: ValueSchema = None,
    key_format: Annotated[ColumnFormat | None, typer.Option("--key-format", help="Format of the keys.")] = None,
    key_schema: KeySchema = None,
    schema_registry: SchemaRegistry = None,
    on_error: Annotated[
        DumpOnError,
        typer.Option("--on-error", help="What happens to a record that does not parse: end the dump, or print why."),
    ] = DumpOnError.RAISE,
    output: Annotated[
        OutputFormat, typer.Option("--output", help="Format: text (a line with tabs), or json (one object per line).")
    ] = OutputFormat.JSON,
    old_topic: OldTopic = None,
) -> None:
    """Prints the records of topics from the tier, without a broker."""
    level = IsolationLevel[isolation_level.name]
    named = topics_of(topics, old_topic, remark)
    if not named:
        raise typer.BadParameter("name at least one topic", param_hint="TOPIC...")
    if topic_id is not None and len(named) > 1:
        raise typer.BadParameter("--topic-id needs exactly one topic", param_hint="--topic-id")
    options = LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or []))
    store_options = parse_settings(store_option or [], "--store-option")
    identity = parse_topic_id(topic_id)
    lines = line_format(
        output,
        {"key": key_format, "value": value_format},
        {"key": key_schema, "value": value_schema},
        parse_settings(schema_registry or [], "--schema-registry"),
        on_error,
    )
    since_ms = None if since is None else parse_time(since, "--since")
    until_ms = None if until is None else parse_time(until, "--until")
    left = count
    for topic in named:
        request = DumpRequest(topic, partition, start, end, level, allow_offset_gaps, since_ms, until_ms)
        listing = open_listing(store, layout, options, store_options=store_options, topic=topic, topic_id=identity)
        with listing as (opened, source), closing(dump(request, opened, source, remark)) as records:
            for record in islice(records, left):
                sys.stdout.write(lines.line(record) + "\n")
                left = None if left is None else left - 1
            sys.stdout.flush()
        if left == 0:
            break


def _export(
    store: Store,
    topics: Annotated[list[str], typer.Argument(help="Topics to export.", metavar="TOPIC")],
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and write nothing.")] = False,
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
        dry_run=dry_run,
    )
    export(command, remark)
