"""Kafka's own tiered integration scenarios, under the names of their classes, with librdkafka as the client.

Left out: what a log of one replica in memory does not have. These are OffloadAndConsumeFromFollowerTest, AlterLogDirTest,
FetchFromLeaderWithCorruptedCheckpointTest, and ReassignReplicaExpandTest, ReassignReplicaMoveTest, ReassignReplicaShrinkTest.

References: org.apache.kafka.tiered.storage.integration of Kafka 4.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)

from kafka_remote_client.tiered_kafka import TieredCluster
from tests.tiered_kafka.clients import plain, watermarks

ONE_BATCH, TWO_BATCHES = "1", "150"
"""``segment.bytes`` for that many batches of one record."""
_SECONDS = 30
_SET = AlterConfigOpType.SET


@pytest.fixture(scope="module")
def cluster() -> Iterator[TieredCluster]:
    with TieredCluster(partitions=1, brokers=2) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: TieredCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})


def produce(cluster: TieredCluster, topic: str, *values: str, partition: int = 0, first_ms: int = 1_000) -> None:
    """One batch for each value, whose timestamps are a millisecond apart."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value, "k", partition=partition, timestamp=first_ms + number)
        assert producer.flush(_SECONDS) == 0


def filled(cluster: TieredCluster, topic: str, *values: str, **settings: str) -> None:
    """A topic whose full segments are in the tier; the last one is open."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    cluster.create_topic(topic, 1, {"segment.bytes": ONE_BATCH, **named})
    produce(cluster, topic, *values)
    cluster.tier_now(topic, keep_active=True)


def values_of(cluster: TieredCluster, topic: str, isolation: str = "read_committed") -> list[str]:
    return [row[4].decode() for row in plain(cluster, topic, isolation)]


def segments_of(cluster: TieredCluster, topic: str) -> int:
    """How many segments of a topic are in the tier."""
    return sum(1 for path in cluster.directory.rglob("*.log") if path.parent.name.startswith(f"{topic}-"))


def alter(
    admin: AdminClient,
    name: str,
    settings: Mapping[str, str],
    kind: AlterConfigOpType = _SET,
    resource: ResourceType = ResourceType.TOPIC,
    **more: bool,
) -> None:
    entries = [ConfigEntry(setting, value, incremental_operation=kind) for setting, value in settings.items()]
    asked = ConfigResource(resource, name, incremental_configs=entries)
    for answer in admin.incremental_alter_configs([asked], **more).values():
        assert answer.result(_SECONDS) is None


def offsets_of(cluster: TieredCluster, topic: str, *specs: OffsetSpec) -> list[int]:
    """Offsets of partition 0, from a client that knows the leader."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    answers = [answer for spec in specs for answer in admin.list_offsets({TopicPartition(topic, 0): spec}).values()]
    return [int(answer.result(_SECONDS).offset) for answer in answers]


@pytest.mark.parametrize(("segment_bytes", "in_tier"), [(ONE_BATCH, 4), (TWO_BATCHES, 2)])
def test_offload_and_consume_from_leader(cluster: TieredCluster, segment_bytes: str, in_tier: int) -> None:
    topic, before = f"leader-{in_tier}", cluster.tier_reads()["broker_tier_reads"]
    filled(cluster, topic, "v1", "v2", "v3", "v4", "v5", segment_bytes=segment_bytes)
    assert segments_of(cluster, topic) == in_tier
    assert values_of(cluster, topic) == ["v1", "v2", "v3", "v4", "v5"]
    assert cluster.tier_reads()["broker_tier_reads"] - before == in_tier
    cluster.elect(topic)
    assert values_of(cluster, topic) == ["v1", "v2", "v3", "v4", "v5"]


