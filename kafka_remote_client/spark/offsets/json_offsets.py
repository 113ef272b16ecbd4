"""The bounds of a read: Spark's JSON of Kafka offsets, and its ways to name an offset. Pure.

::

    {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}     offsets: -2 = earliest, -1 = latest; also a checkpoint's form
    {"topicA":"earliest","topicB":{"0":23}}          offsets, of whole topics too
    {"topicA":{"0":1000,"1":2000}}                   timestamps in milliseconds
    {"topicA":[0,1],"topicB":[2,4]}                  partitions (the option assign)

The output is sorted by topic and partition and has no blanks, like Spark's.

References: Spark's JsonUtils, KafkaOffsetRangeLimit; "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

import attrs

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.parsing import parse_json
from kafka_remote_client.spark.options.client_options import whole_number

__all__ = [
    "EARLIEST",
    "LATEST",
    "GlobalTimestamp",
    "NoMatch",
    "OffsetBound",
    "OffsetName",
    "SpecificOffsets",
    "SpecificTimestamps",
    "after_lookup",
    "check_order",
    "format_offsets",
    "parse_assignment",
    "parse_bound",
    "parse_offsets",
    "parse_strategy",
    "parse_timestamp",
    "parse_timestamps",
    "per_partition",
    "with_topics",
]

EARLIEST = -2
LATEST = -1
_INT64 = range(-(2**63), 2**63)
_INT32_END = 2**31
_OFFSETS = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS = '{"topicA":{"0":123456789,"1":-1},"topicB":{"0":123456789}}'


class OffsetName(Enum):
    """An end of the log, for all partitions. The value is the name in options."""

    EARLIEST = "earliest"
    LATEST = "latest"

    @property
    def offset(self) -> int:
        """The number that stands for it in JSON."""
        return EARLIEST if self is OffsetName.EARLIEST else LATEST


class NoMatch(Enum):
    """``startingOffsetsByTimestampStrategy``: what to do if every record is before the timestamp."""

    ERROR = "error"
    LATEST = "latest"


@attrs.frozen
class SpecificOffsets:
    """An offset for each partition, EARLIEST and LATEST among them; ``topics``: one of these two for all of a topic's."""

    offsets: Mapping[TopicPartition, int]
    topics: Mapping[str, int] = attrs.field(factory=dict)

    def names(self, offset: int) -> bool:
        """Whether EARLIEST or LATEST is among them."""
        return offset in self.offsets.values() or offset in self.topics.values()


@attrs.frozen
class SpecificTimestamps:
    """A timestamp in milliseconds for each partition."""

    timestamps: Mapping[TopicPartition, int]


@attrs.frozen
class GlobalTimestamp:
    """One timestamp in milliseconds for all partitions."""

    timestamp: int


OffsetBound: TypeAlias = OffsetName | SpecificOffsets | SpecificTimestamps | GlobalTimestamp


def parse_bound(option: str, text: str) -> OffsetName | SpecificOffsets:
    """``startingOffsets`` and ``endingOffsets``: earliest, latest or JSON. Raises ConfigurationError."""
    named = _offset_name(text)
    if named is not None:
        return named
    parsed = _object(option, text, _OFFSETS)
    topics = {topic: _offset_name(value) for topic, value in parsed.items() if isinstance(value, str)}
    by_partition = {topic: value for topic, value in parsed.items() if topic not in topics}
    whole = {topic: name.offset for topic, name in topics.items() if name is not None}
    if len(whole) < len(topics):
        raise _shape(option, _OFFSETS)
    return SpecificOffsets(_by_partition(option, by_partition, _OFFSETS, lowest=EARLIEST), whole)


def parse_offsets(option: str, text: str) -> dict[TopicPartition, int]:
    """JSON of offsets by partition. Raises ConfigurationError for anything else, and for an offset below -2."""
    return _by_partition(option, _object(option, text, _OFFSETS), _OFFSETS, lowest=EARLIEST)


def parse_timestamps(option: str, text: str) -> dict[TopicPartition, int]:
    """JSON of timestamps in milliseconds. Raises ConfigurationError for anything else."""
    return _by_partition(option, _object(option, text, _TIMESTAMPS), _TIMESTAMPS, lowest=_INT64.start)


def parse_timestamp(option: str, text: str) -> int:
    """Milliseconds. Raises ConfigurationError for anything but a 64-bit number."""
    number = whole_number(text)
    if number is None:
        raise ConfigurationError(f"{option} must be a timestamp in milliseconds")
    return number


def parse_strategy(option: str, text: str) -> NoMatch:
    """Raises ConfigurationError for anything but error and latest."""
    try:
        return NoMatch(text.strip().lower())
    except ValueError:
        raise ConfigurationError(f"{option} must be error or latest") from None


