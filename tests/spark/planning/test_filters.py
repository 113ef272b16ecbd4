"""Filters, compared with an oracle that evaluates them row by row."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange
from kafka_remote_client.segment_spans import SegmentSpan
from kafka_remote_client.spark.planning.filters import ALL_ROWS, Narrowing, narrowing_of

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# PySpark's own classes, which the tests of this folder do not import.
@dataclass(frozen=True)
class Comparison:
    attribute: tuple[str, ...]
    value: Any = None


class EqualTo(Comparison): ...


class EqualNullSafe(Comparison): ...


class LessThan(Comparison): ...


class LessThanOrEqual(Comparison): ...


class GreaterThan(Comparison): ...


class GreaterThanOrEqual(Comparison): ...


class In(Comparison): ...


class IsNull(Comparison): ...


class IsNotNull(Comparison): ...


class StringStartsWith(Comparison): ...


class StringEndsWith(Comparison): ...


class StringContains(Comparison): ...


@dataclass(frozen=True)
class Not:
    child: Any


COMPARISONS = (EqualTo, EqualNullSafe, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual)


def at(milliseconds: float) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def left(*filters: Any, ranges: Sequence[OffsetRange] | None = None) -> list[tuple[TopicPartition, int, int]]:
    """What the filters leave of [0, 100) in three partitions; each of them has to be handled wholly."""
    narrowing, kept = narrowing_of(filters)
    assert kept == []
    found = narrowing.ranges([OffsetRange(one, 0, 100) for one in (T0, T1, U0)] if ranges is None else ranges)
    return [(one.topic_partition, one.start, one.end) for one in found]


def whole(*partitions: TopicPartition) -> list[tuple[TopicPartition, int, int]]:
    return [(partition, 0, 100) for partition in partitions]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (EqualTo(("partition",), 0), (T0, U0)),
        (EqualNullSafe(("partition",), 1), (T1,)),
        (LessThan(("partition",), 1), (T0, U0)),
        (LessThanOrEqual(("partition",), 0), (T0, U0)),
        (GreaterThan(("partition",), 0), (T1,)),
        (GreaterThanOrEqual(("partition",), 2), ()),
        (In(("partition",), (1, 7)), (T1,)),
        (Not(In(("partition",), (1, 7))), (T0, U0)),
        (Not(EqualTo(("partition",), 0)), (T1,)),
        (Not(LessThan(("partition",), 1)), (T1,)),
        (EqualTo(("topic",), "u"), (U0,)),
        (Not(EqualTo(("topic",), "u")), (T0, T1)),
        (GreaterThan(("topic",), "t"), (U0,)),
        (StringStartsWith(("topic",), "t"), (T0, T1)),
        (Not(StringEndsWith(("topic",), "t")), (U0,)),
        (StringContains(("topic",), "u"), (U0,)),
        (IsNotNull(("offset",)), (T0, T1, U0)),
        (Not(IsNull(("timestampType",))), (T0, T1, U0)),
        (IsNull(("timestamp",)), ()),
        (Not(IsNotNull(("topic",))), ()),
    ],
    ids=str,
)
def test_filters_on_names_leave_out_partitions(given: Any, wanted: tuple[TopicPartition, ...]) -> None:
    assert left(given) == whole(*wanted)


@pytest.mark.parametrize(
    ("filters", "bounds"),
    [
        ([EqualTo(("offset",), 7)], (7, 8)),
        ([EqualNullSafe(("offset",), 0)], (0, 1)),
        ([In(("offset",), (7, 7))], (7, 8)),
        ([LessThan(("offset",), 7)], (0, 7)),
        ([LessThanOrEqual(("offset",), 7)], (0, 8)),
        ([GreaterThan(("offset",), 7)], (8, 100)),
        ([GreaterThanOrEqual(("offset",), 7)], (7, 100)),
        ([Not(GreaterThan(("offset",), 7))], (0, 8)),
        ([Not(LessThanOrEqual(("offset",), 7))], (8, 100)),
        ([GreaterThan(("offset",), 7), LessThan(("offset",), 50), LessThan(("offset",), 60)], (8, 50)),
        ([GreaterThan(("offset",), -(2**70)), LessThan(("offset",), 2**70)], (0, 100)),
    ],
    ids=str,
)
def test_filters_on_offsets_cut_both_ends(filters: list[Any], bounds: tuple[int, int]) -> None:
    assert left(*filters, ranges=[OffsetRange(T0, 0, 100)]) == [(T0, *bounds)]


def test_contradicting_offsets_leave_nothing() -> None:
    assert left(EqualTo(("offset",), 7), EqualTo(("offset",), 8)) == []
    assert left(LessThan(("offset",), 0)) == []
    assert left(GreaterThanOrEqual(("offset",), 100)) == []


def test_several_offsets_cut_both_ends_and_leave_out_segments() -> None:
    given = In(("offset",), (75, 12, 14))
    narrowing, kept = narrowing_of([given])
    assert kept == [given]
    spans = tuple(SegmentSpan(start, start + 10, 1) for start in range(0, 100, 10) if start != 50)
    found = narrowing.without_segments(narrowing.ranges([OffsetRange(T0, 0, 100, spans)]))
    assert [(one.start, one.end) for one in found] == [(12, 20), (50, 60), (70, 76)]
    assert found[0].segments == spans[:2]
    narrowing, _ = narrowing_of([given, In(("offset",), (12, 75, 99)), In(("offset",), (12, 13))])
    assert (narrowing.first_offset, narrowing.end_offset, narrowing.offsets) == (12, 14, (12,))


@pytest.mark.parametrize(
    ("given", "youngest"),
    [
        (EqualTo(("timestamp",), at(5)), 5),
        (EqualNullSafe(("timestamp",), at(5)), 5),
        (GreaterThan(("timestamp",), at(5)), 5),
        (GreaterThanOrEqual(("timestamp",), at(5.001)), 6),
        (In(("timestamp",), (at(9), at(5))), 5),
        (Not(LessThan(("timestamp",), at(5))), 5),
        (GreaterThan(("timestamp",), at(5).astimezone(timezone(timedelta(hours=3)))), 5),
        (LessThan(("timestamp",), at(5)), None),
        (LessThanOrEqual(("timestamp",), at(5)), None),
        (Not(EqualTo(("timestamp",), at(5))), None),
        (GreaterThan(("timestamp",), at(0)), None),
        (GreaterThan(("timestamp",), at(-9)), None),
        (GreaterThan(("timestamp",), at(5).replace(tzinfo=None)), None),
    ],
    ids=str,
)
def test_filters_on_time_set_an_oldest_row_and_spark_filters_too(given: Any, youngest: int | None) -> None:
    narrowing, kept = narrowing_of([given])
    assert (narrowing.youngest, kept) == (youngest, [given])
    assert narrowing == Narrowing(youngest=youngest)


def test_the_newest_of_several_bounds_counts() -> None:
    both = [GreaterThan(("timestamp",), at(5)), GreaterThan(("timestamp",), at(9)), GreaterThan(("timestamp",), at(7))]
    assert narrowing_of(both)[0].youngest == 9


def test_ranges_begin_at_the_first_record_that_is_new_enough() -> None:
    ranges = [OffsetRange(one, 10, 20) for one in (T0, T1, U0)]
    found = Narrowing(youngest=5).from_times(ranges, {T0: 5, T1: 15, U0: -1})
    assert [(one.topic_partition, one.start) for one in found] == [(T0, 10), (T1, 15)]
    assert Narrowing(youngest=5).from_times(ranges, dict.fromkeys((T0, T1, U0), 20)) == []


def test_older_segments_are_left_out_and_unknown_ones_are_not() -> None:
    spans = (SegmentSpan(0, 10, 1, 4), SegmentSpan(10, 20, 1, 5), SegmentSpan(20, 30, 1, 4), SegmentSpan(30, 40, 1))
    found = Narrowing(youngest=5).without_segments([OffsetRange(T0, 5, 50, spans), OffsetRange(T1, 0, 10, spans)])
    assert [(one.topic_partition, one.start, one.end) for one in found] == [(T0, 10, 20), (T0, 30, 50)]
    assert found[0].segments == spans[1:2]
    assert found[1].segments == spans[3:]


@pytest.mark.parametrize(
    "given",
    [
        EqualTo(("value",), b"x"),
        EqualTo(("partition",), None),
        EqualTo(("partition",), "0"),
        EqualTo(("partition",), True),
        EqualTo(("topic",), 5),
        EqualTo(("offset",), 5.0),
        In(("offset",), (5, None)),
        In(("offset",), ()),
        Not(EqualTo(("offset",), 5)),
        Not(In(("offset",), (5, 6))),
        Not(Not(EqualTo(("offset",), 5))),
        StringContains(("partition",), "0"),
        EqualTo(("headers", "key"), "x"),
        EqualTo(("OFFSET",), 5),
        IsNull(("key",)),
        "no filter",
    ],
    ids=str,
)
def test_unsupported_filters_are_left_to_spark(given: Any) -> None:
    assert narrowing_of([given]) == (ALL_ROWS, [given])


def test_filters_are_returned_unchanged() -> None:
    first, second = EqualTo(("value",), b"x"), EqualTo(("value",), b"x")
    _, kept = narrowing_of([first, EqualTo(("offset",), 5), second])
    assert [id(one) for one in kept] == [id(first), id(second)]


def test_without_filters_all_rows_are_left() -> None:
    ranges = [OffsetRange(T0, 0, 5, (SegmentSpan(0, 5, 1, 3),)), OffsetRange(T1, 4, 4)]
    assert ALL_ROWS.without_segments(ALL_ROWS.ranges(ranges)) == ranges[:1]
    assert pickle.loads(pickle.dumps(ALL_ROWS)) == ALL_ROWS


# -- any filters, compared with an oracle -----------------------------------------------------------------------------------

Row = tuple[str, int, int, int]
COLUMNS = {"topic": 0, "partition": 1, "offset": 2, "timestamp": 3}


def is_true(given: Any, row: Row) -> bool | None:
    """Returns SQL's answer; None = unknown."""
    if isinstance(given, Not):
        inner = is_true(given.child, row)
        return None if inner is None else not inner
    (column,) = given.attribute
    value = at(row[3]) if column == "timestamp" else row[COLUMNS[column]]
    if isinstance(given, IsNull | IsNotNull):
        return isinstance(given, IsNotNull)
    if isinstance(given, In):
        if value in given.value:
            return True
        return None if None in given.value else False
    if isinstance(given, EqualNullSafe):
        return bool(value == given.value)
    if given.value is None:
        return None
    return bool(
        {
            EqualTo: lambda: value == given.value,
            LessThan: lambda: value < given.value,
            LessThanOrEqual: lambda: value <= given.value,
            GreaterThan: lambda: value > given.value,
            GreaterThanOrEqual: lambda: value >= given.value,
        }[type(given)]()
    )


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from(["s", "t", "u"]),
    "partition": st.integers(-1, 2),
    "offset": st.integers(-2, 32),
    "timestamp": st.integers(-4, 24).map(lambda half: at(half / 2)),
}


