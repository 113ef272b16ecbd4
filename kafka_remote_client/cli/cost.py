"""``kafka-remote cost``: the price of reading a topic's tier, directly and through the broker, and of keeping it. Pure.

::

    direct   store ──── GETs of ranges, retrieval, transfer to the reader ────► reader
    broker   store ──── GETs of fetches, retrieval ────► broker ──── transfer ────► reader

A broker reads the store once for each answer, and is in the store's region. It sends the log as Kafka wrote it, where the store
may keep it compressed. ``seconds`` follow from a rate that ``bench`` measured; None = no rate was given.

References: docs/cli.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs

from kafka_remote_client.cli.output import OutputFormat, show_facts, show_json
from kafka_remote_client.cli.prices import GB, PriceTable, ReaderPlace, StorageClass, in_dollars
from kafka_remote_client.spark.planning.job_figures import Prices

__all__ = [
    "PathCost",
    "ReadPlan",
    "SegmentSize",
    "StorageBill",
    "advice",
    "path_costs",
    "show_bill",
    "show_costs",
    "storage_bill",
]

_TINY_BYTES = 256 << 10
_DAY_SECONDS = 86_400


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
    """A month of a topic on disks alone and with a tier. Bytes, and dollars a month. One copy; replicas multiply disks."""

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
    return sum(max(1, math.ceil(one.nbytes / size)) for one in segments)


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
    """A steady topic, written at a rate. ``local_days`` are on disks, the rest of ``retention_days`` in the store."""
    per_day = bytes_per_second * _DAY_SECONDS
    kept, local = per_day * retention_days, per_day * min(local_days, retention_days)
    remote = kept - local
    return StorageBill(
        round(kept),
        round(local),
        round(remote),
        kept / GB * prices.disk_per_gb_month,
        local / GB * prices.disk_per_gb_month,
        remote / GB * storage.per_gb_month,
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
