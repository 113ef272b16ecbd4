"""The lag of a streaming query, from its progress: Spark's own source reports it as metrics, a Python source cannot.

References: Spark's KafkaMicroBatchStream (metrics: avgOffsetsBehindLatest, maxOffsetsBehindLatest, minOffsetsBehindLatest).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.spark.offsets.json_offsets import parse_offsets

__all__ = ["OffsetsBehind", "offsets_behind"]


@attrs.frozen
class OffsetsBehind:
    """Offsets between the end of a micro-batch and the end of the log, for each partition."""

    by_partition: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        return sum(self.by_partition.values())

    @property
    def highest(self) -> int:
        return max(self.by_partition.values(), default=0)

    @property
    def lowest(self) -> int:
        return min(self.by_partition.values(), default=0)

    @property
    def average(self) -> float:
        return self.total / len(self.by_partition) if self.by_partition else 0.0


def offsets_behind(progress: Any) -> OffsetsBehind | None:
    """``progress``: the value of ``query.lastProgress`` or of a listener, as an object or as a dictionary.

    ``None`` if the progress does not have the latest offset: before PySpark 4.2, and for sources other than Kafka.
    """
    behind: dict[TopicPartition, int] = {}
    for source in _of(progress, "sources") or ():
        end, latest = _offsets(_of(source, "endOffset")), _offsets(_of(source, "latestOffset"))
        if end is not None and latest is not None:
            behind |= {partition: max(0, offset - end.get(partition, 0)) for partition, offset in latest.items()}
    return OffsetsBehind(behind) if behind else None


def _of(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _offsets(value: Any) -> dict[TopicPartition, int] | None:
    """``value``: JSON, or what it says; None, "null" and any other source's offset are no offsets."""
    try:
        return parse_offsets("offset", value if isinstance(value, str) else json.dumps(value))
    except ValueError:
        return None