@st.composite
def filters(draw: st.DrawFn) -> Any:
    column = draw(st.sampled_from(sorted(COLUMNS)))
    value = st.one_of(VALUES[column], VALUES[column], VALUES[column], st.none())
    kind = draw(st.sampled_from([*COMPARISONS, In, IsNull, IsNotNull]))
    if kind is In:
        made: Any = In((column,), tuple(draw(st.lists(value, max_size=4))))
    else:
        made = kind((column,), None if kind in {IsNull, IsNotNull} else draw(value))
    return Not(made) if draw(st.booleans()) else made


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Row], list[OffsetRange]]:
    """Rows of three partitions, in segments of which some are known."""
    rows: list[Row] = []
    ranges = []
    for partition in (T0, T1, U0):
        times = draw(st.lists(st.integers(-1, 12), max_size=30))
        rows += [(*partition, offset, time) for offset, time in enumerate(times)]
        spans, at_offset = [], 0
        while at_offset < len(times):
            end = min(len(times), at_offset + draw(st.integers(1, 9)))
            if draw(st.booleans()):
                spans.append(SegmentSpan(at_offset, end, 10, max(times[at_offset:end])))
            at_offset = end
        ranges.append(OffsetRange(partition, 0, len(times), tuple(spans)))
    return rows, ranges


