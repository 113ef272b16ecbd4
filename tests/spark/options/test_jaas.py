from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.spark.options.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_reads_a_module_with_quoted_and_bare_options() -> None:
    module = parse_jaas(f'{PLAIN} required username="alice" password=secret;')
    assert module.class_name == PLAIN
    assert module.name == "PlainLoginModule"
    assert module.options == {"username": "alice", "password": "secret"}


def test_blanks_and_line_breaks_between_words_are_ignored() -> None:
    assert parse_jaas(f'\n  {PLAIN}\n  Required\n  a = "b"\n ;  \n').options == {"a": "b"}


def test_a_module_may_have_no_options() -> None:
    assert parse_jaas("a.Module optional;").options == {}


def test_a_class_without_a_package_is_its_own_name() -> None:
    assert parse_jaas("Module required;").name == "Module"


def test_escapes_and_signs_inside_quotes_are_text() -> None:
    module = parse_jaas(r'M required a="x\"y\\z\n=;" b="";')
    assert module.options == {"a": 'x"y\\z\n=;', "b": ""}


def test_a_quoted_sign_is_a_word() -> None:
    assert parse_jaas('M required a="=" b=";";').options == {"a": "=", "b": ";"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "M required",
        "M;",
        "M never a=b;",
        "M required a;",
        "M required a b=c;",
        "M required a==b;",
        'M required a="b;',
        "M required a=b; N required;",
        "M required a=b\\;",
    ],
)
def test_refuses_anything_but_one_module_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sasl\.jaas\.config") as raised:
        parse_jaas(text)
    assert "M required" not in str(raised.value)


@given(st.text())
def test_any_text_gives_a_module_or_a_configuration_error(text: str) -> None:
    with suppress(ConfigurationError):
        parse_jaas(text)


@given(st.dictionaries(st.from_regex(r"[a-zA-Z_]+", fullmatch=True), st.text(), max_size=4))
def test_quoted_text_is_read_back(options: dict[str, str]) -> None:
    quoted = {key: value.replace("\\", "\\\\").replace('"', '\\"') for key, value in options.items()}
    text = "M required " + " ".join(f'{key}="{value}"' for key, value in quoted.items()) + ";"
    assert parse_jaas(text).options == options


def test_no_repr_shows_a_secret() -> None:
    assert "hunter2" not in repr(parse_jaas('M required password="hunter2";'))
