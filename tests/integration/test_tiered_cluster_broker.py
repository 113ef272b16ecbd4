"""A real broker serves the tier that a TieredCluster wrote, and a plain consumer reads the same from both.

The broker's own segments hold nothing: it starts with an empty log at the tier's end, gets the metadata records of the cluster,
and reads every record from the tier.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import attrs
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from kafka_remote_client.model import EpochEntry, uuid_from_text
from kafka_remote_client.restore import files
from kafka_remote_client.restore.bootstrap_checkpoint import (
    BOOTSTRAP,
    RestoredPartition,
    RestoredTopic,
    metadata_records,
    with_records,
)
from kafka_remote_client.tiered_kafka import TieredCluster
from tests.support.formatted_broker import formatted_broker
from tests.support.kafka_broker import KafkaBroker
from tests.support.offsets_at_times import listed_at
from tests.support.reading import settings
from tests.support.waiting import wait_until
from tests.tiered_kafka.clients import plain, produce, watermarks

pytestmark = pytest.mark.broker

METADATA = "__remote_log_metadata"
CODECS = {"copy-started": "none", "mid-copy": "snappy", "objects-copied": "lz4"}
RECORDS = {"codecs": (510, 510), "lost": (140, 140), "transactions": (720, 400)}
"""The numbers of records at each of the isolation levels."""
TIMES = (0, 1000, 1003, 1050, 1100, 2000)
LEVELS = ("read_uncommitted", "read_committed")
COPY_DISABLE = "remote.log.copy.disable"
"""Set until the broker knows its tier: a leader that copies without that knowledge deletes what it finds."""
CONFIGS = {
    "remote.storage.enable": "true",
    COPY_DISABLE: "true",
    "retention.ms": "-1",
    "local.retention.bytes": "1",
    "internal.segment.bytes": "2500",
}
PATIENCE_SECONDS = 120


def write_codecs(cluster: TieredCluster, topic: str) -> None:
    """Each codec in a leader epoch of its own. Crashes leave unfinished copies, and the log start lies within a segment."""
    for point, codec in CODECS.items():
        produce(cluster, topic, 120, **{"compression.type": codec})
        cluster.crash(point, topic)
    for codec in ("gzip", "zstd"):
        cluster.elect(topic)
        produce(cluster, topic, 120, **{"compression.type": codec})
    cluster.tier_now(topic, roll=True)
    cluster.delete_records(topic, 0, 90)
    cluster.crash("mid-delete", topic)
    cluster.expire_now(topic)


def write_lost(cluster: TieredCluster, topic: str) -> None:
    """An unclean election loses records that are in the tier; the next leader's take their offsets."""
    produce(cluster, topic, 100)
    assert cluster.tier_now(topic, roll=True) > 1
    cluster.elect(topic, end_offset=60)
    produce(cluster, topic, 80)
    cluster.tier_now(topic, roll=True)


def write_transactions(cluster: TieredCluster, topic: str) -> None:
    """Transactions of two producers that overlap, across segments and leader epochs; half of them abort."""
    one, two = (
        Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name, "linger.ms": 0, "log_level": 0})
        for name in ("one", "two")
    )
    for producer in (one, two):
        producer.init_transactions(60)
    for number in range(6):
        two.begin_transaction()
        for producer in (two, one, two):
            if producer is one:
                one.begin_transaction()
            for record in range(40):
                producer.produce(topic, b"%d" % record, b"%d" % number, partition=0, timestamp=1000 + number)
            assert producer.flush(60) == 0
        (one.abort_transaction if number % 3 == 0 else one.commit_transaction)(60)
        if number == 3:
            cluster.elect(topic)
        (two.abort_transaction if number % 2 else two.commit_transaction)(60)
    cluster.tier_now(topic, roll=True)


TOPICS = {"codecs": write_codecs, "lost": write_lost, "transactions": write_transactions}


@attrs.frozen
class Tiered:
    """What a new node must know of a partition beside its tier. ``end``: after its last record."""

    topic: str
    directory: Path
    start: int
    end: int

    @property
    def topic_id(self) -> str:
        return self.directory.name[-22:]

    def newest(self, suffix: str) -> bytes:
        """The file of the segment that was copied last."""
        found = self.directory.glob(f"*{suffix}")
        return max(found, key=lambda path: (path.stat().st_mtime_ns, path.name)).read_bytes()

    @property
    def lineage(self) -> tuple[EpochEntry, ...]:
        lines = self.newest(".leader_epoch_checkpoint").decode().split("\n")[2:-1]
        return tuple(EpochEntry(*map(int, line.split())) for line in lines)


def tiered(cluster: TieredCluster, topic: str) -> Tiered:
    start, end = watermarks(cluster, topic)
    (directory,) = (cluster.directory / "kafka-tiered-storage").glob(f"{topic}-0-*")
    return Tiered(topic, directory, start, end)


