from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kafka_remote_client.cli.main import run
from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.cli.plan import read_prices, show_plan
from kafka_remote_client.cli.prices import ReaderPlace, load_prices
from kafka_remote_client.clock import Clock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import MissingExtraError
from kafka_remote_client.spark.offsets.admin_cluster import AdminCluster
from kafka_remote_client.spark.options.source_options import SourceOptions, option_texts, parse_options
from kafka_remote_client.spark.planning import job_planner
from kafka_remote_client.spark.planning.batch_plan import learn_segments, plan_batch
from kafka_remote_client.spark.planning.job_figures import Prices
from kafka_remote_client.spark.planning.job_plan import JobPlan
from kafka_remote_client.spark.planning.job_planner import plan
from kafka_remote_client.spark.reading.split_reader import SplitReader
from kafka_remote_client.spark.reading.task_engine import TaskEngines
from tests.support.embedded_topics import direct_settings, filled_cluster, tiers
from tests.support.locations import ManualClock
from tests.support.spark_worker import close_task_state

pytestmark = pytest.mark.embedded

COUNT = 400


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    yield
    close_task_state()


cluster = filled_cluster("orders", COUNT, (0, 1))


def source_options(cluster: EmbeddedCluster, **more: str) -> dict[str, str]:
    settings = direct_settings(cluster, fetch_remote_hedge_max_percent=0)  # hedges would count as GETs
    remote = {name: value for name, value in settings.items() if "remote." in name}
    return option_texts({"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "orders", **remote, **more})


def planned(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    with pytest.raises(SystemExit) as stopped:
        run(["plan", *arguments])
    told = capsys.readouterr()
    assert stopped.value.code == status, told.err
    return told.out if status == 0 else told.err


def options_file(tmp_path: Path, options: dict[str, str]) -> str:
    file = tmp_path / "options.json"
    file.write_text(json.dumps(options))
    return str(file)


def read_all(options: SourceOptions) -> int:
    """Reads every split as tasks do. Returns the number of rows."""
    clock = ManualClock()
    asked = AdminCluster(options, clock)
    splits = plan_batch(options, asked, lambda ranges: learn_segments(options, ranges))
    asked.close()
    engines = TaskEngines()
    try:
        return sum(len(rows) for split in splits for rows in SplitReader(options, engines=engines).read(split))
    finally:
        engines.close()


@pytest.fixture
def compare(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Returns the comparison of a finished job with its plan, by settings; ``shown`` is the same as text."""

    def compared(**settings: str) -> dict[str, Any]:
        counters = str(tmp_path / "counters")
        options = source_options(cluster, **settings, **{"remote.countersDirectory": counters})
        assert read_all(parse_options(options)) == 2 * COUNT
        asked = ("--options-file", options_file(tmp_path, options), "--compare", counters)
        return {**json.loads(planned(capsys, *asked, "--output", "json")), "shown": planned(capsys, *asked)}

    return compared


def test_without_arrow_the_extra_of_counters_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kafka_remote_client.spark.reading.task_counters")
    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)
    with pytest.raises(MissingExtraError, match=r"^--compare needs pyarrow.fs: pip install 'kafka-remote-client\[arrow\]'$"):
        show_plan(cast("JobPlan", None), "counters", OutputFormat.TEXT)


def test_planned_figures_equal_the_counted_ones(cluster: EmbeddedCluster, compare: Callable[..., dict[str, Any]]) -> None:
    told = compare(**{"remote.splitBytes": "1"})
    before, after = told["figures"], told["counted"]
    assert told["segments_exact"]
    assert (before["splits"], before["records"]) == (after["splits"], after["records"])
    assert before["records"] == 2 * COUNT
    assert before["segments"] == after["segments"] > 10
    assert before["segment_bytes"] == after["segment_bytes"] == before["read_bytes"] == after["read_bytes"]
    assert before["gets"] == after["gets"] == before["segments"]
    assert before["dollars"] == after["dollars"] == pytest.approx(before["gets"] * 0.0004 / 1000)
    assert after["seconds"] >= 0
    assert [(part["partition"], part["tiered_end"]) for part in told["partitions"][:2]] == [
        (partition, tiers(cluster, "orders", partition).latest_tiered + 1) for partition in (0, 1)
    ]
    assert "come through the broker" in told["shown"]
    assert "counted" in told["shown"]


def test_splits_inside_segments_are_planned_as_counted(compare: Callable[..., dict[str, Any]]) -> None:
    told = compare(minPartitions="60")
    before, after = told["figures"], told["counted"]
    assert told["requests_exact"]
    assert (before["splits"], before["gets"], before["read_bytes"]) == (60, after["gets"], after["read_bytes"])
    assert before["gets"] > before["segments"]


def test_options_may_be_given_one_by_one(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [f"--option={name}={value}" for name, value in source_options(cluster).items() if "remote." in name]
    named = ["--bootstrap-servers", cluster.bootstrap_servers, "orders"]
    told = json.loads(
        planned(
            capsys,
            *named,
            *pairs,
            "--option=minPartitions=20",
            "--output=json",
            "--cores=3",
            "--reader=internet",
            "--storage-class=standard-ia",
            "--latency-ms=9",
        )
    )
    assert told["figures"]["splits"] == 20
    assert (told["assumptions"]["cores"], told["assumptions"]["latency_ms"], told["prices"]) == (
        3,
        9,
        {"per_1000_gets": 0.001, "per_gb": pytest.approx(0.01 + 0.09)},
    )
    assert "counted" not in told


def test_bad_input_is_reported_without_its_values(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "--option must have the form KEY=VALUE" in planned(capsys, "--option", "secret", status=2)
    assert "kafka.bootstrap.servers" in planned(capsys, "orders", status=2)
    assert "cannot be read" in planned(capsys, "--options-file", str(tmp_path / "none"), status=2)
    for text in ("{", "[]", '{"a": [1]}'):
        (tmp_path / "bad").write_text(text)
        assert "must hold a JSON object" in planned(capsys, "--options-file", str(tmp_path / "bad"), status=2)


def test_a_plan_without_a_broker_has_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        closed = bound.getsockname()[1]
        servers = f"127.0.0.1:{closed},no-such-host.invalid:9092"
        told = planned(capsys, "--bootstrap-servers", servers, "orders", status=2)
    assert "no server of kafka.bootstrap.servers is reachable" in told
    assert f"127.0.0.1:{closed}: Connection refused; no-such-host.invalid:9092: " in told


def test_a_plan_asks_the_cluster_once(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SourceOptions] = []

    def remember(options: SourceOptions, clock: Clock) -> AdminCluster:
        made.append(options)
        return AdminCluster(options, clock)

    monkeypatch.setattr(job_planner, "AdminCluster", remember)
    plan({**source_options(cluster), "kafka.bootstrap.servers": f"127.0.0.1:1,{cluster.bootstrap_servers}"})
    (options,) = made
    assert (options.offset_retries, options.client.api_timeout_ms) == (0, 30_000)


def test_default_prices_are_those_of_the_price_table() -> None:
    assert read_prices(load_prices(None), "standard", ReaderPlace.SAME_ZONE) == Prices()
