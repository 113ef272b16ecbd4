"""Leaders copy, expire, crash and change as on real brokers, and what is left in the tier is what those leave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_remote_client.tiered_kafka import CrashPoint, TieredCluster
from tests.tiered_kafka.clients import plain, produce, values, watermarks


@pytest.fixture(scope="module")
def cluster() -> Iterator[TieredCluster]:
    with TieredCluster(partitions=1, segment_bytes=4096) as running:
        yield running


def test_deleted_records_leave_the_tier_when_expired(cluster: TieredCluster) -> None:
    produce(cluster, "deleted", 300)
    cluster.tier_now("deleted", roll=True)
    objects = len(cluster.store.objects())
    cluster.delete_records("deleted", 0, 250)
    assert watermarks(cluster, "deleted") == (250, 300)
    assert len(cluster.store.objects()) == objects
    assert cluster.expire_now("deleted") > 1
    assert len(cluster.store.objects()) < objects
    assert values(plain(cluster, "deleted")) == list(range(250, 300))


def test_retention_moves_the_log_start(cluster: TieredCluster) -> None:
    cluster.create_topic("kept", 1, {"retention.ms": "1000"})
    produce(cluster, "kept", 100)
    cluster.tier_now("kept", roll=True)
    assert cluster.expire_now("kept", now_ms=1500) == 0
    assert cluster.expire_now("kept", now_ms=1_000_000) > 0
    assert watermarks(cluster, "kept") == (100, 100)


@pytest.mark.parametrize("point", [CrashPoint.COPY_STARTED, CrashPoint.MID_COPY, CrashPoint.OBJECTS_COPIED])
def test_next_leader_copies_again_after_a_crash(cluster: TieredCluster, point: CrashPoint) -> None:
    topic = f"crashed-{point.value}"
    produce(cluster, topic, 100)
    cluster.crash(point, topic)
    left = [key for key in cluster.store.objects() if topic in key]
    assert len(left) == {"copy-started": 0, "mid-copy": 1, "objects-copied": 5}[point.value]
    assert cluster.tier_now(topic, roll=True) > 1
    copies = [key for key in cluster.store.objects() if topic in key and "/0000" in key and key.endswith(".log")]
    copies = [key for key in copies if "/00000000000000000000-" in key]
    assert len(copies) == (1 if point is CrashPoint.COPY_STARTED else 2)
    produce(cluster, topic, 20)
    rows = plain(cluster, topic)
    assert values(rows) == [*range(100), *range(20)]
    assert {row[2] for row in rows} == {0, 1}


@pytest.mark.parametrize("point", [CrashPoint.DELETE_STARTED, CrashPoint.MID_DELETE, CrashPoint.OBJECTS_DELETED])
def test_next_leader_deletes_again_after_a_crash(cluster: TieredCluster, point: CrashPoint) -> None:
    topic = f"crashed-{point.value}"
    produce(cluster, topic, 20)
    cluster.tier_now(topic, roll=True)
    cluster.delete_records(topic, 0, 20)
    cluster.crash(point, topic)
    left = [key for key in cluster.store.objects() if topic in key]
    assert len(left) == {"delete-started": 5, "mid-delete": 4, "objects-deleted": 0}[point.value]
    assert cluster.expire_now(topic) == 1
    assert [key for key in cluster.store.objects() if topic in key] == []


def test_crash_without_work_raises(cluster: TieredCluster) -> None:
    cluster.create_topic("idle", 1)
    with pytest.raises(ValueError, match="nothing to copy"):
        cluster.crash("mid-copy", "idle")
    with pytest.raises(ValueError, match="at-night"):
        cluster.crash("at-night", "idle")


def test_failed_copy_is_repeated_by_the_next_run(cluster: TieredCluster) -> None:
    produce(cluster, "failing", 20)
    cluster.store.fail()
    assert cluster.tier_now("failing", roll=True) == 0
    assert cluster.tier_now("failing") == 1
    assert len([key for key in cluster.store.objects() if "failing" in key and key.endswith(".log")]) == 2


def test_unclean_election_loses_records(cluster: TieredCluster) -> None:
    produce(cluster, "unclean", 100)
    cluster.elect("unclean", end_offset=60)
    produce(cluster, "unclean", 20)
    rows = plain(cluster, "unclean")
    assert values(rows) == [*range(60), *range(20)]
    assert [row[2] for row in rows] == [0] * 60 + [1] * 20


def test_deleted_topic_leaves_nothing_in_the_tier(cluster: TieredCluster) -> None:
    produce(cluster, "gone", 20)
    cluster.tier_now("gone", roll=True)
    cluster.delete_topic("gone")
    assert [key for key in cluster.store.objects() if "gone" in key] == []
    with pytest.raises(KeyError, match="gone"):
        cluster.delete_topic("gone")
