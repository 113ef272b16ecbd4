"""``kafka-remote bench`` on a bucket of a real S3 server, each of whose requests is late."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from kafka_remote_client.cli import store_arguments
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.registry import load_store
from kafka_remote_client.testing import FixedLatency, StoreModel
from tests.support.cli_run import printed
from tests.support.golden import golden_local
from tests.support.live_store import LiveStoreModel, modelled
from tests.support.s3_server import S3Server

pytestmark = pytest.mark.stores

LATENCY_SECONDS = 0.03


def test_it_measures_the_latency_of_a_bucket_and_gains_by_requests_at_once(
    s3_environment: S3Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = golden_local() / "remote"
    files = [path for path in root.rglob("*") if path.is_file() and "txn-0-" in path.as_posix()]
    bucket = s3_environment.new_bucket((f"tier/{path.relative_to(root).as_posix()}", path.read_bytes()) for path in files)
    live = LiveStoreModel(StoreModel(FixedLatency(LATENCY_SECONDS)))

    def late(url: str, options: Mapping[str, object] | None = None) -> RemoteObjectStore:
        return modelled(load_store(url, options), live)

    monkeypatch.setattr(store_arguments, "load_store", late)
    asked = ["bench", "txn", "--store", f"s3://{bucket}/tier", "--seconds", "1", "--range-bytes", "5000", "--output", "json"]
    asked += [f"--store-option={name}={value}" for name, value in s3_environment.options.items()]
    asked += ["--concurrency", "1", "--concurrency", "8"]
    alone, at_once = map(json.loads, printed(capsys, *asked).splitlines())
    assert alone["p50_ms"] >= LATENCY_SECONDS * 1000
    assert at_once["p50_ms"] >= LATENCY_SECONDS * 1000
    assert at_once["gets"] > alone["gets"] > 0
    assert 0 < alone["bytes"] <= alone["gets"] * 5000
