"""The verbs that look at a topic's tier in the store, and at the brokers if there are any, and their options."""

from __future__ import annotations

from contextlib import ExitStack, closing
from itertools import product
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer

from kafka_remote_client.cli.bench import COLUMNS as BENCH_COLUMNS
from kafka_remote_client.cli.bench import LogObject, bench_broker, bench_store
from kafka_remote_client.cli.cost import ReadPlan, SegmentSize, advice, path_costs, show_bill, show_costs, storage_bill
from kafka_remote_client.cli.given_settings import parse_settings
from kafka_remote_client.cli.ls import found_segments
from kafka_remote_client.cli.offsets import open_cluster, partition_lines, read_metadata
from kafka_remote_client.cli.options import (
    DEFAULT_GRACE,
    DEFAULT_LAYOUT,
    DEFAULT_METADATA_TIMEOUT,
    DEFAULT_TIMEOUT,
    LONGEST,
    ConsumerSettings,
    EncryptionKeys,
    Grace,
    KeyPrefix,
    Layout,
    MetadataTimeout,
    MetadataTopicName,
    NoMetadata,
    Output,
    PriceFile,
    StorageClassName,
    Store,
    StoreOptions,
    Timeout,
    TopicId,
    Topics,
)
from kafka_remote_client.cli.output import OutputFormat, show_lines, show_text
from kafka_remote_client.cli.prices import DEFAULT_PRICES, ReaderPlace, load_prices
from kafka_remote_client.cli.progress import spinner, steps_bar
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.cli.restore import (
    RestoreCommand,
    parse_counts,
    parse_gaps,
    parse_ids,
    parse_log_starts,
    read_assignment,
    read_configs,
    restore,
)
from kafka_remote_client.cli.store_arguments import open_listing, parse_encryption_keys, parse_topic_id
from kafka_remote_client.cli.topic_map import COLUMNS as MAP_COLUMNS
from kafka_remote_client.cli.topic_map_facts import ClusterFacts, map_topic
from kafka_remote_client.cli.topic_map_page import map_page
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.registry import check_store_options, load_store
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.layouts import LayoutOptions, layout_named
from kafka_remote_client.remote_log.store_contents import nothing_found
from kafka_remote_client.restore.restore_plan import RestoreRequest
from kafka_remote_client.settings import default_of
from kafka_remote_client.verify.stored_segment import draft_metadata

__all__ = ["add_verbs"]

_RANGE_BYTES: int = default_of("fetch.remote.range.bytes")
_DEFAULT_RANGES = (64 << 10, 1 << 20, _RANGE_BYTES)
_DEFAULT_CONCURRENCY = (1, 8)


def add_verbs(app: typer.Typer) -> None:
    """Adds the verbs of this module."""
    app.command("map")(_map)
    app.command("bench")(_bench)
    app.command("cost")(_cost)
    app.command("restore")(_restore)


