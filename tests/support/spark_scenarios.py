"""Spark's tests of its own Kafka source, by the names of their scenarios, and the equivalent tests for this source.

A test is decorated with the suite and the names of the scenarios that it covers::

    @scenario("KafkaRelationSuite", "explicit offsets")

The names are those of apache/spark, connector/kafka-0-10-sql/src/test/scala/org/apache/spark/sql/kafka010. A suite that Spark
runs in several versions (V1 and V2, consumer and admin client) is listed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, TypeVar

__all__ = ["NOT_HERE", "RESTATED", "SCENARIOS", "scenario", "starts_of_streams"]

_Test = TypeVar("_Test", bound=Callable[..., Any])

RESTATED: dict[tuple[str, str], list[str]] = {}
"""Our tests by suite and scenario; filled when their modules are imported."""

_SUBSCRIPTIONS = ("assign", "subscribing topic by name", "subscribing topic by pattern")
_STARTS = ("latest offsets", "earliest offsets", "specific offsets", "specific timestamps", "global timestamp per topic")


def starts_of_streams(how: str) -> tuple[str, ...]:
    """Returns the names of the scenarios of streams that start from ``how``, in Spark's form."""
    return tuple(f"{what} from {how} (failOnDataLoss: {fail})" for what, fail in product(_SUBSCRIPTIONS, ("true", "false")))


