"""examples/spark_iceberg_backfill.py: the table and the stream after it have each record of the log once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from confluent_kafka import Producer
from pyiceberg.catalog import load_catalog

from kafka_remote_client.shim.server import Shim
from tests.integration.test_spark_live_stream import wait_until_read
from tests.support.artifacts import ROOT
from tests.support.golden import golden_local
from tests.support.kafka_broker import KafkaBroker
from tests.support.scanned import rows_of, tiered_rows
from tests.support.spark_examples import printed_by, running_example
from tests.support.spark_topics import append, directly, write_codec_topic
from tests.support.waiting import wait_until

PROGRAM = "examples/spark_iceberg_backfill.py"
TABLE = "kafka.orders"


@pytest.fixture(autouse=True)
def catalog_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", (tmp_path / "lake").as_uri())


def table_of(tmp_path: Path) -> list[dict[str, object]]:
    settings = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": (tmp_path / "lake").as_uri()}
    catalog = load_catalog("lake", type="sql", **settings)
    try:
        return rows_of(catalog.load_table(TABLE).scan().to_arrow())
    finally:
        catalog.close()


def abort(broker: KafkaBroker, topic: str) -> None:
    """Produces a record in a transaction that is aborted."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=0)
    assert producer.flush(60) == 0
    end = broker.offsets(topic).high_watermark
    producer.abort_transaction(60)  # it returns before the marker is there
    wait_until(lambda: broker.offsets(topic).last_stable > end, "the marker of the transaction")


def test_a_local_backfill_prints_the_offsets_for_a_stream(tmp_path: Path) -> None:
    store = (golden_local() / "remote").as_uri()
    command = [sys.executable, PROGRAM, "--store", store, "--topic", "epochs", "--catalog", "lake", "--table", TABLE]
    for _ in range(2):  # a second start has nothing to do
        done = subprocess.run(
            [*command, "--partitions", "3"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        rows = [tiered_rows("epochs", partition, "read_committed") for partition in (0, 1)]
        assert table_of(tmp_path) == [*rows[0], *rows[1]]
        ends = {str(partition): part[-1]["offset"] + 1 for partition, part in enumerate(rows)}
        assert json.loads(done.stdout) == {"epochs": {**ends, "2": -2}}


@pytest.mark.spark
@pytest.mark.timeout(580)
def test_a_stream_continues_after_the_executors_table(kafka_broker: KafkaBroker, spark_shim: Shim, tmp_path: Path) -> None:
    topic = write_codec_topic(kafka_broker, "spark-iceberg-backfill")
    place = ["--store", kafka_broker.store_url, "--topic", topic, "--catalog", "lake", "--table", TABLE]
    offsets = printed_by(PROGRAM, "--spark", *place).splitlines()[-1]
    append(kafka_broker, topic, ["zstd"])
    ends = [kafka_broker.offsets(topic, partition).high_watermark for partition in (0, 1)]
    abort(kafka_broker, topic)  # the table has no records of aborted transactions, and neither may the stream have some
    target, checkpoint, log = tmp_path / "live", tmp_path / "checkpoint", tmp_path / "log"
    options = directly(spark_shim, subscribe=topic, startingOffsets=offsets)
    arguments = [*("--target", str(target), "--checkpoint", str(checkpoint)), *(f"{n}={v}" for n, v in options.items())]
    with running_example("examples/spark_live_stream.py", *arguments, log=log) as process:
        wait_until_read(process, kafka_broker, topic, checkpoint, log)
    table = [(row["partition"], row["offset"]) for row in table_of(tmp_path)]
    stream = ds.dataset(target, format="parquet").to_table(columns=["partition", "offset"]).to_pylist()
    streamed = sorted((row["partition"], row["offset"]) for row in stream)
    assert len(table) > 500
    assert len(streamed) >= 250
    assert sorted(table + streamed) == [(partition, offset) for partition, end in enumerate(ends) for offset in range(end)]
