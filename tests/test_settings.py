"""One setting: the values that it accepts and refuses, and that no message shows a value."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.settings import (
    FETCHER_PREFIX,
    PREFIX,
    SETTINGS,
    STORE_PREFIX,
    Setting,
    declared,
    default_of,
    unknown_setting,
)


def test_names_are_unique_and_begin_with_a_prefix_of_ours() -> None:
    names = [setting.name for setting in SETTINGS]
    assert len(set(names)) == len(names)
    assert all(name.startswith((PREFIX, FETCHER_PREFIX, STORE_PREFIX)) for name in names)


def test_defaults_are_valid_values() -> None:
    for setting in SETTINGS:
        assert setting.parse(None) == setting.default
        if setting.default is not None:
            assert setting.parse(setting.default) == setting.default


def test_a_setting_with_choices_refuses_others_without_showing_them() -> None:
    setting = Setting("fetch.remote.way", str, "a", "", "Which way.", choices=("a", "b"))
    assert setting.parse("b") == "b"
    with pytest.raises(ConfigurationError) as refused:
        setting.parse("hush")
    assert str(refused.value) == "fetch.remote.way must be one of: a, b"


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("url", "remote.storage.store.url"),
        ("remote.storage.fetcher.url", "remote.storage.store.url"),
        ("remote.storage.store.class", "remote.storage.fetcher.class"),
        ("remote.storage.store.enabled", "fetch.remote.enabled"),
        ("fetch.remote.retry", "fetch.remote.retries"),
    ],
)
def test_the_closest_name_is_found_under_any_prefix(name: str, closest: str) -> None:
    names = [setting.name for setting in SETTINGS]
    assert str(unknown_setting(name, names, " of the shim")) == f"unknown setting of the shim: {name}; did you mean {closest}?"
    assert str(unknown_setting("xyzzy", names)) == "unknown setting: xyzzy"


_PAGE = Path(__file__).resolve().parents[1] / "docs" / "configs.md"
_ROW = re.compile(r"\| `(\S+)` \| (\w+) \| (.*?) \| (.*?) \| (.*?) \| ")


def test_bounds_of_values_are_those_of_the_page() -> None:
    rows = {row[1]: row for line in _PAGE.read_text(encoding="utf-8").splitlines() if (row := _ROW.match(line))}
    assert [setting.name for setting in SETTINGS] == list(rows)
    for setting in SETTINGS:
        _, kind, default, unit, bounds = rows[setting.name].groups()
        shown = {None: "null", False: "false", True: "true"}.get(setting.default, str(setting.default))
        assert (setting.type.__name__, shown, setting.unit) == (kind, default, unit)
        assert (setting.type is int) == (" to " in bounds)
        if setting.type is int:
            least, most = map(int, bounds.split(" to "))
            assert (setting.parse(least), setting.parse(str(most))) == (least, most)
            for beyond in (least - 1, most + 1):
                with pytest.raises(
                    ConfigurationError, match=f"{setting.name} must be a whole number.* between {least} and {most}"
                ):
                    setting.parse(beyond)


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("fetch.remote.buffer.memory", "64MB", "a whole number of bytes between 4194304 and 68719476736, such as 134217728"),
        ("fetch.remote.connect.timeout.ms", "1s", "a whole number of milliseconds between 1 and 60000, such as 1000"),
        ("fetch.remote.retries", "few", "a whole number between 0 and 10, such as 2"),
        ("fetch.remote.hedge.max.percent", "3%", "a whole number of percent between 0 and 100, such as 3"),
        (
            "fetch.remote.max.bytes.per.second",
            "1M",
            "a whole number of bytes per second between 65536 and 1099511627776, such as 65536",
        ),
    ],
)
def test_an_error_names_unit_bounds_and_an_example(name: str, text: str, form: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        declared(name).parse(text)
    assert str(caught.value) == f"{name} must be {form}"


@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting.type is int], ids=lambda one: one.name)
def test_the_example_of_an_error_is_accepted(setting: Setting) -> None:
    example = setting.number_form.rpartition(" ")[2]
    assert setting.parse(example) == int(example)


def test_declarations_are_found_by_name() -> None:
    assert declared("fetch.remote.retries") in SETTINGS
    assert default_of("fetch.remote.retries") == declared("fetch.remote.retries").default
    with pytest.raises(KeyError):
        default_of("fetch.remote.nothing")
