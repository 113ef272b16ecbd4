"""``read_segments`` and exports on the oldest PySpark, without Python data sources. The oracle is a plain consumer."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from kafka_remote_client.shim.server import Shim
from tests.support.golden import golden_local
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import plain
from tests.support.scanned import expected_rows, rows_of, tiered_rows
from tests.support.scenario import TransactionalTopic
from tests.support.spark import SparkDriver, SparkJobError
from tests.support.spark_topics import directly

# The first test waits for the session, for a topic to be tiered, and for the broker to restart.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

SEGMENTS, EXPORTS = "tests.support.spark_segments", "tests.support.spark_exports"
TIER, BROKER = "remote-fetch-records-total", "broker-fetch-records-total"


def test_segments_equal_a_plain_consumers_records(
    transactional_topic: TransactionalTopic,
    spark_oldest: SparkDriver,
    kafka_broker: KafkaBroker,
    spark_shim: Shim,
    tmp_path: Path,
) -> None:
    topic = transactional_topic.topic
    expected = plain(kafka_broker, topic, "read_committed")
    more = {"subscribe": topic, "kafka.isolation.level": "read_committed", "minPartitions": "4"}
    options = directly(spark_shim, **more)
    done = spark_oldest(
        f"{SEGMENTS}:handled", options=options, directory=str(tmp_path), finished=[], trouble={"1": "raise", "2": "kill"}
    )
    rows = [row for file in tmp_path.iterdir() for row in json.loads(file.read_text())]
    read = sorted((row[4], row[0], row[1]) for row in rows)
    assert read == [
        (offset, None if key is None else key.hex(), None if value is None else value.hex())
        for offset, _, _, key, value, *_ in expected
    ]
    assert len(done["ids"]) >= 4
    # Each split was read twice, as messages and as Arrow; failed attempts are not counted.
    assert done["counters"][TIER] + done["counters"][BROKER] == 2 * len(expected)
    assert done["counters"][TIER] > 0
    assert sum(count for _, count in spark_oldest(f"{SEGMENTS}:sizes", options=options)) == len(expected)
    frame = spark_oldest(f"{SEGMENTS}:frame", options=options, finished=[])
    assert sum(count for _, _, count, *_ in frame["digest"]) == len(expected)


def test_executors_export_each_record_once(spark_oldest: SparkDriver, tmp_path: Path) -> None:
    wanted = {
        "store": (golden_local() / "remote").as_uri(),
        "topics": ["epochs"],
        "split_bytes": 50_000,
        "target": str(tmp_path),
    }
    trouble = {"0": "raise", "1": "kill"}
    done = spark_oldest(f"{EXPORTS}:troubled", **wanted, trouble=trouble)
    rows = rows_of(ds.dataset(tmp_path, format="parquet").to_table())
    ends = {(row["topic"], row["partition"]): row["offset"] for row in rows}
    assert set(ends) == {("epochs", 0), ("epochs", 1)}
    assert rows == [
        row for place in sorted(ends) for row in expected_rows(*place, "read_committed") if row["offset"] <= ends[place]
    ]
    assert done["rows"] == len(rows)


def test_executors_export_to_iceberg_and_delta(spark_oldest: SparkDriver, tmp_path: Path) -> None:
    store = (golden_local() / "remote").as_uri()
    done = spark_oldest(f"{EXPORTS}:to_tables", store=store, topics=["txn"], split_bytes=50_000, target=str(tmp_path))
    expected = list(tiered_rows("txn", 0, "read_committed"))
    with closing(SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())) as catalog:
        assert rows_of(catalog.load_table("kafka.orders").scan().to_arrow()) == expected
    assert rows_of(pa.table(DeltaTable(tmp_path / "delta").to_pyarrow_table())) == expected
    assert done["rows"] == [len(expected)] * 2
    assert min(done["splits"]) > 1


def test_an_unsupported_spark_version_is_named(spark_oldest: SparkDriver) -> None:
    with pytest.raises(SparkJobError, match=r"has no Python data sources; 4\.0 is the oldest version with them"):
        spark_oldest("registered", source="kafka-remote", options={})
