"""Spark's scenarios of its Kafka source that need neither Spark nor a broker: options, JSON, offsets, splits, limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_remote_client.errors import ConfigurationError, UnsupportedFormatError
from kafka_remote_client.model import IsolationLevel, TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange, plan_splits
from kafka_remote_client.spark.offsets import json_offsets
from kafka_remote_client.spark.offsets.data_loss import DataLossError
from kafka_remote_client.spark.offsets.json_offsets import EARLIEST, LATEST, OffsetName, SpecificOffsets
from kafka_remote_client.spark.offsets.query_progress import offsets_behind
from kafka_remote_client.spark.options.source_options import parse_options
from kafka_remote_client.spark.planning.batch_plan import batch_ranges
from kafka_remote_client.spark.planning.micro_batch import batch_end
from kafka_remote_client.spark.reading.broker_read import consumer_settings
from kafka_remote_client.spark.reading.source_columns import from_messages
from kafka_remote_client.spark.source import pyspark_api
from kafka_remote_client.spark.source.limited_stream_reader import LimitedStreamReader
from kafka_remote_client.spark.source.stream_reader import KafkaRemoteStreamReader
from tests.support.locations import ManualClock
from tests.support.spark_cluster import A0, A1, FakeCluster
from tests.support.spark_scenarios import NOT_HERE, RESTATED, SCENARIOS, scenario

SERVERS = {"kafka.bootstrap.servers": "somehost:1"}
TOPIC = SERVERS | {"subscribe": "t", "fetch.remote.enabled": "false"}
T1, T2, T3 = (TopicPartition(f"t{number}", 1) for number in (1, 2, 3))

Bounds = list[tuple[TopicPartition, int, int]]


def test_every_scenario_is_covered_or_listed_as_not_covered() -> None:
    for module in ("batch", "scenarios", "scenarios_streams", "stream"):
        import_module(f"tests.integration.test_spark_{module}")
    known = {(suite, name) for suite, names in SCENARIOS.items() for name in names}
    assert sum(map(len, SCENARIOS.values())) == len(known)
    assert NOT_HERE.keys() <= known
    assert known - NOT_HERE.keys() == RESTATED.keys()


# -- JSON --------------------------------------------------------------------------------------------------------------


@scenario("JsonUtilsSuite", "parsing partitions")
def test_partitions_of_topics() -> None:
    found = json_offsets.parse_assignment("assign", '{"topicA":[0,1],"topicB":[4,6]}')
    assert [str(partition) for partition in found] == ["topicA-0", "topicA-1", "topicB-4", "topicB-6"]


@scenario("JsonUtilsSuite", "parsing partitionOffsets", "parsing specificOffsets")
def test_offsets_of_partitions() -> None:
    text = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    wanted = {TopicPartition("topicA", 0): 23, TopicPartition("topicA", 1): LATEST, TopicPartition("topicB", 0): EARLIEST}
    assert json_offsets.parse_offsets("o", text) == wanted
    assert json_offsets.parse_bound("o", text) == SpecificOffsets(wanted)


@scenario(
    "JsonUtilsSuite",
    "parsing specificOffsets with topic-level earliest/latest",
    "parsing specificOffsets mixing topic-level and partition-level values",
)
def test_offsets_of_topics() -> None:
    text = '{"topicA":"earliest","topicB":{"0":23,"1":-1},"topicC":"LATEST"}'
    by_partition = {TopicPartition("topicB", 0): 23, TopicPartition("topicB", 1): LATEST}
    assert json_offsets.parse_bound("o", text) == SpecificOffsets(by_partition, {"topicA": EARLIEST, "topicC": LATEST})
    assert json_offsets.parse_bound("o", '{"topicA":"latest"}') == SpecificOffsets({}, {"topicA": LATEST})


@scenario("JsonUtilsSuite", "parsing specificOffsets rejects a topic given in both forms")
def test_a_topic_in_both_forms() -> None:
    with pytest.raises(ConfigurationError, match="startingOffsets names topicA twice"):
        json_offsets.parse_bound("startingOffsets", '{"topicA":"earliest","topicA":{"0":23}}')


@scenario("JsonUtilsSuite", "parsing specificOffsets rejects malformed json")
@pytest.mark.parametrize(
    "text", ['{"topicA":"first"}', '{"topicA":[0,1]}', '{"topicA":{"0":"earliest"}}', '"earliest"', "not json"]
)
def test_malformed_json(text: str) -> None:
    with pytest.raises(ConfigurationError, match="startingOffsets must be JSON such as"):
        json_offsets.parse_bound("startingOffsets", text)


@scenario("KafkaSourceOffsetSuite", "basic serialization - deserialization")
def test_offsets_are_written_and_read() -> None:
    found = {TopicPartition("t", 0): 2, TopicPartition("t", 1): 3}
    assert json_offsets.parse_offsets("o", json_offsets.format_offsets(found)) == found


@scenario("KafkaSourceOffsetSuite", "read Spark 2.1.0 offset format")
def test_the_oldest_form_of_a_checkpoint() -> None:
    found = json_offsets.parse_offsets("o", '{"topic1":{"0":456,"1":789},"topic2":{"0":0}}\n')
    assert {str(partition): offset for partition, offset in found.items()} == {"topic1-0": 456, "topic1-1": 789, "topic2-0": 0}


# -- Topic-level offsets and partitions ----------------------------------------------------------------------------------


@scenario(
    "KafkaOffsetRangeLimitSuite",
    "resolving topic-level offsets against the assigned partitions",
    "resolving fully enumerated offsets doesn't need the assigned partitions",
    "resolving a topic-level offset of a topic without assigned partitions fails",
)
def test_offsets_of_topics_become_those_of_partitions() -> None:
    bound = SpecificOffsets({T2: 23}, {"t1": EARLIEST})
    more = TopicPartition("t1", 5)
    assert json_offsets.with_topics("o", bound, [T1, more, T2]) == {T1: EARLIEST, more: EARLIEST, T2: 23}
    assert json_offsets.with_topics("o", SpecificOffsets({T2: 23}), []) == {T2: 23}
    with pytest.raises(ConfigurationError, match="o names t3, which is not read"):
        json_offsets.with_topics("o", SpecificOffsets({}, {"t1": EARLIEST, "t3": EARLIEST}), [T1])


# -- Options -------------------------------------------------------------------------------------------------------------


def refusal(given: Mapping[str, str], *, streaming: bool) -> str:
    with pytest.raises(ConfigurationError) as raised:
        parse_options(SERVERS | dict(given), streaming=streaming)
    return str(raised.value)


SUBSCRIPTIONS: list[tuple[dict[str, str], str]] = [
    ({}, "exactly one of assign, subscribe and subscribePattern must be set, and none is"),
    ({"subscribe": "t", "subscribePattern": "t.*"}, "exactly one of assign, subscribe and subscribePattern"),
    ({"subscribe": "t", "assign": '{"a":[0]}'}, "exactly one of assign, subscribe and subscribePattern"),
    ({"assign": ""}, "assign must be JSON"),
    ({"subscribe": ""}, "subscribe names no topic"),
    ({"subscribePattern": ""}, "subscribePattern is empty"),
]


@scenario("KafkaRelationSuite", "bad batch query options")
@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets: a batch query cannot begin at latest"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets: a batch query cannot begin at latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets: a query cannot end at earliest"),
        ({"subscribe": "t", "endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets: a query cannot end at earliest"),
        *SUBSCRIPTIONS,
    ],
)
def test_bad_options_of_a_batch(given: dict[str, str], complaint: str) -> None:
    assert complaint in refusal(given, streaming=False)


@scenario("KafkaMicroBatchSourceSuite", "bad source options")
@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"endingOffsets": "latest"}, "not valid in streaming queries: endingOffsets"),
        (
            {"subscribe": "t", "endingOffsetsByTimestamp": '{"t":{"0":1000}}'},
            "not valid in streaming queries: endingOffsetsByTimestamp",
        ),
        *SUBSCRIPTIONS,
        (
            {"subscribe": "t", "minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"},
            "minOffsetsPerTrigger must not be more than maxOffsetsPerTrigger",
        ),
    ],
)
def test_bad_options_of_a_stream(given: dict[str, str], complaint: str) -> None:
    assert complaint in refusal(given, streaming=True)


@scenario("KafkaMicroBatchSourceSuite", "unsupported kafka configs")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("auto.offset.reset", value) for value in ("someValue", "none", "earliest", "latest")),
        *(
            (name, "someValue")
            for name in ("enable.auto.commit", "interceptor.classes", "key.deserializer", "value.deserializer")
        ),
    ],
)
def test_kafka_settings_that_a_source_cannot_have(name: str, value: str) -> None:
    assert f"kafka.{name} is not supported" in refusal({"subscribe": "topic", f"kafka.{name}": value}, streaming=True)


@scenario("KafkaMicroBatchSourceSuite", "get offsets from case insensitive parameters")
@pytest.mark.parametrize("change", [str.upper, str.lower, str])
def test_offsets_whose_options_are_written_in_any_case(change: Any) -> None:
    def start(text: str) -> json_offsets.OffsetBound:
        return parse_options(TOPIC | {change("startingOffsets"): text}).start

    assert start("earLiEst") is OffsetName.EARLIEST
    assert parse_options(TOPIC | {change("endingOffsets"): "laTest"}).end is OffsetName.LATEST
    assert start('{"topic-A":{"0":23}}') == SpecificOffsets({TopicPartition("topic-A", 0): 23})
    assert start('{"topic-A":"eArLiEst","topic-B":{"0":23}}') == SpecificOffsets(
        {TopicPartition("topic-B", 0): 23}, {"topic-A": EARLIEST}
    )
    assert (parse_options(TOPIC).start, parse_options(TOPIC).end) == (OffsetName.EARLIEST, OffsetName.LATEST)


@scenario(
    "KafkaSourceProviderSuite",
    "batch mode - options should be handled as case-insensitive",
    "micro-batch mode - options should be handled as case-insensitive",
)
@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("kafkaConsumer.pollTimeoutMs", "poll_timeout_ms", 1111),
        ("maxOffsetsPerTrigger", "max_offsets_per_trigger", 1111),
        ("minOffsetsPerTrigger", "min_offsets_per_trigger", 1111),
        ("maxTriggerDelay", "max_trigger_delay", "1111"),
        ("fetchOffset.numRetries", "offset_retries", 1111),
        ("fetchOffset.retryIntervalMs", "offset_retry_interval_ms", 1111),
        ("minPartitions", "min_partitions", 1111),
    ],
)
@pytest.mark.parametrize("streaming", [True, False])
def test_options_are_written_in_any_case(name: str, field: str, value: object, streaming: bool) -> None:
    if not streaming and "Trigger" in name:
        return
    for written in (name.upper(), name.lower()):
        assert getattr(parse_options(TOPIC | {written: "1111"}, streaming=streaming), field) == value


@scenario(
    "KafkaOffsetReaderSuite",
    "isolationLevel must give back default isolation level when not set",
    "isolationLevel must give back READ_UNCOMMITTED when set",
    "isolationLevel must give back READ_COMMITTED when set",
    "isolationLevel must throw exception when invalid isolation level set",
)
def test_isolation_levels() -> None:
    def level(**more: str) -> IsolationLevel:
        return parse_options(TOPIC | {f"kafka.{name}": text for name, text in more.items()}).client.isolation_level

    assert level() is IsolationLevel.READ_UNCOMMITTED
    assert level(**{"isolation.level": "read_uncommitted"}) is IsolationLevel.READ_UNCOMMITTED
    assert level(**{"isolation.level": "read_committed"}) is IsolationLevel.READ_COMMITTED
    with pytest.raises(ConfigurationError, match=r"kafka\.isolation\.level must be"):
        level(**{"isolation.level": "intentionally_invalid"})


@scenario("KafkaMicroBatchSourceSuite", "allow group.id prefix", "allow group.id override")
def test_group_ids() -> None:
    def group_id(**more: str) -> str:
        return str(consumer_settings(parse_options(TOPIC | more, streaming=True))["group.id"])

    assert group_id().startswith("spark-kafka-source-")
    assert group_id(groupIdPrefix="id-7").startswith("id-7-")
    assert group_id(groupIdPrefix="id-7") != group_id(groupIdPrefix="id-7")
    assert group_id(**{"kafka.group.id": "id-7", "groupIdPrefix": "other"}) == "id-7"


# -- Splits --------------------------------------------------------------------------------------------------------------


def split(ranges: Bounds, *, least: int | None = None, most: int | None = None) -> Bounds:
    found = plan_splits([OffsetRange(*found) for found in ranges], min_partitions=least, max_records=most)
    return [(one.topic_partition, one.start, one.end) for one in found]


def tiled(partition: TopicPartition, *bounds: int) -> Bounds:
    return [(partition, start, end) for start, end in pairwise(bounds)]


@scenario(
    "KafkaOffsetRangeCalculatorSuite",
    *(
        name
        for name in SCENARIOS["KafkaOffsetRangeCalculatorSuite"]
        if ("KafkaOffsetRangeCalculatorSuite", name) not in NOT_HERE
    ),
)
@pytest.mark.parametrize(
    ("least", "most", "ranges", "wanted"),
    [
        (None, None, [(T1, 1, 2)], [(T1, 1, 2)]),
        (None, None, [(T1, 1, 2), (T2, 1, 1)], [(T1, 1, 2)]),
        (3, None, [(T1, 1, 2), (T2, 1, 2), (T3, 1, 2)], [(T1, 1, 2), (T2, 1, 2), (T3, 1, 2)]),
        (4, None, [(T1, 1, 5)], tiled(T1, 1, 2, 3, 4, 5)),
        (4, None, [(T1, 1, 5), (T2, 1, 21)], [(T1, 1, 5), *tiled(T2, 1, 7, 14, 21)]),
        (4, None, [(T1, 1, 1), (T2, 1, 21)], tiled(T2, 1, 6, 11, 16, 21)),
        (4, None, [(T1, 1, 2), (T2, 1, 1001)], [(T1, 1, 2), *tiled(T2, 1, 334, 667, 1001)]),
        (1, None, [(T1, 1, 5), (T2, 1, 21)], [(T1, 1, 5), (T2, 1, 21)]),
        (3, None, [(T1, 1, 11)], tiled(T1, 1, 4, 7, 11)),
        (4, None, [(T1, 1, 5), (T2, 1, 21), (T3, 1, 1)], [(T1, 1, 5), *tiled(T2, 1, 7, 14, 21)]),
        # Spark makes seven splits, because it rounds up for each partition. Both ways keep all offsets.
        (6, None, [(T1, 0, 10), (T2, 0, 10), (T3, 0, 1)], [*tiled(T1, 0, 3, 6, 10), *tiled(T2, 0, 5, 10), (T3, 0, 1)]),
        (
            9,
            None,
            [(T1, 0, 10_000), (T2, 0, 15_000), (T3, 0, 20_000)],
            [
                *tiled(T1, *range(0, 10_001, 5000)),
                *tiled(T2, *range(0, 15_001, 5000)),
                *tiled(T3, *range(0, 20_001, 5000)),
            ],
        ),
        (
            6,
            None,
            [(T1, 0, 500), (T2, 0, 12_000), (T3, 0, 15_001)],
            [(T1, 0, 500), *tiled(T2, 0, 6000, 12_000), *tiled(T3, 0, 5000, 10_000, 15_001)],
        ),
        (
            6,
            None,
            [(T1, 0, 1), (T2, 0, 1), (T3, 0, 10_000)],
            [(T1, 0, 1), (T2, 0, 1), *tiled(T3, *range(0, 10_001, 2500))],
        ),
        (None, 4, [(T1, 1, 5)], [(T1, 1, 5)]),
        (None, 4, [(T1, 1, 2)], [(T1, 1, 2)]),
        (None, 4, [(T1, 1, 6)], tiled(T1, 1, 3, 6)),
        (
            None,
            20,
            [(T1, 1, 40), (T2, 1, 50), (T3, 1, 60)],
            [*tiled(T1, 1, 20, 40), *tiled(T2, 1, 17, 33, 50), *tiled(T3, 1, 20, 40, 60)],
        ),
        (1, 20, [(T1, 1, 40)], tiled(T1, 1, 20, 40)),
        (4, 20, [(T1, 1, 40)], tiled(T1, 1, 10, 20, 30, 40)),
    ],
)
def test_ranges_without_known_segments_are_cut_as_by_sparks_own_source(
    least: int | None, most: int | None, ranges: Bounds, wanted: Bounds
) -> None:
    assert split(ranges, least=least, most=most) == wanted


class Log(FakeCluster):
    """A fake cluster whose logs begin at 0; the test sets their ends."""

    def __init__(self, *ends: int) -> None:
        super().__init__()
        self.log_ends = {TopicPartition("t", number): end for number, end in enumerate(ends)}
        self.log_starts = dict.fromkeys(self.log_ends, 0)


def planned(cluster: FakeCluster, **more: str) -> list[tuple[int, int, int]]:
    parsed = parse_options(TOPIC | more)
    found = plan_splits(batch_ranges(parsed, cluster), min_partitions=parsed.min_partitions)
    return [(one.topic_partition.partition, one.start, one.end) for one in found]


@scenario(
    "KafkaOffsetReaderSuite",
    "SPARK-30656: getOffsetRangesFromUnresolvedOffsets - using specific offsets",
    "SPARK-30656: getOffsetRangesFromUnresolvedOffsets - using special offsets",
    "SPARK-30656: getOffsetRangesFromUnresolvedOffsets - multiple topic partitions",
    "SPARK-30656: getOffsetRangesFromResolvedOffsets",
)
def test_offsets_that_are_not_known_yet_become_splits() -> None:
    specific = {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"0":4}}'}
    assert planned(Log(10), minPartitions="3", **specific) == [(0, 1, 2), (0, 2, 3), (0, 3, 4)]
    assert planned(Log(4), minPartitions="3") == [(0, 0, 1), (0, 1, 2), (0, 2, 4)]
    several = {"startingOffsets": '{"t":{"0":-2,"1":-2}}', "endingOffsets": '{"t":{"0":-1,"1":3}}'}
    wanted = [(0, 0, 33), (0, 33, 66), (0, 66, 100), (1, 0, 3)]
    assert planned(Log(100, 4), minPartitions="4", **several) == wanted
    resolved = {"startingOffsets": '{"t":{"0":0,"1":0}}', "endingOffsets": '{"t":{"0":100,"1":3}}'}
    assert planned(Log(100, 4), minPartitions="4", **resolved) == wanted


@scenario(
    "KafkaOffsetReaderSuite",
    "SPARK-48383: START_OFFSET_DOES_NOT_MATCH_ASSIGNED error class",
    "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED error class - partitions assigned: 3, specified: 2",
    "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED error class - partitions assigned: 3, specified: 4",
)
@pytest.mark.parametrize(("name", "value"), [("startingOffsets", -2), ("startingOffsetsByTimestamp", 5)])
@pytest.mark.parametrize(("named", "complaint"), [(2, "leaves out t-2$"), (4, "names t-3, which are not read$")])
def test_a_start_that_does_not_name_what_is_read(name: str, value: int, named: int, complaint: str) -> None:
    text = json.dumps({"t": {str(number): value for number in range(named)}})
    with pytest.raises(ConfigurationError, match=f"{name} must name all partitions that are read, and it {complaint}"):
        planned(Log(9, 9, 9), **{name: text})


@scenario(
    "KafkaRelationSuite",
    "topic-partition for start offset and end offset must match",
    "unresolved start offset greater than end offset",
)
def test_contradictory_offsets_are_refused_before_any_request() -> None:
    start = {"subscribe": "test", "startingOffsets": '\n{"test": {"0": 1, "1": 1, "2": 1}}\n'}
    few = start | {"endingOffsets": '{"test": {"0": 0, "1": 0}}'}
    assert "startingOffsets and endingOffsets must name the same partitions" in refusal(few, streaming=False)
    before = start | {"endingOffsets": '{"test": {"0": 0, "1": 0, "2": 0}}'}
    assert "test-0: startingOffsets begins at offset 1, after the end at 0 (endingOffsets)" in refusal(before, streaming=False)


@scenario("KafkaMicroBatchSourceSuite", "minPartitions is supported")
def test_splits_of_a_micro_batch() -> None:
    def count(**more: str) -> int:
        reader = KafkaRemoteStreamReader(TOPIC | more, clock=ManualClock(), make_cluster=lambda _options, _clock: Log(100))
        return len(reader.partitions({"t": {"0": 0}}, {"t": {"0": 100}}))

    assert (count(), count(minPartitions="1"), count(minPartitions="4")) == (1, 1, 4)
    for text in ("a", "1.0", "0", "-1"):
        with pytest.raises(ConfigurationError, match="minPartitions must be a whole number, at least 1"):
            count(minPartitions=text)


# -- Limits --------------------------------------------------------------------------------------------------------------


class ReadAllAvailable:
    """Stand-in for PySpark 4.2's ReadAllAvailable."""


