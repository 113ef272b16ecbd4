"""``kafka-remote ls``: the topics, partitions and segments of the tier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import attrs
import typer
from rich.table import Table

from kafka_remote_client.cli import options
from kafka_remote_client.cli.given_settings import parse_settings
from kafka_remote_client.cli.old_spellings import topics_of
from kafka_remote_client.cli.output import OutputFormat, output_console, show_json_lines
from kafka_remote_client.cli.progress import spinner
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.cli.store_arguments import open_listing, parse_encryption_keys
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.model import RemoteLogSegmentMetadata, TopicIdPartition, uuid_to_text
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.layout import ListedSegment, ObjectKind
from kafka_remote_client.remote_log.layouts import LayoutOptions
from kafka_remote_client.remote_log.store_contents import nothing_found

__all__ = ["SegmentLine", "add_verb", "found_segments", "list_segments"]


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("ls")(_ls)


@attrs.frozen
class SegmentLine:
    """One segment. ``end_offset`` is inclusive and, like ``leader_epochs``, ``None`` if the objects do not have it.

    ``bytes`` is the segment's original size, if known; ``stored_bytes`` is that of its log object.

    ``state`` is "live" (a reader of the partition gets it), "shadowed" (another segment holds its offsets in the lineage) or
    "incomplete: …" with the reason. A listing does not have deleted segments.
    """

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    start_offset: int
    end_offset: int | None
    bytes: int
    stored_bytes: int
    leader_epochs: tuple[tuple[int, int], ...] | None
    state: str


def list_segments(source: ListingLocationSource, topics: Sequence[str], partition: int | None) -> Iterator[SegmentLine]:
    """All segments (of these topics, of a partition) by topic, topic id, partition and start offset. No topics = all."""
    for tip in source.listing.partitions():
        if (not topics or tip.topic in topics) and partition in {None, tip.partition}:
            yield from _segments(source, tip)


def found_segments(
    store: RemoteObjectStore, source: ListingLocationSource, topics: Sequence[str], partition: int | None
) -> list[SegmentLine]:
    """:func:`list_segments`. Raises ConfigurationError if a topic has none, or all, with what the store has instead."""
    lines = list(list_segments(source, topics, partition))
    known = {tip.topic for tip in source.listing.partitions()}
    absent = [topic for topic in topics if topic not in known]
    if absent or not lines:
        of = f" of topic {', '.join(absent or topics)}" if topics else ""
        of += "" if partition is None else f" of partition {partition}"
        raise nothing_found(f"found no segments{of}", store)
    return lines


def _segments(source: ListingLocationSource, tip: TopicIdPartition) -> Iterator[SegmentLine]:
    unreadable = source.listing.unreadable(tip)
    cache = source.listing.cache(tip)
    known = {metadata.remote_log_segment_id: metadata for metadata in cache.list_all_remote_log_segments()}
    superseded = source.listing.superseded(tip)
    for listed in source.listing.segments(tip):
        identity = listed.remote_log_segment_id
        if identity in unreadable:
            yield _line(listed, None, f"incomplete: {unreadable[identity]}")
        else:
            yield _line(listed, known[identity], "shadowed" if identity in superseded else "live")


def _line(listed: ListedSegment, metadata: RemoteLogSegmentMetadata | None, state: str) -> SegmentLine:
    tip = listed.topic_id_partition
    stored = listed.sizes.get(ObjectKind.LOG, 0)
    epochs = None if metadata is None else tuple((e.epoch, e.start_offset) for e in metadata.segment_leader_epochs)
    return SegmentLine(
        topic=tip.topic,
        topic_id=uuid_to_text(tip.topic_id),
        partition=tip.partition,
        segment_id=uuid_to_text(listed.remote_log_segment_id.id),
        start_offset=listed.start_offset,
        end_offset=None if metadata is None else metadata.end_offset,
        bytes=stored if metadata is None else metadata.segment_size_in_bytes,
        stored_bytes=stored,
        leader_epochs=epochs,
        state=state,
    )


def _show(lines: Iterable[SegmentLine], output: OutputFormat) -> None:
    """Segments, one a line: JSON objects, or a table for each topic, within 80 columns."""
    if output is OutputFormat.JSON:
        show_json_lines(lines)
        return
    for number, ((topic, topic_id), segments) in enumerate(groupby(lines, lambda line: (line.topic, line.topic_id))):
        print(f"{chr(10) if number else ''}{topic} (topic id {topic_id})")
        output_console().print(_table(segments))


def _table(lines: Iterable[SegmentLine]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("partition", justify="right", no_wrap=True)
    table.add_column("segment", no_wrap=True)
    for name in ("start", "end", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("epochs")
    table.add_column("state")
    for line in lines:
        table.add_row(
            str(line.partition),
            line.segment_id,
            str(line.start_offset),
            "?" if line.end_offset is None else str(line.end_offset),
            str(line.bytes),
            "?" if line.leader_epochs is None else " ".join(f"{epoch}:{start}" for epoch, start in line.leader_epochs),
            line.state,
        )
    return table


def _ls(
    store: options.Store,
    topics: options.Topics = None,
    store_option: options.StoreOptions = None,
    layout: options.Layout = options.DEFAULT_LAYOUT,
    key_prefix: options.KeyPrefix = "",
    encryption_key: options.EncryptionKeys = None,
    partition: options.Partition = None,
    output: options.Output = OutputFormat.TEXT,
    old_topic: options.OldTopic = None,
) -> None:
    """Lists topics, partitions and segments of the tier."""
    layout_options = LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or []))
    store_options = parse_settings(store_option or [], "--store-option")
    named = topics_of(topics, old_topic, remark)
    only = named[0] if len(named) == 1 else None  # reads no more of the store than that topic
    listing = open_listing(store, layout, layout_options, store_options=store_options, topic=only)
    with listing as (opened, source), spinner():
        lines = found_segments(opened, source, named, partition)
    _show(lines, output)
