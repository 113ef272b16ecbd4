"""Records collected into row groups: by folder and size, in order, with bounded memory."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import ConfigurationError, UnsupportedFormatError
from kafka_remote_client.scanning.export.row_groups import PartitionBy, RowGroups, partition_by, values_of

DAY = 86_400_000_000
SCHEMA = pa.schema([("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))])


def records(first: int, times: list[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(first, first + len(times)), pa.int64()), pa.array(times, pa.int64())], schema=SCHEMA)


def test_partition_columns_are_validated() -> None:
    assert partition_by("day") == (PartitionBy.DAY,)
    assert partition_by(["hour", "topic"]) == (PartitionBy.TOPIC, PartitionBy.HOUR)
    assert partition_by(()) == ()
    for wrong in ("minute", ["day", "hour"], [3]):
        with pytest.raises(ConfigurationError, match="partition_by"):
            partition_by(wrong)


def test_partition_values_are_utc_also_before_1970() -> None:
    assert values_of((), "orders", None) == {}
    assert values_of((PartitionBy.TOPIC,), "orders", None) == {"topic": "orders"}
    assert values_of((PartitionBy.TOPIC, PartitionBy.DAY), "orders", 0) == {"topic": "orders", "day": "1970-01-01"}
    assert values_of((PartitionBy.HOUR,), "orders", 25) == {"day": "1970-01-02", "hour": "01"}
    assert values_of((PartitionBy.HOUR,), "orders", -1) == {"day": "1969-12-31", "hour": "23"}
    with pytest.raises(UnsupportedFormatError, match="days from 1970, outside the range of dates"):
        values_of((PartitionBy.DAY,), "orders", 10**7)


def test_row_groups_have_the_configured_size() -> None:
    groups = RowGroups((), 64)
    found = [group for n in range(0, 10, 2) for group in groups.add(records(n, [0, 0]))]
    assert [len(group.records) for group in found] == [4, 4]
    assert [len(group.records) for group in groups.rest()] == [2]
    assert list(groups.add(records(0, []))) == []
    assert list(groups.rest()) == []


@given(
    st.lists(st.lists(st.integers(-3 * DAY, 3 * DAY), max_size=6), max_size=6),
    st.sampled_from(["day", "hour"]),
    st.integers(1, 200),
)
def test_each_record_is_in_the_group_of_its_time(batches: list[list[int]], by: str, size: int) -> None:
    groups, found, at = RowGroups(partition_by(by), size), [], 0
    unit = DAY if by == "day" else DAY // 24
    for times in batches:
        found += groups.add(records(at, times))
        at += len(times)
        assert sum(groups._bytes.values()) < size
    found += groups.rest()
    rows = [(group.slot, row["offset"]) for group in found for row in group.records.to_pylist()]
    times = [time for batch in batches for time in batch]
    assert sorted(offset for _, offset in rows) == list(range(at))
    assert all(slot == times[offset] // unit for slot, offset in rows)
    for slot in {slot for slot, _ in rows}:
        mine = [offset for one, offset in rows if one == slot]
        assert mine == sorted(mine)
