"""Half a million records through the shim, compared with a plain consumer with ``check.crcs=true`` on a real broker.

Five partitions of 60,000 records, one for each codec, at both isolation levels: plain records, and transactions that commit and
abort alternately, headers and nulls. All fields of each record are compared, by digests of a thousand offsets, so
that a difference is found and located without keeping a million rows.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Producer, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from tests.support.kafka_broker import KafkaBroker
from tests.support.ledger import ledger
from tests.support.reading import PATIENCE_SECONDS, direct, row, settings, shim_before, total

pytestmark = pytest.mark.broker

Digests: TypeAlias = dict[tuple[int, int], tuple[int, str]]
"""By partition and thousand offsets: how many records, and a digest of all that they are."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPIC = "half-a-million"
OFFSETS = 60_000
RECORDS = len(CODECS) * OFFSETS * 7 // 4
"""All of them once, and once more three of four: a quarter is aborted."""
_BURST = 500
_FIRST_TIMESTAMP = 1_700_000_000_000
_AT_ONCE = 5_000
_THOUSAND = 1_000


def _write_all(broker: KafkaBroker) -> None:
    """Writes all partitions in parallel; then waits until they are tiered, except the last segment of each."""
    broker.create_topic(TOPIC, partitions=len(CODECS), segment_bytes=300_000)
    with ThreadPoolExecutor(len(CODECS)) as writers:
        list(writers.map(_write, [broker] * len(CODECS), range(len(CODECS)), CODECS))
    broker.wait_until_tiered(TOPIC, *range(len(CODECS)))


def _write(broker: KafkaBroker, partition: int, codec: str) -> None:
    """Writes bursts in turn: without transactions, in committed ones, in aborted ones."""
    base = {"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec, "linger.ms": 20, "log_level": 0}
    plain = Producer({**base, "queue.buffering.max.messages": 1_000_000})
    transactional = Producer({**base, "transactional.id": f"{TOPIC}-{codec}"})
    transactional.init_transactions(PATIENCE_SECONDS)
    for burst, first in enumerate(range(0, OFFSETS, _BURST)):
        kind = ("plain", "commit", "plain", "abort")[burst % 4]
        producer = plain if kind == "plain" else transactional
        if producer is transactional:
            transactional.begin_transaction()
        for number in range(first, first + _BURST):
            _produce(producer, partition, codec, number)
        if kind == "commit":
            transactional.commit_transaction(PATIENCE_SECONDS)
        elif kind == "abort":
            assert transactional.flush(PATIENCE_SECONDS) == 0  # aborted records have to be in the log
            transactional.abort_transaction(PATIENCE_SECONDS)
        else:
            assert plain.flush(PATIENCE_SECONDS) == 0


def _produce(producer: Producer, partition: int, codec: str, number: int) -> None:
    # Half of it is incompressible, so that each codec fills several segments.
    value = b"%s %d %b " % (codec.encode(), number, hashlib.blake2b(b"%d" % number, digest_size=24).digest()) * (1 + number % 2)
    producer.produce(
        TOPIC,
        None if number % 101 == 7 else value,
        None if number % 53 == 11 else b"key-%d" % (number % 1_000),
        partition,
        timestamp=_FIRST_TIMESTAMP + number,
        headers=[("number", b"%d" % number), ("null", None)] if number % 10 == 0 else None,
    )


def _digests(consumer: confluent_kafka.Consumer) -> tuple[Digests, dict[str, object]]:
    """Returns digests of everything from beginning to end, and the metrics of a consumer that has any. Closes it."""
    counts: dict[tuple[int, int], int] = {}
    hashes: dict[tuple[int, int], hashlib.blake2b] = {}
    ended: set[int] = set()
    try:
        consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(len(CODECS))])
        left = Deadline(SystemClock(), 4 * PATIENCE_SECONDS)
        while len(ended) < len(CODECS):
            assert not left.expired(), f"only {sorted(ended)} ended"
            for message in consumer.consume(_AT_ONCE, 0.2):
                partition = message.partition()
                assert partition is not None
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(partition)
                    continue
                fields = row(message)
                place = partition, fields[0] // _THOUSAND
                if place not in hashes:
                    hashes[place], counts[place] = hashlib.blake2b(digest_size=16), 0
                hashes[place].update(repr(fields).encode())
                counts[place] += 1
        metrics: dict[str, object] = dict(consumer.metrics()) if isinstance(consumer, Consumer) else {}
    finally:
        consumer.close()
    return {place: (counts[place], found.hexdigest()) for place, found in hashes.items()}, metrics


@pytest.mark.timeout(900)  # half a million records, twice: minutes on a loaded machine
def test_every_record_equals_the_oracles(kafka_broker: KafkaBroker) -> None:
    _write_all(kafka_broker)
    count = from_store = 0
    differences: list[tuple[str, int, int]] = []
    with shim_before(kafka_broker) as shim:
        for isolation in ("read_committed", "read_uncommitted"):
            expected, _ = _digests(confluent_kafka.Consumer(settings(kafka_broker.bootstrap_servers, isolation)))
            found, metrics = _digests(Consumer(direct(shim, isolation)))
            differences += [
                (isolation, *place) for place in sorted({*expected, *found}) if expected.get(place) != found.get(place)
            ]
            assert metrics["remote-fetch-fallbacks-total"] == {}
            count += sum(number for number, _ in found.values())
            from_store += total(metrics, "remote-fetch-records-total")
    ledger("oracle", records=count, from_store=from_store, codecs=len(CODECS), differences=len(differences))
    assert differences == []
    assert count == RECORDS
    assert from_store > count // 2
