"""Parquet folders: readers see only complete files under final names, and other engines read them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from kafka_remote_client.errors import ExportError
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.table_scan import TableScan
from tests.support.counted_files import counted_files
from tests.support.golden import golden_aiven
from tests.support.scanned import Row, expected_rows


def test_another_engine_reads_folders_as_columns(orders: TableScan, committed: list[Row], tmp_path: Path) -> None:
    orders.to_parquet(tmp_path, partition_by=("topic", "day"))
    counted = duckdb.sql(
        'select topic, "partition", count(*), max("offset")'
        f" from read_parquet('{tmp_path}/**/*.parquet', hive_partitioning=true)"
        " where day >= '2000-01-01' group by all order by all"
    ).fetchall()
    places = sorted({(row["topic"], row["partition"]) for row in committed})
    mine = {place: [row for row in committed if (row["topic"], row["partition"]) == place] for place in places}
    assert counted == [(*place, len(rows), rows[-1]["offset"]) for place, rows in mine.items()]


@pytest.mark.parametrize("kind", ["local", "objects"])
def test_a_failed_publish_ends_the_export_and_is_retried_by_a_rerun(
    orders: TableScan, committed: list[Row], tmp_path: Path, kind: str
) -> None:
    def refuse(operation: str, path: str) -> None:
        if operation in {"move", "copy_file"} and "/txn-" in path and path.endswith(".parquet"):
            raise OSError(13, "Permission denied")

    with pytest.raises(ExportError, match=r"cannot publish txn-0-.*Permission denied"):
        orders.to_parquet(tmp_path, filesystem=counted_files(refuse, kind))
    assert orders.to_parquet(tmp_path).rows == len(committed)


def test_an_encrypted_bucket_is_exported_without_a_broker(tmp_path: Path, visible: object) -> None:
    root = golden_aiven("aiven-zstd-aes")
    keys = {"key1": str(root / "keys" / "key1.private.der")}
    where = (root / "remote").as_uri()
    table = scan(where, "txn", layout="aiven", key_prefix="some-prefix/", encryption_keys=keys)
    result = table.to_parquet(tmp_path)
    (end,) = result.ends.values()
    rows = [row for row in expected_rows("txn", 0, "read_committed", "aiven-zstd-aes") if row["offset"] < end]
    assert visible(tmp_path) == rows
    assert 0 < len(rows) < end
