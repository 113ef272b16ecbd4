"""Combines record batches into row groups, one folder of the table at a time. Pure.

::

    batches     |..d1..|..d1..|d1.d2.|..d2..|          cut where the folder changes
    groups      |------ d1 -------|--- d2 ---|         each about ``group_bytes`` of Arrow's memory

With partitions by time a split may have records of many folders. All that waits together has ``group_bytes`` at most, besides
the batch that was added last: the largest group goes first.

References: docs/tables.md, "Export".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from kafka_remote_client.errors import ConfigurationError, UnsupportedFormatError

__all__ = ["PartitionBy", "RowGroup", "RowGroups", "partition_by", "values_of"]

_DAY = 86_400_000_000
_HOUR = 3_600_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PartitionBy(StrEnum):
    """The partition columns of a table."""

    TOPIC = "topic"
    DAY = "day"
    HOUR = "hour"


def partition_by(value: str | Sequence[str]) -> tuple[PartitionBy, ...]:
    """``"day"``, ``("topic", "hour")`` and so on; the topic comes first. Raises ConfigurationError for anything else."""
    names = (value,) if isinstance(value, str) else tuple(value)
    try:
        found = {PartitionBy(name) for name in names}
    except ValueError:
        raise ConfigurationError(f"partition_by must be topic, day or hour, or topic and one of these, not {value!r}") from None
    if {PartitionBy.DAY, PartitionBy.HOUR} <= found:
        raise ConfigurationError("partition_by must have day or hour, not both; hour includes the day")
    return tuple(one for one in PartitionBy if one in found)


@attrs.frozen
class RowGroup:
    """Records of one folder, in the order in which they came. ``slot``: the day or hour since 1970, ``None`` without one."""

    slot: int | None
    records: pa.Table


class RowGroups:
    """Combines the record batches of one split into row groups."""

    def __init__(self, by: Sequence[PartitionBy], group_bytes: int) -> None:
        self._unit = _DAY if PartitionBy.DAY in by else _HOUR if PartitionBy.HOUR in by else None
        self._group_bytes = group_bytes
        self._waiting: dict[int | None, list[pa.RecordBatch]] = {}
        self._bytes: dict[int | None, int] = {}

    def add(self, records: pa.RecordBatch) -> Iterator[RowGroup]:
        """Adds records; yields the row groups that have their size now."""
        for slot, some in self._slots(records):
            self._waiting.setdefault(slot, []).append(some)
            self._bytes[slot] = self._bytes.get(slot, 0) + some.nbytes
        while sum(self._bytes.values()) >= self._group_bytes:
            yield self._group(max(self._bytes, key=lambda slot: self._bytes[slot]))

    def rest(self) -> Iterator[RowGroup]:
        """Yields the rest, as smaller row groups."""
        for slot in sorted(self._waiting, key=lambda slot: slot or 0):
            yield self._group(slot)

    def _group(self, slot: int | None) -> RowGroup:
        del self._bytes[slot]
        return RowGroup(slot, pa.Table.from_batches(self._waiting.pop(slot)))

    def _slots(self, records: pa.RecordBatch) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        if not len(records):
            return
        if self._unit is None:
            yield None, records
            return
        slots = _floor(records.column("timestamp").cast(pa.int64()), self._unit)
        bounds = pc.min_max(slots)
        if bounds["min"].as_py() == bounds["max"].as_py():
            yield bounds["min"].as_py(), records
            return
        for slot in sorted(pc.unique(slots).to_pylist()):
            yield slot, records.filter(pc.equal(slots, slot))


def _floor(times: pa.Array, unit: int) -> pa.Array:
    """Arrow divides towards zero, and times before 1970 belong to the unit below."""
    quotients = pc.divide(times, unit)
    return pc.subtract(quotients, pc.less(times, pc.multiply(quotients, unit)).cast(pa.int64()))


def values_of(by: Sequence[PartitionBy], topic: str, slot: int | None) -> dict[str, str]:
    """The values of the partition columns: ``topic``; ``day``, or ``day`` and ``hour``, in UTC.

    Raises UnsupportedFormatError for a time outside of the years 1 to 9999.
    """
    values = {"topic": topic} if PartitionBy.TOPIC in by else {}
    if slot is None:
        return values
    if PartitionBy.DAY in by:
        return {**values, "day": _day(slot)}
    day, hour = divmod(slot, 24)
    return {**values, "day": _day(day), "hour": f"{hour:02d}"}


def _day(number: int) -> str:
    try:
        found: date = (_EPOCH + timedelta(days=number)).date()
    except OverflowError:
        raise UnsupportedFormatError(
            f"a record's timestamp is {number} days from 1970, outside the range of dates; "
            "export without partition_by day or hour"
        ) from None
    return found.isoformat()
