"""A topic that the cleaner of a real broker has compacted, and its tier.

Kafka refuses remote storage for a compacted topic (its ``LogConfig``). It tiers a topic that was compacted before, so the
topic is compacted first. Then its policy becomes delete, and remote storage is enabled, in one request: the broker copies the
cleaned segments as they are.

The log has what the cleaner treats in its own way: transactions that commit and abort, in all codecs; records of one key far
apart; tombstones; and batches of which all records go. Whether a producer's last batch stays as an empty one depends on when
the cleaner runs; ``tests/fetch/test_compacted_topic.py`` has such a batch.

References: KIP-98 and KIP-534 (delete horizon), Kafka's LogCleaner.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

import attrs
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from tests.support.kafka_broker import KafkaBroker, TierOffsets
from tests.support.reading import Row, plain
from tests.support.waiting import wait_until

__all__ = ["CompactedTopic", "change_topics", "wait_until_cleaned", "write_compacted_topic"]

_PATIENCE_SECONDS = 120
_SEGMENT_BYTES = 8_000
_ROUNDS = 3
_KEYS = 60
_FIRST_TIMESTAMP = 1_700_000_000_000
_NEVER_MS = str(1 << 62)
_ISOLATION = ("read_committed", "read_uncommitted")
_TIERED = {
    "cleanup.policy": "delete",
    "remote.storage.enable": "true",
    "local.retention.bytes": "1",
    "retention.ms": "-1",
}


@attrs.frozen
class CompactedTopic:
    """``local``: by isolation level, what the plain consumer read before anything was tiered. ``offsets``: of both tiers."""

    topic: str
    offsets: TierOffsets
    local: dict[str, list[Row]]


class _Writer:
    def __init__(self, broker: KafkaBroker, topic: str, seed: int) -> None:
        self._broker, self._topic = broker, topic
        self._random = random.Random(seed)
        self._number = 0

    def transaction(self, producer: Producer, *, commit: bool, keys: range) -> None:
        producer.begin_transaction()
        self.records(producer, keys)
        (producer.commit_transaction if commit else producer.abort_transaction)(_PATIENCE_SECONDS)

    def records(self, producer: Producer, keys: range) -> None:
        for key in keys:
            self._number += 1
            name = b"only-%d" % self._number if self._number % 7 == 0 else b"key-%d" % key  # the first is never replaced
            value = None if self._random.random() < 0.1 else b"%d " % self._number + self._random.randbytes(60)
            producer.produce(self._topic, value, name, 0, timestamp=_FIRST_TIMESTAMP + self._number)
            if self._random.random() < 0.1:
                assert producer.flush(_PATIENCE_SECONDS) == 0, "the broker did not take all records"  # ends the batch
        assert producer.flush(_PATIENCE_SECONDS) == 0, "the broker did not take all records"


def write_compacted_topic(broker: KafkaBroker, topic: str, seed: int = 1) -> CompactedTopic:
    """Creates ``topic`` with one partition, writes it, waits for the cleaner, and tiers it."""
    broker.create_topic(
        topic,
        segment_bytes=_SEGMENT_BYTES,
        tiered=False,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.001",
        min_compaction_lag_ms="0",
        delete_retention_ms="0",
    )
    writer = _Writer(broker, topic, seed)
    producers = {
        name: Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": True,
                "compression.type": codec,
                "batch.num.messages": 10,
                "linger.ms": 5,
                "log_level": 0,
            }
            | ({"transactional.id": f"{topic}-{name}"} if name != "plain" else {})
        )
        for name, codec in (("plain", "none"), ("lz4", "lz4"), ("zstd", "zstd"))
    }
    for name in ("lz4", "zstd"):
        producers[name].init_transactions(_PATIENCE_SECONDS)
    for turn in range(_ROUNDS):
        for name in ("lz4", "zstd"):
            writer.transaction(producers[name], commit=True, keys=range(turn, _KEYS, 2))
            writer.transaction(producers[name], commit=False, keys=range(turn, _KEYS, 3))
        writer.records(producers["plain"], range(10 * turn, _KEYS))
        wait_until_cleaned(broker, topic)
    # The cleaner removes aborted records. So the last segments are not cleaned, although their records have old timestamps.
    change_topics(broker, [topic], {"min.compaction.lag.ms": _NEVER_MS})
    for name in ("lz4", "zstd"):
        writer.transaction(producers[name], commit=True, keys=range(_KEYS))
        writer.transaction(producers[name], commit=False, keys=range(0, _KEYS, 2))
    writer.records(producers["plain"], range(1000, 1200))
    local = {isolation: plain(broker, topic, isolation) for isolation in _ISOLATION}
    change_topics(broker, [topic], _TIERED)
    return CompactedTopic(topic, broker.wait_until_tiered(topic), local)


def wait_until_cleaned(broker: KafkaBroker, topic: str) -> None:
    """Waits until the cleaner has seen everything but the active segment."""
    checkpoint = broker.log_directory / "cleaner-offset-checkpoint"

    def cleaned() -> bool:
        active = max(int(path.stem) for path in broker.local_log(topic).glob("*.log"))
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        return f"{topic} 0 {active}" in lines

    wait_until(cleaned, f"{topic} to be cleaned", seconds=_PATIENCE_SECONDS)


def change_topics(broker: KafkaBroker, topics: Iterable[str], settings: Mapping[str, str]) -> None:
    """Changes settings of topics, under Kafka's names."""
    changes = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()]
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes) for topic in topics]
    for answer in broker.admin.incremental_alter_configs(resources).values():
        answer.result(_PATIENCE_SECONDS)
