"""One setting: what it takes, what it refuses, and that no message shows a value."""

from __future__ import annotations

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.settings import FETCHER_PREFIX, PREFIX, SETTINGS, STORE_PREFIX, Setting


def test_names_are_unique_and_begin_with_a_prefix_of_ours() -> None:
    names = [setting.name for setting in SETTINGS]
    assert len(set(names)) == len(names)
    assert all(name.startswith((PREFIX, FETCHER_PREFIX, STORE_PREFIX)) for name in names)


def test_defaults_are_values_that_the_setting_takes() -> None:
    for setting in SETTINGS:
        assert setting.parse(None) == setting.default
        if setting.default is not None:
            assert setting.parse(setting.default) == setting.default


def test_a_setting_with_choices_takes_nothing_else_and_shows_no_value() -> None:
    setting = Setting("fetch.remote.way", str, "a", "", "Which way.", choices=("a", "b"))
    assert setting.parse("b") == "b"
    with pytest.raises(ConfigurationError) as refused:
        setting.parse("hush")
    assert str(refused.value) == "fetch.remote.way must be one of: a, b"