def _map(
    topic: Annotated[str, typer.Argument(help="Topic to map.", metavar="TOPIC")],
    store: Store,
    store_option: StoreOptions = None,
    layout: Layout = DEFAULT_LAYOUT,
    key_prefix: KeyPrefix = "",
    encryption_key: EncryptionKeys = None,
    topic_id: TopicId = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers", help="Cluster to ask for log start, local part and metadata.", metavar="HOST:PORT,…"
        ),
    ] = None,
    consumer: ConsumerSettings = None,
    metadata_topic: MetadataTopicName = METADATA_TOPIC,
    no_metadata: NoMetadata = False,
    metadata_timeout: MetadataTimeout = DEFAULT_METADATA_TIMEOUT,
    grace: Grace = DEFAULT_GRACE,
    prices: PriceFile = None,
    storage_class: StorageClassName = "standard",
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write the map as a page. An existing file is replaced.", metavar="FILE")
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Shows what holds which offsets of a topic: segments, local part, gaps, duplicates, orphans."""
    storage = load_prices(prices).of_class(storage_class)
    laid_out = layout_named(layout, LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or [])))
    options = parse_settings(store_option or [], "--store-option")
    settings = parse_settings(consumer or [], "--consumer")
    identity, clock = parse_topic_id(topic_id), SystemClock()
    with ExitStack() as opened:
        tier = opened.enter_context(closing(load_store(store, options)))
        check_store_options(options, tier)

        def ask() -> ClusterFacts:
            assert bootstrap_servers is not None
            with open_cluster(bootstrap_servers, settings, timeout) as leaders:
                bounds = partition_lines(leaders, [topic], None, clock, timeout)
            known = None
            if not no_metadata:
                known = opened.enter_context(read_metadata(bootstrap_servers, settings, metadata_topic, metadata_timeout))
            return ClusterFacts(bounds, known, clock.time_ms(), int(grace * 1000))

        asked = None if bootstrap_servers is None else ask
        with spinner(f"reading what is known of {topic}"):
            found = map_topic(tier, laid_out, topic, storage, remark, topic_id=identity, ask=asked)
    show_lines(found.parts, MAP_COLUMNS, output)
    if output is OutputFormat.TEXT:
        show_text(found.totals())
    if html is not None:
        _write(html, map_page(found))


def _bench(
    topic: Annotated[str, typer.Argument(help="Topic whose segments are read.", metavar="TOPIC")],
    store: Store,
    store_option: StoreOptions = None,
    layout: Layout = DEFAULT_LAYOUT,
    key_prefix: KeyPrefix = "",
    topic_id: TopicId = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option("--bootstrap-servers", help="Brokers to read the same offsets from, to compare.", metavar="HOST:PORT,…"),
    ] = None,
    consumer: ConsumerSettings = None,
    range_bytes: Annotated[
        list[int] | None,
        typer.Option("--range-bytes", min=1, help="Bytes of one GET; repeatable. Default: 64 KiB, 1 MiB, and that of readers."),
    ] = None,
    concurrency: Annotated[
        list[int] | None,
        typer.Option("--concurrency", min=1, max=256, help="Number of GETs at once; repeatable. Default: 1 and 8."),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=LONGEST, help="Seconds for all measurements together.")
    ] = 10.0,
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Measures the store from this machine: latency and throughput of GETs, beside the broker's."""
    sizes, counts = range_bytes or _DEFAULT_RANGES, concurrency or _DEFAULT_CONCURRENCY
    settings = parse_settings(consumer or [], "--consumer")
    measurements = len(sizes) * len(counts) + (bootstrap_servers is not None)
    share = seconds / measurements
    clock = SystemClock()
    given = parse_settings(store_option or [], "--store-option")
    identity = parse_topic_id(topic_id)
    options = LayoutOptions(key_prefix)
    with open_listing(store, layout, options, store_options=given, topic=topic, topic_id=identity) as (opened, source):
        keys = layout_named(layout, options)
        with spinner():
            objects = [
                LogObject(keys.object_key(draft_metadata(one), ObjectKind.LOG), size)
                for tip in source.partitions(topic)
                for one in source.listing.segments(tip)
                if (size := one.sizes.get(ObjectKind.LOG, 0))
            ]
        if not objects:
            raise nothing_found(f"found no segments of {topic}", opened)
        with steps_bar("bench", measurements) as measured:
            lines = []
            for size, count in product(sizes, counts):
                lines.append(bench_store(opened, topic, objects, size, count, share, clock))
                measured()
            if bootstrap_servers is not None:
                named = {**settings, "bootstrap.servers": bootstrap_servers}
                lines.append(bench_broker(named, topic, _tiered_spans(source, topic), share, clock, timeout))
                measured()
    show_lines(lines, BENCH_COLUMNS, output)


def _tiered_spans(source: ListingLocationSource, topic: str) -> list[tuple[int, int, int]]:
    """Partition, start and end (exclusive) of what is tiered."""
    tiers = {tip.partition: source.listing.cache(tip).list_all_remote_log_segments() for tip in source.partitions(topic)}
    return [
        (partition, segments[0].start_offset, max(one.end_offset for one in segments) + 1)
        for partition, segments in tiers.items()
        if segments
    ]


