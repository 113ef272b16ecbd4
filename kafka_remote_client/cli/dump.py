"""``kafka-remote dump``: the records of a topic in the tier, without a broker, in offset order."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator

import attrs

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import ConfigurationError, DirectFetchError, LocationError
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.tier_reader import TierReader
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.model import IsolationLevel, TopicIdPartition
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.records import RecordBlock
from kafka_remote_client.remote_log.store_contents import nothing_found

__all__ = ["DumpRequest", "dump"]

_TIMESTAMP_TYPES = {-1: "NotAvailable", 0: "CreateTime", 1: "LogAppendTime"}
_PATIENCE_SECONDS = 600.0


@attrs.frozen
class DumpRequest:
    """What to dump. ``end`` is exclusive; ``partition`` ``None`` means all, in order."""

    topic: str
    partition: int | None = None
    start: int | None = None
    end: int | None = None
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    allow_offset_gaps: bool = False

    @property
    def interval(self) -> str:
        """The interval in words, for messages."""
        bounds = {"at or above": self.start, "below": self.end}
        return " and ".join(f"{where} {offset}" for where, offset in bounds.items() if offset is not None)


def dump(
    request: DumpRequest, store: RemoteObjectStore, source: ListingLocationSource, say: Callable[[str], None]
) -> Iterator[str]:
    """Lines of JSON, one per record. ``say`` gets remarks for people, such as where committed records end.

    Raises ConfigurationError when the store has no such topic or partition, or several of that name, and for an interval in
    which no partition can have a record; otherwise the error that stopped the read. There is no other source here, so
    an error is never skipped silently.
    """
    if request.start is not None and request.end is not None and request.start >= request.end:
        raise ConfigurationError(f"the interval is empty: --start {request.start} must be below --end {request.end}")
    partitions = [tip for tip in source.partitions(request.topic) if request.partition in {None, tip.partition}]
    if not partitions:
        what = request.topic if request.partition is None else f"{request.topic}-{request.partition}"
        raise nothing_found(f"found no segments of {what}", store)
    config = RemoteFetchConfig(enabled=True, allow_offset_gaps=request.allow_offset_gaps)
    with TierReader(store, source, config) as tier:
        for tip in partitions:
            for remark in tier.remarks(tip):
                say(f"{tip.topic}-{tip.partition}: {remark}")
        intervals = {tip: interval for tip in partitions if (interval := _interval(tier, tip, request, say)) is not None}
        if not intervals:
            raise ConfigurationError(f"the tier has no offsets of {request.topic} {request.interval}")
        for tip, (start, stop) in intervals.items():
            yield from _dump_partition(tier, tip, start, stop, request, say)


def _interval(
    tier: TierReader, tip: TopicIdPartition, request: DumpRequest, say: Callable[[str], None]
) -> tuple[int, int] | None:
    """Returns the offsets to read, end exclusive; ``None`` if the partition has none of them. Reports what is cut off."""
    name, offsets = f"{tip.topic}-{tip.partition}", tier.bounds(tip.topic, tip.partition)
    first, end = offsets.log_start, offsets.latest_tiered + 1
    start = first if request.start is None else max(first, request.start)
    stop = end if request.end is None else min(end, request.end)
    if start >= stop:
        say(f"{name}: the tier holds offsets {first} to {end - 1}, and none {request.interval}")
        return None
    if request.start is not None and request.start < first:
        say(f"{name}: the tier begins at offset {first}")
    if request.end is not None and request.end > end:
        say(f"{name}: the tier ends before offset {end}")
    return start, stop


def _dump_partition(
    tier: TierReader, tip: TopicIdPartition, start: int, stop: int, request: DumpRequest, say: Callable[[str], None]
) -> Iterator[str]:
    reader = tier.read(tip.topic, tip.partition, start, stop, isolation_level=request.isolation_level)
    for item in reader.blocks(_PATIENCE_SECONDS):
        if isinstance(item, ReadEnd):
            _conclude(tip, item, stop, say)
        else:
            yield from _lines(tip, item)


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


def _lines(tip: TopicIdPartition, block: RecordBlock) -> Iterator[str]:
    for offset, timestamp, timestamp_type, leader_epoch, key, value, headers in block.rows():
        record = {
            "topic": tip.topic,
            "partition": tip.partition,
            "offset": offset,
            "timestamp": timestamp,
            "timestamp_type": _TIMESTAMP_TYPES[timestamp_type],
            "leader_epoch": leader_epoch,
            "key": _base64(key),
            "value": _base64(value),
            "headers": [[name, _base64(content)] for name, content in headers],
        }
        yield json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")
