"""``Scan``: the description of a read of topics, as one value. It knows neither a store nor a reader. Pure.

::

    Scan (what)  ->  plan (splits)  ->  engine (how)  ->  record blocks  ->  adapter: Arrow, Polars, count

    field          | meaning                                                | None
    topics         | names of topics                                        |
    topic_pattern  | or a regular expression that matches the whole name    |
    partitions     | their numbers, of each topic                           | all
    start_offset   | the first offset, of all partitions or of each one     | where the log begins
    end_offset     | the first offset that is not read, in the same way     | where the log ends now
    since, until   | since <= timestamp < until, in milliseconds            | no such bound
    columns        | which, in their order                                  | all
    predicate      | which records                                          | all
    limit          | the maximum number of records                          | all
    out_of_order   | how far a timestamp may be below an earlier one        | not known
    live           | also what is not tiered yet, up to the log's end       | False
    on_fallback    | what happens where the tier cannot be read             | FAIL

Only the user can know ``out_of_order`` before a read: the indexes of a segment have the latest timestamp up to an offset,
but not the earliest one after it. With it, reading ends at the first record that is later than ``until`` by this much.
Without it, the scan reads every segment whose latest record can match.

References: docs/tables.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import SupportsIndex, TypeAlias

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fallback import OnFallback
from kafka_remote_client.model import IsolationLevel, TopicPartition
from kafka_remote_client.records.block import RECORD_COLUMNS
from kafka_remote_client.scanning.predicate import And, Comparison, Operator, Predicate, microseconds
from kafka_remote_client.scanning.splits import DEFAULT_SPLIT_BYTES

__all__ = ["OffsetBound", "Scan"]

OffsetBound: TypeAlias = "int | Mapping[TopicPartition, int]"
"""An offset for all partitions, or one for each of some; the others then have no bound."""

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


def _names(value: str | Iterable[str]) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value)
    for name in names:
        if not isinstance(name, str) or _TOPIC.fullmatch(name) is None:
            raise ConfigurationError(f"not the name of a topic: {name!r}")
    return tuple(dict.fromkeys(names))


def _numbers(value: Iterable[SupportsIndex] | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise ConfigurationError(f"partitions must be a list of numbers, not {value!r}")
    return tuple(sorted({arguments.whole(number, "partitions", 0, 2**31 - 1) for number in value}))


def _bound(name: str, value: object) -> OffsetBound | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return arguments.offset(value, name)  # type: ignore[arg-type] # checked there
    found = {}
    for key, offset in value.items():
        if not isinstance(key, tuple) or len(key) != 2 or not isinstance(key[0], str):
            raise ConfigurationError(f"{name} must name (topic, partition), not {key!r}")
        partition = TopicPartition(key[0], arguments.whole(key[1], f"{name}: partition", 0, 2**31 - 1))
        found[partition] = arguments.offset(offset, f"{name} of {partition}")
    return found


def _start(value: object) -> OffsetBound | None:
    return _bound("start_offset", value)


def _end(value: object) -> OffsetBound | None:
    return _bound("end_offset", value)


def _milliseconds(value: object, name: str) -> int | None:
    """Rounds up. A record's time is in whole milliseconds, so this changes neither bound."""
    return None if value is None else -(-microseconds(value, name) // 1000)


def _since(value: object) -> int | None:
    return _milliseconds(value, "since")


def _until(value: object) -> int | None:
    return _milliseconds(value, "until")


def _columns(value: Iterable[str] | None) -> tuple[str, ...]:
    if value is None:
        return RECORD_COLUMNS
    if isinstance(value, str):
        raise ConfigurationError(f"columns must be a list of names, not {value!r}")
    names = tuple(value)
    if not names:
        raise ConfigurationError("columns must name at least one column")
    unknown = [name for name in names if name not in RECORD_COLUMNS]
    if unknown:
        raise ConfigurationError(f"unknown columns: {unknown}; known columns: {', '.join(RECORD_COLUMNS)}")
    if len(set(names)) < len(names):
        raise ConfigurationError(f"duplicate columns: {', '.join(names)}")
    return names


def _limit(value: SupportsIndex | None) -> int | None:
    return None if value is None else arguments.whole(value, "limit", 0)


def _on_fallback(value: OnFallback | str) -> OnFallback:
    try:
        return OnFallback(value)
    except ValueError:
        raise ConfigurationError(f"on_fallback must be 'fail' or 'broker', not {value!r}") from None


def _live(value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"live must be True or False, not {value!r}")
    return value


def _split_bytes(value: SupportsIndex) -> int:
    return arguments.whole(value, "split_bytes", 1)


@attrs.frozen(kw_only=True)
class Scan:
    """See the module. Raises ConfigurationError for invalid fields, before anything is read.

    ``since`` and ``until`` have the forms of :func:`~kafka_remote_client.scanning.predicate.microseconds`. Splits have
    about ``split_bytes``. ``live`` and ``OnFallback.BROKER`` need brokers.
    """

    topics: tuple[str, ...] = attrs.field(default=(), converter=_names)
    topic_pattern: str | None = None
    partitions: tuple[int, ...] | None = attrs.field(default=None, converter=_numbers)
    start_offset: OffsetBound | None = attrs.field(default=None, converter=_start)
    end_offset: OffsetBound | None = attrs.field(default=None, converter=_end)
    since: int | None = attrs.field(default=None, converter=_since)
    until: int | None = attrs.field(default=None, converter=_until)
    columns: tuple[str, ...] = attrs.field(default=None, converter=_columns)
    predicate: Predicate | None = None
    limit: int | None = attrs.field(default=None, converter=_limit)
    isolation_level: IsolationLevel = attrs.field(default=IsolationLevel.READ_COMMITTED, converter=arguments.isolation_level)
    out_of_order: timedelta | None = None
    live: bool = attrs.field(default=False, converter=_live)
    on_fallback: OnFallback = attrs.field(default=OnFallback.FAIL, converter=_on_fallback)
    split_bytes: int = attrs.field(default=DEFAULT_SPLIT_BYTES, converter=_split_bytes)

    def __attrs_post_init__(self) -> None:
        if bool(self.topics) is (self.topic_pattern is not None):
            raise ConfigurationError("a scan needs exactly one of topics and topic_pattern")
        if self.topic_pattern is not None:
            try:
                re.compile(self.topic_pattern)
            except (re.error, TypeError):
                raise ConfigurationError(f"topic_pattern is not a valid regular expression: {self.topic_pattern!r}") from None
        if self.predicate is not None and not isinstance(self.predicate, Predicate):
            raise ConfigurationError(f"not a predicate: {self.predicate!r}; for example column('offset') >= 100")
        if self.since is not None and self.until is not None and self.until < self.since:
            raise ConfigurationError("until is before since")
        if self.out_of_order is not None and not (
            isinstance(self.out_of_order, timedelta) and self.out_of_order >= timedelta(0)
        ):
            raise ConfigurationError(f"out_of_order must be a timedelta that is not negative, not {self.out_of_order!r}")
        for partition in self._bounded_partitions():
            start, end = self.start_of(partition), self.end_of(partition)
            if start is not None and end is not None and end < start:
                raise ConfigurationError(f"end_offset {end} is below start_offset {start}")

    def _bounded_partitions(self) -> set[TopicPartition]:
        named = (bound for bound in (self.start_offset, self.end_offset) if isinstance(bound, Mapping))
        return {partition for bound in named for partition in bound} or {TopicPartition("", 0)}

    def takes(self, partition: TopicPartition) -> bool:
        """Whether the scan reads the partition."""
        if self.partitions is not None and partition.partition not in self.partitions:
            return False
        return self.takes_topic(partition.topic)

    def takes_topic(self, topic: str) -> bool:
        """Whether the scan reads partitions of the topic."""
        if self.topic_pattern is not None:
            return re.fullmatch(self.topic_pattern, topic) is not None
        return topic in self.topics

    def start_of(self, partition: TopicPartition) -> int | None:
        """The first offset to read; ``None`` = where the log begins."""
        return _of(self.start_offset, partition)

    def end_of(self, partition: TopicPartition) -> int | None:
        """The first offset that is not read; ``None`` = the end of the log."""
        return _of(self.end_offset, partition)

    @property
    def description(self) -> str:
        """The topics, for a progress bar."""
        return self.topic_pattern or ", ".join(self.topics)

    @property
    def needs_brokers(self) -> bool:
        """Whether some of its records may be read from the brokers."""
        return self.live or self.on_fallback is OnFallback.BROKER

    @property
    def filter(self) -> Predicate | None:
        """The condition on records: ``predicate``, ``since`` and ``until`` together; ``None`` = all records match."""
        parts: list[Predicate] = [] if self.predicate is None else [self.predicate]
        if self.since is not None:
            parts.append(Comparison("timestamp", Operator.GREATER_EQUAL, self.since * 1000))
        if self.until is not None:
            parts.append(Comparison("timestamp", Operator.LESS, self.until * 1000))
        if len(parts) < 2:
            return parts[0] if parts else None
        return And(tuple(parts))


def _of(bound: OffsetBound | None, partition: TopicPartition) -> int | None:
    return bound.get(partition) if isinstance(bound, Mapping) else bound
