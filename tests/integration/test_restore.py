"""A restored node serves what the lost cluster did: golden tiers of a real broker, restored to a new node of a real broker.

The golden data have the records that Kafka's own consumer read before the loss. Here a plain consumer reads them again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from kafka_remote_client.cli.main import run
from kafka_remote_client.restore.config_rules import RULES, config_problems
from tests.support import kafka_wire
from tests.support.batches import batch, fix_crc
from tests.support.formatted_broker import format_or_skip, formatted_broker
from tests.support.golden import golden_aiven, golden_local, read_jsonl
from tests.support.kafka_broker import KafkaBroker, TierOffsets
from tests.support.kafka_cluster import KafkaCluster
from tests.support.ports import HOST
from tests.support.s3_server import S3Server
from tests.support.waiting import wait_until

MODE = "aiven-zstd-aes"
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "txn": {"retention.ms": -1},
    "delrec": {"retention.ms": -1},
    "logappend": {"retention.ms": -1, "message.timestamp.type": "LogAppendTime"},
    "epochs": {"retention.ms": -1, "remote.storage.enable": True, "local.retention.bytes": 1},
}
LEVELS = ("read_uncommitted", "read_committed")
_PATIENCE_SECONDS = 120


def restore(
    capsys: pytest.CaptureFixture[str],
    broker: KafkaBroker,
    topics: list[str],
    *arguments: str,
    configs: Mapping[str, Mapping[str, Any]] = CONFIGS,
) -> list[dict[str, Any]]:
    """Restores to the node. Returns the lines of JSON."""
    file = broker.directory / "topics.json"
    file.write_text(json.dumps({topic: configs[topic] for topic in topics}))
    place = ["--to", str(broker.log_directory), "--configs", str(file), "--bootstrap-servers", broker.bootstrap_servers]
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        run(["restore", *topics, *place, "--output", "json", *arguments])
    out, err = capsys.readouterr()
    assert not stopped.value.code, err
    return [json.loads(line) for line in out.splitlines()]


def expected(golden: Path, topic: str, partition: int, level: str, end: int) -> list[dict[str, Any]]:
    """What Kafka's consumer read of these offsets before the loss."""
    path = golden / "expected" / f"{topic}-{partition}.{level}.jsonl.gz"
    if not path.exists():  # equal to the other level
        path = path.with_name(f"{topic}-{partition}.read_uncommitted.jsonl.gz")
    return [record for record in read_jsonl(path) if record["offset"] < end]


