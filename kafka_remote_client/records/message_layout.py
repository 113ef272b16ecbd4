"""Detects the memory layout of ``confluent_kafka.Message`` from the messages that its constructor makes. Pure.

Most of a message's cost is that the constructor converts ten arguments. The messages of a slice share most of them. So the
kernel makes one message with the constructor, and the others as copies of its memory with five words replaced. No interface
defines these words. So this module makes messages that differ in one argument and compares their memory: each argument must
change exactly one word, words that refer to objects must hold their addresses, and there must be no other reference. If any of
this does not hold, or the environment has ``KAFKA_REMOTE_CLIENT_MESSAGE_LAYOUT=0``, the constructor makes all messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from confluent_kafka import KafkaError

from kafka_remote_client.arguments import switched_on

__all__ = ["MessageLayout", "layout_in_use", "message_layout"]

_NO_ADDRESS = 1 << 16
"""No memory is mapped below this address, so a smaller word is no reference."""

_TOPIC, _PARTITION, _OFFSET, _KEY, _VALUE, _HEADERS, _ERROR, _TIMESTAMP, _LATENCY, _EPOCH = range(10)
_REFERENCES = (_TOPIC, _KEY, _VALUE, _HEADERS)
_REPLACED = (*_REFERENCES, _ERROR, _OFFSET, _TIMESTAMP)
"""The arguments that a copy replaces: each needs a word of its own."""


@attrs.frozen
class MessageLayout:
    """Indexes of 64-bit words, counted from the end of the head that all objects have; ``words`` is their number.

    ``no_key``, ``no_value`` and ``no_headers``: the word of a message without one, which is 0 or the address of None.
    """

    words: int
    topic: int
    offset: int
    key: int
    value: int
    headers: int
    error: int
    timestamp: int
    no_key: int
    no_value: int
    no_headers: int


def message_layout(make: Callable[..., Any], image: Callable[[Any], Sequence[int]]) -> MessageLayout | None:
    """The layout of the objects of ``make``; None if it is not recognised. ``image``: an object's words, without the head."""
    given: list[Any] = ["topic", 77, 1 << 40, b"key", b"value", [("name", b"1")], None, (1, 1 << 41), -1.0, 88]
    others: list[Any] = ["other", 78, 1 << 42, None, None, None, KafkaError(1), (1, 1 << 43), 2.0, 89]
    first = make(*given)
    words = image(first)

    def changed(index: int, other: object) -> tuple[int, int] | None:
        """The index of the one word that another argument changes, and its new value; None unless it is exactly one."""
        another = make(*given[:index], other, *given[index + 1 :])
        differing = [
            (at, after) for at, (before, after) in enumerate(zip(words, image(another), strict=True)) if before != after
        ]
        return differing[0] if len(differing) == 1 else None

    found = [changed(index, other) for index, other in enumerate(others)]
    kind = changed(_TIMESTAMP, (2, 1 << 41))
    if kind is None or None in found:
        return None
    places = [change for change in found if change is not None]
    at = [place for place, _ in places]
    empty = (0, id(None))
    plain = (
        len({at[index] for index in _REPLACED}) == len(_REPLACED)
        and all(words[at[index]] == id(given[index]) for index in _REFERENCES)
        and (words[at[_OFFSET]], words[at[_TIMESTAMP]]) == (given[_OFFSET], given[_TIMESTAMP][1])
        and words[at[_ERROR]] in empty
        and all(places[index][1] in empty for index in (_KEY, _VALUE, _HEADERS))
        and all(word < _NO_ADDRESS for place, word in enumerate(words) if place not in (*at, kind[0]))
    )
    if not plain:
        return None
    return MessageLayout(
        words=len(words),
        topic=at[_TOPIC],
        offset=at[_OFFSET],
        key=at[_KEY],
        value=at[_VALUE],
        headers=at[_HEADERS],
        error=at[_ERROR],
        timestamp=at[_TIMESTAMP],
        no_key=places[_KEY][1],
        no_value=places[_VALUE][1],
        no_headers=places[_HEADERS][1],
    )


def layout_in_use(make: Callable[..., Any], image: Callable[[Any], Sequence[int]]) -> MessageLayout | None:
    """The layout that the kernel uses, detected at its import; None if the constructor must make all messages."""
    return message_layout(make, image) if switched_on("KAFKA_REMOTE_CLIENT_MESSAGE_LAYOUT") else None