def parse_assignment(option: str, text: str) -> tuple[TopicPartition, ...]:
    """JSON of partitions, sorted, each once. Raises ConfigurationError for anything else, and for an empty one."""
    example = '{"topicA":[0,1],"topicB":[2,4]}'
    found = {
        TopicPartition(topic, number)
        for topic, numbers in _object(option, text, example).items()
        for number in _list(option, numbers, example)
    }
    if not found:
        raise _shape(option, example)
    return tuple(sorted(found))


def format_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """The JSON of a checkpoint."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(topics, separators=(",", ":"), ensure_ascii=False)


def with_topics(option: str, bound: SpecificOffsets, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """The offsets of ``bound`` by partition. Raises ConfigurationError for a topic that has none of ``partitions``."""
    unknown = sorted(bound.topics.keys() - {partition.topic for partition in partitions})
    if unknown:
        raise ConfigurationError(f"{option} names {', '.join(unknown)}, which is not read")
    whole = {partition: bound.topics[partition.topic] for partition in partitions if partition.topic in bound.topics}
    return whole | dict(bound.offsets)


def check_order(
    start_option: str, start: Mapping[TopicPartition, int], end_option: str, end: Mapping[TopicPartition, int]
) -> None:
    """Raises ConfigurationError for partitions that only one of them names, and where ``start`` lies after ``end``.

    EARLIEST and LATEST, which are not known yet, are in order with everything.
    """
    alone = start.keys() ^ end.keys()
    if alone:
        raise ConfigurationError(
            f"{start_option} and {end_option} must name the same partitions; one leaves out {_some(alone)}"
        )
    for partition, begin in sorted(start.items()):
        if 0 <= end[partition] < begin:
            raise ConfigurationError(
                f"{partition}: {start_option} begins at offset {begin}, after the end at {end[partition]} ({end_option})"
            )


def per_partition(
    option: str, named: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Returns ``named`` if it has exactly the partitions to read. Raises ConfigurationError with the missing ones."""
    missing, unknown = set(partitions) - named.keys(), named.keys() - set(partitions)
    if missing or unknown:
        complaints = [
            *([f"leaves out {_some(missing)}"] if missing else []),
            *([f"names {_some(unknown)}, which are not read"] if unknown else []),
        ]
        raise ConfigurationError(f"{option} must name all partitions that are read, and it {' and '.join(complaints)}")
    return dict(named)


def after_lookup(
    option: str, timestamps: Mapping[TopicPartition, int], found: Mapping[TopicPartition, int], no_match: NoMatch
) -> dict[TopicPartition, int]:
    """Returns the offsets of a look-up by timestamp, ``found`` (-1 = none), with LATEST or an error for -1.

    Raises ConfigurationError that names the partitions.
    """
    without = [partition for partition in timestamps if found[partition] < 0]
    if without and no_match is NoMatch.ERROR:
        raise ConfigurationError(
            f"{option}: no record at or after the timestamp in {_some(without)}; "
            f"startingOffsetsByTimestampStrategy=latest starts at the end there"
        )
    return {partition: LATEST if found[partition] < 0 else found[partition] for partition in timestamps}


def _some(partitions: Collection[TopicPartition]) -> str:
    shown = sorted(partitions)[:5]
    return ", ".join(map(str, shown)) + (f" and {len(partitions) - 5} more" if len(partitions) > 5 else "")


def _shape(option: str, example: str) -> ConfigurationError:
    return ConfigurationError(f"{option} must be JSON such as {example}")


def _offset_name(text: str) -> OffsetName | None:
    name = text.strip().lower()
    return next((found for found in OffsetName if name == found.value), None)


def _by_partition(option: str, parsed: Mapping[str, object], example: str, *, lowest: int) -> dict[TopicPartition, int]:
    found = {}
    for topic, numbers in parsed.items():
        if not isinstance(numbers, dict):
            raise _shape(option, example)
        for number, value in numbers.items():
            if not _is_partition_text(number) or not _is_int(value) or value not in _INT64 or value < lowest:
                raise _shape(option, example)
            found[TopicPartition(topic, int(number))] = value
    return found


def _object(option: str, text: str, example: str) -> dict[str, object]:
    try:
        parsed = parse_json(text, object_pairs_hook=_each_once)
    except _TwiceError as error:
        raise ConfigurationError(f"{option} names {error} twice") from None
    except ValueError:
        raise _shape(option, example) from None
    if not isinstance(parsed, dict):
        raise _shape(option, example)
    return parsed


class _TwiceError(ValueError):
    """A name that an object of JSON has twice."""


def _each_once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for name in names if names.count(name) > 1))
    return found


def _list(option: str, numbers: object, example: str) -> list[int]:
    if not isinstance(numbers, list) or not all(_is_int(number) and 0 <= number < _INT32_END for number in numbers):
        raise _shape(option, example)
    return numbers


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_partition_text(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) < _INT32_END
