"""examples/spark_backfill.py: killed in the middle, it resumes, and each record is copied once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_remote_client.shim.server import Shim
from tests.support.kafka_broker import KafkaBroker
from tests.support.spark import SparkDriver
from tests.support.spark_examples import printed_by
from tests.support.spark_topics import append, directly, through_the_broker, write_codec_topic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

JOBS = "tests.support.spark_backfill"
VICTIM = 20


def test_a_backfill_resumes_without_duplicates_after_spark_is_killed(
    spark_killed: SparkDriver, spark_beside: SparkDriver, kafka_broker: KafkaBroker, spark_shim: Shim, tmp_path: Path
) -> None:
    topic = write_codec_topic(kafka_broker, "spark-backfill")
    options = directly(spark_shim, subscribe=topic)
    target = (tmp_path / "copy").as_uri()
    with pytest.raises(RuntimeError, match="the driver ended"):
        spark_killed(f"{JOBS}:killed_in", options=options | {"minPartitions": "40"}, target=target, split=VICTIM)
    before = finished(tmp_path / "copy")
    assert 16 <= len(before) < 40  # the first sixteen were reported as finished, and some of the others
    assert len(list((tmp_path / "copy" / "data").glob("*.parquet"))) > len(before)  # the incomplete file of the crash

    said, splits = spark_beside(f"{JOBS}:copied", options=options | {"minPartitions": "40"}, target=target)
    assert said[0].startswith(f"{splits - len(before)} splits to copy")
    assert said[-1].startswith(f"{splits - len(before)} of {splits - len(before)} splits")
    expected = spark_beside("digest", source="kafka", options=through_the_broker(kafka_broker, subscribe=topic))
    assert spark_beside(f"{JOBS}:stored", target=target) == expected
    assert finished(tmp_path / "copy").items() >= before.items()  # no split was copied twice

    # Later, with new records and another plan.
    append(kafka_broker, topic, ["zstd"])
    arguments = ["--target", target, *(f"{name}={value}" for name, value in options.items())]
    assert "2 of 2 splits" in printed_by("examples/spark_backfill.py", *arguments)
    expected = spark_beside("digest", source="kafka", options=through_the_broker(kafka_broker, subscribe=topic))
    assert spark_beside(f"{JOBS}:stored", target=target) == expected


def finished(target: Path) -> dict[str, object]:
    """The manifest, by split."""
    lines = [json.loads(path.read_text()) for path in (target / "finished").iterdir()]
    return {line["split"]: line for line in lines}