SCENARIOS: Mapping[str, tuple[str, ...]] = {
    "KafkaRelationSuite": (
        "explicit earliest to latest offsets",
        "default starting and ending offsets",
        "explicit offsets",
        "default starting and ending offsets with headers",
        "timestamp provided for starting and ending",
        "timestamp provided for starting, offset provided for ending",
        "timestamp provided for ending, offset provided for starting",
        "timestamp provided for starting, ending not provided",
        "timestamp provided for ending, starting not provided",
        "global timestamp provided for starting and ending",
        "no matched offset for timestamp - startingOffsets",
        "preferences on offset related options",
        "no matched offset for timestamp - endingOffsets",
        "reuse same dataframe in query",
        "test late binding start offsets",
        "bad batch query options",
        "read Kafka transactional messages: read_committed",
        "read Kafka transactional messages: read_uncommitted",
        "SPARK-30656: minPartitions",
        "topic-partition for start offset and end offset must match",
        "unresolved start offset greater than end offset",
        "resolved start offset greater than end offset (without latest)",
        "resolved start offset greater than end offset (with latest)",
        "V1 Source is used when set through SQLConf",
        "V2 Source is used when set through SQLConf",
    ),
    "KafkaMicroBatchSourceSuite": (
        "async progress tracking",
        "Trigger.AvailableNow",
        "Query with Trigger.AvailableNow should throw error when topic partitions got unavailable during subsequent batches",
        "Query with Trigger.AvailableNow should throw error when offset(s) in planned topic partitions got unavailable during"
        " subsequent batches",
        "(de)serialization of initial offsets",
        "SPARK-26718 Rate limit set to Long.Max should not overflow integer during end offset calculation",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "compositeReadLimit",
        "input row metrics",
        "subscribing topic by pattern with topic deletions",
        "SPARK-41375: empty partitions should not record to latest offset",
        "subscribe topic by pattern with topic recreation between batches",
        "topic-level offsets tolerate a new topic matching subscribePattern after the start",
        "ensure that initial offset are written with an extra byte in the beginning (SPARK-19517)",
        "deserialization of initial offset written by Spark 2.1.0 (SPARK-19517)",
        "deserialization of initial offset written by future version",
        "KafkaSource with watermark",
        "delete a topic when a Spark job is running",
        "SPARK-22956: currentPartitionOffsets should be set when no new data comes in",
        "allow group.id prefix",
        "allow group.id override",
        "ensure stream-stream self-join generates only one offset in log and correct metrics",
        "read Kafka transactional messages: read_committed",
        "read Kafka transactional messages: read_uncommitted",
        "SPARK-25495: FetchedData.reset should reset all fields",
        "SPARK-27494: read kafka record containing null key/values.",
        "SPARK-30656: minPartitions",
        "SPARK-56243: malformed record timestamp throws detailed error",
        "V1 Source is used when disabled through SQLConf",
        "V2 Source is used by default",
        "minPartitions is supported",
        "default config of includeHeader doesn't break existing query from Spark 2.4",
        "test custom metrics - with rate limit",
        "test custom metrics - no rate limit",
        "test custom metrics - corner cases",
        "SPARK-57438: metrics should not NPE when latestPartitionOffsets is null",
        "cannot stop Kafka stream",
        *(name for how in _STARTS for name in starts_of_streams(how)),
        "subscribing topics from topic-level offsets",
        "subscribing topic by name from specific timestamps with non-matching starting offset",
        "subscribing topic by name from global timestamp per topic with non-matching starting offset",
        "subscribing topic by pattern from specific timestamps with non-matching starting offset",
        "subscribing topic by pattern from global timestamp per topic with non-matching starting offset",
        "SPARK-53560: no crash looping during uncommitted batch retry in AvailableNow trigger",
        "bad source options",
        "unsupported kafka configs",
        "get offsets from case insensitive parameters",
        "Kafka column types",
        "stress test with multiple topics and partitions",
    ),
    "KafkaDontFailOnDataLossSuite": (
        "failOnDataLoss=false should not return duplicated records: microbatch v1",
        "failOnDataLoss=false should not return duplicated records: microbatch v2",
        "failOnDataLoss=false should not return duplicated records: continuous processing",
        "failOnDataLoss=false should not return duplicated records: batch v1",
        "failOnDataLoss=false should not return duplicated records: batch v2",
        "stress test for failOnDataLoss=false",
    ),
    "KafkaOffsetReaderSuite": (
        "isolationLevel must give back default isolation level when not set",
        "isolationLevel must give back READ_UNCOMMITTED when set",
        "isolationLevel must give back READ_COMMITTED when set",
        "isolationLevel must throw exception when invalid isolation level set",
        "SPARK-30656: getOffsetRangesFromUnresolvedOffsets - using specific offsets",
        "SPARK-30656: getOffsetRangesFromUnresolvedOffsets - using special offsets",
        "SPARK-48383: START_OFFSET_DOES_NOT_MATCH_ASSIGNED error class",
        "SPARK-30656: getOffsetRangesFromUnresolvedOffsets - multiple topic partitions",
        "SPARK-30656: getOffsetRangesFromResolvedOffsets",
        "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED error class - partitions assigned: 3, specified: 2",
        "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED error class - partitions assigned: 3, specified: 4",
    ),
    "KafkaSourceOffsetSuite": (
        "basic serialization - deserialization",
        "OffsetSeqLog serialization - deserialization",
        "read Spark 2.1.0 offset format",
        "comparison of offsets",
        "comparison of offsets - only compare topic partitions co-exist in both offsets",
    ),
    "JsonUtilsSuite": (
        "parsing partitions",
        "parsing partitionOffsets",
        "parsing specificOffsets",
        "parsing specificOffsets with topic-level earliest/latest",
        "parsing specificOffsets mixing topic-level and partition-level values",
        "parsing specificOffsets rejects a topic given in both forms",
        "parsing specificOffsets rejects malformed json",
    ),
    "KafkaOffsetRangeCalculatorSuite": (
        "with no minPartition: N TopicPartitions to N offset ranges",
        "with no minPartition: empty ranges ignored",
        "with minPartition = 3: N TopicPartitions to N offset ranges",
        "with minPartition = 3: N TopicPartitions to N offset ranges with executors",
        "with minPartition = 4: 1 TopicPartition to N offset ranges",
        "with minPartition = 4: N skewed TopicPartitions to M offset ranges",
        "with minPartition = 4: SPARK-30656: ignore empty ranges and split the rest",
        "with minPartition = 4: SPARK-30656: N very skewed TopicPartitions to M offset ranges",
        "with minPartition = 1: SPARK-30656: minPartitions less than the length of topic partitions",
        "with minPartition = 3: range inexact multiple of minPartitions",
        "with minPartition = 4: empty ranges ignored",
        "with minPartition = 6: SPARK-28489: never drop offsets",
        "with minPartition = 9: SPARK-36576: 0 small unsplit ranges and 3 large split ranges",
        "with minPartition = 6: SPARK-36576: 1 small unsplit range and 2 large split ranges",
        "with minPartition = 6: SPARK-36576: 2 small unsplit ranges and 1 large split range",
        "with minPartition = 3: SPARK-46798: locations set when ranges unsplit",
        "with minPartition = 4: SPARK-46798: locations not set when ranges split",
        "with maxRecordsPerPartition = 4: SPARK-49259: 1 TopicPartition to N offset ranges",
        "with maxRecordsPerPartition = 20: SPARK-49259: N TopicPartition to N offset ranges",
        "with minPartitions = 1 and maxRecordsPerPartition = 20: SPARK-49259: 1 TopicPartition with low minPartitions value",
        "with minPartitions = 4 and maxRecordsPerPartition = 20: SPARK-49259: 1 TopicPartition with high minPartitions value",
    ),
    "KafkaOffsetRangeLimitSuite": (
        "resolving topic-level offsets against the assigned partitions",
        "resolving fully enumerated offsets doesn't need the assigned partitions",
        "resolving a topic-level offset of a topic without assigned partitions fails",
    ),
    "KafkaSourceProviderSuite": (
        "batch mode - options should be handled as case-insensitive",
        "micro-batch mode - options should be handled as case-insensitive",
        "continuous mode - options should be handled as case-insensitive",
    ),
    "ConsumerStrategySuite": (
        "createAdmin must create admin properly",
        "AssignStrategy.assignedTopicPartitions must give back all assigned",
        "AssignStrategy.assignedTopicPartitions must skip invalid partitions",
        "SubscribeStrategy.assignedTopicPartitions must give back all assigned",
        "SubscribePatternStrategy.assignedTopicPartitions must give back all assigned",
    ),
}

