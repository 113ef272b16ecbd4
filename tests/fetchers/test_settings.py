from __future__ import annotations

import pytest
from kafka_remote_fetchers._settings import SETTINGS, bool_setting, fetcher_settings, int_setting, text_setting

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.settings import FETCHER_PREFIX, default_of

HTTP = "remote.storage.fetcher.allow.http"
IN_FLIGHT = "fetch.remote.max.in.flight"
SESSION = "s3.role.session.name"


@pytest.mark.parametrize(
    ("value", "expected"), [(True, True), ("TRUE", True), ("1", True), (False, False), ("f", False), (None, False)]
)
def test_a_boolean_setting_accepts_booleans_and_their_names(value: object, expected: bool) -> None:
    assert bool_setting({HTTP: value}, HTTP) is expected
    assert bool_setting({"allow.http": value}, "allow.http") is expected


@pytest.mark.parametrize("value", ["yes", "", 2, "on"])
def test_a_boolean_setting_refuses_other_values(value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"{HTTP} must be true or false"):
        bool_setting({HTTP: value}, HTTP)


@pytest.mark.parametrize(("value", "expected"), [(5, 5), ("5", 5), (None, default_of(IN_FLIGHT)), ("1", 1)])
def test_an_integer_setting_accepts_integers_and_digits(value: object, expected: int) -> None:
    assert int_setting({IN_FLIGHT: value}, IN_FLIGHT) == expected


@pytest.mark.parametrize("value", ["five", "", 0, "-1", True, 1.5])
def test_an_integer_setting_refuses_other_values_and_too_small_ones(value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"{IN_FLIGHT} must be a whole number between 1 and 256, such as 64"):
        int_setting({IN_FLIGHT: value}, IN_FLIGHT)


def test_a_text_setting_is_trimmed_and_empty_means_the_default() -> None:
    name = "s3.region"
    assert [text_setting({name: value}, name) for value in (" a ", "", "  ", None)] == ["a", None, None, None]
    assert [text_setting({SESSION: value}, SESSION) for value in ("a", " ")] == ["a", "kafka-remote"]
    with pytest.raises(ConfigurationError, match=r"s3\.region must be a string"):
        text_setting({name: 1}, name)


def test_an_undeclared_setting_name_raises_key_error() -> None:
    for read in (text_setting, bool_setting, int_setting):
        with pytest.raises(KeyError):
            read({}, "s3.nothing")
    with pytest.raises(KeyError):
        fetcher_settings("nothing")


def test_declarations_have_a_sentence_and_a_valid_default() -> None:
    for name, setting in SETTINGS.items():
        assert name == setting.name
        assert name.startswith(FETCHER_PREFIX)
        assert setting.doc.endswith(".")
        assert setting.default is None or setting.parse(setting.default) == setting.default