def records(servers: str, topic: str, partition: int, level: str) -> list[dict[str, Any]]:
    """All records that a plain consumer gets, in the form of the golden data."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "restore",
            "isolation.level": level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "auto.offset.reset": "earliest",
        }
    )
    found = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while (message := consumer.poll(_PATIENCE_SECONDS)) is not None:
            if (error := message.error()) is None:
                found.append(form(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise AssertionError(error)
    finally:
        consumer.close()
    raise AssertionError(f"{topic}-{partition} did not end in {_PATIENCE_SECONDS} s")


def form(message: Message) -> dict[str, Any]:
    kind, timestamp = message.timestamp()
    value = message.value()
    found: dict[str, Any] = {
        "offset": message.offset(),
        "timestamp": timestamp,
        "timestamp_type": {1: "CreateTime", 2: "LogAppendTime"}[kind],
        "leader_epoch": message.leader_epoch(),
        "key": text(message.key()),
        "headers": [[name, text(content)] for name, content in message.headers() or ()],
    }
    if value is not None and len(value) > 1024:
        return {**found, "value_sha256": hashlib.sha256(value).hexdigest(), "value_len": len(value)}
    return {**found, "value": text(value)}


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def offsets(broker: KafkaBroker, one: Mapping[str, Any]) -> TierOffsets | None:
    """None while the node that has answered does not lead the partition yet."""
    try:
        return broker.offsets(one["topic"], one["partition"])
    except RuntimeError:
        return None


def wait_for_end(broker: KafkaBroker, one: Mapping[str, Any], end: int) -> TierOffsets:
    """Waits until the node leads a partition, and all replicas have what is below ``end``."""
    found: list[TierOffsets | None] = []

    def reached() -> bool:
        found.append(offsets(broker, one))
        return (last := found[-1]) is not None and last.high_watermark >= end

    wait_until(reached, f"{one['topic']}-{one['partition']} to have a leader", seconds=_PATIENCE_SECONDS)
    assert found[-1] is not None
    return found[-1]


def check_equal(servers: str, golden: Path, partitions: list[dict[str, Any]]) -> None:
    for one in partitions:
        for level in LEVELS:
            told = expected(golden, one["topic"], one["partition"], level, one["end_offset"])
            read = records(servers, one["topic"], one["partition"], level)
            assert read[: len(told)] == told, (one["topic"], one["partition"], level)
            assert all(record["offset"] >= one["end_offset"] for record in read[len(told) :])


def produced(broker: KafkaBroker, topic: str, partition: int, **settings: str) -> int:
    """The offset of one more record."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "linger.ms": 0, **settings})
    offsets: list[int] = []
    transactional = "transactional.id" in settings
    if transactional:
        producer.init_transactions(_PATIENCE_SECONDS)
        producer.begin_transaction()
    producer.produce(topic, b"new", partition=partition, on_delivery=lambda error, message: offsets.append(message.offset()))
    assert producer.flush(_PATIENCE_SECONDS) == 0
    if transactional:
        producer.commit_transaction(_PATIENCE_SECONDS)
    return offsets[0]