_CONTINUOUS = "Python sources have no continuous mode"
_VERSIONS = "about which of its two generations of sources Spark takes; a Python source has one"
_INITIAL = (
    "about a file that Spark's own source keeps; a Python source's initial offset lies in the first batch of the checkpoint"
)
_EXECUTORS = "a Python source cannot say on which executor a split is to be read"
_COMPARED = "Spark compares no offsets of Python sources; partitions() says what went back, or is gone"

NOT_HERE: Mapping[tuple[str, str], str] = {
    ("KafkaRelationSuite", "V1 Source is used when set through SQLConf"): _VERSIONS,
    ("KafkaRelationSuite", "V2 Source is used when set through SQLConf"): _VERSIONS,
    ("KafkaMicroBatchSourceSuite", "V1 Source is used when disabled through SQLConf"): _VERSIONS,
    ("KafkaMicroBatchSourceSuite", "V2 Source is used by default"): _VERSIONS,
    (
        "KafkaMicroBatchSourceSuite",
        "ensure that initial offset are written with an extra byte in the beginning (SPARK-19517)",
    ): _INITIAL,
    ("KafkaMicroBatchSourceSuite", "deserialization of initial offset written by Spark 2.1.0 (SPARK-19517)"): _INITIAL,
    ("KafkaMicroBatchSourceSuite", "deserialization of initial offset written by future version"): _INITIAL,
    (
        "KafkaMicroBatchSourceSuite",
        "async progress tracking",
    ): "about Spark's Kafka sink, which keeps the progress of such queries",
    (
        "KafkaMicroBatchSourceSuite",
        "default config of includeHeader doesn't break existing query from Spark 2.4",
    ): "about state that Spark 2.4 kept of a query; no query of it had this source",
    (
        "KafkaMicroBatchSourceSuite",
        "stress test with multiple topics and partitions",
    ): "chance for twenty seconds; topics that come, grow and go are scenarios of their own",
    (
        "KafkaDontFailOnDataLossSuite",
        "stress test for failOnDataLoss=false",
    ): "chance for twenty seconds; topics that are deleted and made anew are scenarios of their own",
    (
        "KafkaDontFailOnDataLossSuite",
        "failOnDataLoss=false should not return duplicated records: continuous processing",
    ): _CONTINUOUS,
    ("KafkaSourceProviderSuite", "continuous mode - options should be handled as case-insensitive"): _CONTINUOUS,
    ("KafkaSourceOffsetSuite", "comparison of offsets"): _COMPARED,
    ("KafkaSourceOffsetSuite", "comparison of offsets - only compare topic partitions co-exist in both offsets"): _COMPARED,
    ("KafkaSourceOffsetSuite", "OffsetSeqLog serialization - deserialization"): "about the file of Spark's checkpoint itself",
    (
        "KafkaOffsetRangeCalculatorSuite",
        "with minPartition = 3: N TopicPartitions to N offset ranges with executors",
    ): _EXECUTORS,
    ("KafkaOffsetRangeCalculatorSuite", "with minPartition = 3: SPARK-46798: locations set when ranges unsplit"): _EXECUTORS,
    ("KafkaOffsetRangeCalculatorSuite", "with minPartition = 4: SPARK-46798: locations not set when ranges split"): _EXECUTORS,
    (
        "ConsumerStrategySuite",
        "AssignStrategy.assignedTopicPartitions must skip invalid partitions",
    ): "a partition that is not there is refused here by its name: its records would be missing unsaid",
    ("ConsumerStrategySuite", "createAdmin must create admin properly"): "about a class of Spark's alone",
}
"""The scenarios without a test here, with reasons."""


def scenario(suite: str, *names: str) -> Callable[[_Test], _Test]:
    """Marks a test with its scenarios. Raises KeyError for an unknown name, or one that is listed as not covered."""

    def covered(test: _Test) -> _Test:
        for name in names:
            if name not in SCENARIOS[suite] or (suite, name) in NOT_HERE:
                raise KeyError((suite, name))
            RESTATED.setdefault((suite, name), []).append(test.__qualname__)
        return test

    return covered
