"""Predicates: syntax, and validation before anything is read."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.scanning.predicate import (
    And,
    Comparison,
    HeaderIs,
    IsIn,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    column,
    columns_of,
    header,
    microseconds,
)


@pytest.mark.parametrize(
    ("written", "operator"),
    [
        (column("offset") == 5, Operator.EQUAL),
        (column("offset") != 5, Operator.NOT_EQUAL),
        (column("offset") < 5, Operator.LESS),
        (column("offset") <= 5, Operator.LESS_EQUAL),
        (column("offset") > 5, Operator.GREATER),
        (column("offset") >= 5, Operator.GREATER_EQUAL),
    ],
    ids=lambda value: getattr(value, "value", ""),
)
def test_python_operators_compare_a_column(written: Any, operator: Operator) -> None:
    assert written == Comparison("offset", operator, 5)
    assert operator.opposite.opposite is operator


def test_predicates_are_combined_and_can_be_pickled() -> None:
    one, other = column("partition") == 0, header("test").exists()
    combined = (one & ~other) | column("key").is_in([b"a", "é"])
    assert combined == Or((And((one, Not(other))), IsIn("key", (b"a", "é".encode()))))
    assert pickle.loads(pickle.dumps(combined)) == combined
    assert columns_of(combined) == {"partition", "headers", "key"}


def test_headers_are_compared_by_name() -> None:
    assert (header("id") == b"4711") == HeaderIs("id", (b"4711",))
    assert (header("id") != "4711") == Not(HeaderIs("id", (b"4711",)))
    assert header("id").is_in([b"1", "2"]) == HeaderIs("id", (b"1", b"2"))
    assert header("id").exists() == HeaderIs("id", None)
    assert column("value").is_null() == IsNull("value")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1_500, 1_500_000),
        (datetime(1970, 1, 1, 0, 0, 1, 7, tzinfo=UTC), 1_000_007),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0),
        (date(1970, 1, 2), 86_400_000_000),
        ("1970-01-02", 86_400_000_000),
        ("1970-01-01T00:00:01", 1_000_000),
        ("1970-01-01T01:00:00+01:00", 0),
    ],
    ids=str,
)
def test_timestamps_are_accepted_in_common_types(value: object, expected: int) -> None:
    assert microseconds(value, "since") == expected
    assert (column("timestamp") >= value) == Comparison("timestamp", Operator.GREATER_EQUAL, expected)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: column("timestamp") == datetime(2026, 1, 1), "timestamp has no time zone"),
        (lambda: column("timestamp") == "yesterday", "timestamp is not a time in ISO 8601: 'yesterday'"),
        (lambda: column("timestamp") == 1.5, "timestamp must be milliseconds, a datetime"),
        (lambda: column("timestamp") == True, "timestamp must be milliseconds"),  # noqa: E712
        (lambda: column("timestamp") == 2**63, "timestamp must be milliseconds"),
        (lambda: column("offset") == "5", "offset must be a whole number"),
        (lambda: column("offset") < 2**63, "offset must be a whole number"),
        (lambda: column("offset") == None, r"use column\('offset'\).is_null\(\)"),  # noqa: E711
        (lambda: column("key") == 5, "key is compared with bytes or text"),
        (lambda: column("topic") == b"orders", "topic is compared with text"),
        (lambda: column("key").is_in(b"abc"), "is_in takes a list of values"),
        (lambda: column("key").is_in(5), "is_in takes a list of values"),
        (lambda: column("headers"), r"headers are compared by name: header\('trace-id'\)"),
        (lambda: column("ofset"), "unknown column: 'ofset'"),
        (lambda: header(b"id"), "the name of a header must be text"),
        (lambda: header("id") == 5, "header 'id' is compared with bytes or text"),
        (lambda: (column("key") == b"a") & True, "not a predicate: True"),
        (lambda: (column("key") == b"a") | 1, "not a predicate: 1"),
    ],
)
def test_an_invalid_predicate_is_refused_by_name(wrong: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        wrong()


def test_a_custom_predicate_class_has_no_columns() -> None:
    class CustomPredicate(Predicate): ...

    with pytest.raises(TypeError, match="unknown predicate"):
        columns_of(CustomPredicate())


def test_a_predicate_is_neither_true_nor_false() -> None:
    with pytest.raises(TypeError, match="combine predicates with &"):
        bool(column("offset") == 5)
    assert column("offset").__hash__ is None
    assert header("id").__hash__ is None
