"""Exports from a bucket of a real S3 server to another, with pyarrow's own file system."""

from __future__ import annotations

import attrs
import pyarrow.dataset as ds
import pytest
from pyarrow.fs import FileSelector, S3FileSystem

from kafka_remote_client.errors import ConfigurationError, ExportError
from kafka_remote_client.fallback import TierUnavailableError
from kafka_remote_client.scanning.export.target import target_of
from kafka_remote_client.scanning.open_scan import OpenScan
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.spark.reading.task_counters import load_counters, write_counters
from tests.support.golden import golden_local
from tests.support.s3_server import S3_VARIABLES, S3Server
from tests.support.scanned import expected_rows, rows_of

pytestmark = pytest.mark.stores


def objects(topic: str) -> list[tuple[str, bytes]]:
    root = golden_local() / "remote"
    found = sorted(path for path in root.rglob("*") if path.is_file() and f"/{topic}-" in path.as_posix())
    return [(f"tier/{path.relative_to(root).as_posix()}", path.read_bytes()) for path in found]


def test_a_bucket_is_exported_to_another_one(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    tier, lake = s3_server.new_bucket(objects("txn")), s3_server.new_bucket([])
    for name, value in S3_VARIABLES.items():
        monkeypatch.setenv(name, value)
    files = S3FileSystem(endpoint_override=s3_server.authority, scheme="http", region=s3_server.region)
    url = f"s3://{lake}/table?endpoint_override={s3_server.authority}&scheme=http&region={s3_server.region}"
    table = scan(f"s3://{tier}/tier", "txn", store_options=s3_server.options, threads=2)
    table = attrs.evolve(table, scan=attrs.evolve(table.scan, split_bytes=50_000))
    real, read = OpenScan.record_batches, []

    def record_batches(self: OpenScan, split: object) -> object:
        read.append(split)
        if len(read) == 4:
            raise TierUnavailableError("the store is gone")
        return real(self, split)

    monkeypatch.setattr(OpenScan, "record_batches", record_batches)
    with pytest.raises(TierUnavailableError, match="the store is gone"):
        table.to_parquet(url, row_group_bytes=20_000)
    before = len(read)
    result = table.to_parquet(url, row_group_bytes=20_000)
    assert result.resumed > 0
    assert len(read) - before == result.splits - result.resumed
    (end,) = result.ends.values()
    expected = [row for row in expected_rows("txn", 0, "read_committed") if row["offset"] < end]
    assert rows_of(ds.dataset(f"{lake}/table", filesystem=files, format="parquet").to_table()) == expected
    paths = {
        found.path.removeprefix(f"{lake}/table/")
        for found in files.get_file_info(FileSelector(f"{lake}/table", recursive=True))
    }
    assert {path for path in paths if path.endswith(".parquet")} == {file.path for file in result.files}
    assert not [path for path in paths if path.startswith("_staging/export")]
    assert not target_of(url).renames


def test_a_store_failure_raises_export_error(s3_server: S3Server) -> None:
    files = S3FileSystem(
        access_key=s3_server.access_key, secret_key="wrong", endpoint_override=s3_server.authority, scheme="http"
    )
    table = scan((golden_local() / "remote").as_uri(), "txn")
    with pytest.raises(ExportError, match=r"cannot read _exports/export/job\.json in nowhere/table") as raised:
        table.to_parquet("nowhere/table", filesystem=files)
    assert "wrong" not in str(raised.value)


def test_counters_of_tasks_go_to_a_bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = s3_server.new_bucket([])
    for name, value in S3_VARIABLES.items():
        monkeypatch.setenv(name, value)
    url = f"s3://{bucket}/counters?endpoint_override={s3_server.authority}&scheme=http&region={s3_server.region}"
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_counters(url)
    for start in (0, 5):
        write_counters(url, f"t-0-{start}-{start + 5}", 0, {"remote-fetch-request-total": 2})
    found = load_counters(url)
    assert (found.counters, found.splits) == ({"remote-fetch-request-total": 4}, 2)