def _cost(
    topic: Annotated[str | None, typer.Argument(help="Topic that is read once.", metavar="TOPIC")] = None,
    store: Annotated[str | None, typer.Option("--store", help="URL of the tier.", metavar="URL")] = None,
    store_option: StoreOptions = None,
    layout: Layout = DEFAULT_LAYOUT,
    key_prefix: KeyPrefix = "",
    topic_id: TopicId = None,
    prices: PriceFile = None,
    storage_class: StorageClassName = "standard",
    reader: Annotated[
        ReaderPlace, typer.Option("--reader", help="Where the reader is, seen from brokers and store.")
    ] = ReaderPlace.SAME_ZONE,
    range_bytes: Annotated[int, typer.Option("--range-bytes", min=1, help="Bytes of one GET of a direct read.")] = _RANGE_BYTES,
    fetch_bytes: Annotated[
        int, typer.Option("--fetch-bytes", min=1, help="Bytes of one answer of the broker (max.partition.fetch.bytes).")
    ] = 1 << 20,
    read_bytes: Annotated[
        int | None, typer.Option("--read-bytes", min=1, help="Bytes that are read at a place; default: everything in order.")
    ] = None,
    compacted: Annotated[bool, typer.Option("--compacted", help="The topic is compacted, or was.")] = False,
    megabytes_per_second: Annotated[
        float | None, typer.Option("--megabytes-per-second", min=0.001, help="Rate of the store, as bench measures it.")
    ] = None,
    broker_megabytes_per_second: Annotated[
        float | None, typer.Option("--broker-megabytes-per-second", min=0.001, help="Rate of the broker, as bench measures it.")
    ] = None,
    write_megabytes_per_second: Annotated[
        float | None,
        typer.Option(
            "--write-megabytes-per-second", min=0, help="Show what a topic costs a month that is written at this rate."
        ),
    ] = None,
    retention_days: Annotated[float, typer.Option("--retention-days", min=0, help="Days that the topic is kept.")] = 30.0,
    local_days: Annotated[float, typer.Option("--local-days", min=0, help="Days of them on brokers' disks.")] = 1.0,
    print_prices: Annotated[bool, typer.Option("--print-prices", help="Print the default price table, to edit it.")] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Compares the cost of direct reads with reads through the broker. Reads no data."""
    if print_prices:
        print(DEFAULT_PRICES, end="")
        return
    table = load_prices(prices)
    if write_megabytes_per_second is not None:
        bill = storage_bill(write_megabytes_per_second * 1e6, retention_days, local_days, table, table.of_class(storage_class))
        show_bill(bill, output)
        return
    if topic is None or store is None:
        raise typer.BadParameter("give a TOPIC and --store, or --write-megabytes-per-second", param_hint="TOPIC")
    plan = ReadPlan(
        storage_class,
        reader,
        range_bytes,
        fetch_bytes,
        read_bytes,
        None if megabytes_per_second is None else megabytes_per_second * 1e6,
        None if broker_megabytes_per_second is None else broker_megabytes_per_second * 1e6,
        compacted,
    )
    given = parse_settings(store_option or [], "--store-option")
    identity, options = parse_topic_id(topic_id), LayoutOptions(key_prefix)
    listing = open_listing(store, layout, options, store_options=given, topic=topic, topic_id=identity)
    with listing as (opened, source), spinner():
        source.partitions(topic)  # several topics of the name are an error
        lines = found_segments(opened, source, [topic], None)
    known = sorted({line.topic_id for line in lines})
    if topic_id is not None and topic_id not in known:
        has = f"it has topic id {', '.join(known)}"
        raise ConfigurationError(f"--topic-id: the store has no segments of {topic} with the topic id {topic_id}; {has}")
    wanted = [line for line in lines if line.state == "live" and topic_id in {None, line.topic_id}]
    costs = path_costs([SegmentSize(line.bytes, line.stored_bytes) for line in wanted], plan, table)
    show_costs(topic, costs, list(advice(costs, plan, table)), output)


def _restore(
    store: Store,
    topics: Topics = None,
    to: Annotated[
        list[Path] | None,
        typer.Option("--to", help="Log folder of a freshly formatted node; repeatable, with --assignment.", metavar="DIR"),
    ] = None,
    assignment: Annotated[
        str | None,
        typer.Option("--assignment", help="Nodes of each partition, as for kafka-reassign-partitions.sh.", metavar="JSON"),
    ] = None,
    configs: Annotated[
        str | None,
        typer.Option("--configs", help="Configs of each topic, which the tier does not have.", metavar="TOML|JSON"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and write nothing.")] = False,
    store_option: StoreOptions = None,
    layout: Layout = DEFAULT_LAYOUT,
    key_prefix: KeyPrefix = "",
    encryption_key: EncryptionKeys = None,
    topic_id: TopicId = None,
    log_start: Annotated[
        list[str] | None,
        typer.Option("--log-start", help="Where a log starts; repeatable.", metavar="TOPIC-PARTITION=OFFSET"),
    ] = None,
    allow_gap: Annotated[
        list[str] | None,
        typer.Option("--allow-gap", help="Accept lost offsets; repeatable.", metavar="TOPIC-PARTITION=FIRST-LAST"),
    ] = None,
    without_segment: Annotated[
        list[str] | None,
        typer.Option("--without-segment", help="Leave a segment out, as one of several copies; repeatable.", metavar="ID"),
    ] = None,
    live_copies: Annotated[
        bool, typer.Option("--live-copies", help="Of several copies of the same offsets, take those that a broker reads.")
    ] = False,
    partitions: Annotated[
        list[str] | None,
        typer.Option("--partitions", help="Number of partitions, if the last ones are not in the tier.", metavar="TOPIC=COUNT"),
    ] = None,
    bootstrap_servers: Annotated[
        str,
        typer.Option("--bootstrap-servers", help="Address of the restored node, for the commands.", metavar="HOST:PORT"),
    ] = "localhost:9092",
    metadata_servers: Annotated[
        str | None,
        typer.Option(
            "--metadata-servers", help="Cluster whose metadata topic says which segments are live.", metavar="HOST:PORT,…"
        ),
    ] = None,
    metadata_topic: MetadataTopicName = METADATA_TOPIC,
    consumer: ConsumerSettings = None,
    metadata_timeout: MetadataTimeout = DEFAULT_METADATA_TIMEOUT,
    adopt: Annotated[bool, typer.Option("--adopt", hidden=True)] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Rebuilds topics from their tier in the folders of freshly formatted nodes."""
    if adopt:
        why = "a wrong order of steps lets the broker delete the tier (docs/decisions/0016-restore-copies-to-new-nodes.md)"
        raise ConfigurationError(f"--adopt is not supported: {why}; restore to new nodes without it")
    if not to and not dry_run:
        raise typer.BadParameter("is missing; --dry-run shows the plan without it", param_hint="--to")
    command = RestoreCommand(
        store=store,
        request=RestoreRequest(
            configs={} if configs is None else read_configs(configs),
            log_starts=parse_log_starts(log_start or []),
            accepted_gaps=parse_gaps(allow_gap or []),
            live_copies=live_copies,
            partition_counts=parse_counts(partitions or []),
            assignment=None if assignment is None else read_assignment(assignment),
        ),
        targets=() if dry_run else tuple(to or ()),
        topics=tuple(topics or ()),
        topic_id=parse_topic_id(topic_id),
        without=parse_ids(without_segment or []),
        layout=layout,
        layout_options=LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or [])),
        store_options=parse_settings(store_option or [], "--store-option"),
        bootstrap_servers=bootstrap_servers,
        metadata_servers=metadata_servers,
        metadata_topic=metadata_topic,
        consumer=parse_settings(consumer or [], "--consumer"),
        metadata_timeout=metadata_timeout,
        output=output,
    )
    raise typer.Exit(restore(command, remark))


def _write(path: Path, text: str) -> None:
    """Writes a file under another name, then renames it, so the file is whole or absent. Raises ConfigurationError."""
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise ConfigurationError(f"--html: {path} cannot be written: {error.strerror}") from None
