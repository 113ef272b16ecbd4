"""Where ``confluent_kafka.Message`` has what in memory, found out from what its constructor does. Pure.

The constructor takes ten arguments apart and converts each, which is most of what a message costs. All messages of a slice
have most of them in common, so the kernel has one made by the constructor and makes the others as copies of its memory, with
five words replaced. No interface defines where these words are. So messages are made here whose arguments differ in one
place, and their memory is compared: each argument must change one word and no other, words that refer to objects must hold
their addresses, and there must be no reference but those. Where anything is not as plain as that, nothing is known, and the
constructor makes all messages. So it does where the environment has ``KAFKA_REMOTE_CLIENT_MESSAGE_LAYOUT=0``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from confluent_kafka import KafkaError

from kafka_remote_client.arguments import switched_on

__all__ = ["MessageLayout", "layout_in_use", "message_layout"]

_NO_ADDRESS = 1 << 16
"""Nothing is mapped below: a word that holds less refers to nothing."""

_TOPIC, _PARTITION, _OFFSET, _KEY, _VALUE, _HEADERS, _ERROR, _TIMESTAMP, _LATENCY, _EPOCH = range(10)
_REFERENCES = (_TOPIC, _KEY, _VALUE, _HEADERS)
_REPLACED = (*_REFERENCES, _ERROR, _OFFSET, _TIMESTAMP)
"""What each needs a word of its own, for a copy gets another one or another reference there."""


@attrs.frozen
class MessageLayout:
    """Numbers of words, from the first one behind the head that all objects have; ``words`` is how many there are.

    ``no_key``, ``no_value`` and ``no_headers`` are what stands where there is none: 0, or the address of None.
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
    """The layout of what ``make`` makes; ``None`` = it is not plain. ``image``: the 64-bit words of one, without the head."""
    given: list[Any] = ["topic", 77, 1 << 40, b"key", b"value", [("name", b"1")], None, (1, 1 << 41), -1.0, 88]
    others: list[Any] = ["other", 78, 1 << 42, None, None, None, KafkaError(1), (1, 1 << 43), 2.0, 89]
    first = make(*given)
    words = image(first)

    def changed(index: int, other: object) -> tuple[int, int] | None:
        """The one word that another argument changes, and to what."""
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
    """What the kernel goes by, found out at its import; ``None`` where the constructor is to make all messages."""
    return message_layout(make, image) if switched_on("KAFKA_REMOTE_CLIENT_MESSAGE_LAYOUT") else None
