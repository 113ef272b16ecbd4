"""The table of the surface in docs/consumer.md lists all names of the installed classes."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import confluent_kafka
import pytest

from docs.surface import ASYNC, DESERIALIZING, ENTRIES, PAIRS, Entry, Standing, entry_of, names, table
from kafka_remote_client.consumer.direct_consumer import DirectConsumer

TESTS = Path(__file__).resolve().parents[1]
CLASSES = pytest.mark.parametrize("cls", PAIRS, ids=lambda cls: cls.__name__)
_TABLES = {"Consumer": ENTRIES, "DeserializingConsumer": DESERIALIZING, "aio": ASYNC}
EVERYTHING = {f"{where}.{name}": one for where, entries in _TABLES.items() for name, one in entries.items()}


def _parameters(function: ast.FunctionDef) -> list[tuple[str, object]]:
    """Names and defaults without ``self``, as confluent_kafka's stub has them."""
    positional = function.args.args[1:]
    defaults = [None] * (len(positional) - len(function.args.defaults)) + [ast.unparse(one) for one in function.args.defaults]
    return list(zip([one.arg for one in positional], defaults, strict=True))


def _upstream() -> dict[str, ast.FunctionDef]:
    stub = Path(confluent_kafka.__file__).with_name("cimpl.pyi").read_text()
    (cls,) = (node for node in ast.parse(stub).body if isinstance(node, ast.ClassDef) and node.name == "Consumer")
    methods = [node for node in cls.body if isinstance(node, ast.FunctionDef)]
    overloaded = {node.name for node in methods if node.decorator_list}
    return {node.name: node for node in methods if node.name not in overloaded}


@CLASSES
def test_every_name_of_upstreams_class_exists_and_is_documented(cls: type) -> None:
    missing = names(cls) - names(PAIRS[cls])
    assert not missing
    for name in names(cls):
        assert entry_of(cls, name).standing is not Standing.OURS, name


@CLASSES
def test_every_additional_name_is_documented_as_ours(cls: type) -> None:
    for name in names(PAIRS[cls]) - names(cls):
        assert entry_of(cls, name).standing is Standing.OURS, name


def test_no_missing_name_is_documented() -> None:
    everything = set().union(*(names(cls) | names(ours) for cls, ours in PAIRS.items()))
    assert {*ENTRIES, *ASYNC, *DESERIALIZING} <= everything


@pytest.mark.parametrize("name", sorted(_upstream()))
def test_what_is_overridden_keeps_the_signature(name: str) -> None:
    ours = getattr(DirectConsumer, name)
    if ours is getattr(confluent_kafka.Consumer, name) or name.startswith("__"):
        return
    expected = _parameters(_upstream()[name])
    has = [one for one in inspect.signature(ours).parameters.values() if one.name != "self"]
    passed_on = any(one.kind is one.VAR_KEYWORD for one in has)
    named = [
        (one.name, None if one.default is one.empty else repr(one.default)) for one in has if one.kind < one.VAR_POSITIONAL
    ]
    assert named == (expected[: len(named)] if passed_on else expected)


@pytest.mark.parametrize("name", sorted(name for name, one in ENTRIES.items() if one.standing is Standing.EXTENDED))
def test_what_is_extended_is_overridden_and_says_how(name: str) -> None:
    assert ENTRIES[name].note
    assert getattr(DirectConsumer, name) is not getattr(confluent_kafka.Consumer, name)


@pytest.mark.parametrize("what", sorted(EVERYTHING))
def test_the_test_that_shows_it_exists(what: str) -> None:
    one: Entry = EVERYTHING[what]
    file, _, function = one.test.partition("::")
    assert re.search(rf"^(async )?def {function}\(", (TESTS / file).read_text(), re.MULTILINE), one.test


def test_the_page_has_the_table() -> None:
    assert table() in (TESTS.parent / "docs" / "consumer.md").read_text()
