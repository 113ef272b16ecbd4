"""``kafka-remote cost``: the price of reading a topic's tier, directly and through the broker, and of keeping it.

::

    direct   store ──── GETs of ranges, retrieval, transfer to the reader ────► reader
    broker   store ──── GETs of fetches, retrieval ────► broker ──── transfer ────► reader

A broker reads the store once for each answer, and is in the store's region. It sends the log as Kafka wrote it, where the store
may keep it compressed. ``seconds`` follow from a rate that ``bench`` measured; None = no rate was given.

References: docs/cli.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import attrs
import typer

from kafka_remote_client.cli import options
from kafka_remote_client.cli.given_settings import parse_settings
from kafka_remote_client.cli.ls import found_segments
from kafka_remote_client.cli.output import OutputFormat, show_facts, show_json
from kafka_remote_client.cli.prices import (
    DEFAULT_PRICES,
    GB,
    PriceTable,
    ReaderPlace,
    StorageClass,
    gets_of,
    in_dollars,
    load_prices,
)
from kafka_remote_client.cli.progress import spinner
from kafka_remote_client.cli.store_arguments import open_listing, parse_topic_id
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.remote_log.layouts import LayoutOptions
from kafka_remote_client.settings import default_of
from kafka_remote_client.spark.planning.job_figures import Prices

__all__ = [
    "PathCost",
    "ReadPlan",
    "SegmentSize",
    "StorageBill",
    "add_verb",
    "advice",
    "path_costs",
    "show_bill",
    "show_costs",
    "storage_bill",
]

_TINY_BYTES = 256 << 10
_DAY_SECONDS = 86_400
_RANGE_BYTES: int = default_of("fetch.remote.range.bytes")


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("cost")(_cost)


@attrs.frozen
class SegmentSize:
    """``nbytes`` of the log as Kafka wrote it, ``stored_bytes`` of its object."""

    nbytes: int
    stored_bytes: int


@attrs.frozen
class ReadPlan:
    """How the tier is read. Bytes, and bytes a second.

    ``range_bytes``: of one GET of a direct read. ``fetch_bytes``: of one answer of the broker. ``read_bytes``: what the reader
    takes at a place before it goes to another one; None = everything in order. ``compacted``: the topic is, or was, compacted.
    """

    storage_name: str
    place: ReaderPlace
    range_bytes: int
    fetch_bytes: int
    read_bytes: int | None = None
    direct_rate: float | None = None
    broker_rate: float | None = None
    compacted: bool = False


@attrs.frozen
class PathCost:
    """One way to read everything once. Dollars; ``sent_bytes`` arrive at the reader."""

    path: str
    gets: int
    store_bytes: int
    sent_bytes: int
    requests_dollars: float
    retrieval_dollars: float
    transfer_dollars: float
    seconds: float | None

    @property
    def dollars(self) -> float:
        """All of it."""
        return self.requests_dollars + self.retrieval_dollars + self.transfer_dollars


@attrs.frozen
class StorageBill:
    """A month of a topic on disks alone and with a tier. Bytes, and dollars a month. One copy; replicas multiply disks.

    What is on disks with a tier is in the store as well.
    """

    all_bytes: int
    local_bytes: int
    remote_bytes: int
    disks_only_dollars: float
    local_dollars: float
    remote_dollars: float


def path_costs(segments: Sequence[SegmentSize], plan: ReadPlan, prices: PriceTable) -> tuple[PathCost, PathCost]:
    """Direct reads and reads through the broker. Raises ConfigurationError for an unknown storage class."""
    storage = prices.of_class(plan.storage_name)
    sent = sum(one.nbytes for one in segments)
    stored = sum(one.stored_bytes for one in segments)
    from_store, from_broker = prices.from_store(plan.place), prices.from_broker(plan.place)
    direct_gets, broker_gets = (_gets(segments, plan, each) for each in (plan.range_bytes, plan.fetch_bytes))
    return (
        _path("direct", direct_gets, stored, stored, storage, from_store, _seconds(stored, plan.direct_rate)),
        _path("broker", broker_gets, stored, sent, storage, from_broker, _seconds(sent, plan.broker_rate)),
    )


def _gets(segments: Sequence[SegmentSize], plan: ReadPlan, each: int) -> int:
    size = each if plan.read_bytes is None else min(each, plan.read_bytes)
    return sum(gets_of(one.nbytes, size) for one in segments)


def _path(
    name: str, gets: int, stored: int, sent: int, storage: StorageClass, transfer_per_gb: float, seconds: float | None
) -> PathCost:
    return PathCost(
        name,
        gets,
        stored,
        sent,
        Prices(storage.per_1000_gets).of(gets, stored),
        stored / GB * storage.retrieval_per_gb,
        sent / GB * transfer_per_gb,
        seconds,
    )


def _seconds(nbytes: int, rate: float | None) -> float | None:
    return None if rate is None else nbytes / rate


def advice(costs: tuple[PathCost, PathCost], plan: ReadPlan, prices: PriceTable) -> Iterator[str]:
    """Where direct reads do not pay, and why; else what they save."""
    direct, broker = costs
    storage, cautions = prices.of_class(plan.storage_name), 0
    if storage.restore_hours:
        cautions += 1
        yield (
            f"{plan.storage_name} is an archive: objects must be restored first, in about {storage.restore_hours:g} h. "
            "Neither a client nor a broker reads them before that."
        )
    if plan.place in {ReaderPlace.OTHER_REGION, ReaderPlace.INTERNET} and direct.transfer_dollars:
        cautions += 1
        charged = in_dollars(direct.transfer_dollars)
        yield f"The store charges {charged} for bytes that leave its region. Read where the store is."
    if plan.compacted:
        cautions += 1
        yield "Brokers do not tier compacted topics, and old segments have offset gaps: read this topic through the broker."
    if direct.gets and direct.store_bytes / direct.gets < _TINY_BYTES:
        cautions += 1
        yield (
            f"A GET has {direct.store_bytes // direct.gets:,} bytes on average: its latency and price dominate. "
            "Read more at a time, or through the broker."
        )
    saved = broker.dollars - direct.dollars
    if saved < 0:
        yield f"Direct reads cost {in_dollars(-saved)} more than reads through the broker."
    elif not cautions:
        yield f"Direct reads save {in_dollars(saved)} and leave the brokers' disks and network alone."


def storage_bill(
    bytes_per_second: float, retention_days: float, local_days: float, prices: PriceTable, storage: StorageClass
) -> StorageBill:
    """A steady topic, written at a rate. ``local_days`` are on disks, all of ``retention_days`` in the store.

    Brokers copy a segment as soon as it is full, and keep it on disk for the local days. References: KIP-405.
    """
    per_day = bytes_per_second * _DAY_SECONDS
    kept, local = per_day * retention_days, per_day * min(local_days, retention_days)
    return StorageBill(
        round(kept),
        round(local),
        round(kept),
        kept / GB * prices.disk_per_gb_month,
        local / GB * prices.disk_per_gb_month,
        kept / GB * storage.per_gb_month,
    )


def show_costs(topic: str, costs: tuple[PathCost, PathCost], advised: Sequence[str], output: OutputFormat) -> None:
    """A table and the advice, or two JSON objects and one with the advice."""
    if output is OutputFormat.JSON:
        for one in costs:
            show_json({"topic": topic, **attrs.asdict(one), "dollars": one.dollars})
        show_json({"topic": topic, "advice": advised})
        return
    print(_side_by_side(topic, costs))
    for text in advised:
        show_facts({"advice": text})


def _side_by_side(topic: str, costs: Sequence[PathCost]) -> str:
    rows = [[topic, *(one.path for one in costs)]]
    rows.append(["GETs", *(f"{one.gets:,}" for one in costs)])
    rows.append(["bytes from the store", *(f"{one.store_bytes:,}" for one in costs)])
    rows.append(["bytes to the reader", *(f"{one.sent_bytes:,}" for one in costs)])
    rows.append(["requests", *(in_dollars(one.requests_dollars) for one in costs)])
    rows.append(["retrieval", *(in_dollars(one.retrieval_dollars) for one in costs)])
    rows.append(["transfer", *(in_dollars(one.transfer_dollars) for one in costs)])
    rows.append(["total", *(in_dollars(one.dollars) for one in costs)])
    rows.append(["seconds", *("-" if one.seconds is None else f"{one.seconds:,.1f}" for one in costs)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    )


def show_bill(bill: StorageBill, output: OutputFormat) -> None:
    """A table of facts, or one JSON object."""
    if output is OutputFormat.JSON:
        show_json(attrs.asdict(bill))
        return
    tiered = bill.local_dollars + bill.remote_dollars
    show_facts(
        {
            "disks only": f"{bill.all_bytes / GB:,.0f} GB, ${bill.disks_only_dollars:,.0f} a month",
            "with a tier": f"${tiered:,.0f} a month",
            "on disks": f"{bill.local_bytes / GB:,.0f} GB, ${bill.local_dollars:,.0f} a month",
            "in the store": f"{bill.remote_bytes / GB:,.0f} GB, ${bill.remote_dollars:,.0f} a month",
        }
    )


def _cost(
    topic: Annotated[str | None, typer.Argument(help="Topic that is read once.", metavar="TOPIC")] = None,
    store: Annotated[str | None, typer.Option("--store", help="URL of the tier.", metavar="URL")] = None,
    store_option: options.StoreOptions = None,
    layout: options.Layout = options.DEFAULT_LAYOUT,
    key_prefix: options.KeyPrefix = "",
    topic_id: options.TopicId = None,
    prices: options.PriceFile = None,
    storage_class: options.StorageClassName = "standard",
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
        float | None,
        typer.Option("--megabytes-per-second", min=0.001, max=options.LONGEST, help="Rate of the store, as bench measures it."),
    ] = None,
    broker_megabytes_per_second: Annotated[
        float | None,
        typer.Option(
            "--broker-megabytes-per-second", min=0.001, max=options.LONGEST, help="Rate of the broker, as bench measures it."
        ),
    ] = None,
    write_megabytes_per_second: Annotated[
        float | None,
        typer.Option(
            "--write-megabytes-per-second",
            min=0,
            max=options.LONGEST,
            help="Show what a topic costs a month that is written at this rate.",
        ),
    ] = None,
    retention_days: Annotated[
        float, typer.Option("--retention-days", min=0, max=options.LONGEST, help="Days that the topic is kept.")
    ] = 30.0,
    local_days: Annotated[
        float, typer.Option("--local-days", min=0, max=options.LONGEST, help="Days of them on brokers' disks.")
    ] = 1.0,
    print_prices: Annotated[bool, typer.Option("--print-prices", help="Print the default price table, to edit it.")] = False,
    output: options.Output = OutputFormat.TEXT,
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
    identity, layout_options = parse_topic_id(topic_id), LayoutOptions(key_prefix)
    listing = open_listing(store, layout, layout_options, store_options=given, topic=topic, topic_id=identity)
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
