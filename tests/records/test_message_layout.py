"""Which memory layouts of a message may be copied; the tests use made-up memory in place of a message's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Message

from kafka_remote_client.records import _kernel
from kafka_remote_client.records.message_layout import MessageLayout, message_layout

KEPT: list[Any] = []
"""Objects that made-up memory refers to."""


def made(*arguments: Any) -> tuple[Any, ...]:
    return arguments


def reference(value: object) -> int:
    return 0 if value is None else id(value)


def image(arguments: Sequence[Any]) -> list[int]:
    topic, partition, offset, key, value, headers, error, (kind, timestamp), latency, epoch = arguments
    KEPT.append(error)
    references = [reference(one) for one in (topic, value, key, headers, error)]
    return [*references, partition, offset, epoch, timestamp, kind, int(latency) % 2**64, 0xFFFF]


def changed(change: Callable[[list[int], Sequence[Any]], object]) -> Callable[[Sequence[Any]], list[int]]:
    def otherwise(arguments: Sequence[Any]) -> list[int]:
        words = image(arguments)
        change(words, arguments)
        return words

    return otherwise


def test_each_field_is_found_at_its_place() -> None:
    assert message_layout(made, image) == MessageLayout(12, 0, 6, 2, 1, 3, 4, 8, 0, 0, 0)


def test_an_unused_field_may_hold_none() -> None:
    def with_none(words: list[int], _: object) -> None:
        words[1:5] = [word or id(None) for word in words[1:5]]

    assert message_layout(made, changed(with_none)) == MessageLayout(12, 0, 6, 2, 1, 3, 4, 8, id(None), id(None), id(None))


@pytest.mark.parametrize(
    "change",
    [
        lambda words, _: words.append(1 << 16),
        lambda words, arguments: words.append(arguments[2]),
        lambda words, _: words.__setitem__(5, 0),
        lambda words, _: words.__setitem__(9, 0),
        lambda words, _: words.__setitem__(0, words[0] + 1),
        lambda words, _: words.__setitem__(6, words[6] + 1),
        lambda words, _: words.__setitem__(8, words[8] * 2),
        lambda words, _: words.__setitem__(4, words[4] or 7),
        lambda words, _: words.__setitem__(2, words[2] or 7),
        lambda words, _: words.__setitem__(slice(6, 9, 2), [words[6] ^ words[8], 0]),
    ],
    ids=[
        "an address of its own",
        "an argument in two words",
        "an argument in none",
        "no kind",
        "another object's address",
        "another offset",
        "another timestamp",
        "an error where there is none",
        "a key where there is none",
        "two in one word",
    ],
)
def test_an_unknown_layout_is_refused(change: Callable[[list[int], Sequence[Any]], object]) -> None:
    assert message_layout(made, changed(change)) is None


def test_the_installed_confluent_kafka_has_a_known_layout() -> None:
    assert message_layout(Message, _kernel.message_image) is not None
