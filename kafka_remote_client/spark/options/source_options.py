"""The options of ``format("kafka-remote")``: those of ``format("kafka")``, and this source's own under ``remote.``. Pure.

Spark folds the names of options to lower case; messages name them in their canonical spelling. As in Spark an option that
is unknown is ignored, here with a warning; a misspelt one under ``remote.`` or ``fetch.remote.`` is an error.

References: Spark's KafkaSourceProvider, "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.config import PREFIX as FETCH_PREFIX
from kafka_remote_client.config import SETTINGS, RemoteFetchConfig, split_config
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fallback import OnFallback
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.spark.offsets import json_offsets
from kafka_remote_client.spark.offsets.json_offsets import (
    EARLIEST,
    LATEST,
    GlobalTimestamp,
    NoMatch,
    OffsetBound,
    OffsetName,
    SpecificOffsets,
    SpecificTimestamps,
)
from kafka_remote_client.spark.options.client_options import ClientOptions, whole_number
from kafka_remote_client.spark.options.java_options import JAVA_PREFIX, translate
from kafka_remote_client.spark.options.option_table import OPTIONS, Scope

__all__ = [
    "ON_FALLBACK",
    "ColumnChoice",
    "SourceOptions",
    "Subscription",
    "option_texts",
    "parse_columns",
    "parse_options",
]

ON_FALLBACK = "remote.onFallback"
_STORAGE_PREFIX = "remote.storage."
_LIBRDKAFKA_PREFIX = "remote.librdkafka."
_OURS_PREFIX = "remote."
# A task can wait: reading a whole split from the broker costs more than waiting for a tier that is being read.
_LOCATION_TIMEOUT_MS = "10000"
_PASSED_ON = (JAVA_PREFIX, FETCH_PREFIX, _STORAGE_PREFIX, _LIBRDKAFKA_PREFIX)


_FILE_SYSTEMS = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
"""Schemes of the URLs that pyarrow makes a file system of."""
_CANONICAL = {option.name.lower(): option for option in OPTIONS}


@attrs.frozen
class Subscription:
    """The subscription: ``partitions``, ``topics``, or the topics whose names match ``pattern``. Exactly one is set."""

    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None


@attrs.frozen
class ColumnChoice:
    """The columns, in order."""

    key: bool = True
    value: bool = True
    topic: bool = True
    partition: bool = True
    offset: bool = True
    timestamp: bool = True
    timestamp_type: bool = True
    headers: bool = False


@attrs.frozen
class SourceOptions:
    """All options of one source; defaults are those of the option table. Times are in milliseconds, sizes in bytes.

    ``warnings`` are logged once: ignored options with reasons. ``client`` and ``remote`` keep secrets out of their ``repr``.
    """

    subscription: Subscription
    start: OffsetBound
    end: OffsetBound
    client: ClientOptions
    remote: RemoteFetchConfig
    no_match: NoMatch
    fail_on_data_loss: bool
    columns: ColumnChoice
    min_partitions: int | None
    max_records: int | None
    split_bytes: int
    poll_timeout_ms: int
    offset_retries: int
    offset_retry_interval_ms: int
    group_id_prefix: str
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    max_trigger_delay: str
    push_filters: bool
    counters_directory: str | None
    on_fallback: OnFallback
    max_broker_bytes: int | None
    warnings: tuple[str, ...]

    @property
    def start_option(self) -> str:
        """The option that ``start`` comes from, for messages."""
        return _bound_option(self.start, "starting")

    @property
    def end_option(self) -> str:
        """The option that ``end`` comes from, for messages."""
        return _bound_option(self.end, "ending")


def parse_options(options: Mapping[str, str], *, streaming: bool = False) -> SourceOptions:
    """Reads all options; names in any case. Raises ConfigurationError, which names the option in its canonical spelling."""
    folded = {name.lower(): value for name, value in options.items()}
    known = {_CANONICAL[name].name: value for name, value in folded.items() if name in _CANONICAL}
    left_out, warnings = _strangers(folded, streaming=streaming)
    reader = _Reader({name: value for name, value in known.items() if name not in left_out}, streaming=streaming)
    client = translate(folded)
    client = attrs.evolve(client, settings={**client.settings, **_with_prefix(folded, _LIBRDKAFKA_PREFIX)})
    if client.ignored:
        warnings.append(f"ignored options without an equivalent: {', '.join(client.ignored)}")
    start, end = reader.bound("starting"), reader.bound("ending")
    if not streaming:
        _check_batch(start, end)
    _check_limits(reader)
    return SourceOptions(
        subscription=_subscription(known),
        start=start,
        end=end,
        client=client,
        remote=_remote(folded, fails=reader.on_fallback() is OnFallback.FAIL),
        no_match=json_offsets.parse_strategy(*reader.text("startingOffsetsByTimestampStrategy")),
        fail_on_data_loss=reader.switch("failOnDataLoss"),
        columns=_columns(reader),
        min_partitions=reader.optional_number("minPartitions"),
        max_records=reader.optional_number("maxRecordsPerPartition"),
        split_bytes=reader.number("remote.splitBytes", minimum=1),
        poll_timeout_ms=reader.number("kafkaConsumer.pollTimeoutMs", minimum=1),
        offset_retries=reader.number("fetchOffset.numRetries", minimum=0),
        offset_retry_interval_ms=reader.number("fetchOffset.retryIntervalMs", minimum=0),
        group_id_prefix=reader.text("groupIdPrefix")[1],
        max_offsets_per_trigger=reader.optional_number("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=reader.optional_number("minOffsetsPerTrigger"),
        max_bytes_per_trigger=reader.optional_number("maxBytesPerTrigger"),
        max_trigger_delay=reader.text("maxTriggerDelay")[1],
        push_filters=reader.switch("remote.pushFilters"),
        counters_directory=reader.directory("remote.countersDirectory"),
        on_fallback=reader.on_fallback(),
        max_broker_bytes=reader.optional_number("remote.maxBrokerBytes", minimum=0),
        warnings=tuple(warnings),
    )


def parse_columns(options: Mapping[str, str]) -> ColumnChoice:
    """Reads only the options about columns, because Spark requests the schema before the kind of query is known.

    Raises ConfigurationError.
    """
    folded = {name.lower(): value for name, value in options.items()}
    known = {_CANONICAL[name].name: value for name, value in folded.items() if name in _CANONICAL}
    return _columns(_Reader(known, streaming=False))


def option_texts(options: Mapping[str, object]) -> dict[str, str]:
    """Options as Spark passes them: texts."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