REFUSED: tuple[Mapping[str, str], ...] = (
    {"retention_ms": "-1"},
    {"retention.ms": "week"},
    {"segment.bytes": "1000"},
    {"preallocate": "1"},
    {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"},
    {"remote.storage.enable": "true", "cleanup.policy": "compact"},
    {"remote.storage.enable": "true", "retention.ms": "8", "local.retention.ms": "9"},
)
OTHER_VERSIONS = {
    *("errors.deadletterqueue.group.enable", "max.decompressed.message.bytes", "remote.copy.lag.bytes", "remote.copy.lag.ms"),
    *("internal.segment.bytes", "message.downconversion.enable", "message.timestamp.difference.max.ms"),
}
"""Configs that a broker of Kafka 4.3 does not list."""


def check_configs(broker: KafkaBroker, topic: str) -> None:
    """The names of configs are those of the broker, and it refuses what a restore refuses."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    assert broker.admin.describe_configs([resource])[resource].result(60).keys() == RULES.keys() - OTHER_VERSIONS
    for configs in REFUSED:
        assert list(config_problems(configs))
        entries = [ConfigEntry(*config, incremental_operation=AlterConfigOpType.SET) for config in configs.items()]
        asked = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        with pytest.raises(KafkaException) as refused:
            broker.admin.incremental_alter_configs([asked], validate_only=True)[asked].result(60)
        assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG, configs


def next_batch(producer_id: int, epoch: int, sequence: int) -> bytes:
    """The batch of one record after the one that ends with a sequence number."""
    made = bytearray(batch(producer=producer_id))
    struct.pack_into(">hi", made, 51, epoch, sequence + 1)  # magic 2: producerEpoch, baseSequence
    return fix_crc(bytes(made))


@pytest.mark.broker
def test_a_restored_node_serves_the_lost_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = golden_local()
    with formatted_broker(tmp_path / "node") as broker:
        store = ["--store", (golden / "remote").as_uri(), "--log-start", "delrec-0=437"]
        *partitions, _, done = restore(capsys, broker, list(CONFIGS), *store)
        ids = {one["topic"]: one["topic_id"] for one in read_jsonl(golden / "offsets.jsonl")}
        (snapshot,) = broker.local_log("txn").glob("*.snapshot")
        old_producer = struct.unpack_from(">qhi", snapshot.read_bytes(), 10)
        broker.start()
        for one in partitions:
            now = wait_for_end(broker, one, one["end_offset"])
            assert (now.log_start, now.high_watermark) == (one["log_start"], one["end_offset"])
            metadata = broker.local_log(one["topic"], one["partition"]) / "partition.metadata"
            assert metadata.read_text().endswith(ids[one["topic"]])

        check_configs(broker, "txn")

        # The transaction whose end was lost holds read_committed back until the printed command aborts it.
        (command,) = done["abort_commands"]
        assert broker.offsets("txn").last_stable == 2455
        _, *arguments = shlex.split(command)
        broker.run_java("org.apache.kafka.tools.TransactionsCommand", *arguments)
        check_equal(broker.bootstrap_servers, golden, partitions)

        # The marker of the abort takes one offset. No producer gets an id that is in the tier.
        ends = {(one["topic"], one["partition"]): one["end_offset"] for one in partitions}
        ends["txn", 0] += 1
        for number in range(3):
            assert {place: produced(broker, *place) - number for place in ends} == ends
        assert produced(broker, "logappend", 0, **{"transactional.id": "after"}) == ends["logappend", 0] + 3
        # A producer of the lost cluster goes on with its next sequence number.
        assert kafka_wire.produce_batch(HOST, broker.port, "txn", 0, next_batch(*old_producer)) == ends["txn", 0] + 3
        assert broker.wait_until_tiered("epochs", 0, 1).latest_tiered == ends["epochs", 1] - 1

        broker.restart(kill=True)
        check_equal(broker.bootstrap_servers, golden, partitions)


def test_three_nodes_serve_a_chunked_encrypted_tier_from_s3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], s3_environment: S3Server
) -> None:
    """Node 1 leads all partitions. After its end the other replicas serve the same records."""
    golden = golden_aiven(MODE)
    objects = [(path.relative_to(golden / "remote").as_posix(), path.read_bytes()) for path in (golden / "remote").rglob("*.*")]
    bucket = s3_environment.new_bucket(objects)
    store = [f"--store=s3://{bucket}", *(f"--store-option={name}={value}" for name, value in s3_environment.options.items())]
    layout = ["--layout=aiven", "--key-prefix=some-prefix/", f"--encryption-key=key1={golden / 'keys' / 'key1.private.der'}"]
    replicas = {("txn", 0): [1, 2], ("epochs", 0): [1, 3], ("epochs", 1): [1, 2]}
    placed = [{"topic": topic, "partition": number, "replicas": nodes} for (topic, number), nodes in replicas.items()]
    assignment = tmp_path / "assignment.json"
    assignment.write_text(json.dumps({"version": 1, "partitions": placed}))
    cluster = KafkaCluster(tmp_path / "cluster")
    try:
        for broker in cluster.nodes.values():
            format_or_skip(broker)
        first, *others = cluster.nodes.values()
        more = [f"--to={broker.log_directory}" for broker in others]
        configs = {topic: {"retention.ms": -1} for topic, _ in replicas}
        arguments = [*store, *layout, *more, f"--assignment={assignment}"]
        *partitions, _, done = restore(capsys, first, ["txn", "epochs"], *arguments, configs=configs)
        with cluster:
            for one in partitions:
                wait_for_end(first, one, one["end_offset"])
            for command in done["abort_commands"]:
                first.run_java("org.apache.kafka.tools.TransactionsCommand", *shlex.split(command)[1:])
            check_equal(cluster.bootstrap_servers, golden, partitions)
            ends = [first.offsets(one["topic"], one["partition"]).high_watermark for one in partitions]
            cluster.stop(1, kill=False)
            for one, end in zip(partitions, ends, strict=True):
                _, follower = replicas[one["topic"], one["partition"]]
                wait_for_end(cluster.nodes[follower], one, end)
            check_equal(others[0].bootstrap_servers, golden, partitions)
    finally:
        cluster.close()
