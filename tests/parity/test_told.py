"""Each scenario of Kafka's, and each method, setting and rule, has an existing test or a reason for none."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import confluent_kafka
import pytest

from tests.parity.kafka_scenarios import NOT_HERE, ONLY_IN, RESTATED, SUITES, names_of
from tests.parity.rules import CONFIGURATION, MESSAGES, RULES, SURFACE
from tests.support.artifacts import MissingPartError, kafka_jars

_TESTS = Path(__file__).resolve().parents[1]
_TOLD: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "scenarios": RESTATED,
    "methods": SURFACE,
    "messages": MESSAGES,
    "settings": CONFIGURATION,
    "rules": {str(number): tests for number, tests in RULES.items()},
}
_NO_TESTS = {"testFetchRequestWithBufferedPartitionUnfetchable"}
"""Methods of Kafka's classes that are named like tests and are called by some."""


@cache
def _names_in(file: str) -> frozenset[str]:
    text = (_TESTS / f"{file}.py").read_text()
    return frozenset(re.findall(r"^(?:async )?def test_(\w+)\(", text, re.MULTILINE))


@pytest.mark.parametrize("what", _TOLD)
def test_named_tests_exist(what: str) -> None:
    for name, tests in _TOLD[what].items():
        assert tests, name
        for told in tests:
            file, test = told.split(":")
            assert test in _names_in(file), f"{name}: {told}"


def test_every_method_of_the_class_is_listed() -> None:
    public = {name for name in dir(confluent_kafka.Consumer) if not name.startswith("_")}
    assert SURFACE.keys() == public | {"__init__", "__enter__", "__exit__"}


def test_every_rule_is_listed() -> None:
    assert list(RULES) == list(range(1, 13))


def test_a_scenario_has_either_tests_or_a_reason() -> None:
    assert not RESTATED.keys() & NOT_HERE.keys()
    assert all(NOT_HERE.values())
    for suite in SUITES:
        assert set(ONLY_IN[suite]) <= RESTATED.keys() | NOT_HERE.keys()


@pytest.mark.broker
@pytest.mark.parametrize("suite", SUITES)
def test_the_names_are_those_of_kafkas_own_class(suite: str) -> None:
    """Read from the class file in the broker's jars, which has the names of methods as text."""
    try:
        (jar,) = kafka_jars().glob("kafka-clients-*-test.jar")
    except MissingPartError as error:
        pytest.skip(f"no real broker: {error}")
    with zipfile.ZipFile(jar) as archive:
        compiled = archive.read(f"org/apache/kafka/clients/consumer/internals/{suite}.class")
    names = set()
    for match in re.finditer(rb"\x01(?P<length>..)(?P<name>test[A-Z]\w*)", compiled, re.DOTALL):
        names.add(match["name"][: int.from_bytes(match["length"], "big")].decode())
    assert names - _NO_TESTS == names_of(suite)
