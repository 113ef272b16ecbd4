from __future__ import annotations

import json
import threading
from itertools import islice
from pathlib import Path

import pytest

from kafka_remote_client.cli.bench import (
    COLUMNS,
    BenchLine,
    LogObject,
    Sample,
    bench_broker,
    bench_line,
    bench_store,
    ranges_of,
)
from kafka_remote_client.cli.output import OutputFormat, show_lines
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import ConfigurationError, LocationError, ObjectNotFoundError
from tests.support.cli_run import failed, printed
from tests.support.embedded_topics import filled_cluster
from tests.support.golden import golden_aiven, golden_local
from tests.support.ports import HOST, free_ports
from tests.support.silent_peer import SilentPeer
from tests.support.tier import MemoryStore

cluster = filled_cluster("orders", 300, (0, 1))


def test_ranges_tile_each_object_and_begin_again() -> None:
    objects = [LogObject("a", 250), LogObject("b", 100)]
    assert list(islice(ranges_of(objects, 100), 5)) == [
        ("a", 0, 100),
        ("a", 100, 200),
        ("a", 200, 250),
        ("b", 0, 100),
        ("a", 0, 100),
    ]


def test_line_has_throughput_and_percentiles() -> None:
    samples = [Sample(10.0 + n, 0.001 * (n + 1), 500_000) for n in range(100)]
    line = bench_line("orders", 500_000, 1, samples)
    assert (line.gets, line.bytes, line.seconds) == (100, 50_000_000, 99.1)
    assert (line.megabytes_per_second, line.first_ms, line.p50_ms, line.p99_ms) == (0.5, 1.0, 50.0, 99.0)


def test_first_request_is_the_one_that_began_first() -> None:
    line = bench_line("orders", 1, 2, [Sample(2.0, 0.1, 1), Sample(1.0, 0.4, 1)])
    assert (line.first_ms, line.p50_ms, line.p99_ms, line.seconds) == (400.0, 100.0, 400.0, 1.1)


def test_one_sample_without_duration_has_no_rate() -> None:
    assert bench_line("orders", 1, 1, [Sample(1.0, 0.0, 5)]).megabytes_per_second == 0.0


TABLE = """\
topic   path      range  at once  GETs   MB/s  first ms  p50 ms  p99 ms
orders  store    262144        1   100    0.3       1.0    50.0    99.0
orders  store   8388608       16     3  294.3      78.0    80.0    81.0
orders  broker        -        1     -   12.5     100.0       -       -
"""


def test_the_table_has_a_row_for_each_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    store = [
        bench_line("orders", 262_144, 1, [Sample(10.0 + n, 0.001 * (n + 1), 262_144) for n in range(100)]),
        bench_line("orders", 8 << 20, 16, [Sample(0.001 * n, 0.078 + 0.0005 * n, 8_533_334) for n in (0, 4, 6)]),
    ]
    broker = BenchLine("orders", "broker", None, 1, None, 25_000_000, 2.0, 12.5, 100.0, None, None)
    show_lines([*store, broker], COLUMNS, OutputFormat.TEXT)
    assert capsys.readouterr().out == TABLE


