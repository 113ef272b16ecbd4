"""A tier as a table: Arrow, pandas, DuckDB and Polars read the same ``TableScan``."""

from __future__ import annotations

import pickle
import threading

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import kafka_remote_client
from kafka_remote_client.errors import ConfigurationError, NoSegmentsError
from kafka_remote_client.scanning.predicate import And, column
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.table_scan import TableScan
from tests.support.golden import golden_aiven
from tests.support.scanned import Row, expected_rows, rows_of


@pytest.fixture(scope="module")
def expected() -> list[Row]:
    return [row for partition in (0, 1) for row in expected_rows("epochs", partition, "read_committed")]


@pytest.fixture
def epochs(golden_url: str) -> TableScan:
    """The scan of topic ``epochs``, which ends at the tier's end."""
    return scan(golden_url, "epochs", threads=2)


def tiered(table: TableScan, expected: list[Row]) -> list[Row]:
    ends = table.plan().ends
    return [row for row in expected if row["offset"] < ends[row["topic"], row["partition"]]]


def test_the_package_exports_the_scan_api() -> None:
    assert kafka_remote_client.scan is scan
    assert kafka_remote_client.TableScan is TableScan
    assert kafka_remote_client.column is column


def test_arrow_takes_it_whole_and_as_a_stream(epochs: TableScan, expected: list[Row]) -> None:
    wanted = tiered(epochs, expected)
    assert rows_of(epochs.to_arrow()) == wanted
    assert epochs.count() == len(wanted)
    assert rows_of(pa.table(epochs)) == wanted
    assert rows_of(pa.RecordBatchReader.from_stream(epochs).read_all()) == wanted


def test_other_engines_take_it_by_the_stream_interface(epochs: TableScan, expected: list[Row]) -> None:
    wanted = tiered(epochs, expected)
    frame = epochs.select("partition", "offset").to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert sorted(map(tuple, frame.to_numpy().tolist())) == [(row["partition"], row["offset"]) for row in wanted]
    found = duckdb.sql('select count(*), max("offset"), count(key) from epochs where "partition" = 1').fetchall()
    ours = [row for row in wanted if row["partition"] == 1]
    assert found == [(len(ours), ours[-1]["offset"], sum(row["key"] is not None for row in ours))]
    assert pl.DataFrame(epochs).height == len(wanted)


def test_refining_a_table_reads_nothing(epochs: TableScan) -> None:
    refined = epochs.select("key").where(column("offset") > 5).where(column("offset") < 9).head(7).head(2).head(5)
    assert refined.scan.columns == ("key",)
    assert refined.scan.predicate == And(((column("offset") > 5), (column("offset") < 9)))
    assert refined.scan.limit == 2
    assert epochs.scan.limit is None
    assert refined.schema.names == ["key"]
    assert pickle.loads(pickle.dumps(refined)) == refined


def test_closing_a_stream_early_ends_its_threads(epochs: TableScan) -> None:
    batches = epochs.batches()
    assert next(batches).num_rows
    batches.close()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("kafka-remote-scan")] == []


def test_missing_topics_are_reported_at_the_first_read(golden_url: str) -> None:
    table = scan(golden_url, "orders")
    with pytest.raises(NoSegmentsError, match="orders"):
        table.to_arrow()
    with pytest.raises(ConfigurationError, match="threads must be a whole number"):
        scan(golden_url, "orders", threads=0)
    with pytest.raises(ConfigurationError, match="limit must be a whole number"):
        table.head(-1)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_chunked_encrypted_bucket_is_a_table(isolation: str) -> None:
    root = golden_aiven("aiven-zstd-aes")
    table = scan(
        (root / "remote").as_uri(),
        "txn",
        layout="aiven",
        key_prefix="some-prefix/",
        encryption_keys={"key1": str(root / "keys" / "key1.private.der")},
        isolation_level=isolation,
    )
    (end,) = table.plan().ends.values()
    rows = [row for row in expected_rows("txn", 0, isolation, "aiven-zstd-aes") if row["offset"] < end]
    assert rows_of(table.to_arrow()) == rows
    assert table.count() == len(rows) > 1000


def test_several_topics_are_one_table(golden_url: str) -> None:
    table = scan(golden_url, topic_pattern="epochs|logappend", columns=["topic"], where=column("offset") < 10)
    counted = table.to_arrow().column("topic").value_counts().to_pylist()
    assert {one["values"]: one["counts"] for one in counted} == {"epochs": 20, "logappend": 10}