@settings(deadline=None)
@given(logs(), st.lists(filters(), max_size=4))
def test_pushing_never_loses_or_adds_a_row(log: tuple[list[Row], list[OffsetRange]], chosen: list[Any]) -> None:
    rows, ranges = log
    narrowing, kept = narrowing_of(chosen)
    assert all(any(one is other for other in chosen) for one in kept)
    found = narrowing.ranges(ranges)
    if narrowing.youngest is not None:
        young = [row for row in rows if row[3] >= narrowing.youngest]
        firsts = {one: next((row[2] for row in young if row[:2] == one), -1) for one in (T0, T1, U0)}
        found = narrowing.from_times(found, firsts)
    found = narrowing.without_segments(found)
    places = [(*one.topic_partition, offset) for one in found for offset in range(one.start, one.end)]
    assert len(places) == len(set(places)), "no row comes twice"
    read = [row for row in rows if row[:3] in set(places)]
    assert [row for row in read if all(is_true(one, row) for one in kept)] == [
        row for row in rows if all(is_true(one, row) for one in chosen)
    ]


@pytest.mark.parametrize("in_order", [True, False])
def test_the_narrowest_of_several_filters_on_offsets_counts(in_order: bool) -> None:
    filters = [
        GreaterThanOrEqual(("offset",), 10),
        GreaterThanOrEqual(("offset",), 5),
        LessThan(("offset",), 20),
        LessThan(("offset",), 30),
    ]
    narrowing, kept = narrowing_of(filters if in_order else reversed(filters))
    assert (narrowing.first_offset, narrowing.end_offset, kept) == (10, 20, [])
