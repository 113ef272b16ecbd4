"""Topics on the real broker for the parity scenarios: most of each is tiered, the newest records are local."""

from __future__ import annotations

import random
from typing import Any

from confluent_kafka import Producer

from tests.support.kafka_broker import KafkaBroker
from tests.support.scenario import TransactionalTopic

__all__ = ["CODECS", "FIRST_TIMESTAMP", "write_topics"]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_TIMESTAMP = 1_700_000_000_000
_RECORDS = 400
_PARTITIONS = 3
_FLUSH_SECONDS = 120


def write_topics(broker: KafkaBroker, transactional: TransactionalTopic) -> dict[str, Any]:
    """Writes ``mixed`` (every codec, every kind of content), ``append`` (LogAppendTime) and ``three`` (partitions).

    Returns JSON: for each topic its name, its log start, the start of its local log, and its high watermark.
    """
    topics = {"mixed": "parity-mixed", "append": "parity-append", "three": "parity-three"}
    broker.create_topic(topics["mixed"])
    broker.create_topic(topics["append"], message_timestamp_type="LogAppendTime")
    broker.create_topic(topics["three"], partitions=_PARTITIONS)
    for codec in CODECS:
        _produce(broker, topics["mixed"], codec, first=_RECORDS // len(CODECS) * CODECS.index(codec), count=80)
    _produce(broker, topics["mixed"], "none", first=_RECORDS, count=60)
    _produce(broker, topics["append"], "lz4", first=0, count=200, size=300)
    for partition in range(_PARTITIONS):
        _produce(broker, topics["three"], "none", first=1000 * partition, count=150, partition=partition, size=300)
    broker.wait_until_tiered(topics["mixed"])
    broker.wait_until_tiered(topics["append"])
    broker.wait_until_tiered(topics["three"], *range(_PARTITIONS))
    return {what: _facts(broker, name) for what, name in topics.items()} | {
        "transactional": _facts(broker, transactional.topic)
        | {"aborted": transactional.local_abort_first, "open": transactional.open_first}
    }


def _facts(broker: KafkaBroker, topic: str) -> dict[str, Any]:
    offsets = broker.offsets(topic)
    assert offsets.log_start < offsets.earliest_local - 20, f"hardly anything of {topic} is tiered: {offsets}"
    assert offsets.earliest_local < offsets.high_watermark - 5, f"hardly anything of {topic} is local: {offsets}"
    return {"name": topic, "start": offsets.log_start, "local": offsets.earliest_local, "end": offsets.high_watermark}


def _produce(
    broker: KafkaBroker, topic: str, codec: str, *, first: int, count: int, partition: int = 0, size: int = 400
) -> None:
    """Writes records with and without key, value and headers, also empty ones, ten in a batch; times rise by a second."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "compression.type": codec,
            "batch.num.messages": 10,
            "linger.ms": 5,
            "log_level": 0,
        }
    )
    content = random.Random(first)  # compressible, but not to almost nothing
    for number in range(first, first + count):
        kind = number % 10
        headers: list[tuple[str, str | bytes | None]] = [
            ("number", b"%d" % number),
            ("null", None),
            ("empty", b""),
            ("number", b"x"),
        ]
        producer.produce(
            topic,
            partition=partition,
            key={1: None, 2: b""}.get(kind, b"key-%d" % number),
            value={3: None, 4: b""}.get(kind, content.randbytes(size * 3 // 4).ljust(size, b"%d" % kind)),
            headers=headers if kind in (3, 5, 7) else None,
            timestamp=FIRST_TIMESTAMP + 1000 * number,
        )
    assert producer.flush(_FLUSH_SECONDS) == 0, "the broker did not take all records"
