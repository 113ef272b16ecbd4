"""A restored node serves what the lost cluster did: golden tiers of a real broker, restored to a new node of a real broker.

The golden data have the records that Kafka's own consumer read before the loss. Here a plain consumer reads them again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from kafka_remote_client.cli.main import run
from tests.support.formatted_broker import formatted_broker
from tests.support.golden import golden_aiven, golden_local, read_jsonl
from tests.support.kafka_broker import KafkaBroker, TierOffsets
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
    capsys: pytest.CaptureFixture[str], broker: KafkaBroker, topics: list[str], *arguments: str
) -> list[dict[str, Any]]:
    """Restores to the node. Returns the lines of JSON."""
    configs = broker.directory / "topics.json"
    configs.write_text(json.dumps({topic: CONFIGS[topic] for topic in topics}))
    place = ["--to", str(broker.log_directory), "--configs", str(configs), "--bootstrap-servers", broker.bootstrap_servers]
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


def records(broker: KafkaBroker, topic: str, partition: int, level: str) -> list[dict[str, Any]]:
    """All records that a plain consumer gets, in the form of the golden data."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
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


def check_equal(broker: KafkaBroker, golden: Path, partitions: list[dict[str, Any]]) -> None:
    for one in partitions:
        for level in LEVELS:
            told = expected(golden, one["topic"], one["partition"], level, one["end_offset"])
            read = records(broker, one["topic"], one["partition"], level)
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


@pytest.mark.broker
def test_a_restored_node_serves_the_lost_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = golden_local()
    with formatted_broker(tmp_path / "node") as broker:
        store = ["--store", (golden / "remote").as_uri(), "--log-start", "delrec-0=437"]
        *partitions, _, done = restore(capsys, broker, list(CONFIGS), *store)
        ids = {one["topic"]: one["topic_id"] for one in read_jsonl(golden / "offsets.jsonl")}
        broker.start()
        for one in partitions:
            what = f"{one['topic']}-{one['partition']} to have a leader"
            now = wait_until(lambda: offsets(broker, one), what, seconds=_PATIENCE_SECONDS)  # noqa: B023 - called at once
            assert now is not None
            assert (now.log_start, now.high_watermark) == (one["log_start"], one["end_offset"])
            metadata = broker.local_log(one["topic"], one["partition"]) / "partition.metadata"
            assert metadata.read_text().endswith(ids[one["topic"]])

        # The transaction whose end was lost holds read_committed back until the printed command aborts it.
        (command,) = done["abort_commands"]
        assert broker.offsets("txn").last_stable == 2455
        _, *arguments = shlex.split(command)
        broker.run_java("org.apache.kafka.tools.TransactionsCommand", *arguments)
        check_equal(broker, golden, partitions)

        # The marker of the abort takes one offset. No producer gets an id that is in the tier.
        ends = {(one["topic"], one["partition"]): one["end_offset"] for one in partitions}
        ends["txn", 0] += 1
        for number in range(3):
            assert {place: produced(broker, *place) - number for place in ends} == ends
        assert produced(broker, "logappend", 0, **{"transactional.id": "after"}) == ends["logappend", 0] + 3
        assert broker.wait_until_tiered("epochs", 0, 1).latest_tiered == ends["epochs", 1] - 1

        broker.restart(kill=True)
        check_equal(broker, golden, partitions)


def test_a_chunked_encrypted_tier_is_restored_from_s3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], s3_environment: S3Server
) -> None:
    golden = golden_aiven(MODE)
    objects = [(path.relative_to(golden / "remote").as_posix(), path.read_bytes()) for path in (golden / "remote").rglob("*.*")]
    bucket = s3_environment.new_bucket(objects)
    options = [f"--store-option={name}={value}" for name, value in s3_environment.options.items()]
    layout = ["--layout=aiven", "--key-prefix=some-prefix/", f"--encryption-key=key1={golden / 'keys' / 'key1.private.der'}"]
    with formatted_broker(tmp_path / "node") as broker:
        *partitions, _, done = restore(capsys, broker, ["txn", "epochs"], f"--store=s3://{bucket}", *options, *layout)
        broker.start()
        for command in done["abort_commands"]:
            broker.run_java("org.apache.kafka.tools.TransactionsCommand", *shlex.split(command)[1:])
        check_equal(broker, golden, partitions)