def introduce(broker: KafkaBroker, partitions: list[Tiered]) -> None:
    """Writes what a formatted node needs to lead the partitions: topics with their ids, and logs that begin at their end."""
    folder = broker.log_directory
    node = files.parse_meta_properties((folder / files.META_PROPERTIES).read_text())
    topics = []
    for one in partitions:
        topic_id = uuid_from_text(one.topic_id)
        partition = RestoredPartition(0, one.lineage[-1].epoch, (node.node_id,))
        topics.append(RestoredTopic(one.topic, topic_id, (partition,), CONFIGS))
        place = folder / f"{one.topic}-0"
        place.mkdir()
        (place / files.log_file(one.end)).touch()
        (place / files.snapshot_file(one.end)).write_bytes(one.newest(".snapshot"))
        (place / files.LEADER_EPOCHS).write_bytes(one.newest(".leader_epoch_checkpoint"))
        (place / files.PARTITION_METADATA).write_bytes(files.partition_metadata(topic_id))
    starts = {TopicPartition(one.topic, 0): one.start for one in partitions}
    (folder / files.LOG_STARTS).write_bytes(files.log_start_checkpoint(starts))
    bootstrap = folder / BOOTSTRAP
    bootstrap.write_bytes(
        with_records(bootstrap.read_bytes(), metadata_records(topics, {node.node_id: node.directory_id}, 1000))
    )


def copy_metadata(cluster: TieredCluster, broker: KafkaBroker) -> int:
    """Produces the cluster's metadata records to the broker, partition by partition; how many."""
    wait_until(lambda: METADATA in broker.admin.list_topics(timeout=60).topics, f"{METADATA} to exist")
    count = len(broker.admin.list_topics(METADATA, timeout=60).topics[METADATA].partitions)
    consumer = Consumer(settings(cluster.bootstrap_servers, "read_uncommitted"))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    consumer.assign([TopicPartition(METADATA, number, OFFSET_BEGINNING) for number in range(count)])
    ended = copied = 0
    while ended < count:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        if (error := message.error()) is None:
            copied += 1
            producer.produce(METADATA, message.value(), partition=message.partition())
        else:
            assert error.code() == KafkaError._PARTITION_EOF
            ended += 1
    consumer.close()
    assert producer.flush(PATIENCE_SECONDS) == 0
    return copied


def serves(broker: KafkaBroker, one: Tiered) -> bool:
    """Whether the broker knows the last segment of the tier, whose metadata come last."""
    reader = Consumer(settings(broker.bootstrap_servers, "read_uncommitted", **{"auto.offset.reset": "error"}))
    reader.assign([TopicPartition(one.topic, 0, one.end - 1)])
    message = reader.poll(PATIENCE_SECONDS)
    reader.close()
    assert message is not None
    return message.error() is None or message.error().code() == KafkaError._PARTITION_EOF


def by_time(admin: AdminClient, topic: str) -> list[tuple[int, int]]:
    """Offset and timestamp of the first record with each of these times, or a later one."""
    found = []
    for time in TIMES:
        answer = listed_at(admin, TopicPartition(topic, 0), time)
        found.append((answer.offset, answer.timestamp))
    return found


def enable_copies(broker: KafkaBroker, topic: str) -> None:
    change = ConfigEntry(COPY_DISABLE, "false", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
    (future,) = broker.admin.incremental_alter_configs([resource]).values()
    future.result(PATIENCE_SECONDS)


def test_real_broker_serves_the_tier_of_a_cluster(tmp_path: Path) -> None:
    small = {"segment_bytes": 2500, "topic_settings": {"index.interval.bytes": "500"}}
    with (
        formatted_broker(tmp_path / "node") as broker,
        TieredCluster(broker.store_directory, partitions=1, brokers=2, **small) as cluster,
    ):
        for topic, write in TOPICS.items():
            write(cluster, topic)
        partitions = [tiered(cluster, topic) for topic in TOPICS]
        introduce(broker, partitions)
        broker.start()
        assert copy_metadata(cluster, broker) > 50
        admins = [AdminClient({"bootstrap.servers": each.bootstrap_servers, "log_level": 0}) for each in (cluster, broker)]
        for one in partitions:
            wait_until(partial(serves, broker, one), f"the tier of {one.topic} to be known", seconds=PATIENCE_SECONDS)
            now = broker.offsets(one.topic)
            assert (now.log_start, now.earliest_local, now.high_watermark) == (one.start, one.end, one.end)
            for level, count in zip(LEVELS, RECORDS[one.topic], strict=True):
                rows = plain(broker, one.topic, level)
                assert rows == plain(cluster, one.topic, level)
                assert len(rows) == count
            of_cluster, of_broker = (by_time(admin, one.topic) for admin in admins)
            assert of_broker == of_cluster

        # The broker goes on where the cluster ended, and keeps what the cluster wrote.
        before, written = plain(broker, "lost", "read_committed"), {*cluster.store.objects()}
        enable_copies(broker, "lost")
        produce(broker, "lost", 40)
        assert broker.wait_until_tiered("lost").latest_tiered == 159
        rows = plain(broker, "lost", "read_committed")
        assert rows[: len(before)] == before
        assert [row[0] for row in rows[len(before) :]] == [*range(140, 180)]
        assert written < {*cluster.store.objects()}