class CountingStore(MemoryStore):
    """Counts the reads that are under way at once."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once = self.most = 0
        self.lock = threading.Lock()
        self.both = threading.Barrier(3)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        with self.lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        self.both.wait(30)
        with self.lock:
            self.at_once -= 1
        return super().get_range(key, start, end)


def test_requests_run_side_by_side() -> None:
    store = CountingStore()
    store.objects["a"] = bytes(1_000)
    line = bench_store(store, "orders", [LogObject("a", 1_000)], 300, 3, 0.0, SystemClock())
    assert (line.gets, store.most, line.bytes) == (3, 3, 900)


def test_error_of_the_store_ends_the_measurement() -> None:
    with pytest.raises(ObjectNotFoundError):
        bench_store(MemoryStore(), "orders", [LogObject("a", 1_000)], 300, 2, 60.0, SystemClock())


@pytest.mark.embedded
def test_broker_is_read_up_to_the_given_end(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    settings = {"bootstrap.servers": cluster.broker_bootstrap_servers}
    some = bench_broker(settings, "orders", [(0, 0, 60), (1, 0, 60)], 30.0, SystemClock(), 30.0)
    more = bench_broker(settings, "orders", [(0, 0, 120), (1, 0, 120)], 30.0, SystemClock(), 30.0)
    assert (some.path, some.gets, some.range_bytes, some.p50_ms) == ("broker", None, None, None)
    assert 0 < some.bytes < more.bytes
    assert some.seconds < 30.0


def test_silent_brokers_end_at_the_deadline() -> None:
    with (
        SilentPeer() as peer,
        pytest.raises(LocationError, match=r"timed out after 0\.5 s without a record from the brokers; raise --timeout"),
    ):
        bench_broker({"bootstrap.servers": peer.address}, "orders", [(0, 0, 9)], 5.0, SystemClock(), 0.5)


def test_brokers_that_refuse_connections_are_named_before_the_deadline() -> None:
    (port,) = free_ports(1)
    servers, clock = f"{HOST}:{port}", SystemClock()
    with pytest.raises(LocationError, match=rf"cannot read from the brokers: no connection to {servers}: .*refused"):
        bench_broker({"bootstrap.servers": servers}, "orders", [(0, 0, 9)], 5.0, clock, 600.0)


@pytest.mark.embedded
def test_topic_that_brokers_do_not_have_is_named_before_the_deadline(cluster: EmbeddedCluster) -> None:
    settings = {"bootstrap.servers": cluster.broker_bootstrap_servers}
    with pytest.raises(LocationError, match=r"cannot read gone from the brokers: .*Unknown topic or partition"):
        bench_broker(settings, "gone", [(0, 0, 9)], 5.0, SystemClock(), 600.0)


def test_setting_that_librdkafka_refuses_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"invalid broker settings: .*no\.such"):
        bench_broker({"no.such": "1"}, "orders", [(0, 0, 9)], 1.0, SystemClock(), 1.0)


@pytest.mark.embedded
def test_bench_has_a_line_for_each_combination(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["bench", "orders", "--store", cluster.directory.as_uri(), "--seconds", "0.5"]
    asked += ["--range-bytes", "1000", "--range-bytes", "9000", "--concurrency", "1", "--concurrency", "3"]
    asked += ["--bootstrap-servers", cluster.broker_bootstrap_servers]
    lines = [json.loads(line) for line in printed(capsys, *asked, "--output", "json").splitlines()]
    combinations = [("store", 1000, 1), ("store", 1000, 3), ("store", 9000, 1), ("store", 9000, 3), ("broker", None, 1)]
    assert [(line["path"], line["range_bytes"], line["concurrency"]) for line in lines] == combinations
    for line in lines:
        assert line["bytes"] > 0
        assert line["seconds"] < 10
    for line in lines[:-1]:
        assert 0 < line["bytes"] <= line["gets"] * line["range_bytes"]
        assert line["p50_ms"] <= line["p99_ms"]
    rows = printed(capsys, *asked).splitlines()
    assert rows[0].split() == ["topic", "path", "range", "at", "once", "GETs", "MB/s", "first", "ms", "p50", "ms", "p99", "ms"]
    assert len(rows) == 1 + len(combinations)


@pytest.mark.embedded
def test_bench_reads_encrypted_segments_without_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    store = (golden_aiven("aiven-zstd-aes") / "remote").as_uri()
    asked = ["bench", "txn", "--store", store, "--layout", "aiven", "--key-prefix", "some-prefix/", "--seconds", "0.1"]
    (line,) = printed(capsys, *asked, "--range-bytes", "5000", "--concurrency", "1", "--output", "json").splitlines()
    assert json.loads(line)["bytes"] > 0


@pytest.mark.embedded
def test_bench_of_an_unknown_topic_has_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    text, status = failed(capsys, "bench", "delrce", "--store", (golden_local() / "remote").as_uri())
    assert "found no segments of delrce; the store has LocalTieredStorage segments" in text
    assert status == 2


@pytest.mark.embedded
def test_bench_of_silent_brokers_ends_at_its_deadline(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["bench", "orders", "--store", cluster.directory.as_uri(), "--seconds", "0.1", "--timeout", "0.5"]
    with SilentPeer() as peer:
        text, status = failed(capsys, *asked, "--bootstrap-servers", peer.address)
    assert "timed out after 0.5 s without a record from the brokers; raise --timeout" in text
    assert status == 1
