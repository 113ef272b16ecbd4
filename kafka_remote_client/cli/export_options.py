"""The options of ``kafka-remote export``: what is read, where it is written, and in which format."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from kafka_remote_client.cli.options import SETTING_FORMS, Isolation
from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.fallback import OnFallback

__all__ = [
    "BrokerSettings",
    "Catalog",
    "Columns",
    "CommitGroup",
    "Compression",
    "DryRun",
    "End",
    "ExportFormat",
    "ExportOutput",
    "ExportedTopics",
    "FallbackChoice",
    "IsolationLevel",
    "Job",
    "Live",
    "PartitionBy",
    "Partitions",
    "Since",
    "Start",
    "TableFormat",
    "Target",
    "Threads",
    "Until",
]


class ExportFormat(StrEnum):
    """``--format``."""

    PARQUET = "parquet"
    ICEBERG = "iceberg"
    DELTA = "delta"


ExportedTopics = Annotated[list[str], typer.Argument(help="Topics to export.", metavar="TOPIC")]
Partitions = Annotated[list[int] | None, typer.Option("--partition", min=0, help="Partition to export; repeatable.")]
Start = Annotated[int | None, typer.Option("--start", min=0, help="Start offset, inclusive.")]
End = Annotated[int | None, typer.Option("--end", min=0, help="End offset, exclusive.")]
Since = Annotated[str | None, typer.Option("--since", help="Start time, inclusive, in ISO 8601.", metavar="TIME")]
Until = Annotated[str | None, typer.Option("--until", help="End time, exclusive, in ISO 8601.", metavar="TIME")]
Columns = Annotated[
    list[str] | None, typer.Option("--column", help="Column to export; repeatable. Default: all.", metavar="NAME")
]
IsolationLevel = Annotated[Isolation, typer.Option("--isolation-level")]
Live = Annotated[bool, typer.Option("--live", help="Also export the records that are not tiered yet.")]
FallbackChoice = Annotated[OnFallback, typer.Option("--on-fallback", help="What happens if a part of the tier cannot be read.")]
BrokerSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--consumer",
        help="librdkafka setting for --commit-group, --live and --on-fallback; repeatable.",
        metavar=SETTING_FORMS,
    ),
]
CommitGroup = Annotated[
    str | None,
    typer.Option("--commit-group", help="Consumer group that continues where the export ends.", metavar="GROUP"),
]
Target = Annotated[
    str,
    typer.Option(
        "--target",
        help="Folder or its URL (s3://BUCKET/PREFIX, gs://…, abfs://…), or the name of an Iceberg table.",
        metavar="URL|NAMESPACE.TABLE",
    ),
]
TableFormat = Annotated[ExportFormat, typer.Option("--format", help="Format of the table.")]
Catalog = Annotated[
    str | None,
    typer.Option("--catalog", help="Catalog of the Iceberg table in pyiceberg's configuration.", metavar="NAME"),
]
Job = Annotated[str, typer.Option("--job", help="Name of the job. A killed job continues; a finished job writes nothing.")]
PartitionBy = Annotated[
    list[str] | None,
    typer.Option("--partition-by", help="Write one folder for each topic, day or hour; repeatable.", metavar="topic|day|hour"),
]
Compression = Annotated[
    str, typer.Option("--compression", help="Compression codec: zstd, snappy, gzip, lz4 or none.", metavar="CODEC")
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="Number of splits to write in parallel; default: the cores, at most 8."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and write nothing.")]
ExportOutput = Annotated[OutputFormat, typer.Option("--output", help="Format: text, or json (one object).")]
