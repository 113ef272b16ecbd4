"""The verdict of a predicate on an extent, checked against all records that the extent can contain."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.scanning.predicate import Comparison, Not, Operator, Predicate, column, header
from kafka_remote_client.scanning.pruning import Extent, Verdict, hull, verdict
from tests.support.scanned import Condition, Row, conditions

EXTENT = Extent("orders", 1, 100, 200, oldest=5_000, youngest=9_000)
KEYS = (b"a", b"b")


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (None, Verdict.ALWAYS),
        (column("offset") == 150, Verdict.MAYBE),
        (column("offset") == 99, Verdict.NEVER),
        (column("offset") == 200, Verdict.NEVER),
        (column("offset") != 200, Verdict.ALWAYS),
        (column("offset") < 200, Verdict.ALWAYS),
        (column("offset") < 100, Verdict.NEVER),
        (column("offset") <= 198, Verdict.MAYBE),
        (column("offset") > 199, Verdict.NEVER),
        (column("offset") > 99, Verdict.ALWAYS),
        (column("offset") >= 101, Verdict.MAYBE),
        (column("offset").is_in([1, 300]), Verdict.NEVER),
        (column("offset").is_in([1, 150]), Verdict.MAYBE),
        (column("offset").is_in([]), Verdict.NEVER),
        (column("timestamp") < 5, Verdict.NEVER),
        (column("timestamp") > 9, Verdict.NEVER),
        (column("timestamp") >= 5, Verdict.ALWAYS),
        (column("topic") == "orders", Verdict.ALWAYS),
        (column("topic") == "other", Verdict.NEVER),
        (column("partition").is_in([0, 1]), Verdict.ALWAYS),
        (column("offset").is_null(), Verdict.NEVER),
        (column("key").is_null(), Verdict.MAYBE),
        (column("key") == b"a", Verdict.MAYBE),
        (column("timestampType") == 1, Verdict.MAYBE),
        (header("id").exists(), Verdict.MAYBE),
        ((column("key") == b"a") & (column("offset") < 100), Verdict.NEVER),
        ((column("key") == b"a") | (column("offset") < 200), Verdict.ALWAYS),
        ((column("partition") == 1) & (column("offset") < 200), Verdict.ALWAYS),
        ((column("partition") == 0) | (column("offset") < 100), Verdict.NEVER),
        (~(column("offset") < 100), Verdict.ALWAYS),
    ],
    ids=str,
)
def test_verdict_of_an_extent(predicate: Predicate | None, expected: Verdict) -> None:
    assert verdict(predicate, EXTENT) is expected
    if predicate is not None:
        assert verdict(~predicate, EXTENT) is expected.opposite


def test_unknown_times_give_no_verdict() -> None:
    unknown = Extent("orders", 1, 100, 200)
    assert verdict(column("timestamp") < 5, unknown) is Verdict.MAYBE
    assert verdict(column("timestamp") > 9, Extent("orders", 1, 0, 1, youngest=9_000)) is Verdict.NEVER
    assert verdict(column("timestamp") < 5, Extent("orders", 1, 0, 1, youngest=9_000)) is Verdict.MAYBE


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (None, (100, 200)),
        (column("offset") == 150, (150, 151)),
        (column("offset") == 99, (100, 100)),
        (column("offset") != 150, (100, 200)),
        (column("offset") < 150, (100, 150)),
        (column("offset") <= 150, (100, 151)),
        (column("offset") > 150, (151, 200)),
        (column("offset") >= 150, (150, 200)),
        (column("offset").is_in([5, 120, 130, 500]), (120, 131)),
        (column("offset").is_in([]), (100, 100)),
        (column("timestamp") > 5, (100, 200)),
        (column("key").is_null(), (100, 200)),
        ((column("offset") > 110) & (column("offset") < 120), (111, 120)),
        ((column("offset") > 120) & (column("offset") < 110), (100, 100)),
        ((column("offset") < 110) | (column("offset") == 150), (100, 151)),
        ((column("offset") < 110) | (column("key") == b"a"), (100, 200)),
        (~(column("offset") >= 150), (100, 150)),
        (~~(column("offset") == 150), (150, 151)),
        (~((column("offset") < 110) | (column("offset") > 150)), (110, 151)),
        (~((column("offset") < 110) & (column("key") == b"a")), (100, 200)),
        (~column("offset").is_in([150]), (100, 200)),
        (~column("key").is_null(), (100, 200)),
        (~header("a").exists(), (100, 200)),
    ],
    ids=str,
)
def test_hull_of_the_offsets_that_can_match(predicate: Predicate | None, expected: tuple[int, int]) -> None:
    assert hull(predicate, "offset", 100, 200) == expected


def test_a_custom_predicate_class_prunes_nothing() -> None:
    class CustomPredicate(Predicate): ...

    assert verdict(CustomPredicate(), EXTENT) is Verdict.MAYBE
    assert hull(CustomPredicate(), "offset", 100, 200) == (100, 200)
    with pytest.raises(TypeError, match="unknown predicate"):
        hull(Not(CustomPredicate()), "offset", 100, 200)
    assert hull(Comparison("offset", Operator.LESS, "x"), "offset", 1, 2) == (1, 2)


def row(offset: int, time: int, key: bytes | None) -> Row:
    return {"offset": offset, "timestamp": time, "partition": 1, "topic": "orders", "key": key, "value": b"", "headers": []}


@settings(max_examples=60)
@given(
    conditions((0, 12), (0, 6), KEYS),
    st.integers(1, 8),
    st.integers(1, 4),
    st.data(),
)
def test_no_matching_record_is_pruned(condition: Condition, start: int, length: int, data: Any) -> None:
    oldest, youngest = sorted((data.draw(st.integers(0, 6)), data.draw(st.integers(0, 6))))
    extent = Extent("orders", 1, start, start + length, oldest=oldest * 1000, youngest=youngest * 1000)
    records = [
        row(offset, time, key)
        for offset in range(start, start + length)
        for time in range(oldest, youngest + 1)
        for key in (None, *KEYS)
    ]
    found = [condition.of(one) for one in records]
    said = verdict(condition.predicate, extent)
    assert said is not Verdict.NEVER or True not in found
    assert said is not Verdict.ALWAYS or set(found) == {True}
    first, stop = hull(condition.predicate, "offset", start, start + length)
    matching = [one["offset"] for one, matches in zip(records, found, strict=True) if matches]
    assert all(first <= offset < stop for offset in matching)
