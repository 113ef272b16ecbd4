"""``kafka-remote offsets``: where both tiers of each partition begin and end, and the offset of a time.

======== ================= =====================================================
column   ListOffsets       meaning
======== ================= =====================================================
start    -2                first offset of the log, the remote tier included
local    -4                first offset on the brokers' disks
tiered   -5                last offset in the remote tier, inclusive
end      -1                offset of the next record (high watermark)
at time  milliseconds      first record with that timestamp or a later one
======== ================= =====================================================

References: KIP-405, KIP-1005, KIP-1023.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Annotated, TypeVar

import attrs
import typer

from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.cli.given_settings import check_consumer_settings, parse_settings, utf_8
from kafka_remote_client.cli.options import DEFAULT_TIMEOUT, BootstrapServers, ConsumerSettings, Output, Timeout
from kafka_remote_client.cli.output import OutputFormat, show_lines
from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.errors import BrokerResponseError, ConfigurationError, DirectFetchError
from kafka_remote_client.location.cluster_metadata import Key, PartitionLeader
from kafka_remote_client.location.leaders import PartitionLeaders, open_leaders
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.location.tier_offsets import leader_offsets
from kafka_remote_client.model import UNKNOWN_OFFSET
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.protocol.peer import PeerSession
from kafka_remote_client.scanning.predicate import microseconds
from kafka_remote_client.verify.known_metadata import MetadataTopicReader

__all__ = [
    "COLUMNS",
    "OffsetsLine",
    "add_verb",
    "log_offset_at",
    "open_cluster",
    "parse_brokers_time",
    "parse_time",
    "partition_lines",
    "read_metadata",
    "tiered_offset_at",
]

_T = TypeVar("_T")
_LONGEST_CONNECT = 30.0
_PAUSE_SECONDS = 0.1

COLUMNS = {
    "topic": "topic",
    "partition": "partition",
    "start": "start_offset",
    "local": "earliest_local",
    "tiered": "latest_tiered",
    "end": "end_offset",
}
"""From heading to field."""


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("offsets")(_offsets)


@attrs.frozen
class OffsetsLine:
    """One partition. ``None``: nothing is tiered, or the broker does not support the question."""

    topic: str
    partition: int
    start_offset: int | None
    earliest_local: int | None
    latest_tiered: int | None
    end_offset: int | None
    time_offset: int | None = None


@contextmanager
def open_cluster(servers: str, settings: Mapping[str, str], timeout: float) -> Iterator[PartitionLeaders]:
    """The brokers of a cluster, with a consumer's ``settings`` for TLS and SASL; ``timeout`` in seconds.

    Raises ConfigurationError for settings that librdkafka rejects.
    """
    check_consumer_settings(settings)
    named = {**settings, "bootstrap.servers": servers}
    with closing(open_leaders(named, SystemClock(), min(timeout, _LONGEST_CONNECT))) as leaders:
        yield leaders


@contextmanager
def read_metadata(servers: str, settings: Mapping[str, str], topic: str, seconds: float) -> Iterator[MetadataTopicReader]:
    """A cluster's metadata topic, which was read to its end. Raises as :meth:`MetadataTopicReader.read` does."""
    with closing(MetadataTopicReader({**settings, "bootstrap.servers": servers}, topic)) as known:
        known.read(seconds)
        yield known


def parse_time(text: str, option: str) -> int:
    """A time in ISO 8601 (UTC without a zone), or ``@MILLISECONDS`` since 1970, as milliseconds. Raises ConfigurationError."""
    if text.startswith("@") and text[1:].isascii() and text[1:].isdecimal():
        if len(text) > len(f"@{MAX_OFFSET}") or int(text[1:]) > MAX_OFFSET:
            raise ConfigurationError(f"{option} must be at most @{MAX_OFFSET}, not {text}")
        return int(text[1:])
    return microseconds(text, option) // 1000


def parse_brokers_time(text: str, option: str) -> int:
    """:func:`parse_time` for brokers, to which a negative time is a question for the start or the end of a log."""
    time_ms = parse_time(text, option)
    if time_ms < 0:
        raise ConfigurationError(f"{option} must be 1970 or later, because brokers know no earlier times; not {text}")
    return time_ms


