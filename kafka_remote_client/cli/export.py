"""``kafka-remote export``: topics from the tier to a table, with the brokers if asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import attrs
import typer

from kafka_remote_client.cli.given_settings import parse_settings
from kafka_remote_client.cli.options import (
    DEFAULT_LAYOUT,
    SETTING_FORMS,
    EncryptionKeys,
    Isolation,
    KeyPrefix,
    Layout,
    Store,
    StoreOptions,
    TopicId,
)
from kafka_remote_client.cli.output import OutputFormat, show_json, show_text
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

if TYPE_CHECKING:
    from kafka_remote_client.scanning.export.result import ExportResult
    from kafka_remote_client.scanning.export.run import ExportProgress
    from kafka_remote_client.scanning.scan_plan import ScanPlan

__all__ = ["ExportCommand", "ExportFormat", "add_verb", "export"]


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("export")(_export)


class ExportFormat(StrEnum):
    """``--format``."""

    PARQUET = "parquet"
    ICEBERG = "iceberg"
    DELTA = "delta"


@attrs.frozen(kw_only=True)
class ExportCommand:
    """The arguments of the verb. ``reading``: of ``scan``; ``writing``: of ``to_parquet``.

    ``target``: a folder, or the name of an Iceberg table, which is in ``catalog``. ``dry_run``: only the plan is shown.
    """

    store: str
    topics: Sequence[str]
    target: str
    reading: Mapping[str, Any]
    writing: Mapping[str, Any]
    topic_id: UUID | None = None
    group: str | None = None
    consumer: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    format: ExportFormat = ExportFormat.PARQUET
    catalog: str | None = None
    output: OutputFormat = OutputFormat.TEXT
    dry_run: bool = False


def export(command: ExportCommand, say: Callable[[str], None]) -> None:
    """Runs or resumes the job and prints what it made. ``say`` gets its progress where no bar can be shown.

    Raises MissingExtraError without pyarrow or what writes the format, and as ``TableScan.to_parquet`` and
    ``ExportResult.commit_to_group``.
    """
    try:
        from kafka_remote_client.scanning.table_scan import scan  # noqa: PLC0415 - needs an extra
    except ModuleNotFoundError as error:
        raise missing_extra("kafka-remote export", error, "arrow") from None
    from kafka_remote_client.scanning.progress_bar import export_bar  # noqa: PLC0415 - as above

    table = scan(command.store, command.topics, topic_id=command.topic_id, **command.reading)
    if command.dry_run:
        _show_plan(table.plan(), command.output)
        return
    with export_bar("export") as bar:
        writing = {**command.writing, "progress": bar or _Told(say)}
        if command.format is ExportFormat.ICEBERG:
            result = table.to_iceberg(command.catalog or "default", command.target, **writing)
        elif command.format is ExportFormat.DELTA:
            result = table.to_delta(command.target, **writing)
        else:
            result = table.to_parquet(command.target, **writing)
    if command.group is not None:
        result.commit_to_group(command.group, command.consumer)
    _show(result, command)


def _show_plan(plan: ScanPlan, output: OutputFormat) -> None:
    if output is OutputFormat.TEXT:
        show_text(str(plan))
        return
    show_json(
        {
            "splits": len(plan.splits),
            "partitions": len(plan.ends),
            "segments": plan.segments,
            "known_segments": plan.known_segments,
            "gets": plan.gets,
            "read_bytes": plan.read_bytes,
            "broker_bytes": plan.broker_bytes,
        }
    )


class _Told:
    """Says how far an export is, once for each tenth of its splits."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._tenth = -1

    def __call__(self, progress: ExportProgress) -> None:
        tenth = progress.splits * 10 // max(1, progress.all_splits)
        if tenth > self._tenth:
            self._tenth = tenth
            self._say(f"{progress.splits} of {progress.all_splits} splits written, {progress.rows} records by this run")


def _show(result: ExportResult, command: ExportCommand) -> None:
    if command.output is OutputFormat.JSON:
        told = {
            "job": result.job,
            "target": command.target,
            "records": result.rows,
            "files": len(result.files),
            "bytes": result.size_in_bytes,
            "unreadable_records": result.unreadable,
            "splits": result.splits,
            "resumed_splits": result.resumed,
            "starting_offsets": json.loads(result.starting_offsets()),
            "group": command.group,
        }
        sys.stdout.write(json.dumps(told, separators=(",", ":"), ensure_ascii=False) + "\n")
        return
    sys.stdout.write(
        f"job {result.job}: {result.rows} records in {len(result.files)} files, {result.size_in_bytes} bytes\n"
        f"starting offsets of the next read: {result.starting_offsets()}\n"
    )
    if result.unreadable:
        folder = result.dead_letters[0].path.rpartition("/")[0]
        sys.stdout.write(f"{result.unreadable} records do not parse; they are in {folder}\n")
    if command.group is not None:
        sys.stdout.write(f"committed for group {command.group}\n")


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
