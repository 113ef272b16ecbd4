"""A follower continues from its snapshot, or reads the topic from the start: never from a snapshot that does not fit."""

from __future__ import annotations

import errno
import logging
from uuid import UUID

import pytest
from confluent_kafka import KafkaError, KafkaException, Uuid

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import RemoteLogSegmentState
from kafka_remote_client.remote_log import metadata_snapshots
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.metadata_snapshot import MetadataPosition, SnapshotOrigin, pack
from kafka_remote_client.remote_log.metadata_snapshots import MetadataSnapshots
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.partitioner import metadata_partition
from kafka_remote_client.remote_log.snapshot_folder import SNAPSHOT_FILE, SnapshotFolder
from tests.support.tier import TIP, metadata, update

TOPIC = "__remote_log_metadata"
COUNT = 4
HOME = metadata_partition(TIP, COUNT)
BOUNDS = dict.fromkeys(range(COUNT), (0, 10))
POSITIONS = {number: MetadataPosition(5, 1) for number in range(COUNT)}
ORIGIN = SnapshotOrigin("cluster", TOPIC, UUID(int=7), COUNT)


class Clock(SystemClock):
    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def time_ms(self):
        return int(self.now * 1000)


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Makes MetadataSnapshots over one folder, each after the one before is closed; ``origins`` is what brokers tell."""
    opened = []
    origins = [ORIGIN]

    def identified(self, partition_count):
        if isinstance(origins[0], Exception):
            raise origins[0]
        return origins[0]

    monkeypatch.setattr(MetadataSnapshots, "_identified", identified)

    def make(origin=ORIGIN, *, folder=tmp_path / "snapshots", clock=None):
        for one in opened:
            one.close()
        origins[0] = origin
        one = MetadataSnapshots(folder, {}, TOPIC, interval=60, clock=clock or Clock())
        opened.append(one)
        one.open(COUNT)
        return one

    make.origins = origins
    yield make
    for one in opened:
        one.close()


def some_contents():
    store = RemoteLogMetadataStore()
    store.apply(metadata(0, 9))
    store.apply(update(metadata(0, 9), RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
    return store.contents()


def written(snapshots, positions=POSITIONS, contents=None):
    assert snapshots.wanted(positions)
    snapshots.write(positions, contents or some_contents())
    snapshots._thread.join()


def test_a_written_snapshot_is_loaded(made, caplog):
    caplog.set_level(logging.INFO)
    first = made()
    assert first.load(BOUNDS) is None
    assert first.metrics() == {
        "metadata_snapshot_segments_loaded": 0,
        "metadata_snapshot_writes": 0,
        "metadata_snapshot_failures": 0,
    }
    written(first)
    assert first.metrics()["metadata_snapshot_writes"] == 1
    clock = Clock()
    clock.now += 30
    second = made(clock=clock)
    found = second.load(BOUNDS)
    assert found.positions == POSITIONS
    assert found.partitions == {TIP: pack(some_contents()[0][1])}
    assert second.metrics() == {
        "metadata_snapshot_segments_loaded": 1,
        "metadata_snapshot_writes": 0,
        "metadata_snapshot_failures": 0,
        "metadata_snapshot_age_seconds": 30,
    }
    assert not second.wanted(POSITIONS)
    assert "there is no snapshot" in caplog.text
    assert "loaded 1 segments in 1 partitions" in caplog.text
    assert "WARNING" not in caplog.text


def test_a_loaded_partition_is_written_as_it_was_loaded(made):
    written(made(), contents=[(TIP, pack(RemoteLogMetadataCache(TIP).contents()))])
    again = made()
    loaded = again.load(BOUNDS).partitions
    written(again, POSITIONS | {0: MetadataPosition(6)}, list(loaded.items()))
    assert made().load(BOUNDS).partitions == loaded


def test_is_written_again_after_the_interval_and_a_change(made):
    clock = Clock()
    snapshots = made(clock=clock)
    written(snapshots)
    later = POSITIONS | {0: MetadataPosition(6)}
    assert not snapshots.wanted(later)
    clock.now += 61
    assert snapshots.wanted(later)
    assert not snapshots.wanted(POSITIONS)


def test_a_partition_that_is_not_trusted_is_not_stored(made):
    trusted = {number: one for number, one in POSITIONS.items() if number != HOME}
    written(made(), trusted)
    found = made().load(BOUNDS)
    assert found.positions == trusted
    assert found.partitions == {}


@pytest.mark.parametrize("bounds", [(5, 10), (6, 10), (0, 4)])
def test_an_offset_outside_the_topic_is_not_continued(made, caplog, bounds):
    written(made())
    found = made().load(BOUNDS | {HOME: bounds})
    assert HOME not in found.positions
    assert len(found.positions) == COUNT - 1
    assert found.partitions == {}
    assert f"the snapshot's offsets of the partitions {HOME} of {TOPIC} are outside the topic" in caplog.text


def test_an_offset_without_a_leader_epoch_is_not_continued(made, caplog):
    written(made(), POSITIONS | {HOME: MetadataPosition(5)})
    found = made().load(BOUNDS)
    assert found.positions == {number: one for number, one in POSITIONS.items() if number != HOME}
    assert found.partitions == {}
    assert "outside the topic" not in caplog.text


@pytest.mark.parametrize(
    ("origin", "why"),
    [
        (SnapshotOrigin("other", TOPIC, UUID(int=7), COUNT), "is of cluster cluster, not other"),
        (SnapshotOrigin("cluster", TOPIC, UUID(int=8), COUNT), "with id 00000000-0000-0000-0000-000000000007, not"),
        (SnapshotOrigin("cluster", "topic", UUID(int=7), COUNT), f"is of the topic {TOPIC} "),
        (SnapshotOrigin("cluster", TOPIC, UUID(int=7), 5), "is of 4 metadata partitions, not 5"),
    ],
)
def test_a_snapshot_of_other_records_is_not_used(made, caplog, origin, why):
    written(made())
    assert made(origin).load(BOUNDS) is None
    (line,) = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert why in line
    assert "is not used, reading" in line


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: data[:60] + b"\xff" + data[61:]])
def test_a_damaged_snapshot_is_one_warning_and_is_replaced(made, caplog, tmp_path, damage):
    written(made())
    file = tmp_path / "snapshots" / SNAPSHOT_FILE
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    snapshots = made()
    assert snapshots.load(BOUNDS) is None
    assert [one.levelno for one in caplog.records].count(logging.WARNING) == 1
    assert snapshots.metrics()["metadata_snapshot_failures"] == 1
    written(snapshots)
    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    "error", [KafkaException(KafkaError(KafkaError._TIMED_OUT)), ConfigurationError("the broker tells no topic id")]
)
def test_a_snapshot_is_written_once_the_topics_id_is_known(made, caplog, error):
    clock = Clock()
    written(made())
    snapshots = made(error, clock=clock)
    assert snapshots.load(BOUNDS) is None
    for _ in range(2):
        written(snapshots)
        assert not snapshots.wanted(POSITIONS), "the next request waits for the interval"
        clock.now += 61
    assert snapshots.metrics()["metadata_snapshot_writes"] == 0
    assert snapshots.metrics()["metadata_snapshot_failures"] == 3
    assert [one.levelno for one in caplog.records].count(logging.WARNING) == 1
    made.origins[0] = ORIGIN
    later = POSITIONS | {0: MetadataPosition(6, 1)}
    written(snapshots, later)
    assert snapshots.metrics()["metadata_snapshot_writes"] == 1
    assert made().load(BOUNDS).positions == later


def test_a_write_belongs_to_the_topic_that_its_positions_were_read_from(made, monkeypatch):
    begun = []
    monkeypatch.setattr(metadata_snapshots, "start_thread", lambda name, work, *given: begun.append((work, given)))
    snapshots = made()
    snapshots.write(POSITIONS, some_contents())
    made.origins[0] = SnapshotOrigin("cluster", TOPIC, UUID(int=8), COUNT)
    snapshots.open(COUNT)
    ((work, given),) = begun
    work(*given)
    assert made().load(BOUNDS).positions == POSITIONS


def test_no_snapshot_is_used_in_a_folder_that_cannot_be_opened(made, caplog, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    snapshots = made(folder=tmp_path / "file")
    assert snapshots.load(BOUNDS) is None
    assert not snapshots.wanted(POSITIONS)
    assert caplog.text.count("no snapshot in") == 1


def test_a_full_disk_is_one_warning_until_a_snapshot_is_written(made, caplog, monkeypatch):
    clock = Clock()
    snapshots = made(clock=clock)

    def full(folder, parts):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(SnapshotFolder, "write", full)
        for _ in range(3):
            written(snapshots)
            clock.now += 61
    assert caplog.text.count("No space left on device") == 1
    assert snapshots.metrics()["metadata_snapshot_failures"] == 3
    written(snapshots)
    assert made().load(BOUNDS).positions == POSITIONS


def test_closing_stops_a_write(made, tmp_path):
    snapshots = made()
    snapshots._stop.set()
    written(snapshots)
    assert snapshots.metrics()["metadata_snapshot_writes"] == 0
    assert not list((tmp_path / "snapshots").iterdir())


def test_closing_before_opening_is_possible(tmp_path):
    MetadataSnapshots(tmp_path, {}, TOPIC, interval=60).close()


def test_no_second_write_begins_while_one_is_in_progress(made, monkeypatch):
    clock = Clock()
    snapshots = made(clock=clock)

    class Alive:
        def is_alive(self):
            return True

        def join(self):
            pass

    snapshots._thread = Alive()
    assert not snapshots.wanted(POSITIONS)


@pytest.mark.parametrize(
    ("topic_id", "cluster_id", "known"),
    [
        (Uuid(0, 0), "c", None),
        (Uuid(0, 7), None, None),
        (Uuid(-1, -(2**63)), "c", UUID(int=0xFFFF_FFFF_FFFF_FFFF_8000_0000_0000_0000)),
        (Uuid(1, 2), "c", UUID(int=(1 << 64) + 2)),
    ],
)
def test_a_snapshot_needs_both_ids_of_the_broker(monkeypatch, tmp_path, caplog, topic_id, cluster_id, known):
    class Told:
        def __init__(self, **fields):
            self.__dict__ = fields

    class Admin:
        def __init__(self, config):
            assert config == {"bootstrap.servers": "b:1"}

        def describe_topics(self, topics, request_timeout):
            return {TOPIC: Told(result=lambda seconds: Told(topic_id=topic_id))}

        def list_topics(self, topic, timeout):
            return Told(cluster_id=cluster_id)

    monkeypatch.setattr(metadata_snapshots, "AdminClient", Admin)
    snapshots = MetadataSnapshots(tmp_path, {"bootstrap.servers": "b:1", "group.id": "g"}, TOPIC, interval=60)
    snapshots.open(COUNT)
    assert ("gives no cluster id or no topic id" in caplog.text) == (known is None)
    assert snapshots._source.origin == (known and SnapshotOrigin("c", TOPIC, known, COUNT))
    snapshots.close()