@attrs.frozen
class _Reader:
    """Values by the canonical names of their options, and defaults by the table."""

    values: Mapping[str, str]
    streaming: bool

    def value(self, name: str) -> str:
        return self.values.get(name, _CANONICAL[name.lower()].default_for(streaming=self.streaming))

    def text(self, name: str) -> tuple[str, str]:
        """The name, for messages, and the value."""
        return name, self.value(name)

    def switch(self, name: str) -> bool:
        return arguments.true_or_false(self.value(name), name, arguments.java_boolean)

    def number(self, name: str, *, minimum: int) -> int:
        number = whole_number(self.value(name))
        if number is None or number < minimum:
            raise ConfigurationError(f"{name} must be a whole number, at least {minimum}")
        return number

    def optional_number(self, name: str, *, minimum: int = 1) -> int | None:
        return self.number(name, minimum=minimum) if name in self.values else None

    def on_fallback(self) -> OnFallback:
        text = self.value(ON_FALLBACK).strip().lower()
        try:
            return OnFallback(text)
        except ValueError:
            raise ConfigurationError(f"{ON_FALLBACK} must be broker or fail") from None

    def directory(self, name: str) -> str | None:
        text = self.value(name).strip().removeprefix("file://")
        scheme, separator, _ = text.partition("://")
        if scheme not in _FILE_SYSTEMS if separator else name in self.values and not text.startswith("/"):
            raise ConfigurationError(f"{name} must be an absolute path or a URL of {', '.join(_FILE_SYSTEMS)}")
        return text or None

    def bound(self, side: str) -> OffsetBound:
        """Spark's order: one timestamp for all, timestamps for each, offsets."""
        for name in (f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"):
            if name in self.values:
                return _BOUNDS[name.removeprefix(side)](name, self.values[name])
        return json_offsets.parse_bound(*self.text(f"{side}Offsets"))


def _columns(reader: _Reader) -> ColumnChoice:
    choice = ColumnChoice(
        key=reader.switch("remote.includeKey"),
        value=reader.switch("remote.includeValue"),
        topic=reader.switch("remote.includeTopic"),
        partition=reader.switch("remote.includePartition"),
        offset=reader.switch("remote.includeOffset"),
        timestamp=reader.switch("remote.includeTimestamp"),
        timestamp_type=reader.switch("remote.includeTimestampType"),
        headers=reader.switch("includeHeaders"),
    )
    if not any(attrs.astuple(choice)):
        raise ConfigurationError("remote.include…: at least one column must be included")
    return choice


def _global_timestamp(name: str, text: str) -> OffsetBound:
    timestamp = json_offsets.parse_timestamp(name, text)
    _check_times(name, (timestamp,))
    return GlobalTimestamp(timestamp)


def _specific_timestamps(name: str, text: str) -> OffsetBound:
    timestamps = json_offsets.parse_timestamps(name, text)
    _check_times(name, timestamps.values())
    return SpecificTimestamps(timestamps)


def _check_times(name: str, timestamps: Iterable[int]) -> None:
    """Raises ConfigurationError for a time of which brokers know no offset; -1 and -2 are the ends of the log, as in Spark."""
    if any(timestamp < json_offsets.EARLIEST for timestamp in timestamps):
        raise ConfigurationError(f"{name} is before 1970, and Kafka finds no offsets of such times; use 0 or offsets")


_BOUNDS: Mapping[str, Callable[[str, str], OffsetBound]] = {
    "Timestamp": _global_timestamp,
    "OffsetsByTimestamp": _specific_timestamps,
    "Offsets": json_offsets.parse_bound,
}


def _bound_option(bound: OffsetBound, side: str) -> str:
    if isinstance(bound, GlobalTimestamp):
        return f"{side}Timestamp"
    return f"{side}OffsetsByTimestamp" if isinstance(bound, SpecificTimestamps) else f"{side}Offsets"


def _strangers(folded: Mapping[str, str], *, streaming: bool) -> tuple[set[str], list[str]]:
    """Options of the other kind of query, and a warning for each group of those that are ignored."""
    elsewhere = Scope.BATCH if streaming else Scope.STREAMING
    misplaced = {option.name for name, option in _CANONICAL.items() if name in folded and option.scope is elsewhere}
    if misplaced and streaming:
        raise ConfigurationError(f"not valid in streaming queries: {', '.join(sorted(misplaced))}")
    warnings = [f"ignored in batch queries: {', '.join(sorted(misplaced))}"] if misplaced else []
    unknown = sorted(name for name in folded if name not in _CANONICAL and not name.startswith(_PASSED_ON))
    misspelled = [name for name in unknown if name.startswith(_OURS_PREFIX)]
    if misspelled:
        raise ConfigurationError(f"unknown option: {', '.join(map(_with_hint, misspelled))}")
    if unknown:
        warnings.append(f"ignored unknown options: {', '.join(map(_with_hint, unknown))}")
    return misplaced, warnings


def _with_hint(name: str) -> str:
    """An unknown name, with the closest known one."""
    known = {valid.lower(): valid for valid in (*(option.name for option in OPTIONS), *(setting.name for setting in SETTINGS))}
    close = arguments.closest(name, known, ratio=0.75)
    return f"{name} (did you mean {known[close]}?)" if close else name


def _subscription(known: Mapping[str, str]) -> Subscription:
    given = [name for name in ("assign", "subscribe", "subscribePattern") if name in known]
    if len(given) != 1:
        found = f"and these are: {', '.join(given)}" if given else "and none is"
        raise ConfigurationError(f"exactly one of assign, subscribe and subscribePattern must be set, {found}")
    name, text = given[0], known[given[0]]
    if name == "assign":
        return Subscription(partitions=json_offsets.parse_assignment(name, text))
    if name == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
        if not topics:
            raise ConfigurationError("subscribe names no topic")
        return Subscription(topics=topics)
    if not text.strip():
        raise ConfigurationError("subscribePattern is empty")
    try:
        return Subscription(pattern=re.compile(text.strip()))
    except (re.error, OverflowError) as error:
        raise ConfigurationError(f"subscribePattern is not a valid Python regular expression: {error}") from None


def _check_batch(start: OffsetBound, end: OffsetBound) -> None:
    if start is OffsetName.LATEST:
        raise ConfigurationError("startingOffsets: a batch query cannot begin at latest")
    if isinstance(start, SpecificOffsets) and start.names(LATEST):
        raise ConfigurationError("startingOffsets: a batch query cannot begin at latest (-1) in any partition")
    if end is OffsetName.EARLIEST:
        raise ConfigurationError("endingOffsets: a query cannot end at earliest")
    if isinstance(end, SpecificOffsets) and end.names(EARLIEST):
        raise ConfigurationError("endingOffsets: a query cannot end at earliest (-2) in any partition")
    if isinstance(start, SpecificOffsets) and isinstance(end, SpecificOffsets) and not start.topics and not end.topics:
        json_offsets.check_order("startingOffsets", start.offsets, "endingOffsets", end.offsets)


def _check_limits(reader: _Reader) -> None:
    least, most = (reader.optional_number(name) for name in ("minOffsetsPerTrigger", "maxOffsetsPerTrigger"))
    if least is not None and most is not None and least > most:
        raise ConfigurationError("minOffsetsPerTrigger must not be more than maxOffsetsPerTrigger")


def _with_prefix(folded: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in folded.items() if name.startswith(prefix)}


def _remote(folded: Mapping[str, str], *, fails: bool) -> RemoteFetchConfig:
    given = {name: value for name, value in folded.items() if name.startswith((FETCH_PREFIX, _STORAGE_PREFIX))}
    defaults = {"fetch.remote.enabled": "true", "fetch.remote.location.timeout.ms": _LOCATION_TIMEOUT_MS}
    if fails:
        defaults["fetch.remote.slow.bytes.per.second"] = "0"  # a slow store must not cause a fallback or a failure
    if given.get("fetch.remote.location.source", "broker") == "broker":
        defaults["remote.storage.fetcher.class"] = "presigned"
    remote, unknown = split_config(defaults | given)
    if unknown:
        raise ConfigurationError(f"unknown setting: {', '.join(sorted(unknown))}")
    return remote
