"""Live scans and fallbacks to the brokers. The oracle is a plain consumer of the same cluster."""

from __future__ import annotations

import hashlib
import logging
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import confluent_kafka
import pyarrow.dataset as ds
import pytest

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import ConfigurationError, RemoteStorageUnavailableError
from kafka_remote_client.fallback import BrokerReadError, TierUnavailableError
from kafka_remote_client.fetch.tier_reader import TierReader
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.predicate import column
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.table_scan import TableScan
from tests.support.embedded_topics import fill_topic, read_messages, records, small_cluster
from tests.support.scanned import Row, rows_of

pytestmark = pytest.mark.embedded

COUNT = 300
LOCAL = TopicPartition("orders", 2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Cluster: most of orders-0 and orders-1 is tiered, orders-2 is local, orders-3 is empty, topic ``untiered`` is local."""
    with small_cluster(tmp_path_factory.mktemp("tier")) as made:
        fill_topic(made, "orders", COUNT, (0, 1))
        made.produce("orders", records(30, "local"), partition=2)
        made.produce("untiered", records(20, "untiered"), partition=1)
        yield made


@pytest.fixture(scope="module")
def expected(cluster: EmbeddedCluster) -> list[Row]:
    """Records of ``orders`` as a plain consumer reads them. No test writes to ``orders``."""
    return consumed(cluster)


@pytest.fixture(params=["missing", "damaged"])
def damaged(cluster: EmbeddedCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Copy of the tier; the second segment of orders-1 is zeroed, or has one changed byte in the middle."""
    copy = tmp_path / "tier"
    shutil.copytree(cluster.directory, copy)
    (folder,) = copy.glob("*/orders-1-*")
    second = sorted(folder.glob("*.log"))[1]
    content = bytearray(second.read_bytes())
    if request.param == "missing":
        content = bytearray(len(content))
    else:
        content[len(content) // 2] ^= 1
    second.write_bytes(content)
    return copy


def table(cluster: EmbeddedCluster, directory: Path | None = None, topics: Any = "orders", **more: Any) -> TableScan:
    url = (directory or cluster.directory).as_uri()
    return scan(url, topics, broker={"bootstrap.servers": cluster.bootstrap_servers}, threads=2, **more)


def consumed(cluster: EmbeddedCluster, topic: str = "orders") -> list[Row]:
    """Records of all four partitions as confluent_kafka's consumer reads them, in the shape of :func:`rows_of`."""
    return [_row(message) for partition in range(4) for message in read_messages(cluster, topic, partition)]


def _row(message: confluent_kafka.Message) -> Row:
    value = message.value()
    kind, time = message.timestamp()
    return {
        "key": message.key(),
        "value": hashlib.sha256(value).hexdigest() if value is not None and len(value) > 1024 else value,
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": time,
        "timestampType": kind - 1,
        "headers": message.headers() or [],
    }


def test_a_live_scan_has_the_records_of_a_plain_consumer(cluster: EmbeddedCluster, expected: list[Row]) -> None:
    live = table(cluster, live=True)
    assert rows_of(live.to_arrow()) == expected
    assert live.count() == len(expected) == 2 * COUNT + 30
    with live.open() as opened:
        plan = opened.plan
        assert plan.ends == {TopicPartition("orders", n): end for n, end in enumerate([COUNT, COUNT, 30, 0])}
        for _ in opened.stream():
            pass
        assert opened.metrics()["remote-fetch-fallbacks-total"] == {}
        read = opened.metrics()["broker-fetch-records-total"]
        local = sum(COUNT - one.end for one in table(cluster, partitions=[0, 1]).plan().splits) + 30
    assert read == local < COUNT
    assert 0 < plan.broker_bytes < plan.read_bytes
    assert "bytes of them from the brokers" in str(plan)


def test_a_scan_that_is_not_live_ends_at_the_tiers_end(cluster: EmbeddedCluster, expected: list[Row]) -> None:
    tiered = table(cluster)
    ends = tiered.plan().ends
    assert sorted(partition.partition for partition in ends) == [0, 1]
    assert all(0 < end < COUNT for end in ends.values())
    wanted = [row for row in expected if row["offset"] < ends.get(TopicPartition("orders", row["partition"]), 0)]
    assert rows_of(tiered.to_arrow()) == wanted
    assert "brokers" not in str(tiered.plan())


def test_a_live_scan_after_another_continues_at_its_ends(cluster: EmbeddedCluster) -> None:
    first = table(cluster, topics="untiered", live=True)
    before = first.plan().ends
    cluster.produce("untiered", records(7, "more"), partition=1)
    second = table(cluster, topics="untiered", live=True, start_offset=before)
    assert [row["offset"] for row in rows_of(second.to_arrow())] == list(range(20, 27))
    assert second.plan().ends[TopicPartition("untiered", 1)] == 27


def test_the_end_of_a_live_scan_is_fixed_by_its_plan(cluster: EmbeddedCluster) -> None:
    with table(cluster, topics="untiered", live=True).open() as opened:
        end = opened.plan.ends[TopicPartition("untiered", 1)]
        cluster.produce("untiered", records(5, "late"), partition=1)
        found = [offset for batch in opened.stream() for offset in batch.column("offset").to_pylist()]
    assert found == list(range(end))


@pytest.mark.parametrize("bounds", [(0, 10), (COUNT - 5, COUNT), (COUNT // 2, COUNT - 1), (COUNT, COUNT + 9)])
def test_bounds_before_and_after_the_tiers_end_are_kept(cluster: EmbeddedCluster, bounds: tuple[int, int]) -> None:
    found = table(cluster, live=True, start_offset=bounds[0], end_offset=bounds[1], partitions=[0])
    offsets = [row["offset"] for row in rows_of(found.to_arrow())]
    assert offsets == list(range(bounds[0], min(bounds[1], COUNT)))
    assert found.count() == len(offsets)


@pytest.mark.parametrize("split_bytes", [500, 3_000, 1 << 20])
def test_the_tiers_end_inside_or_between_splits_changes_nothing(
    cluster: EmbeddedCluster, expected: list[Row], split_bytes: int
) -> None:
    live = table(cluster, live=True)
    small = attrs.evolve(live, scan=attrs.evolve(live.scan, split_bytes=split_bytes))
    assert rows_of(small.to_arrow()) == expected


def test_predicates_apply_to_live_records(cluster: EmbeddedCluster, expected: list[Row]) -> None:
    keyed = table(cluster, live=True, where=column("key").is_null())
    wanted = [row for row in expected if row["key"] is None]
    assert rows_of(keyed.to_arrow()) == wanted
    assert keyed.count() == len(wanted)
    times = sorted(row["timestamp"] for row in expected)
    since, until = times[len(times) // 3], times[-1]
    timed = table(cluster, live=True, since=since, until=until)
    assert rows_of(timed.to_arrow()) == [row for row in expected if since <= row["timestamp"] < until]
    assert table(cluster, live=True).head(COUNT + 5).to_arrow().num_rows == COUNT + 5


def test_a_pattern_matches_topics_without_tiered_records(cluster: EmbeddedCluster, expected: list[Row]) -> None:
    found = table(cluster, topics=(), topic_pattern="orders|untiered", live=True)
    assert rows_of(found.to_arrow()) == expected + consumed(cluster, "untiered")


def test_missing_topics_of_the_cluster_are_reported(cluster: EmbeddedCluster) -> None:
    with pytest.raises(ConfigurationError, match=r"the cluster has no records of partitions \[9\] of orders"):
        table(cluster, live=True, partitions=[9]).plan()
    with pytest.raises(BrokerReadError, match=r"LEADER_NOT_AVAILABLE|UNKNOWN_TOPIC"):
        table(cluster, topics="none-such", live=True).plan()


@pytest.mark.parametrize("more", [{"live": True}, {"on_fallback": "broker"}])
def test_a_live_scan_needs_bootstrap_servers(cluster: EmbeddedCluster, more: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="needs the connection to the brokers"):
        scan(cluster.directory.as_uri(), "orders", **more)
    with pytest.raises(ConfigurationError, match=r"broker must have bootstrap\.servers"):
        scan(cluster.directory.as_uri(), "orders", broker={}, **more)
    unknown = {"bootstrap.servers": "localhost:1", "security.protocol": "none-such"}
    with pytest.raises(ConfigurationError, match=r"security\.protocol"):
        scan(cluster.directory.as_uri(), "orders", broker=unknown, **more).open()


def test_broker_settings_are_pickled_and_redacted(cluster: EmbeddedCluster) -> None:
    found = scan("file:///t", "orders", live=True, broker={"metadata.broker.list": "b:1", "sasl.password": "secret"})
    assert "secret" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_damaged_segment_ends_a_scan_by_default(cluster: EmbeddedCluster, damaged: Path) -> None:
    with pytest.raises(TierUnavailableError, match='on_fallback="broker" reads it from the brokers') as raised:
        table(cluster, damaged, live=True).to_arrow()
    assert (raised.value.topic, raised.value.partition) == ("orders", 1)
    with pytest.raises(TierUnavailableError, match="this read has no broker to fall back to"):
        table(cluster, damaged).to_arrow()


@pytest.mark.parametrize("live", [False, True])
def test_brokers_replace_a_damaged_segment(
    cluster: EmbeddedCluster, damaged: Path, live: bool, caplog: pytest.LogCaptureFixture
) -> None:
    whole = table(cluster, live=live)
    found = table(cluster, damaged, live=live, on_fallback="broker")
    with caplog.at_level(logging.WARNING):
        assert rows_of(found.to_arrow()) == rows_of(whole.to_arrow())
    (told,) = [record.message for record in caplog.records if "direct fetch disabled" in record.message]
    assert "orders-1" in told
    assert "the broker continues at offset" in told
    assert found.plan().ends == whole.plan().ends
    assert found.count() == whole.count()
    with found.open() as opened:
        assert sum(len(block) for split in opened.plan.splits for block in opened.blocks(split)) == whole.count()
        assert sum(opened.metrics()["remote-fetch-fallbacks-total"].values()) == 1


def test_brokers_serve_everything_without_readable_metadata(
    cluster: EmbeddedCluster, expected: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Any:
        raise RemoteStorageUnavailableError("the store is down")

    for name in ("partitions", "segments", "bounds"):
        monkeypatch.setattr(TierReader, name, fails)
    assert rows_of(table(cluster, live=True, on_fallback="broker").to_arrow()) == expected
    for more in ({"live": True}, {"on_fallback": "broker"}):
        with pytest.raises(RemoteStorageUnavailableError):
            table(cluster, **more).to_arrow()


@pytest.mark.parametrize("damaged", ["damaged"], indirect=True)
def test_an_export_of_a_live_scan_ends_at_the_logs_end(
    cluster: EmbeddedCluster, expected: list[Row], damaged: Path, tmp_path: Path
) -> None:
    found = table(cluster, damaged, live=True, on_fallback="broker")
    result = found.to_parquet(tmp_path / "out")
    assert rows_of(ds.dataset(tmp_path / "out", format="parquet").to_table()) == expected
    assert result.rows == len(expected)
    assert result.ends == {TopicPartition("orders", n): end for n, end in enumerate([COUNT, COUNT, 30, 0])}
    with pytest.raises(ConfigurationError, match="live was True"):
        table(cluster, damaged).to_parquet(tmp_path / "out")
    assert table(cluster, damaged, live=True).to_parquet(tmp_path / "out").rows == len(expected)


def test_an_interrupted_export_resumes_with_records_tiered_since(tmp_path: Path) -> None:
    with small_cluster(tmp_path / "tier") as cluster:
        fill_topic(cluster, "orders", COUNT)
        found = table(cluster, live=True)
        with pytest.raises(ZeroDivisionError):
            found.to_parquet(tmp_path / "out", progress=lambda progress: 1 // 0)
        end = found.plan().ends[TopicPartition("orders", 0)]
        cluster.produce("orders", records(50, "more"))
        cluster.archive(keep_open=False)
        result = found.to_parquet(tmp_path / "out")
        rows = [row for row in consumed(cluster) if row["offset"] < end]
        assert rows_of(ds.dataset(tmp_path / "out", format="parquet").to_table()) == rows
        assert result.ends[TopicPartition("orders", 0)] == end == COUNT
