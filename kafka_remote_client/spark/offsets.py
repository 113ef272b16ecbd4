"""Where a read begins and ends: Spark's JSON of Kafka offsets, and its ways to name an offset. Pure.

::

    {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}     offsets: -2 = earliest, -1 = latest; also a checkpoint's form
    {"topicA":{"0":1000,"1":2000}}                   timestamps in milliseconds
    {"topicA":[0,1],"topicB":[2,4]}                  partitions (the option assign)

What is written is sorted by topic and partition and has no blanks, as Spark's own is.

References: Spark's JsonUtils, KafkaOffsetRangeLimit; "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple, TypeAlias

import attrs

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.spark.client_options import whole_number

__all__ = [
    "EARLIEST",
    "LATEST",
    "GlobalTimestamp",
    "NoMatch",
    "OffsetBound",
    "OffsetName",
    "SpecificOffsets",
    "SpecificTimestamps",
    "TopicPartition",
    "after_lookup",
    "format_offsets",
    "parse_assignment",
    "parse_bound",
    "parse_offsets",
    "parse_strategy",
    "parse_timestamp",
    "parse_timestamps",
    "per_partition",
]

EARLIEST = -2
LATEST = -1
_INT64 = range(-(2**63), 2**63)
_INT32_END = 2**31


class TopicPartition(NamedTuple):
    """A partition by name and number; unlike librdkafka's it can be pickled."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetName(Enum):
    """An end of the log, for all partitions. The value is the name in options."""

    EARLIEST = "earliest"
    LATEST = "latest"

    @property
    def offset(self) -> int:
        """The number that stands for it in JSON."""
        return EARLIEST if self is OffsetName.EARLIEST else LATEST


class NoMatch(Enum):
    """``startingOffsetsByTimestampStrategy``: what to do where no record is as young as the timestamp."""

    ERROR = "error"
    LATEST = "latest"


@attrs.frozen
class SpecificOffsets:
    """An offset for each partition, EARLIEST and LATEST among them."""

    offsets: Mapping[TopicPartition, int]


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
    name = text.strip().lower()
    for found in OffsetName:
        if name == found.value:
            return found
    return SpecificOffsets(parse_offsets(option, text))


def parse_offsets(option: str, text: str) -> dict[TopicPartition, int]:
    """JSON of offsets. Raises ConfigurationError for anything else, and for an offset below -2."""
    example = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    return _by_partition(option, text, example, lowest=EARLIEST)


def parse_timestamps(option: str, text: str) -> dict[TopicPartition, int]:
    """JSON of timestamps in milliseconds. Raises ConfigurationError for anything else."""
    return _by_partition(option, text, '{"topicA":{"0":123456789,"1":-1},"topicB":{"0":123456789}}', lowest=_INT64.start)


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


def per_partition(
    option: str, named: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """``named`` if it is about exactly the partitions to be read. Raises ConfigurationError, which says what is missing."""
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
    """Offsets that a lookup by timestamp ``found`` (-1 = none is as young), with LATEST or an error where there is none.

    Raises ConfigurationError that names the partitions.
    """
    without = [partition for partition in timestamps if found[partition] < 0]
    if without and no_match is NoMatch.ERROR:
        raise ConfigurationError(
            f"{option}: no record is as young as its timestamp in {_some(without)}; "
            f"startingOffsetsByTimestampStrategy=latest begins at the end there"
        )
    return {partition: LATEST if found[partition] < 0 else found[partition] for partition in timestamps}


def _some(partitions: Collection[TopicPartition]) -> str:
    shown = sorted(partitions)[:5]
    return ", ".join(map(str, shown)) + (f" and {len(partitions) - 5} more" if len(partitions) > 5 else "")


def _shape(option: str, example: str) -> ConfigurationError:
    return ConfigurationError(f"{option} must be JSON like {example}")


def _by_partition(option: str, text: str, example: str, *, lowest: int) -> dict[TopicPartition, int]:
    found = {}
    for topic, numbers in _object(option, text, example).items():
        if not isinstance(numbers, dict):
            raise _shape(option, example)
        for number, value in numbers.items():
            if not _is_partition_text(number) or not _is_int(value) or value not in _INT64 or value < lowest:
                raise _shape(option, example)
            found[TopicPartition(topic, int(number))] = value
    return found


def _object(option: str, text: str, example: str) -> dict[str, object]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        raise _shape(option, example) from None
    if not isinstance(parsed, dict):
        raise _shape(option, example)
    return parsed


def _list(option: str, numbers: object, example: str) -> list[int]:
    if not isinstance(numbers, list) or not all(_is_int(number) and 0 <= number < _INT32_END for number in numbers):
        raise _shape(option, example)
    return numbers


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_partition_text(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) < _INT32_END
