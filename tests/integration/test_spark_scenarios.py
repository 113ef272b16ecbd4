"""Spark's scenarios of its Kafka source, run with it and with ours side by side: both give what Spark's tests expect.

Frames are made once and collected in steps, all of a step at once; between steps more is written. A scenario is a frame, or
two, and what it has to give at a step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Producer

from tests.support.kafka_broker import KafkaBroker
from tests.support.spark import SparkDriver
from tests.support.spark_scenarios import scenario
from tests.support.transactions import NEVER_ABORTED
from tests.support.waiting import wait_until

# The first test waits for the session and for all frames.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

SOURCES = ("kafka", "kafka-remote")
FIRST, SECOND, THIRD, LAST = (1_700_000_000_000 + 1000 * n for n in range(4))
NUMBERS, TIMES, HEADERS, GOING, EMPTY, TRANSACTIONS = (
    f"scenarios-{what}" for what in ("numbers", "times", "headers", "going", "empty", "transactions")
)
_PATIENCE = 60
_TRANSACTION = 200  # the broker answers late on a loaded machine
_OF_TRANSACTIONS = ("committed", "uncommitted")


def by_partition(topic: str, *values: int) -> str:
    return json.dumps({topic: {str(number): value for number, value in enumerate(values)}})


_NUMBERS = {"subscribe": NUMBERS}
_TIMES = {"subscribe": TIMES}
_SPECIFIC = {"startingOffsets": by_partition(NUMBERS, -2, -2, 0), "endingOffsets": by_partition(NUMBERS, -1, -1, 1)}
_ENDS = {"startingOffsets": "earliest", "endingOffsets": "latest"}

FRAMES: Mapping[str, dict[str, str]] = {
    "ends": _NUMBERS | _ENDS,
    "defaults": _NUMBERS,
    "specific": _NUMBERS | _SPECIFIC,
    "many": _NUMBERS | {"minPartitions": "6"},
    "headers": {"subscribe": HEADERS, "includeHeaders": "true"},
    "going": {"subscribe": GOING} | _ENDS,
    "both-times": _TIMES
    | {
        "startingOffsetsByTimestamp": by_partition(TIMES, *[SECOND] * 3),
        "endingOffsetsByTimestamp": by_partition(TIMES, *[THIRD] * 3),
    },
    "from-time-to-offsets": _TIMES
    | {"startingOffsetsByTimestamp": by_partition(TIMES, *[FIRST] * 3), "endingOffsets": by_partition(TIMES, -1, -1, 1)},
    "from-offsets-to-time": _TIMES
    | {"startingOffsets": by_partition(TIMES, -2, -2, 0), "endingOffsetsByTimestamp": by_partition(TIMES, *[THIRD] * 3)},
    "from-time": _TIMES | {"startingOffsetsByTimestamp": by_partition(TIMES, *[SECOND] * 3)},
    "to-time": _TIMES | {"endingOffsetsByTimestamp": by_partition(TIMES, *[THIRD] * 3)},
    "global-times": _TIMES | {"startingTimestamp": str(SECOND), "endingTimestamp": str(THIRD)},
    "time-is-first": _TIMES
    | {
        "startingTimestamp": str(THIRD),
        "startingOffsetsByTimestamp": by_partition(TIMES, *[SECOND] * 3),
        "startingOffsets": "earliest",
    },
    "times-are-second": _TIMES
    | {"startingOffsetsByTimestamp": by_partition(TIMES, *[SECOND] * 3), "startingOffsets": "earliest"},
    "no-end": _TIMES | {"endingOffsetsByTimestamp": by_partition(TIMES, SECOND, SECOND, LAST)},
    "no-start": _TIMES | {"startingOffsetsByTimestamp": by_partition(TIMES, SECOND, SECOND, LAST)},
    "after-time": _TIMES
    | {"startingOffsets": by_partition(TIMES, 9, 9, 9), "endingOffsetsByTimestamp": by_partition(TIMES, *[SECOND] * 3)},
    "assigned": {"assign": json.dumps({NUMBERS: [0, 2]})},
    "pattern": {"subscribePattern": "scenarios-n.*s"},
    "part-of-a-name": {"subscribePattern": "narios-n"},
    "any-case": {"SUBSCRIBE": NUMBERS, "startingoffsets": by_partition(NUMBERS, 5, -2, -2), "ENDINGOFFSETS": "LaTeSt"},
    "a-group": _NUMBERS | {"kafka.group.id": "scenarios"},
    "a-prefix": _NUMBERS | {"groupIdPrefix": "scenarios"},
    "few-each": _NUMBERS | {"maxRecordsPerPartition": "4"},
    "nothing-as-young": _TIMES | {"startingTimestamp": str(LAST), "startingOffsetsByTimestampStrategy": "latest"},
    "ends-as-times": _TIMES | {"startingOffsetsByTimestamp": by_partition(TIMES, -1, 0, SECOND)},
    "lost": {"subscribe": GOING, "startingOffsets": by_partition(GOING, 3), "failOnDataLoss": "false"},
    "lost-strictly": {"subscribe": GOING, "startingOffsets": by_partition(GOING, 3)},
    "after-latest": {"subscribe": EMPTY, "startingOffsets": by_partition(EMPTY, 1, 1, 1)},
    "committed": {"subscribe": TRANSACTIONS, "kafka.isolation.level": "read_committed"},
    "uncommitted": {"subscribe": TRANSACTIONS, "kafka.isolation.level": "read_uncommitted"},
}


@attrs.frozen
class Collected:
    """The results of both sources: by step and frame, one for each source."""

    answers: list[dict[str, list[Any]]] = attrs.field(factory=list)

    def values(self, frame: str, step: int = 0) -> list[list[int]]:
        answers = self.answers[step][frame]
        failed = {source: answer["error"] for source, answer in zip(SOURCES, answers, strict=True) if "error" in answer}
        assert not failed, f"{frame}: {failed}"
        return [answer["values"] for answer in answers]

    def check(self, frame: str, wanted: Iterable[int], step: int = 0) -> None:
        assert self.values(frame, step) == [sorted(wanted)] * 2

    def errors(self, frame: str, step: int = 0) -> list[str]:
        return [answer["error"] for answer in self.answers[step][frame]]


def send(broker: KafkaBroker, topic: str, partition: int, values: Iterable[int], timestamp: int = FIRST, **more: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    for value in values:
        producer.produce(topic, str(value), partition=partition, timestamp=timestamp, **more)
    assert producer.flush(_PATIENCE) == 0


def write(broker: KafkaBroker) -> None:
    """The topics before the first step."""
    partitions = {NUMBERS: 3, TIMES: 3, HEADERS: 3, EMPTY: 3, GOING: 1, TRANSACTIONS: 1}
    for topic, number in partitions.items():
        broker.create_topic(topic, partitions=number)
    for partition, values in enumerate((range(10), range(10, 20), [20])):
        send(broker, NUMBERS, partition, values)
    for time, begin in ((FIRST, 0), (SECOND, 10), (THIRD, 20)):
        for partition in range(3):
            send(broker, TIMES, partition, (n for n in range(begin, begin + 10) if n % 3 == partition), time)
    headers: tuple[list[tuple[str, bytes]], ...] = ([], [("a", b"b"), ("c", b"d")], [("e", b"f"), ("e", b"g")])
    for partition, given in enumerate(headers):
        send(broker, HEADERS, partition, [partition + 1], headers=given)
    send(broker, GOING, 0, range(10))


@pytest.fixture(scope="module")
def both(running_broker: KafkaBroker, spark_beside: SparkDriver) -> Collected:
    """All frames at all steps."""
    broker, found = running_broker, Collected()
    write(broker)

    def step(*frames: str) -> None:
        names = [f"{source}/{frame}" for frame in frames for source in SOURCES]
        answers = spark_beside("tests.support.spark_frames:collected", names=names)
        found.answers.append({frame: [answers[f"{source}/{frame}"] for source in SOURCES] for frame in frames})

    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.metadata.max.age.ms": "100"}
    ours = {"fetch.remote.location.source": "listing", "remote.storage.store.url": broker.store_url}
    frames = {
        f"{source}/{frame}": [source, servers | options | (ours if source == "kafka-remote" else {})]
        for frame, options in FRAMES.items()
        for source in SOURCES
    }
    spark_beside("tests.support.spark_frames:kept", frames=frames)
    transactional = {"transactional.id": TRANSACTIONS, "log_level": 0, **NEVER_ABORTED}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **transactional})
    producer.init_transactions(_TRANSACTION)

    def begin(values: Iterable[int]) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(TRANSACTIONS, str(value), partition=0)
        assert producer.flush(_PATIENCE) == 0

    def decided(offset: int) -> None:
        wait_until(lambda: broker.offsets(TRANSACTIONS).last_stable == offset, f"the marker before {offset}")

    step(*(frame for frame in FRAMES if frame not in _OF_TRANSACTIONS), "defaults+")
    send(broker, NUMBERS, 2, range(21, 30))
    send(broker, NUMBERS, 1, range(30, 40))
    broker.delete_records(GOING, 10)
    send(broker, GOING, 0, range(10, 20))
    step("ends", "specific", "many", "going", "lost", "lost-strictly")
    begin(range(1, 6))
    step(*_OF_TRANSACTIONS)
    producer.commit_transaction(_TRANSACTION)
    decided(6)
    step(*_OF_TRANSACTIONS)
    begin(range(6, 11))
    producer.abort_transaction(_TRANSACTION)
    decided(12)
    step(*_OF_TRANSACTIONS)
    begin(range(11, 16))
    producer.commit_transaction(_TRANSACTION)
    decided(18)
    step(*_OF_TRANSACTIONS)
    return found


@scenario("KafkaRelationSuite", "explicit earliest to latest offsets", "default starting and ending offsets")
def test_from_the_start_to_the_end(both: Collected) -> None:
    both.check("ends", range(21))
    both.check("defaults", range(21))
    # The end is looked up when the frame is used.
    both.check("ends", range(40), step=1)


@scenario("KafkaRelationSuite", "explicit offsets")
def test_from_offsets_to_offsets(both: Collected) -> None:
    both.check("specific", range(21))
    both.check("specific", [*range(21), *range(30, 40)], step=1)


@scenario("KafkaRelationSuite", "reuse same dataframe in query")
def test_a_frame_twice_in_one_query(both: Collected) -> None:
    both.check("defaults+", [*range(21), *range(21)])


@scenario("KafkaRelationSuite", "test late binding start offsets")
def test_the_start_is_looked_up_when_the_frame_is_used(both: Collected) -> None:
    both.check("going", range(10))
    both.check("going", range(10, 20), step=1)


@scenario("KafkaRelationSuite", "default starting and ending offsets with headers")
def test_headers(both: Collected) -> None:
    both.check("headers", [1, 2, 3])
    wanted = [None, [["a", "b"], ["c", "d"]], [["e", "f"], ["e", "g"]]]
    assert [answer["headers"] for answer in both.answers[0]["headers"]] == [wanted] * 2


@scenario("KafkaRelationSuite", "SPARK-30656: minPartitions")
def test_min_partitions_sets_the_least_number_of_tasks(both: Collected) -> None:
    both.check("many", range(21))
    both.check("many", range(40), step=1)
    assert all(answer["tasks"] >= 6 for answer in chain(both.answers[0]["many"], both.answers[1]["many"]))


@scenario(
    "KafkaRelationSuite",
    "timestamp provided for starting and ending",
    "timestamp provided for starting, offset provided for ending",
    "timestamp provided for ending, offset provided for starting",
    "timestamp provided for starting, ending not provided",
    "timestamp provided for ending, starting not provided",
    "global timestamp provided for starting and ending",
    "preferences on offset related options",
    "no matched offset for timestamp - endingOffsets",
)
@pytest.mark.parametrize(
    ("frame", "values"),
    [
        ("both-times", range(10, 20)),
        ("from-time-to-offsets", [2, *(n for n in range(30) if n % 3 != 2)]),
        ("from-offsets-to-time", range(20)),
        ("from-time", range(10, 30)),
        ("to-time", range(20)),
        ("global-times", range(10, 20)),
        ("time-is-first", range(20, 30)),
        ("times-are-second", range(10, 30)),
        ("no-end", [*range(10), *(n for n in range(10, 30) if n % 3 == 2)]),
    ],
)
def test_timestamps(both: Collected, frame: str, values: Iterable[int]) -> None:
    both.check(frame, values)


@scenario(
    "KafkaRelationSuite",
    "no matched offset for timestamp - startingOffsets",
    "resolved start offset greater than end offset (without latest)",
    "resolved start offset greater than end offset (with latest)",
)
@pytest.mark.parametrize(
    ("frame", "theirs", "ours"),
    [
        ("no-start", "No offset matched from request", f"no record at or after the timestamp in {TIMES}-2"),
        ("after-time", "offset 9 is ", "startingOffsets begins at offset 9, after the end at [34]"),
        ("after-latest", "offset 1 is ", "startingOffsets begins at offset 1, after the end at 0"),
    ],
)
def test_impossible_starts_are_refused(both: Collected, frame: str, theirs: str, ours: str) -> None:
    of_spark, of_ours = both.errors(frame)
    assert theirs in of_spark
    assert re.search(ours, of_ours)


@scenario(
    "KafkaRelationSuite",
    "read Kafka transactional messages: read_committed",
    "read Kafka transactional messages: read_uncommitted",
)
def test_transactions(both: Collected) -> None:
    first, second, third = range(1, 6), range(6, 11), range(11, 16)
    for step, committed in enumerate(([], first, first, [*first, *third]), 2):
        both.check("committed", committed, step)
    for step, written in enumerate((first, first, [*first, *second], [*first, *second, *third]), 2):
        both.check("uncommitted", written, step)


@pytest.mark.parametrize(
    ("frame", "values"),
    [
        ("assigned", [*range(10), 20]),
        ("pattern", range(21)),
        ("part-of-a-name", range(21)),
        ("any-case", range(5, 21)),
        ("a-group", range(21)),
        ("a-prefix", range(21)),
        ("few-each", range(21)),
        ("nothing-as-young", []),
        ("lost", range(3, 10)),
    ],
)
def test_options_behave_as_in_sparks_source(both: Collected, frame: str, values: Iterable[int]) -> None:
    both.check(frame, values)


def test_deleted_records_are_skipped_or_fail_the_query(both: Collected) -> None:
    both.check("lost", range(10, 20), step=1)
    _, ours = both.errors("lost-strictly", step=1)
    assert "the offsets 3 to 9 were deleted; the log starts at 10" in ours


def test_negative_timestamps_behave_as_in_sparks_source(both: Collected) -> None:
    of_spark, of_ours = both.values("ends-as-times")
    assert of_ours == of_spark


@scenario("KafkaMicroBatchSourceSuite", "KafkaSource with watermark")
def test_windows_of_a_stream(both: Collected, kafka_broker: KafkaBroker, spark_beside: SparkDriver, tmp_path: Path) -> None:
    options = {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers, "startingOffsets": "earliest", **_TIMES}
    for source in SOURCES:
        more = {"fetch.remote.enabled": "false"} if source == "kafka-remote" else {}
        arguments = {"options": options | more, "checkpoint": str(tmp_path / source)}
        counts, rows, sources = spark_beside("tests.support.spark_frames:windows", source=source, **arguments)
        assert (counts, rows, sources) == ([[FIRST / 1000, 30]], 30, 1)


@scenario("KafkaMicroBatchSourceSuite", "ensure stream-stream self-join generates only one offset in log and correct metrics")
def test_a_stream_joined_with_itself(
    both: Collected, kafka_broker: KafkaBroker, spark_beside: SparkDriver, tmp_path: Path
) -> None:
    topic = "scenarios-joined"
    kafka_broker.create_topic(topic, partitions=2)
    send(kafka_broker, topic, 0, [1, 2])
    send(kafka_broker, topic, 1, [6, 3])
    options = {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers, "startingOffsets": "earliest", "subscribe": topic}
    wanted = [[1, 1, 1], [1, 1, 6], [1, 6, 1], [1, 6, 6], [2, 2, 2], [3, 3, 3]]
    found = {}
    for source in SOURCES:
        more = {"fetch.remote.enabled": "false"} if source == "kafka-remote" else {}
        arguments = {"options": options | more, "checkpoint": str(tmp_path / source)}
        rows, *found[source] = spark_beside("tests.support.spark_frames:joined", source=source, **arguments)
        assert rows == wanted
    assert found["kafka-remote"] == found["kafka"]
