"""Checks arguments as confluent_kafka does, for calls that need a look at them before they are passed on."""

from __future__ import annotations

from math import ldexp
from operator import index
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    KafkaException,
    TopicPartition,
)

__all__ = ["are_partitions", "both", "invalid", "is_stored", "may_be_assigned", "number", "seconds"]

_LOGICAL = {OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, OFFSET_INVALID}
_TAIL_BASE = -2000
"""librdkafka's RD_KAFKA_OFFSET_TAIL_BASE: places from here down are counted from the end."""


def both(first: str, second: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Two arguments that may come in their order or by their names."""
    return kwargs.get(first, args[0] if args else None), kwargs.get(second, args[1] if len(args) > 1 else None)


def are_partitions(partitions: object) -> bool:
    """Whether it is what calls take partitions in: a list, and nothing else in it."""
    return isinstance(partitions, list) and all(isinstance(tp, TopicPartition) for tp in partitions)


def may_be_assigned(partitions: list[TopicPartition]) -> bool:
    """Whether librdkafka takes the list: no partition twice, each with a place to start at (``rd_kafka_assignment_add``).

    A list that it refuses must not be worked on before: to ask about a topic makes librdkafka know it, which other calls tell.
    """
    keys = {(tp.topic, tp.partition) for tp in partitions}
    return len(keys) == len(partitions) and all(
        tp.offset >= 0 or tp.offset in _LOGICAL or tp.offset <= _TAIL_BASE for tp in partitions
    )


def is_stored(start: TopicPartition) -> bool:
    """Whether a partition is to begin at its committed offset."""
    return start.offset in (OFFSET_INVALID, OFFSET_STORED)


def number(given: Any) -> int:
    """A whole number. Raises TypeError for anything else, a float and a text too."""
    return index(given)


def seconds(given: Any) -> float:
    """A real number. Raises TypeError for anything else, a text too (which ``float`` would read)."""
    return ldexp(given, 0)


def invalid(text: str) -> KafkaException:
    """What librdkafka says of an argument that it refuses."""
    return KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
