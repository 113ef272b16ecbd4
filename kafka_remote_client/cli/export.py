"""``kafka-remote export``: topics from the tier to a table, with the brokers if asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from kafka_remote_client.cli import export_options as options
from kafka_remote_client.cli.export_report import export_progress, show_plan, show_result
from kafka_remote_client.cli.given_settings import parse_settings
from kafka_remote_client.cli.options import (
    DEFAULT_LAYOUT,
    EncryptionKeys,
    Isolation,
    KeyPrefix,
    Layout,
    Store,
    StoreOptions,
    TopicId,
)
from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.cli.store_arguments import parse_encryption_keys, parse_topic_id
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
from kafka_remote_client.errors import missing_extra
from kafka_remote_client.fallback import OnFallback
from kafka_remote_client.location.bootstrap import named_servers
from kafka_remote_client.remote_log.store_contents import naming_options

if TYPE_CHECKING:
    from kafka_remote_client.scanning.export.result import ExportResult
    from kafka_remote_client.scanning.table_scan import TableScan

__all__ = ["add_verb"]


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("export")(_export)


def _export(
    store: Store,
    topics: options.ExportedTopics,
    target: options.Target,
    form: options.TableFormat = options.ExportFormat.PARQUET,
    catalog: options.Catalog = None,
    store_option: StoreOptions = None,
    layout: Layout = DEFAULT_LAYOUT,
    key_prefix: KeyPrefix = "",
    encryption_key: EncryptionKeys = None,
    topic_id: TopicId = None,
    partition: options.Partitions = None,
    start: options.Start = None,
    end: options.End = None,
    since: options.Since = None,
    until: options.Until = None,
    column: options.Columns = None,
    isolation_level: options.IsolationLevel = Isolation.READ_COMMITTED,
    job: options.Job = "export",
    partition_by: options.PartitionBy = None,
    compression: options.Compression = "zstd",
    value_format: ValueFormat = None,
    value_schema: ValueSchema = None,
    key_format: KeyFormat = None,
    key_schema: KeySchema = None,
    schema_registry: SchemaRegistry = None,
    on_error: OnError = OnErrorPolicy.RAISE,
    threads: options.Threads = None,
    commit_group: options.CommitGroup = None,
    consumer: options.BrokerSettings = None,
    live: options.Live = False,
    on_fallback: options.FallbackChoice = OnFallback.FAIL,
    dry_run: options.DryRun = False,
    output: options.ExportOutput = OutputFormat.TEXT,
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
    if catalog is not None and form is not options.ExportFormat.ICEBERG:
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
    writing = {
        "job": job,
        "partition_by": partition_by or (),
        "compression": compression,
        **typed_arguments(value_format, value_schema, key_format, key_schema, schema_registry, on_error),
    }
    table = _scan(store, topics, topic_id=parse_topic_id(topic_id), **reading)
    if dry_run:
        with naming_options():
            show_plan(table.plan(), output)
        return
    with export_progress(remark) as progress, naming_options():
        result = _write(table, form, target, catalog or "default", {**writing, "progress": progress})
    if commit_group is not None:
        result.commit_to_group(commit_group, settings)
    show_result(result, output, target=target, group=commit_group)


def _scan(store: str, topics: list[str], **reading: Any) -> TableScan:
    try:
        from kafka_remote_client.scanning.scan_topics import scan  # noqa: PLC0415 - needs an extra
    except ModuleNotFoundError as error:
        raise missing_extra("kafka-remote export", error, "arrow") from None
    return scan(store, topics, **reading)


def _write(table: TableScan, form: options.ExportFormat, target: str, catalog: str, writing: dict[str, Any]) -> ExportResult:
    """``catalog``: of an Iceberg table, whose name is ``target``."""
    match form:
        case options.ExportFormat.ICEBERG:
            return table.to_iceberg(catalog, target, **writing)
        case options.ExportFormat.DELTA:
            return table.to_delta(target, **writing)
        case options.ExportFormat.PARQUET:
            return table.to_parquet(target, **writing)