@pytest.mark.parametrize(("outcome", "seen"), [("commit_transaction", ["v1", "v2", "v3", "v4"]), ("abort_transaction", ["v4"])])
def test_offload_and_txn_consume_from_leader(cluster: TieredCluster, outcome: str, seen: list[str]) -> None:
    """Also TransactionsWithTieredStoreTest: a transaction over several segments of the tier."""
    topic = f"txn-{outcome.partition('_')[0]}"
    cluster.create_topic(topic, 1, {"segment.bytes": ONE_BATCH})
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "transactional.id": topic})
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    for value in ("v1", "v2", "v3"):
        producer.produce(topic, value, partition=0)
        assert producer.flush(_SECONDS) == 0
    assert cluster.tier_now(topic) == 0
    getattr(producer, outcome)(_SECONDS)
    produce(cluster, topic, "v4")
    assert cluster.tier_now(topic, keep_active=True) == 4
    assert values_of(cluster, topic) == seen
    assert values_of(cluster, topic, "read_uncommitted") == ["v1", "v2", "v3", "v4"]


@pytest.mark.parametrize("limit", ["retention.bytes", "retention.ms"])
def test_delete_segments_by_retention(cluster: TieredCluster, admin: AdminClient, limit: str) -> None:
    """DeleteSegmentsByRetentionSizeTest and DeleteSegmentsByRetentionTimeTest. The records are from 1970."""
    topic = f"by-{limit}"
    filled(cluster, topic, "v1", "v2", "v3")
    assert segments_of(cluster, topic) == 2
    alter(admin, topic, {limit: "1"})
    assert cluster.expire_now(topic) == 2
    assert segments_of(cluster, topic) == 0
    assert watermarks(cluster, topic)[1] == 3
    assert values_of(cluster, topic) == ["v3"]


def test_delete_segments_due_to_log_start_offset_breach(cluster: TieredCluster, admin: AdminClient) -> None:
    topic = "log-start"
    filled(cluster, topic, "v1", "v2", "v3", "v4", "v5", segment_bytes=TWO_BATCHES)
    (moved,) = admin.delete_records([TopicPartition(topic, 0, 3)]).values()
    assert moved.result(_SECONDS).low_watermark == 3
    assert cluster.expire_now(topic) == 1
    assert segments_of(cluster, topic) == 1
    assert values_of(cluster, topic) == ["v4", "v5"]
    cluster.elect(topic)
    assert values_of(cluster, topic) == ["v4", "v5"]


def test_delete_topic(cluster: TieredCluster, admin: AdminClient) -> None:
    filled(cluster, "deleted", "v1", "v2", "v3")
    (gone,) = admin.delete_topics(["deleted"]).values()
    gone.result(_SECONDS)
    assert segments_of(cluster, "deleted") == 0


def test_enable_remote_log_on_topic(cluster: TieredCluster, admin: AdminClient) -> None:
    cluster.create_topic("enabled", 1, {"segment.bytes": ONE_BATCH, "remote.storage.enable": "false"})
    produce(cluster, "enabled", "v1", "v2", "v3")
    with pytest.raises(ValueError, match=r"remote\.storage\.enable of enabled is false"):
        cluster.tier_now("enabled")
    assert segments_of(cluster, "enabled") == 0
    alter(admin, "enabled", {"remote.storage.enable": "true"})
    produce(cluster, "enabled", "v4")
    assert cluster.tier_now("enabled", keep_active=True) == 3
    assert values_of(cluster, "enabled") == ["v1", "v2", "v3", "v4"]


