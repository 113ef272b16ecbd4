"""The table of all options of ``format("kafka-remote")`` but ``kafka.*``: names, defaults, meanings. Pure.

docs/spark-options.md is made from it.

References: Spark's KafkaSourceProvider, "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

from enum import Enum

import attrs

from kafka_remote_client.spark.planning import DEFAULT_SPLIT_BYTES

__all__ = ["OPTIONS", "Option", "Scope"]


class Scope(Enum):
    """In which queries an option has a meaning."""

    BOTH = "batch and streaming"
    BATCH = "batch"
    STREAMING = "streaming"


@attrs.frozen
class Option:
    """One line of the table. ``default``: as text, empty = none. ``differs``: what is not as in Spark's own source."""

    name: str
    scope: Scope
    default: str
    doc: str
    differs: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether Spark's own source has no such option."""
        return self.name.startswith("remote.") or self.name in _OURS


_OURS = frozenset({"maxBytesPerTrigger"})
_DIFFERS = {
    "subscribePattern": "It is Python's kind of regular expression.",
    "minPartitions": "Splits are cut where segments end first, and inside them only where that gives too few.",
    "groupIdPrefix": "Nothing is committed under these ids.",
    **dict.fromkeys(
        ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger", "maxTriggerDelay"),
        "Needs PySpark 4.2 or later, and is refused before.",
    ),
}

OPTIONS = tuple(
    Option(name, scope, default, doc, _DIFFERS.get(name, ""))
    for name, scope, default, doc in (
        ("assign", Scope.BOTH, "", 'The partitions to read, as JSON: {"topicA":[0,1]}. One of the three.'),
        ("subscribe", Scope.BOTH, "", "The topics to read, with commas between. One of the three."),
        (
            "subscribePattern",
            Scope.BOTH,
            "",
            "A regular expression that is found in the names of the topics to read. One of the three.",
        ),
        (
            "startingTimestamp",
            Scope.BOTH,
            "",
            "Begin at the first record as young as this, in milliseconds, in all partitions.",
        ),
        ("startingOffsetsByTimestamp", Scope.BOTH, "", "The same for each partition, as JSON."),
        (
            "startingOffsets",
            Scope.BOTH,
            "earliest; streaming: latest",
            "earliest, latest (streaming), or offsets as JSON; there a topic may have one of these names for all partitions.",
        ),
        ("startingOffsetsByTimestampStrategy", Scope.BOTH, "error", "error or latest: where no record is as young."),
        (
            "endingTimestamp",
            Scope.BATCH,
            "",
            "End before the first record as young as this, in milliseconds, in all partitions.",
        ),
        ("endingOffsetsByTimestamp", Scope.BATCH, "", "The same for each partition, as JSON."),
        (
            "endingOffsets",
            Scope.BATCH,
            "latest",
            "latest, or offsets as JSON, exclusive; there a topic may have latest for all partitions.",
        ),
        ("failOnDataLoss", Scope.BOTH, "true", "Fail when records to be read are gone. false: say so in the log and go on."),
        ("includeHeaders", Scope.BOTH, "false", "Whether there is a column with the headers."),
        ("minPartitions", Scope.BOTH, "", "At least so many splits, if there are so many offsets."),
        ("maxRecordsPerPartition", Scope.BOTH, "", "At most so many offsets in a split."),
        ("kafkaConsumer.pollTimeoutMs", Scope.BOTH, "120000", "How long a task waits for the next records."),
        ("fetchOffset.numRetries", Scope.BOTH, "3", "How often the driver repeats a question about offsets."),
        ("fetchOffset.retryIntervalMs", Scope.BOTH, "1000", "Pause before it does."),
        (
            "groupIdPrefix",
            Scope.BOTH,
            "spark-kafka-relation; streaming: spark-kafka-source",
            "Begin of the consumers' group ids.",
        ),
        ("maxOffsetsPerTrigger", Scope.STREAMING, "", "At most so many offsets in a micro-batch."),
        ("minOffsetsPerTrigger", Scope.STREAMING, "", "At least so many offsets in a micro-batch."),
        (
            "maxBytesPerTrigger",
            Scope.STREAMING,
            "",
            "At most about so many bytes in a micro-batch, and always at least one offset.",
        ),
        ("maxTriggerDelay", Scope.STREAMING, "15m", "How long minOffsetsPerTrigger may hold records back."),
        ("remote.splitBytes", Scope.BOTH, str(DEFAULT_SPLIT_BYTES), "Segments that are smaller share a split up to this size."),
        ("remote.includeKey", Scope.BOTH, "true", "Whether there is a column with the key."),
        ("remote.includeValue", Scope.BOTH, "true", "Whether there is a column with the value."),
        ("remote.includeTopic", Scope.BOTH, "true", "Whether there is a column with the topic."),
        ("remote.includePartition", Scope.BOTH, "true", "Whether there is a column with the partition."),
        ("remote.includeOffset", Scope.BOTH, "true", "Whether there is a column with the offset."),
        ("remote.includeTimestamp", Scope.BOTH, "true", "Whether there is a column with the timestamp."),
        ("remote.includeTimestampType", Scope.BOTH, "true", "Whether there is a column with the timestamp's type."),
        (
            "remote.pushFilters",
            Scope.BATCH,
            "false",
            "Whether filters on topic, partition, offset and timestamp leave out splits and segments. Needs PySpark 4.1 or "
            "later, and spark.sql.python.filterPushdown.enabled.",
        ),
        (
            "remote.countersDirectory",
            Scope.BOTH,
            "",
            "A directory that all tasks can write to: each split that was read leaves its counters there.",
        ),
        (
            "remote.onFallback",
            Scope.BOTH,
            "broker; read_segments: fail",
            "What happens where tiered records cannot be read from the store. broker: read them through the brokers, with a "
            "warning. fail: fail the query, before its first task where that is possible.",
        ),
        (
            "remote.maxBrokerBytes",
            Scope.BOTH,
            "",
            "At most so many bytes of keys and values may come through the brokers in a batch query, or in each micro-batch; "
            "else it fails. The driver divides it over the splits.",
        ),
    )
)
