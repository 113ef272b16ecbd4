from __future__ import annotations

import json

import pytest

from kafka_remote_client.parsing import parse_json, parse_toml

_DEEP, _LONG = "[" * 100_000, "9" * 5_000


def test_parses_as_the_parsers_of_python() -> None:
    assert parse_json('{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]}
    assert parse_json(b"[1]") == [1]
    assert parse_toml("[a]\nb = 1") == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (_DEEP, "nested too deeply"),
        (_DEEP + "]" * 100_000, "nested too deeply"),
        (_LONG, "a number has too many digits"),
        ("[1", "Expecting ',' delimiter: line 1 column 3 (char 2)"),
    ],
)
def test_any_json_gives_a_value_or_a_value_error(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text is compared below
        parse_json(text)
    assert str(raised.value) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"a = {_DEEP}", "nested too deeply"),
        (f"a = {_LONG}", "a number has too many digits"),
        ("a =", "Invalid value (at end of document)"),
    ],
)
def test_any_toml_gives_a_value_or_a_value_error(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text is compared below
        parse_toml(text)
    assert str(raised.value) == reason


def test_bytes_that_are_not_utf_8_are_a_value_error() -> None:
    with pytest.raises(UnicodeDecodeError):
        parse_json(b'"\xff"')


def test_the_error_of_a_hook_goes_through() -> None:
    def refuse(name: str) -> None:
        raise LookupError(name)

    with pytest.raises(LookupError, match="NaN"):
        parse_json("NaN", parse_constant=refuse)
    with pytest.raises(json.JSONDecodeError):
        parse_json("")
