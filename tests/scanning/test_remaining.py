from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.remaining import parse_split_id, without
from kafka_remote_client.scanning.splits import Split

A, B = TopicPartition("a-1.b_c", 0), TopicPartition("a-1.b_c", 12)


def split(start: int, end: int, size: int = 0, partition: TopicPartition = A) -> Split:
    return Split(partition, start, end, size)


def test_an_id_names_the_split() -> None:
    assert split(5, 17, 100, B).id == "a-1.b_c-12-5-17"
    assert parse_split_id("a-1.b_c-12-5-17") == split(5, 17, 0, B)


@pytest.mark.parametrize(
    "text", ["", "a-1-2", "a-0-5-4", "a-0-5-x", "a/b-0-1-2", "a-0-1-٢", "a-0-1-2\n", "a-0-1-99999999999999999999"]
)
def test_an_invalid_split_id_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not the id of a split"):
        parse_split_id(text)


def test_finished_splits_are_left_out() -> None:
    planned = [split(0, 10, 100), split(10, 20, 100), split(20, 30, 100), split(0, 10, 50, B)]
    assert without(planned, []) == planned
    assert without(planned, [split(10, 20)]) == [planned[0], planned[2], planned[3]]
    assert without(planned, planned) == []


def test_a_partly_finished_split_keeps_its_rest() -> None:
    planned = [split(0, 10, 100), split(10, 20, 100)]
    assert without(planned, [split(8, 12), split(3, 4), split(3, 5)]) == [
        split(0, 3, 30),
        split(5, 8, 30),
        split(12, 20, 80),
    ]


def test_remaining_splits_are_found_in_linear_work() -> None:
    """Comparing each of 4,000 splits with each of 2,000 finished ones takes millions of comparisons."""
    count, compared = 4_000, 0

    def counted(compare: Callable[[int, int], bool]) -> Callable[[int, int], bool]:
        def method(one: int, other: int) -> bool:
            nonlocal compared
            compared += 1
            return compare(int(one), int(other))

        return method

    class Offset(int):
        __lt__, __le__, __gt__, __ge__ = (counted(each) for each in (operator.lt, operator.le, operator.gt, operator.ge))

    planned = [split(Offset(2 * n), Offset(2 * n + 2), 2) for n in range(count)]
    finished = [split(Offset(4 * n), Offset(4 * n + 1)) for n in range(count // 2)]
    left = without(planned, finished)
    assert sum(part.offsets for part in left) == 2 * count - count // 2
    assert compared < 40 * count


def test_adjacent_or_overlapping_splits_leave_no_empty_part() -> None:
    assert without([split(0, 10, 10)], [split(2, 4), split(4, 6), split(3, 8), split(9, 9)]) == [
        split(0, 2, 2),
        split(8, 10, 2),
    ]


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda span: split(span[0], sum(span))), max_size=8)


@given(cuts=st.sets(st.integers(1, 39)), finished=spans)
def test_each_offset_is_finished_or_remaining(cuts: set[int], finished: list[Split]) -> None:
    bounds = [0, *sorted(cuts), 40]
    planned = [split(start, end, 7) for start, end in pairwise(bounds)]
    left = [offset for part in without(planned, finished) for offset in range(part.start, part.end)]
    done = {offset for part in finished for offset in range(part.start, part.end)}
    assert left == [offset for offset in range(40) if offset not in done]


def test_an_empty_split_has_an_id_too() -> None:
    assert parse_split_id(split(5, 5).id) == split(5, 5)
