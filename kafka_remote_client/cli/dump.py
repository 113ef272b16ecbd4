"""``kafka-remote dump``: the records of a topic in the tier, without a broker, in offset order.

Offsets bound the read; times choose records in it. A partition is read from the first record at or after ``since``. It is read
to the end for ``until``, because records with earlier times may follow later ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from itertools import islice
from typing import Annotated

import attrs
import typer

from kafka_remote_client.cli import options
from kafka_remote_client.cli.dump_lines import Dumped, DumpOnError, line_format
from kafka_remote_client.cli.given_settings import parse_settings
from kafka_remote_client.cli.offsets import parse_time
from kafka_remote_client.cli.old_spellings import topics_of
from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.cli.store_arguments import open_listing, parse_encryption_keys, parse_topic_id
from kafka_remote_client.cli.typed_options import ColumnFormat, KeySchema, SchemaRegistry, ValueSchema
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import ConfigurationError, DirectFetchError, LocationError
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.tier_reader import TierReader
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.model import IsolationLevel, TopicIdPartition
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.layouts import LayoutOptions
from kafka_remote_client.remote_log.store_contents import nothing_found

__all__ = ["DumpRequest", "add_verb", "dump"]

_PATIENCE_SECONDS = 600.0


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("dump")(_dump)


@attrs.frozen
class DumpRequest:
    """What to dump. ``end`` is exclusive; ``partition`` ``None`` means all, in order.

    ``since_ms <= timestamp < until_ms``, in milliseconds since 1970.
    """

    topic: str
    partition: int | None = None
    start: int | None = None
    end: int | None = None
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    allow_offset_gaps: bool = False
    since_ms: int | None = None
    until_ms: int | None = None

    def is_in_time(self, timestamp: int) -> bool:
        """Whether a record of that time is to be dumped."""
        return (self.since_ms is None or timestamp >= self.since_ms) and (self.until_ms is None or timestamp < self.until_ms)

    @property
    def interval(self) -> str:
        """The interval in words, for messages."""
        bounds = {"at or above": self.start, "below": self.end}
        return " and ".join(f"{where} {offset}" for where, offset in bounds.items() if offset is not None)


def dump(
    request: DumpRequest, store: RemoteObjectStore, source: ListingLocationSource, say: Callable[[str], None]
) -> Generator[Dumped, None, None]:
    """The records. ``say`` gets remarks for people, such as where committed records end.

    Raises ConfigurationError at once when the store has no such topic or partition, or several of that name. Reading raises it
    for an interval in which no partition can have a record; otherwise the error that stopped the read. There is no other source
    here, so an error is never skipped silently.
    """
    if request.start is not None and request.end is not None and request.start >= request.end:
        raise ConfigurationError(f"the interval is empty: --start {request.start} must be below --end {request.end}")
    if request.since_ms is not None and request.until_ms is not None and request.since_ms >= request.until_ms:
        raise ConfigurationError("the interval is empty: --since must be before --until")
    partitions = [tip for tip in source.partitions(request.topic) if request.partition in {None, tip.partition}]
    if not partitions:
        what = request.topic if request.partition is None else f"{request.topic}-{request.partition}"
        raise nothing_found(f"found no segments of {what}", store)
    return _dump_partitions(partitions, request, store, source, say)


def _dump_partitions(
    partitions: list[TopicIdPartition],
    request: DumpRequest,
    store: RemoteObjectStore,
    source: ListingLocationSource,
    say: Callable[[str], None],
) -> Generator[Dumped, None, None]:
    config = RemoteFetchConfig(enabled=True, allow_offset_gaps=request.allow_offset_gaps)
    with TierReader(store, source, config) as tier:
        intervals = {tip: interval for tip in partitions if (interval := _interval(tier, tip, request, say)) is not None}
        found = False
        for tip in partitions:
            _check_damage(tier, tip, request, behind=False)
            for record in _dump_partition(tier, tip, *intervals.get(tip, (0, 0)), request, say):
                found = True
                yield record
            _check_damage(tier, tip, request, behind=True)
        if not intervals:
            raise ConfigurationError(f"the tier has no offsets of {request.topic} {request.interval}")
        if not found:
            say(f"the tier has no records of {request.topic} in the interval")


def _interval(
    tier: TierReader, tip: TopicIdPartition, request: DumpRequest, say: Callable[[str], None]
) -> tuple[int, int] | None:
    """Returns the offsets to read, end exclusive; ``None`` if the partition has none of them. Reports what is cut off."""
    name, offsets = f"{tip.topic}-{tip.partition}", tier.bounds(tip.topic, tip.partition)
    first, end = offsets.log_start, offsets.latest_tiered + 1
    if first < 0:
        return None
    start = first if request.start is None else max(first, request.start)
    stop = end if request.end is None else min(end, request.end)
    if start >= stop:
        say(f"{name}: the tier holds offsets {first} to {end - 1}, and none {request.interval}")
        return None
    if request.start is not None and request.start < first:
        say(f"{name}: the tier begins at offset {first}")
    if request.end is not None and request.end > end:
        say(f"{name}: the tier ends before offset {end}")
    if request.since_ms is None:
        return start, stop
    first_in_time = tier.offset_for_time(tip, request.since_ms, start)
    return (stop if first_in_time is None else first_in_time), stop


def _check_damage(tier: TierReader, tip: TopicIdPartition, request: DumpRequest, *, behind: bool) -> None:
    """Raises LocationError for a damaged segment of the request in front of all that can be read, or ``behind`` it.

    The tier begins behind the first and ends before the second, and nothing else shows that their records are missing.
    """
    name, offsets = f"{tip.topic}-{tip.partition}", tier.bounds(tip.topic, tip.partition)
    first, end = offsets.log_start, offsets.latest_tiered + 1
    for listed, why in tier.damaged(tip):
        at, reason = listed.start_offset, f"segment {listed.remote_log_segment_id} is damaged: {why}"
        if request.end is not None and at >= request.end:
            continue
        if first < 0:
            raise LocationError(f"{name} cannot be read at offset {at}: {reason}")
        if behind and at >= end:
            raise LocationError(f"{name} cannot be read further than offset {end}: {reason}; --end {end} leaves it out")
        if not behind and at < first and (request.start or 0) < first:
            raise LocationError(f"{name} cannot be read at offset {at}: {reason}; --start {first} leaves it out")


def _dump_partition(
    tier: TierReader, tip: TopicIdPartition, start: int, stop: int, request: DumpRequest, say: Callable[[str], None]
) -> Generator[Dumped, None, None]:
    if start >= stop:
        return
    reader = tier.read(tip.topic, tip.partition, start, stop, isolation_level=request.isolation_level)
    for item in reader.blocks(_PATIENCE_SECONDS):
        if isinstance(item, ReadEnd):
            _conclude(tip, item, stop, say)
        else:
            yield from ((tip, row) for row in item.rows() if request.is_in_time(row[1]))


def _conclude(tip: TopicIdPartition, end: ReadEnd, stop: int, say: Callable[[str], None]) -> None:
    if end.reason == "undecided":
        say(
            f"{tip.topic}-{tip.partition}: stops before offset {end.next_offset}: a transaction begins there that"
            " has no commit or abort marker in the tier"
        )
    elif end.next_offset < stop:
        reason = f": {end.error}" if isinstance(end.error, DirectFetchError) else ""
        raise LocationError(
            f"{tip.topic}-{tip.partition} cannot be read further than offset {end.next_offset} ({end.reason}{reason})"
        )


def _dump(
    store: options.Store,
    topics: Annotated[list[str] | None, typer.Argument(help="Topics to read.", metavar="TOPIC")] = None,
    store_option: options.StoreOptions = None,
    layout: options.Layout = options.DEFAULT_LAYOUT,
    key_prefix: options.KeyPrefix = "",
    encryption_key: options.EncryptionKeys = None,
    partition: options.Partition = None,
    start: Annotated[int | None, typer.Option("--start", min=0, help="Start offset, inclusive.")] = None,
    end: Annotated[int | None, typer.Option("--end", min=0, help="End offset, exclusive.")] = None,
    isolation_level: Annotated[options.Isolation, typer.Option("--isolation-level")] = options.Isolation.READ_COMMITTED,
    topic_id: options.TopicId = None,
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
    old_topic: options.OldTopic = None,
) -> None:
    """Prints the records of topics from the tier, without a broker."""
    level = IsolationLevel[isolation_level.name]
    named = topics_of(topics, old_topic, remark)
    if not named:
        raise typer.BadParameter("name at least one topic", param_hint="TOPIC...")
    if topic_id is not None and len(named) > 1:
        raise typer.BadParameter("--topic-id needs exactly one topic", param_hint="--topic-id")
    layout_options = LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or []))
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
    with ExitStack() as stack:
        dumps = []
        for topic in named:  # a topic that is missing is found before the first record is printed
            request = DumpRequest(topic, partition, start, end, level, allow_offset_gaps, since_ms, until_ms)
            listing = open_listing(store, layout, layout_options, store_options=store_options, topic=topic, topic_id=identity)
            dumps.append(stack.enter_context(closing(dump(request, *stack.enter_context(listing), remark))))
        for records in dumps:
            for record in islice(records, left):
                sys.stdout.write(lines.line(record) + "\n")
                left = None if left is None else left - 1
            records.close()
            sys.stdout.flush()
            if left == 0:
                break