class Stream:
    """A stream with limits over a Log, driven as Spark does: where each batch ends, by partition."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, log: Log, **more: str) -> None:
        monkeypatch.setattr(pyspark_api, "READ_LIMITS", SimpleNamespace(ReadAllAvailable=ReadAllAvailable))
        self.clock = ManualClock()
        self.reader = LimitedStreamReader(
            TOPIC | {"startingOffsets": "earliest"} | more, clock=self.clock, make_cluster=lambda _options, _clock: log
        )
        self.at = self.reader.initialOffset()

    def batch(self, limit: object = None) -> list[int]:
        """The number of offsets of each partition in the next batch."""
        end = self.reader.latestOffset(self.at, limit)
        counts = [end["t"][number] - offset for number, offset in self.at["t"].items()]
        self.at = end
        return counts


@scenario("KafkaMicroBatchSourceSuite", "maxOffsetsPerTrigger")
def test_the_largest_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(monkeypatch, Log(101, 11, 1), maxOffsetsPerTrigger="10")
    assert [stream.batch() for _ in range(4)] == [[8, 1, 1], [9, 1, 0], [9, 1, 0], [9, 1, 0]]
    assert stream.batch(ReadAllAvailable()) == [101 - 35, 11 - 4, 0]


@scenario("KafkaMicroBatchSourceSuite", "minOffsetsPerTrigger")
def test_the_smallest_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(10, 5, 1)
    stream = Stream(monkeypatch, log, minOffsetsPerTrigger="15", maxTriggerDelay="5s")
    assert stream.batch() == [10, 5, 1]
    log.log_ends = Log(10, 11, 1).log_ends
    assert stream.batch() == [0, 0, 0]
    log.log_ends = Log(21, 11, 2).log_ends
    assert stream.batch() == [11, 6, 1]
    log.log_ends = Log(26, 16, 2).log_ends
    assert stream.batch() == [0, 0, 0]
    stream.clock.now += 5
    assert stream.batch() == [5, 5, 0]
    log.log_ends = Log(27, 16, 2).log_ends
    assert stream.batch(ReadAllAvailable()) == [1, 0, 0]


@scenario("KafkaMicroBatchSourceSuite", "compositeReadLimit")
def test_the_smallest_and_the_largest_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(21, 11, 1)
    stream = Stream(monkeypatch, log, minOffsetsPerTrigger="15", maxTriggerDelay="5s", maxOffsetsPerTrigger="20")
    assert stream.batch() == [12, 6, 1]
    assert stream.batch() == [0, 0, 0]
    log.log_ends = Log(29, 21, 2).log_ends
    assert stream.batch() == [10, 9, 1]
    assert stream.batch() == [0, 0, 0]
    stream.clock.now += 5
    assert stream.batch() == [7, 6, 0]


@scenario(
    "KafkaMicroBatchSourceSuite",
    "SPARK-26718 Rate limit set to Long.Max should not overflow integer during end offset calculation",
)
def test_the_largest_limit_there_is() -> None:
    options = parse_options(TOPIC | {"maxOffsetsPerTrigger": str(2**63 - 1)}, streaming=True)
    assert batch_end({A0: 5}, {A0: 10}, options.max_offsets_per_trigger) == {A0: 10}


@scenario("KafkaMicroBatchSourceSuite", "SPARK-22956: currentPartitionOffsets should be set when no new data comes in")
def test_a_source_with_nothing_new_keeps_its_place_beside_one_with_more(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = Log(10), Log(100)
    streams = [Stream(monkeypatch, log, maxOffsetsPerTrigger="5") for log in (small, large)]
    assert [[stream.batch()[0] for stream in streams] for _ in range(3)] == [[5, 5], [5, 5], [0, 5]]
    resumed = Stream(monkeypatch, small, maxOffsetsPerTrigger="5")
    resumed.at = streams[0].at
    assert [resumed.batch(), streams[1].batch()] == [[0], [5]]


@scenario("KafkaMicroBatchSourceSuite", "Trigger.AvailableNow")
def test_available_now_makes_as_many_batches_as_its_limit_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(15, 0, 0, 0, 0)
    stream = Stream(monkeypatch, log, maxOffsetsPerTrigger="5")
    stream.reader.prepareForTriggerAvailableNow()
    log.log_ends = Log(99, 9, 9, 9, 9).log_ends
    assert [sum(stream.batch()) for _ in range(4)] == [5, 5, 5, 0]


@scenario(
    "KafkaMicroBatchSourceSuite",
    "Query with Trigger.AvailableNow should throw error when topic partitions got unavailable during subsequent batches",
    "Query with Trigger.AvailableNow should throw error when offset(s) in planned topic partitions got unavailable during"
    " subsequent batches",
)
@pytest.mark.parametrize(
    ("made_anew", "complaint"),
    [(Log(15, 0, 0), "partitions are gone: t-3, t-4"), (Log(4, 0, 0, 0, 0), "t-0 ends at 4, before 10")],
    ids=["partitions", "offsets"],
)
def test_available_now_fails_when_its_end_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, made_anew: Log, complaint: str
) -> None:
    log = Log(15, 0, 0, 0, 0)
    stream = Stream(monkeypatch, log, maxOffsetsPerTrigger="5", failOnDataLoss="false")
    stream.reader.prepareForTriggerAvailableNow()
    stream.batch()
    log.log_ends = made_anew.log_ends
    start = stream.at
    stream.batch()
    with pytest.raises(DataLossError, match=complaint):
        stream.reader.partitions(start, stream.at)


@scenario("KafkaMicroBatchSourceSuite", "test custom metrics - with rate limit", "test custom metrics - no rate limit")
@pytest.mark.parametrize(("limit", "behind"), [({"maxOffsetsPerTrigger": "2"}, (4, 4, 4.0)), ({}, (0, 0, 0.0))])
def test_progress_shows_how_far_a_stream_is_behind(
    monkeypatch: pytest.MonkeyPatch, limit: dict[str, str], behind: tuple[int, int, float]
) -> None:
    stream = Stream(monkeypatch, Log(5, 5), **limit)
    stream.batch(None if limit else ReadAllAvailable())
    progress = {"sources": [{"endOffset": stream.at, "latestOffset": stream.reader.reportLatestOffset()}]}
    found = offsets_behind(progress)
    assert found is not None
    assert (found.lowest, found.highest, found.average) == behind


@scenario(
    "KafkaMicroBatchSourceSuite",
    "test custom metrics - corner cases",
    "SPARK-57438: metrics should not NPE when latestPartitionOffsets is null",
)
def test_how_far_a_stream_is_behind() -> None:
    latest, end = '{"t1":{"1":3},"t2":{"1":6}}', '{"t1":{"1":1},"t2":{"1":2}}'
    found = offsets_behind({"sources": [{"endOffset": end, "latestOffset": latest}]})
    assert found is not None
    assert (found.lowest, found.highest, found.average) == (2, 4, 3.0)
    assert offsets_behind({"sources": [{"endOffset": None, "latestOffset": latest}]}) is None
    assert offsets_behind({"sources": [{"endOffset": end, "latestOffset": None}]}) is None


@scenario("KafkaMicroBatchSourceSuite", "(de)serialization of initial offsets")
def test_query_restarted_before_its_first_batch_begins_where_it_would() -> None:
    first = KafkaRemoteStreamReader(TOPIC, clock=ManualClock(), make_cluster=lambda _options, _clock: Log(7, 9))
    written = json.loads(json.dumps(first.initialOffset()))
    again = KafkaRemoteStreamReader(TOPIC, clock=ManualClock(), make_cluster=lambda _options, _clock: Log(70, 90))
    assert again.partitions(written, written) == []
    assert [(found.split.start, found.split.end) for found in again.partitions(written, again.latestOffset())] == [
        (7, 70),
        (9, 90),
    ]


@scenario("KafkaMicroBatchSourceSuite", "SPARK-56243: malformed record timestamp throws detailed error")
def test_a_timestamp_that_no_column_can_hold() -> None:
    nanoseconds = 1_712_345_678_123_456_789
    message: Any = SimpleNamespace(
        timestamp=lambda: (1, nanoseconds),
        key=lambda: None,
        value=lambda: b"value",
        offset=lambda: 5,
        headers=lambda: None,
        topic=lambda: "a",
        partition=lambda: 1,
    )
    with pytest.raises(UnsupportedFormatError, match="timestamp"):
        from_messages([message], A1)
