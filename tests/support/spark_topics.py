"""Topics of the real broker for the tests of Spark, and the options to read them in both ways."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

from confluent_kafka import Producer

from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS

__all__ = [
    "CODECS",
    "append",
    "directly",
    "small_grants_shim",
    "through_the_broker",
    "write_codec_topic",
    "write_odd_topic",
]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_EACH = 250
_FIRST_TIMESTAMP = 1_700_000_000_000


def write_codec_topic(broker: KafkaBroker, topic: str, **config: str) -> str:
    """Two partitions, batches of all codecs, with and without key, value and headers; most of it is tiered.

    A record's timestamp is ``_FIRST_TIMESTAMP`` and its number in milliseconds, unless ``config`` has the broker set it.
    """
    broker.create_topic(topic, partitions=2, segment_bytes=12_000, **config)
    append(broker, topic)
    broker.wait_until_tiered(topic, 0, 1)
    return topic


def append(broker: KafkaBroker, topic: str, codecs: Sequence[str] = CODECS) -> None:
    """Produces ``_EACH`` records with each codec, to both partitions in turn."""
    number = 0
    for codec in codecs:
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "compression.type": codec,
                "enable.idempotence": True,  # a produce to a loaded broker is repeated, and must not be stored twice
                "batch.num.messages": 25,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        for _ in range(_EACH):
            number += 1
            producer.produce(
                topic,
                partition=number % 2,
                key=None if number % 11 == 5 else b"key-%d" % number,
                value=None if number % 7 == 3 else (b"%d %s " % (number, codec.encode())) * (1 + number % 20),
                headers=[("number", b"%d" % number), ("ключ", None), ("number", b"")] if number % 3 == 0 else None,
                timestamp=_FIRST_TIMESTAMP + number,
            )
        assert producer.flush(60) == 0, "the broker did not take all records"


def write_odd_topic(broker: KafkaBroker, topic: str) -> str:
    """One partition, in each codec: records with and without, or with empty, key, value and headers; headers whose names are
    empty, repeated or not ASCII; times from 1970 to 9999; a record larger than a range. Most of it is tiered.
    """
    broker.create_topic(topic, segment_bytes=400_000, message_timestamp_after_max_ms=str(2**62))
    headers: list[list[tuple[str, bytes | None]] | None] = [
        None,
        [],
        [("", b""), ("", None)],
        [("h", b"1"), ("h", b"2"), ("H", b"\x00\xff")],
        [("ключ \U0001f511", "значение".encode()), ("long", bytes(3000))],
    ]
    content = random.Random(5)
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        for key, value, given in product((None, b"", b"key"), (None, b"", b"\x00value\xff" * 9), headers):
            time = content.choice((1, _FIRST_TIMESTAMP, 253_402_300_799_999))
            producer.produce(topic, value, key, partition=0, headers=given, timestamp=time)
        assert producer.flush(60) == 0, "the broker did not take all records"
        producer.produce(topic, content.randbytes(200_000), b"large", partition=0, timestamp=_FIRST_TIMESTAMP)
        assert producer.flush(60) == 0, "the broker did not take all records"
    broker.wait_until_tiered(topic)
    return topic


@contextmanager
def small_grants_shim(broker: KafkaBroker, **more: Any) -> Iterator[Shim]:
    """A shim that grants small windows, so that a split takes several. ``more``: further arguments of ShimConfig."""
    small: dict[str, Any] = {"range_bytes": 64 << 10, "max_grant_bytes": 128 << 10}
    with Shim(ShimConfig(broker.bootstrap_servers, store=broker.store_url, **{**small, **more})) as running:
        assert running.wait_ready(PATIENCE_SECONDS)
        yield running


def through_the_broker(broker: KafkaBroker, **more: str) -> dict[str, str]:
    """Returns options for ``format("kafka")``."""
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, "includeHeaders": "true", **more}


def directly(shim: Shim, **more: str) -> dict[str, str]:
    """The same for ``format("kafka-remote")``."""
    origin = shim.origin_url
    assert origin is not None
    return {
        "kafka.bootstrap.servers": shim.bootstrap_servers,
        "includeHeaders": "true",
        "remote.storage.fetcher.allowed.hosts": origin.partition("//")[2],
        "remote.storage.fetcher.allow.http": "true",
        "remote.storage.fetcher.allow.private.addresses": "true",
        # Wide enough for a loaded machine: what is tested is what is read.
        "fetch.remote.location.timeout.ms": "20000",
        "fetch.remote.read.timeout.ms": "20000",
        **more,
    }
