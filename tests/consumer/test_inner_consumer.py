"""The calls of the inner consumer."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kafka_remote_client.consumer.inner_consumer import InnerConsumer


def test_each_call_is_taken_by_its_name() -> None:
    inner = InnerConsumer.of(lambda name: lambda *_: name)
    for name in attrs.fields_dict(InnerConsumer):
        assert getattr(inner, name)([]) == name


class Stock:
    """A consumer with all methods that are called."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    consume = list_topics = committed = commit = assignment = unassign = lambda self, *args: ("stock", *args)
    offsets_for_times = consume
    pause = resume = seek = position = assign = incremental_unassign = incremental_assign = store_offsets = consume


class Ours(Stock):
    def pause(self, *args: object) -> Any:
        raise AssertionError("an override")


class Applications(Ours):
    def pause(self, *args: object) -> Any:
        raise AssertionError("an application's override")


def test_overrides_are_passed_and_the_consumer_is_not_kept() -> None:
    consumer = Applications()
    inner = InnerConsumer.behind(consumer, Ours)
    assert inner.pause([1]) == ("stock", [1])
    del consumer
    with pytest.raises(RuntimeError, match="Consumer closed"):
        inner.pause([])
