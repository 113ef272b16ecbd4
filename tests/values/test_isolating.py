"""A value that does not parse is found among many and leaves the others unchanged."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.values.isolating import parse_each


def numbers(column: pa.Array) -> pa.Array:
    return pa.array([int(value.as_py()) for value in column], pa.int64())


@given(st.lists(st.one_of(st.none(), st.just(b"x"), st.integers(0, 99).map(lambda n: b"%d" % n)), max_size=40))
def test_each_value_is_parsed_or_has_an_error_at_its_row(values: list[bytes | None]) -> None:
    parsed = parse_each(pa.array(values, pa.binary()), numbers)
    assert parsed.values.to_pylist() == [None if value in {None, b"x"} else int(value or b"") for value in values]
    assert parsed.errors.keys() == {row for row, value in enumerate(values) if value == b"x"}


def test_a_good_column_is_parsed_once() -> None:
    asked: list[int] = []

    def parse(column: pa.Array) -> pa.Array:
        asked.append(len(column))
        return numbers(column)

    assert parse_each(pa.array([b"1", b"2", b"3"]), parse).values.to_pylist() == [1, 2, 3]
    assert asked == [3]


def test_few_calls_find_one_bad_value_among_many() -> None:
    asked: list[int] = []

    def parse(column: pa.Array) -> pa.Array:
        asked.append(len(column))
        return numbers(column)

    parsed = parse_each(pa.array([b"x" if row == 700 else b"1" for row in range(1024)]), parse)
    assert list(parsed.errors) == [700]
    assert len(asked) == 22


def test_values_without_a_common_type_are_not_bad_values() -> None:
    def parse(column: pa.Array) -> pa.Array:
        if len(column.unique()) > 1:
            raise ValueError("no type in common")
        return column

    with pytest.raises(ValueError, match="in common"):
        parse_each(pa.array([b"1", b"a"]), parse)
