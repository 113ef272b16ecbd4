"""The demo's scenario on little data: it works, and it reports when it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from kafka_remote_client.cli.demo_output import DemoProgress, show_demo
from kafka_remote_client.cli.demo_run import DemoFault, DemoResult, TierTotals, run_demo
from kafka_remote_client.cli.main import run
from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.embedded.demo_data import PartitionDigest

pytestmark = pytest.mark.embedded

RECORDS = 12_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(
        tmp_path, segment_bytes=64 << 10, range_bytes=64 << 10, max_grant_bytes=256 << 10, expire_local=True
    ) as it:
        yield it


def demo(cluster: EmbeddedCluster, fault: DemoFault | None, progress: DemoProgress) -> DemoResult:
    with progress:
        return run_demo(cluster, records=RECORDS, fault=fault, clock=SystemClock(), wrote=progress.wrote, read=progress.read)


def test_few_records_are_read_from_the_store_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(["demo", "--records", "20000", "--output", "json"])
    out, err = capsys.readouterr()
    assert stopped.value.code == 0, err
    shown = json.loads(out)
    assert (shown["failures"], shown["fallbacks"]) == ([], {})
    assert sum(tier["records"] for tier in shown["tiers"].values()) == 20_000
    assert sum(partition["records"] for partition in shown["partitions"]) == 20_000
    assert all(partition["read_equals_written"] for partition in shown["partitions"])
    assert shown["tiers"]["remote"]["records"] > 0
    assert shown["fetch_requests"] > 0
    assert shown["location_requests"] > 0


def test_a_demo_that_fails_reports_the_reason(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def idle(*_: object, **options: Any) -> DemoResult:
        result = demo(cluster, None, DemoProgress(RECORDS))
        return attrs.evolve(result, tiers={**result.tiers, "remote": TierTotals()})

    monkeypatch.setattr("kafka_remote_client.cli.demo.run_demo", idle)
    with pytest.raises(SystemExit) as stopped:
        run(["demo", "--records", "100"])
    assert stopped.value.code == 1
    assert "the demo failed: no record was read from the store" in capsys.readouterr().err


def test_the_demo_reads_all_records_and_most_from_the_store(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    result = demo(cluster, None, DemoProgress(RECORDS))
    assert result.worked
    assert result.fallbacks == {}
    assert result.tiers["remote"].records > RECORDS // 2
    assert result.tiers["remote"].records + result.tiers["broker"].records == RECORDS
    show_demo(result, OutputFormat.TEXT)
    told = capsys.readouterr()
    assert "fallbacks" in told.out
    assert all(digest.digest in told.out for digest in result.data.partitions.values())
    assert "another one" not in told.out
    assert max(map(len, told.out.splitlines())) <= 80
    assert f"read {RECORDS} of {RECORDS}" in told.err


@pytest.mark.parametrize(
    ("fault", "causes"),
    [
        (DemoFault.STORE_DOWN, {"unavailable", "breaker-open"}),
        (DemoFault.SLOW_STORE, {"timeout", "breaker-open"}),
        (DemoFault.EXPIRED_URLS, {"expired", "breaker-open"}),
    ],
)
def test_a_fault_changes_the_source_of_records_and_nothing_else(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], fault: DemoFault, causes: set[str]
) -> None:
    result = demo(cluster, fault, DemoProgress(RECORDS))
    assert result.worked
    assert set(result.fallbacks) <= causes
    show_demo(result, OutputFormat.TEXT)
    assert "fallbacks: " in capsys.readouterr().out


@pytest.fixture
def good(cluster: EmbeddedCluster) -> DemoResult:
    return demo(cluster, None, DemoProgress(RECORDS))


def test_a_difference_an_unfired_fault_or_an_idle_store_fails_the_demo(
    good: DemoResult, capsys: pytest.CaptureFixture[str]
) -> None:
    assert good.worked
    other = {**good.read, 0: PartitionDigest(1, 1, "00")}
    assert not attrs.evolve(good, read=other).worked
    show_demo(attrs.evolve(good, read=other), OutputFormat.TEXT)
    assert capsys.readouterr().out.count("another one:") == 1
    assert not attrs.evolve(good, read={partition: one for partition, one in good.read.items() if partition}).worked
    assert not attrs.evolve(good, fault=DemoFault.STORE_DOWN).worked
    assert not attrs.evolve(good, tiers={**good.tiers, "remote": TierTotals()}).worked
    failed = attrs.evolve(good, read=other, fault=DemoFault.STORE_DOWN, tiers={**good.tiers, "remote": TierTotals()})
    assert failed.failures == (
        "the records read differ from the records written in partitions 0",
        "no record was read from the store",
        "the fault store-down caused no fallback: all data was fetched before the fault; increase --records",
    )
    assert TierTotals().megabytes_per_second == 0.0
