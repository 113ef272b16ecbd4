"""Pushed filters and a limit in bytes per batch, on the newest PySpark."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from kafka_remote_client.shim.server import Shim
from kafka_remote_client.spark.reading.task_counters import load_counters
from tests.support.kafka_broker import KafkaBroker
from tests.support.spark import SparkDriver, SparkJobError
from tests.support.spark_topics import append, directly

# The first test waits for the session and for a topic to be tiered.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

JOBS = "tests.support.spark_filters"


@pytest.fixture(scope="module")
def topic(running_broker: KafkaBroker) -> str:
    """A topic of two partitions with about six segments each."""
    name = "spark-limits"
    running_broker.create_topic(name, partitions=2, segment_bytes=12_000)
    append(running_broker, name, ["none"] * 5)
    running_broker.wait_until_tiered(name, 0, 1)
    return name


# What is filtered by, and the columns that Spark has to look at itself when the filters were pushed.
WHERE = {
    "partition = 1 AND offset >= 300 AND offset < 340": set(),
    "timestamp > timestamp_millis(1700000000700) AND partition IN (0, 7)": {"timestamp"},
    "offset IN (20, 600) AND value IS NOT NULL": {"offset", "value"},
}


def evaluated_columns(plan: str) -> set[str]:
    filters = [line for line in plan.splitlines() if "Filter (" in line]
    return set(re.findall(r"(\w+)#\d+", " ".join(filters)))


def gets(counters: Path) -> int:
    found = load_counters(str(counters)).counters["remote-fetch-request-total"]
    assert isinstance(found, int)
    return found


def test_pushed_filters_leave_the_same_rows_and_fewer_gets(
    spark_newest: SparkDriver, spark_shim: Shim, topic: str, tmp_path: Path
) -> None:
    more = {"subscribe": topic, "remote.splitBytes": "1", "includeHeaders": "false"}
    options = directly(spark_shim, **more, **{"remote.countersDirectory": str(tmp_path / "all")})
    whole, *alone = spark_newest(f"{JOBS}:filtered_by_spark", options=options, wheres=["true", *WHERE])
    assert sum(rows for _, _, rows, *_ in whole) == 1250
    for number, (where, evaluated) in enumerate(WHERE.items()):
        counters = tmp_path / str(number)
        options = directly(spark_shim, **more, **{"remote.countersDirectory": str(counters), "remote.pushFilters": "true"})
        found, plan = spark_newest(f"{JOBS}:pushed", options=options, where=where)
        assert found == alone[number]
        assert 0 < sum(rows for _, _, rows, *_ in found) < 400
        assert 0 < gets(counters) <= gets(tmp_path / "all") // 2
        assert evaluated_columns(plan) == evaluated


def test_filters_without_a_match_read_nothing(spark_newest: SparkDriver, spark_shim: Shim, topic: str) -> None:
    options = directly(spark_shim, **{"subscribe": topic, "remote.pushFilters": "true"})
    digest, _ = spark_newest(f"{JOBS}:pushed", options=options, where="partition > 7")
    assert digest == []
    assert spark_shim.metrics().get("ranges_granted", 0) == 0


def test_spark_keeps_the_filters_of_a_reused_frame(spark_newest: SparkDriver, spark_shim: Shim, topic: str) -> None:
    # Spark's defect: the source is not asked again. docs/spark.md warns of it; when this fails, change that page.
    options = directly(spark_shim, **{"subscribe": topic, "remote.pushFilters": "true"})
    assert spark_newest(f"{JOBS}:reused", options=options, where="offset < 10") == [20, 20, 1250]


def test_spark_plans_a_frame_once(spark_newest: SparkDriver, spark_shim: Shim, running_broker: KafkaBroker) -> None:
    # As docs/spark.md says. Spark 4.0 plans each query.
    running_broker.create_topic("spark-planned-once")
    options = directly(spark_shim, subscribe="spark-planned-once")
    assert spark_newest(f"{JOBS}:counted_before_and_after", options=options) == [0, 0, 1]


def test_a_missing_spark_setting_is_named(spark_newest: SparkDriver, spark_shim: Shim, topic: str) -> None:
    options = directly(spark_shim, **{"subscribe": topic, "remote.pushFilters": "true"})
    with pytest.raises(SparkJobError, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        spark_newest(f"{JOBS}:pushed", options=options, where="partition > 0", setting=False)


def test_progress_equals_that_of_the_tasks(spark_newest: SparkDriver, spark_shim: Shim, topic: str) -> None:
    options = directly(spark_shim, subscribe=topic, minPartitions="7")
    count, shown, told = spark_newest(f"{JOBS}:watched", options=options)
    assert count == 1250
    assert told[0] == told[1] >= 7
    assert shown[0] <= shown[1] <= told[1]


def test_a_limit_in_bytes_makes_batches_and_reaches_the_end(
    spark_newest: SparkDriver, spark_shim: Shim, topic: str, tmp_path: Path
) -> None:
    more = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "false", "maxBytesPerTrigger": "40000"}
    places = {"directory": str(tmp_path / "rows"), "checkpoint": str(tmp_path / "checkpoint")}
    batches = spark_newest("stream", source="kafka-remote", options=directly(spark_shim, **more), **places)
    rows = [count for count, _ in batches if count]
    assert len(rows) >= 3
    assert sum(rows) == 1250
    assert spark_newest("stored", directory=places["directory"]) == [[topic, *place] for place in product((0, 1), range(625))]