def test_disable_remote_log_on_topic(cluster: TieredCluster, admin: AdminClient) -> None:
    topic = "disabled"
    filled(cluster, topic, "v1", "v2", "v3")
    alter(admin, topic, {"remote.log.copy.disable": "true"})
    produce(cluster, topic, "v4")
    assert cluster.tier_now(topic, keep_active=True) == 0
    assert values_of(cluster, topic) == ["v1", "v2", "v3", "v4"]
    with pytest.raises(KafkaException, match=r"delete\.on\.disable"):
        alter(admin, topic, {"remote.storage.enable": "false"})
    alter(admin, topic, {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"})
    assert segments_of(cluster, topic) == 0
    assert values_of(cluster, topic) == ["v3", "v4"]
    alter(admin, topic, {"remote.storage.enable": "true", "remote.log.copy.disable": "false"})
    assert cluster.tier_now(topic, keep_active=True) == 1
    assert values_of(cluster, topic) == ["v3", "v4"]


def test_list_offsets(cluster: TieredCluster) -> None:
    topic = "listed"
    filled(cluster, topic, "v1", "v2", "v3", "v4")
    moments = [OffsetSpec.for_timestamp(1_000 + number) for number in range(5)]
    assert offsets_of(cluster, topic, *moments) == [0, 1, 2, 3, -1]
    cluster.elect(topic)
    produce(cluster, topic, "v5", first_ms=1_004)
    cluster.tier_now(topic, keep_active=True)
    assert offsets_of(cluster, topic, OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.max_timestamp()) == [0, 5, 4]
    assert offsets_of(cluster, topic, *moments) == [0, 1, 2, 3, 4]


def test_partitions_expand(cluster: TieredCluster, admin: AdminClient) -> None:
    filled(cluster, "expanded", "v1", "v2", "v3")
    (expanded,) = admin.create_partitions([NewPartitions("expanded", 3)]).values()
    expanded.result(_SECONDS)
    for partition in (1, 2):
        produce(cluster, "expanded", "v1", "v2", "v3", partition=partition)
    assert cluster.tier_now("expanded", keep_active=True) == 4
    assert segments_of(cluster, "expanded") == 6
    for count, error in ((3, KafkaError.INVALID_PARTITIONS), (1, KafkaError.INVALID_PARTITIONS)):
        (refused,) = admin.create_partitions([NewPartitions("expanded", count)]).values()
        with pytest.raises(KafkaException) as raised:
            refused.result(_SECONDS)
        assert raised.value.args[0].code() == error


def test_roll_and_offload_active_segment(cluster: TieredCluster) -> None:
    filled(cluster, "rolled", "v1", "v2", "v3")
    assert segments_of(cluster, "rolled") == 2
    assert cluster.tier_now("rolled") == 1
    assert segments_of(cluster, "rolled") == 3
    assert values_of(cluster, "rolled") == ["v1", "v2", "v3"]


def test_settings_return_to_their_defaults_and_others_are_refused(cluster: TieredCluster, admin: AdminClient) -> None:
    cluster.create_topic("altered", 1, {"retention.ms": "5"})
    alter(admin, "altered", {"retention.ms": ""}, AlterConfigOpType.DELETE)
    resource = ConfigResource(ResourceType.TOPIC, "altered")
    (described,) = admin.describe_configs([resource]).values()
    assert described.result(_SECONDS)["retention.ms"].value == "-1"
    refused = {"max.message.bytes": KafkaError.INVALID_CONFIG, "retention.ms": KafkaError.INVALID_CONFIG}
    for name, kind in (("max.message.bytes", _SET), ("retention.ms", AlterConfigOpType.APPEND)):
        with pytest.raises(KafkaException) as raised:
            alter(admin, "altered", {name: "1"}, kind)
        assert raised.value.args[0].code() == refused[name]
    with pytest.raises(KafkaException) as raised:
        alter(admin, "unknown", {"retention.ms": "1"})
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    with pytest.raises(KafkaException, match="settings of topics only"):
        alter(admin, "1", {"a": "1"}, resource=ResourceType.BROKER)


def test_a_trial_changes_nothing(cluster: TieredCluster, admin: AdminClient) -> None:
    cluster.create_topic("tried", 1)
    (expanded,) = admin.create_partitions([NewPartitions("tried", 3)], validate_only=True).values()
    assert expanded.result(_SECONDS) is None
    alter(admin, "tried", {"retention.ms": "5"}, validate_only=True)
    (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "tried")]).values()
    assert described.result(_SECONDS)["retention.ms"].value == "-1"
    assert list(admin.list_topics("tried", timeout=_SECONDS).topics["tried"].partitions) == [0]
    (unknown,) = admin.create_partitions([NewPartitions("unknown", 3)]).values()
    with pytest.raises(KafkaException) as raised:
        unknown.result(_SECONDS)
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