def partition_lines(
    leaders: PartitionLeaders, topics: Sequence[str], time_ms: int | None, clock: Clock, seconds: float
) -> list[OffsetsLine]:
    """All partitions of the topics. ``seconds`` bounds each of the two or three steps.

    Raises LocationError: a topic that does not exist, brokers that do not answer.
    """
    described = leaders.topics(topics, Deadline(clock, seconds))
    keys = [(topic, one) for topic in topics for one in sorted(p.partition_index for p in described[topic].partitions)]
    bounds = _all_answered(leaders.offsets_of(keys, Deadline(clock, seconds)))
    times: Mapping[tuple[str, int], int] = {}
    if time_ms is not None:
        times = _at_time(leaders, keys, time_ms, clock, seconds)
    return [
        OffsetsLine(
            *key,
            _known(bounds[key].log_start),
            _known(bounds[key].earliest_local),
            _known(bounds[key].latest_tiered),
            _known(bounds[key].high_watermark),
            _known(times.get(key, UNKNOWN_OFFSET)),
        )
        for key in keys
    ]


def log_offset_at(
    leaders: PartitionLeaders, topic: str, partition: int, time_ms: int, text: str, clock: Clock, seconds: float
) -> int:
    """The offset of the first record at or after a time, ``text`` as the user wrote it.

    Raises ConfigurationError if there is none, LocationError as the brokers answer.
    """
    key = (topic, partition)
    return _found(_known(_at_time(leaders, [key], time_ms, clock, seconds)[key]), topic, partition, text)


def tiered_offset_at(listing: ListingLocationSource, topic: str, partition: int, time_ms: int, text: str) -> int:
    """:func:`log_offset_at` of the tiered part, without a broker."""
    tip = next((tip for tip in listing.partitions(topic) if tip.partition == partition), None)
    return _found(None if tip is None else listing.offset_for_time(tip, time_ms), topic, partition, text)


def _found(offset: int | None, topic: str, partition: int, text: str) -> int:
    if offset is None:
        raise ConfigurationError(f"{topic}-{partition} has no record at or after {text}")
    return offset


def _at_time(
    leaders: PartitionLeaders, partitions: Sequence[Key], time_ms: int, clock: Clock, seconds: float
) -> dict[Key, int]:
    """The first offset at or after a time, for each partition. Asks again where the broker's look-up in the tier was late.

    Brokers may say so although the offset has just been found (Kafka's DelayedRemoteListOffsets).
    """

    def ask(session: PeerSession, led: Mapping[Key, PartitionLeader], deadline: Deadline) -> dict[Key, int | DirectFetchError]:
        return leader_offsets(session, time_ms, led, deadline)

    deadline = Deadline(clock, seconds)
    answers = leaders.ask_all(partitions, deadline, ask)
    while (late := [key for key, answer in answers.items() if _is_late(answer)]) and not deadline.expired():
        clock.wait(threading.Event(), _PAUSE_SECONDS)
        answers |= leaders.ask_all(late, deadline, ask)
    return _all_answered(answers)


def _is_late(answer: int | DirectFetchError) -> bool:
    return isinstance(answer, BrokerResponseError) and answer.code == ErrorCode.REQUEST_TIMED_OUT


def _all_answered(answers: Mapping[Key, _T | DirectFetchError]) -> dict[Key, _T]:
    found: dict[Key, _T] = {}
    for key, answer in answers.items():
        if isinstance(answer, DirectFetchError):
            raise answer
        found[key] = answer
    return found


def _known(offset: int) -> int | None:
    return None if offset == UNKNOWN_OFFSET else offset


def _offsets(
    topics: Annotated[list[str], typer.Argument(help="Topics to show.", metavar="TOPIC", callback=utf_8)],
    bootstrap_servers: BootstrapServers,
    consumer: ConsumerSettings = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            help="Also show the first offset at or after this time: ISO 8601, or @MILLISECONDS.",
            metavar="TIME",
        ),
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Prints log start, local start, tiered end and log end of partitions."""
    time_ms = None if time is None else parse_brokers_time(time, "--time")
    with open_cluster(bootstrap_servers, parse_settings(consumer or [], "--consumer"), timeout) as leaders:
        lines = partition_lines(leaders, list(dict.fromkeys(topics)), time_ms, SystemClock(), timeout)
    show_lines(lines, COLUMNS | ({} if time is None else {"at time": "time_offset"}), output)
