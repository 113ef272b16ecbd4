"""The table of all options of ``format("kafka-remote")`` but ``kafka.*``: names, defaults, meanings. Pure.

It is the only declaration of an option: the parser takes defaults from it, and docs/spark-options.md is generated from it.

References: Spark's KafkaSourceProvider, "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

from enum import Enum

import attrs

from kafka_remote_client.scanning.splits import DEFAULT_SPLIT_BYTES

__all__ = ["OPTIONS", "Option", "Scope"]


class Scope(Enum):
    """The kinds of queries in which an option applies."""

    BOTH = "batch and streaming"
    BATCH = "batch"
    STREAMING = "streaming"


@attrs.frozen
class Option:
    """One line of the table. ``default``: as text, empty = none. ``differs``: the difference from Spark's own source.

    ``streaming_default``: the default in streaming queries, where it is another one.
    """

    name: str
    scope: Scope
    default: str
    doc: str
    differs: str = ""
    streaming_default: str | None = None

    def default_for(self, *, streaming: bool) -> str:
        """The default in queries of this kind, as text."""
        return self.default if self.streaming_default is None or not streaming else self.streaming_default

    @property
    def is_ours(self) -> bool:
        """Whether Spark's own source has no such option."""
        return self.name.startswith("remote.") or self.name in _OURS


_OURS = frozenset({"maxBytesPerTrigger"})
_STREAMING_DEFAULTS = {"startingOffsets": "latest", "groupIdPrefix": "spark-kafka-source"}
_DIFFERS = {
    "subscribePattern": "It is a Python regular expression.",
    "minPartitions": "Splits end at segment boundaries; segments are divided only if that gives too few splits.",
    "groupIdPrefix": "The source commits no offsets with these ids.",
    **dict.fromkeys(
        ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger", "maxTriggerDelay"),
        "Needs PySpark 4.2 or later; an error in older versions.",
    ),
}

OPTIONS = tuple(
    Option(name, scope, default, doc, _DIFFERS.get(name, ""), _STREAMING_DEFAULTS.get(name))
    for name, scope, default, doc in (
        (
            "assign",
            Scope.BOTH,
            "",
            'The partitions to read, as JSON: {"topicA":[0,1]}. One of assign, subscribe and subscribePattern.',
        ),
        (
            "subscribe",
            Scope.BOTH,
            "",
            "The topics to read, separated by commas. One of assign, subscribe and subscribePattern.",
        ),
        (
            "subscribePattern",
            Scope.BOTH,
            "",
            "A regular expression; topics are read if it matches anywhere in their name. One of assign, subscribe and "
            "subscribePattern.",
        ),
        (
            "startingTimestamp",
            Scope.BOTH,
            "",
            "Start all partitions at the first record with this timestamp or a later one, in milliseconds.",
        ),
        ("startingOffsetsByTimestamp", Scope.BOTH, "", "The same for each partition, as JSON."),
        (
            "startingOffsets",
            Scope.BOTH,
            "earliest",
            "earliest, latest (streaming), or offsets as JSON. In JSON a topic may have one of these names for all partitions.",
        ),
        (
            "startingOffsetsByTimestampStrategy",
            Scope.BOTH,
            "error",
            "What to do if no record has this timestamp or a later one: error or latest.",
        ),
        (
            "endingTimestamp",
            Scope.BATCH,
            "",
            "End all partitions before the first record with this timestamp or a later one, in milliseconds.",
        ),
        ("endingOffsetsByTimestamp", Scope.BATCH, "", "The same for each partition, as JSON."),
        (
            "endingOffsets",
            Scope.BATCH,
            "latest",
            "latest, or exclusive offsets as JSON. In JSON a topic may have latest for all partitions.",
        ),
        (
            "failOnDataLoss",
            Scope.BOTH,
            "true",
            "Fail when records of the query were deleted. false: log a warning and continue.",
        ),
        ("includeHeaders", Scope.BOTH, "false", "Include the column headers."),
        ("minPartitions", Scope.BOTH, "", "Minimum number of splits, if there are enough offsets."),
        ("maxRecordsPerPartition", Scope.BOTH, "", "Maximum number of offsets in a split."),
        ("kafkaConsumer.pollTimeoutMs", Scope.BOTH, "120000", "Time that a task waits for the next records."),
        ("fetchOffset.numRetries", Scope.BOTH, "3", "Retries of an offset request of the driver."),
        ("fetchOffset.retryIntervalMs", Scope.BOTH, "1000", "Pause before such a retry."),
        (
            "groupIdPrefix",
            Scope.BOTH,
            "spark-kafka-relation",
            "Prefix of the consumers' group ids.",
        ),
        ("maxOffsetsPerTrigger", Scope.STREAMING, "", "Maximum number of offsets in a micro-batch."),
        ("minOffsetsPerTrigger", Scope.STREAMING, "", "Minimum number of offsets in a micro-batch."),
        (
            "maxBytesPerTrigger",
            Scope.STREAMING,
            "",
            "Approximate maximum number of bytes in a micro-batch, which holds at least one offset.",
        ),
        ("maxTriggerDelay", Scope.STREAMING, "15m", "Longest time that minOffsetsPerTrigger delays a micro-batch."),
        ("remote.splitBytes", Scope.BOTH, str(DEFAULT_SPLIT_BYTES), "Target size of a split: smaller segments share one."),
        ("remote.includeKey", Scope.BOTH, "true", "Include the column key."),
        ("remote.includeValue", Scope.BOTH, "true", "Include the column value."),
        ("remote.includeTopic", Scope.BOTH, "true", "Include the column topic."),
        ("remote.includePartition", Scope.BOTH, "true", "Include the column partition."),
        ("remote.includeOffset", Scope.BOTH, "true", "Include the column offset."),
        ("remote.includeTimestamp", Scope.BOTH, "true", "Include the column timestamp."),
        ("remote.includeTimestampType", Scope.BOTH, "true", "Include the column timestampType."),
        (
            "remote.pushFilters",
            Scope.BATCH,
            "false",
            "Skip splits and segments by filters on topic, partition, offset and timestamp. Needs PySpark 4.1 or "
            "later, and spark.sql.python.filterPushdown.enabled.",
        ),
        (
            "remote.countersDirectory",
            Scope.BOTH,
            "",
            "Directory that all tasks can write to: an absolute path, or a URL that pyarrow knows, such as "
            "s3://bucket/counters. Each split writes its counters there. Credentials come from the environment.",
        ),
        (
            "remote.onFallback",
            Scope.BOTH,
            "broker",
            "What to do when tiered records cannot be read from the store. broker: read them from the brokers and log a "
            "warning. fail: fail the query, before its first task if possible. The default of read_segments is fail.",
        ),
        (
            "remote.maxBrokerBytes",
            Scope.BOTH,
            "",
            "Maximum bytes of keys and values that a batch query, or each micro-batch, reads from the brokers. Beyond it "
            "the query fails. The driver divides the limit over the splits.",
        ),
    )
)
