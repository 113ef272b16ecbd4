"""Checks arguments as confluent_kafka does, for calls that need them before the inner call."""

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
    """Two arguments, by position or by name."""
    return kwargs.get(first, args[0] if args else None), kwargs.get(second, args[1] if len(args) > 1 else None)


def are_partitions(partitions: object) -> bool:
    """Whether the value is a list that has only partitions."""
    return isinstance(partitions, list) and all(isinstance(tp, TopicPartition) for tp in partitions)


def may_be_assigned(partitions: list[TopicPartition]) -> bool:
    """Whether librdkafka accepts the list: no partition twice, each with a valid offset (``rd_kafka_assignment_add``).

    A rejected list must have no effect: a request about a topic would make it known to librdkafka, which other calls show.
    """
    keys = {(tp.topic, tp.partition) for tp in partitions}
    return len(keys) == len(partitions) and all(
        tp.offset >= 0 or tp.offset in _LOGICAL or tp.offset <= _TAIL_BASE for tp in partitions
    )


def is_stored(start: TopicPartition) -> bool:
    """Whether a partition begins at its committed offset."""
    return start.offset in (OFFSET_INVALID, OFFSET_STORED)


def number(given: Any) -> int:
    """Returns a whole number. Raises TypeError for anything else, including a float or a text."""
    return index(given)


def seconds(given: Any) -> float:
    """Returns a real number. Raises TypeError for anything else, including a text (which ``float`` would accept)."""
    return ldexp(given, 0)


def invalid(text: str) -> KafkaException:
    """librdkafka's error for an invalid argument."""
    return KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
