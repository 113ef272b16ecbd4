from __future__ import annotations

import pytest

from fetchers._settings import bool_setting, int_setting, text_setting
from kafka_remote_client.errors import ConfigurationError


@pytest.mark.parametrize(
    ("value", "expected"), [(True, True), ("TRUE", True), ("1", True), (False, False), ("f", False), (None, True)]
)
def test_a_bool_is_itself_or_its_name(value: object, expected: bool) -> None:
    assert bool_setting({"s": value}, "s", default=True) is expected
    assert bool_setting({}, "s", default=False) is False


@pytest.mark.parametrize("value", ["yes", "", 2, "on"])
def test_a_bool_is_nothing_else(value: object) -> None:
    with pytest.raises(ConfigurationError, match="s must be true or false"):
        bool_setting({"s": value}, "s", default=True)


@pytest.mark.parametrize(("value", "expected"), [(5, 5), ("5", 5), (None, 7), ("1", 1)])
def test_an_integer_is_itself_or_its_digits(value: object, expected: int) -> None:
    assert int_setting({"s": value}, "s", 7, minimum=1) == expected


@pytest.mark.parametrize("value", ["five", "", 0, "-1", True, 1.5])
def test_an_integer_is_nothing_else_and_not_below_its_bound(value: object) -> None:
    with pytest.raises(ConfigurationError, match="s must be an integer of at least 1"):
        int_setting({"s": value}, "s", 7, minimum=1)


def test_a_text_is_trimmed_and_none_when_empty() -> None:
    assert [text_setting({"s": value}, "s") for value in (" a ", "", "  ", None)] == ["a", None, None, None]
    with pytest.raises(ConfigurationError, match="s must be a string"):
        text_setting({"s": 1}, "s")
