"""``kafka-remote lag``: how far the copy to the tier is behind the log, and segments whose copy or deletion did not finish.

``copied`` is the offset after the last tiered one, or the log's start if that is later: nothing is tiered, or records were
deleted. ``lag`` is the number of records from there to the log's end. Brokers never copy the active segment, so a lag within
one segment is normal. The metadata topic knows segments that are being copied or deleted (``busy``); those whose last event is
older than a grace are ``dangling``: a broker died, or its retries go on.

References: KIP-405, RemoteLogSegmentState.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated

import attrs
import typer

from kafka_remote_client.cli import options
from kafka_remote_client.cli.given_settings import parse_settings, utf_8
from kafka_remote_client.cli.offsets import OffsetsLine, open_cluster, partition_lines, read_metadata
from kafka_remote_client.cli.output import OutputFormat, show_lines
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.model import RemoteLogSegmentMetadata, RemoteLogSegmentState
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.verify.known_metadata import KnownMetadata

__all__ = ["COLUMNS", "LagLine", "add_verb", "lag_lines"]

COLUMNS = {
    "topic": "topic",
    "partition": "partition",
    "copied": "copied_offset",
    "end": "end_offset",
    "lag": "lag_records",
    "busy": "busy_segments",
    "dangling": "dangling_segments",
}
"""From heading to field."""
_UNFINISHED = (RemoteLogSegmentState.COPY_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("lag")(_lag)


@attrs.frozen
class LagLine:
    """One partition. ``None``: the broker or the metadata topic does not say. A topic's earlier ids count as well."""

    topic: str
    partition: int
    copied_offset: int | None
    end_offset: int | None
    lag_records: int | None
    busy_segments: int | None
    dangling_segments: int | None


def lag_lines(bounds: Sequence[OffsetsLine], known: KnownMetadata | None, now_ms: int, grace_ms: int) -> list[LagLine]:
    """``known`` is the metadata topic, ``None`` if it was not read. Pure."""
    lines = []
    for one in bounds:
        ends = [one.start_offset, None if one.latest_tiered is None else one.latest_tiered + 1]
        copied = max((offset for offset in ends if offset is not None), default=None)
        lag = None if copied is None or one.end_offset is None else max(0, one.end_offset - copied)
        busy = dangling = None
        if known is not None:
            unfinished = _unfinished(known, one.topic, one.partition)
            dangling = sum(now_ms - segment.event_timestamp_ms >= grace_ms for segment in unfinished)
            busy = len(unfinished) - dangling
        lines.append(LagLine(one.topic, one.partition, copied, one.end_offset, lag, busy, dangling))
    return lines


def _unfinished(known: KnownMetadata, topic: str, partition: int) -> list[RemoteLogSegmentMetadata]:
    caches = [known.cache(tip) for tip in known.partitions(topic) if tip.partition == partition]
    return [
        segment
        for cache in caches
        if cache is not None
        for segment in cache.list_all_remote_log_segments()
        if segment.state in _UNFINISHED
    ]


def _lag(
    topics: Annotated[list[str], typer.Argument(help="Topics to show.", metavar="TOPIC", callback=utf_8)],
    bootstrap_servers: options.BootstrapServers,
    consumer: options.ConsumerSettings = None,
    metadata_topic: options.MetadataTopicName = METADATA_TOPIC,
    no_metadata: options.NoMetadata = False,
    metadata_timeout: options.MetadataTimeout = options.DEFAULT_METADATA_TIMEOUT,
    grace: options.Grace = options.DEFAULT_GRACE,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
    output: options.Output = OutputFormat.TEXT,
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
    show_lines(lines, COLUMNS, output)
