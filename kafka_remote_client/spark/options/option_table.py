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
    doc: str
    default: str = ""
    scope: Scope = Scope.BOTH
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
_NEEDS_4_2 = "Needs PySpark 4.2 or later; an error in older versions."

OPTIONS = (
    Option("assign", 'The partitions to read, as JSON: {"topicA":[0,1]}. One of assign, subscribe and subscribePattern.'),
    Option("subscribe", "The topics to read, separated by commas. One of assign, subscribe and subscribePattern."),
    Option(
        "subscribePattern",
        "A regular expression; topics are read if it matches anywhere in their name. One of assign, subscribe and "
        "subscribePattern.",
        differs="It is a Python regular expression.",
    ),
    Option(
        "startingTimestamp", "Start all partitions at the first record with this timestamp or a later one, in milliseconds."
    ),
    Option("startingOffsetsByTimestamp", "The same for each partition, as JSON."),
    Option(
        "startingOffsets",
        "earliest, latest (streaming), or offsets as JSON. In JSON a topic may have one of these names for all partitions.",
        default="earliest",
        streaming_default="latest",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "What to do if no record has this timestamp or a later one: error or latest.",
        default="error",
    ),
    Option(
        "endingTimestamp",
        "End all partitions before the first record with this timestamp or a later one, in milliseconds.",
        scope=Scope.BATCH,
    ),
    Option("endingOffsetsByTimestamp", "The same for each partition, as JSON.", scope=Scope.BATCH),
    Option(
        "endingOffsets",
        "latest, or exclusive offsets as JSON. In JSON a topic may have latest for all partitions.",
        default="latest",
        scope=Scope.BATCH,
    ),
    Option("failOnDataLoss", "Fail when records of the query were deleted. false: log a warning and continue.", default="true"),
    Option("includeHeaders", "Include the column headers.", default="false"),
    Option(
        "minPartitions",
        "Minimum number of splits, if there are enough offsets.",
        differs="Splits end at segment boundaries; segments are divided only if that gives too few splits.",
    ),
    Option("maxRecordsPerPartition", "Maximum number of offsets in a split."),
    Option("kafkaConsumer.pollTimeoutMs", "Time that a task waits for the next records.", default="120000"),
    Option("fetchOffset.numRetries", "Retries of an offset request of the driver.", default="3"),
    Option("fetchOffset.retryIntervalMs", "Pause before such a retry.", default="1000"),
    Option(
        "groupIdPrefix",
        "Prefix of the consumers' group ids.",
        default="spark-kafka-relation",
        differs="The source commits no offsets with these ids.",
        streaming_default="spark-kafka-source",
    ),
    Option("maxOffsetsPerTrigger", "Maximum number of offsets in a micro-batch.", scope=Scope.STREAMING, differs=_NEEDS_4_2),
    Option("minOffsetsPerTrigger", "Minimum number of offsets in a micro-batch.", scope=Scope.STREAMING, differs=_NEEDS_4_2),
    Option(
        "maxBytesPerTrigger",
        "Approximate maximum number of bytes in a micro-batch, which holds at least one offset.",
        scope=Scope.STREAMING,
        differs=_NEEDS_4_2,
    ),
    Option(
        "maxTriggerDelay",
        "Longest time that minOffsetsPerTrigger delays a micro-batch.",
        default="15m",
        scope=Scope.STREAMING,
        differs=_NEEDS_4_2,
    ),
    Option("remote.splitBytes", "Target size of a split: smaller segments share one.", default=str(DEFAULT_SPLIT_BYTES)),
    Option("remote.includeKey", "Include the column key.", default="true"),
    Option("remote.includeValue", "Include the column value.", default="true"),
    Option("remote.includeTopic", "Include the column topic.", default="true"),
    Option("remote.includePartition", "Include the column partition.", default="true"),
    Option("remote.includeOffset", "Include the column offset.", default="true"),
    Option("remote.includeTimestamp", "Include the column timestamp.", default="true"),
    Option("remote.includeTimestampType", "Include the column timestampType.", default="true"),
    Option(
        "remote.pushFilters",
        "Skip splits and segments by filters on topic, partition, offset and timestamp. Needs PySpark 4.1 or "
        "later, and spark.sql.python.filterPushdown.enabled. Call load() again for each query: Spark keeps the filters in the "
        "DataFrame, and a query that reuses it gives wrong results.",
        default="false",
        scope=Scope.BATCH,
    ),
    Option(
        "remote.countersDirectory",
        "Directory that all tasks can write to: an absolute path, or a URL that pyarrow knows, such as "
        "s3://bucket/counters. Each split writes its counters there. Credentials come from the environment.",
    ),
    Option(
        "remote.onFallback",
        "What to do when tiered records cannot be read from the store. broker: read them from the brokers and log a "
        "warning. fail: fail the query, before its first task if possible. The default of read_segments is fail.",
        default="broker",
    ),
    Option(
        "remote.maxBrokerBytes",
        "Maximum bytes of keys and values that a batch query, or each micro-batch, reads from the brokers. Beyond it "
        "the query fails. The driver divides the limit over the splits.",
    ),
)
