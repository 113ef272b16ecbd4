"""docs/failures.md has a row for each cause of a failed read, from the tree of errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_remote_client import errors
from kafka_remote_client.errors import (
    Action,
    DirectFetchError,
    ExportError,
    ForkedConsumerError,
    RestoreError,
    UnreadableRecordError,
)
from kafka_remote_client.fetch.policy import rule_for

PAGE = Path(__file__).parents[2] / "docs" / "failures.md"
_NOT_OF_A_READ = (ExportError, ForkedConsumerError, RestoreError, UnreadableRecordError)
"""Errors that end a call, and never a direct read."""


def _kinds(root: type[DirectFetchError] = DirectFetchError) -> Iterator[type[DirectFetchError]]:
    if root.__module__ == errors.__name__:
        yield root
    for kind in root.__subclasses__():
        yield from _kinds(kind)


READ_ERRORS = [kind for kind in _kinds() if not issubclass(kind, _NOT_OF_A_READ)]


def _rows() -> dict[str, str]:
    """The first action of each cause on the page."""
    return dict(re.findall(r"^\| `([a-z-]+)` \|[^|]*\| ([a-z]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))


def test_the_tree_of_errors_is_found() -> None:
    assert {"authentication", "protocol", "timeout", "error"} <= {kind.cause for kind in READ_ERRORS}


@pytest.mark.parametrize("kind", READ_ERRORS, ids=lambda kind: kind.__name__)
def test_each_cause_of_a_failed_read_is_on_the_page(kind: type[DirectFetchError]) -> None:
    assert kind.cause in _rows()


def test_the_page_has_no_cause_that_no_error_has() -> None:
    assert _rows().keys() == {kind.cause for kind in READ_ERRORS}


@pytest.mark.parametrize("kind", READ_ERRORS, ids=lambda kind: kind.__name__)
def test_an_action_without_budget_is_the_broker(kind: type[DirectFetchError]) -> None:
    rule = rule_for(kind.__new__(kind))
    acts = Action.STOP if kind.action is Action.STOP else Action.BROKER
    if rule.budget.value == "-":
        assert Action(_rows()[kind.cause]) is acts
