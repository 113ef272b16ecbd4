"""The ranges of a micro-batch, from offsets and limits. Pure.

::

    limit                                    | the batch ends
    none                                     | at the log's end
    maxOffsetsPerTrigger                     | earlier: each partition gets a part of the limit in proportion to what it has,
                                             | at least one offset
    maxBytesPerTrigger                       | earlier: the same with bytes, which are known of segments and estimated within
                                             | and between them
    minOffsetsPerTrigger, too little there   | where it begins, until there is enough or maxTriggerDelay is over

References: Spark's KafkaMicroBatchStream (rateLimit, delayBatch).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange, Split, sized, total_bytes
from kafka_remote_client.spark.offsets.data_loss import DataLoss

__all__ = ["available", "batch_end", "batch_end_by_bytes", "delay_seconds", "stream_ranges"]

_DELAY = re.compile(r"\s*(\d{1,9})\s*(us|ms|s|m|min|h|d)?\s*", re.ASCII)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, None: 1e-3}


def delay_seconds(option: str, text: str) -> float:
    """A time as Spark writes it: a number with us, ms, s, m, min, h or d; milliseconds without. Raises ConfigurationError."""
    found = _DELAY.fullmatch(text.lower())
    if found is None:
        raise ConfigurationError(f"{option} must be a time such as 15m")
    return int(found[1]) * _SECONDS[found[2]]


def available(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    """Returns the number of offsets to read; a partition that ``start`` does not name counts as read."""
    return sum(max(0, offset - start.get(partition, offset)) for partition, offset in end.items())


def batch_end(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], limit: int | None
) -> dict[TopicPartition, int]:
    """Returns the end of a batch of about ``limit`` offsets; ``start`` names all partitions of ``end`` with offsets to read.

    A partition with anything to read gets at least one, so there may be a few more.
    """
    total = available(start, end)
    if limit is None or total <= limit:
        return dict(end)
    found = {}
    for partition, offset in end.items():
        begin = start.get(partition, offset)
        share = limit * max(0, offset - begin) / total
        found[partition] = min(offset, begin + (math.ceil(share) if share < 1 else math.floor(share))) if share else offset
    return found


def batch_end_by_bytes(ranges: Iterable[OffsetRange], limit: int) -> dict[TopicPartition, int]:
    """Returns the end of a batch of about ``limit`` bytes of those ranges.

    Each gets a part of it in proportion to its bytes, and at least one offset.
    """
    tiled = sized(ranges)
    total = total_bytes(tiled)
    return {parts[0].topic_partition: parts[-1].end if total <= limit else _within(parts, limit / total) for parts in tiled}


def _within(parts: Sequence[Split], share: float) -> int:
    """Where ``share`` of the bytes of these parts ends, at least after the first offset."""
    left, place = share * sum(part.size_in_bytes for part in parts), 0
    while place < len(parts) - 1 and left >= parts[place].size_in_bytes:
        left -= parts[place].size_in_bytes
        place += 1
    part = parts[place]
    return max(parts[0].start + 1, part.start + int(part.offsets * min(1.0, left / max(1, part.size_in_bytes))))


def stream_ranges(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    log_starts: Mapping[TopicPartition, int],
    loss: DataLoss,
) -> list[OffsetRange]:
    """The ranges of a batch, by partition. ``log_starts``: of the partitions that ``start`` does not name, which are new.

    Raises DataLossError, if that is to fail, for partitions that are gone, new ones that do not begin at 0, and offsets that
    went back.
    """
    gone = sorted(start.keys() - end.keys())
    if gone:
        loss.report(f"partitions are gone (deleted, or no longer subscribed): {', '.join(map(str, gone))}")
    ranges = []
    for partition, until in sorted(end.items()):
        begin = start.get(partition)
        if begin is None:
            begin = log_starts[partition]
            if begin > 0:
                loss.report(f"{partition} is new and begins at offset {begin}, not at 0")
        if until < begin:
            loss.report(f"{partition}: the log end moved back from {begin} to {until}")
        elif begin < until:
            ranges.append(OffsetRange(partition, begin, until))
    return ranges
