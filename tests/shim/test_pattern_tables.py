"""Tables of fields by pattern: the first matching pattern decides."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.shim.pattern_tables import PatternTables, number

FIELDS = {"size": lambda value, name: number(value, int, name), "word": lambda value, _name: value}


def tables(given: dict[str, Any]) -> PatternTables[dict[str, Any]]:
    return PatternTables("tables", given, FIELDS, dict, {})


def test_the_first_matching_pattern_decides_alone() -> None:
    made = tables({"a*.size": 1, "a.b.size": "2", "a*.word": "x", "*.size": 3})
    assert made.of("a.b") == {"size": 1, "word": "x"}
    assert made.of("b") == {"size": 3}
    assert made.values == ({"size": 1, "word": "x"}, {"size": 2}, {"size": 3})


@pytest.mark.parametrize(
    ("pattern", "fits", "fails"),
    [
        ("a.b", "a.b", "a-b"),
        ("a", "a", "ab"),
        ("a?", "ab", "a"),
        ("[ab]*", "bc", "c"),
        ("Orders", "Orders", "orders"),
        ("a", "a", "a\n"),
        ("commonName=app,*", "commonName=app,organizationName=x", "commonName=apps"),
    ],
)
def test_patterns_are_those_of_a_shell(pattern: str, fits: str, fails: str) -> None:
    made = tables({f"{pattern}.size": 1})
    assert (made.of(fits), made.of(fails)) == ({"size": 1}, {})


@pytest.mark.parametrize("key", ["size", ".size", "a.colour", "a"])
def test_a_key_without_a_pattern_or_field_is_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match=r"not PATTERN\.FIELD with a field of size, word"):
        tables({key: 1})


def test_an_invalid_number_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"tables\.a\.size must be a whole number"):
        tables({"a.size": "many"})
