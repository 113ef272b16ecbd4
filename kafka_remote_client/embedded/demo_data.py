"""The demo's records, and digests that compare a reader's records with the producer's.

The records are computed, and the same in every run: with keys, values of 20 bytes to 4 KB (mostly small), and headers in some
of them. One producer per codec writes them in turns. A producer sends the records of a partition in order, and only one
producer sends at a time, so a delivery report's offset belongs to the oldest record in flight of its partition. (The reports
have no headers.)
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import attrs
from confluent_kafka import KafkaException, Message, Producer

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import LocationError

__all__ = ["CODECS", "DemoData", "DigestBuilder", "PartitionDigest", "fill"]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

MIN_VALUE_BYTES = 20
MAX_VALUE_BYTES = 4096

_ROUND_RECORDS = 10_000
_FLUSH_SECONDS = 60.0
_FIRST_TIMESTAMP = 1_700_000_000_000
_POOL_BYTES = 1 << 20
_HEADER_EVERY = 10
_FRONT = struct.Struct(">qqii")
_PART = struct.Struct(">i")
_NULL = -1

_Headers: TypeAlias = Sequence[tuple[str, bytes | str | None]]


@attrs.frozen
class _DemoRecord:
    timestamp_ms: int
    key: bytes
    value: bytes
    headers: _Headers


@attrs.frozen
class PartitionDigest:
    """``bytes``: of keys and values. ``digest``: of offsets, timestamps, keys, values and headers, in hex."""

    records: int
    bytes: int
    digest: str


@attrs.frozen
class DemoData:
    """The records that :func:`fill` wrote. A reader of ``topic`` must compute the same ``partitions``."""

    topic: str
    partitions: Mapping[int, PartitionDigest]

    @property
    def records(self) -> int:
        """Records in all partitions."""
        return sum(one.records for one in self.partitions.values())

    @property
    def bytes(self) -> int:
        """Bytes of keys and values in all partitions."""
        return sum(one.bytes for one in self.partitions.values())


class DigestBuilder:
    """Builds the digests of all partitions from records in offset order within each partition."""

    def __init__(self) -> None:
        self._hashes: dict[int, hashlib.blake2b] = {}
        self._records: dict[int, int] = {}
        self._bytes: dict[int, int] = {}

    def add(
        self, partition: int, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: _Headers | None
    ) -> None:
        """Adds the next record of a partition. No headers: ``None`` or empty."""
        if partition not in self._hashes:
            self._hashes[partition] = hashlib.blake2b(digest_size=16)
            self._records[partition] = self._bytes[partition] = 0
        pieces = [_FRONT.pack(offset, timestamp_ms, _length(key), _length(value)), key or b"", value or b""]
        for name, content in headers or ():
            for part in (name, content):
                raw = part.encode() if isinstance(part, str) else part
                pieces += (_PART.pack(_length(raw)), raw or b"")
        self._hashes[partition].update(b"".join(pieces))
        self._records[partition] += 1
        self._bytes[partition] += len(key or b"") + len(value or b"")

    def add_message(self, message: Message) -> None:
        """Adds a consumer's next message of its partition. Raises ValueError for one without partition or offset."""
        partition, offset, key, value = message.partition(), message.offset(), message.key(), message.value()
        if partition is None or offset is None or isinstance(key, str) or isinstance(value, str):
            raise ValueError("the message has no partition or offset, or its key or value is text")
        headers = message.headers()
        pairs = list(headers.items()) if isinstance(headers, dict) else headers
        self.add(partition, offset, message.timestamp()[1], key, value, pairs)

    def result(self) -> dict[int, PartitionDigest]:
        """The digests so far, by partition."""
        return {
            partition: PartitionDigest(self._records[partition], self._bytes[partition], done.hexdigest())
            for partition, done in sorted(self._hashes.items())
        }


def fill(
    cluster: EmbeddedCluster,
    *,
    topic: str = "demo",
    records: int = 200_000,
    round_records: int = _ROUND_RECORDS,
    progress: Callable[[int], None] = lambda _done: None,
) -> DemoData:
    """Produces ``records`` with all codecs in turns and archives after each round. The last part stays on the broker.

    ``round_records``: records between two archive steps. ``progress`` gets the number of delivered records. The topic must be
    new. Raises KafkaException or LocationError if the broker rejects the records.
    """
    producers = [
        cluster.producer(compression_type=codec, linger_ms=5, queue_buffering_max_messages=1_000_000) for codec in CODECS
    ]
    digests = DigestBuilder()
    made = _records()
    done = 0
    while done < records:
        share, rest = divmod(min(round_records, records - done), len(producers))
        for number, producer in enumerate(producers):
            count = share + (number < rest)
            _produce(producer, topic, cluster.partitions, list(islice(made, count)), digests)
            done += count
        cluster.archive()
        progress(done)
    return DemoData(topic, digests.result())


def _produce(producer: Producer, topic: str, partitions: int, records: Sequence[_DemoRecord], digests: DigestBuilder) -> None:
    in_flight: dict[int, deque[_DemoRecord]] = {partition: deque() for partition in range(partitions)}
    failed: list[object] = []

    def on_delivery(error: object, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            failed.append(error)
            return
        record = in_flight[partition].popleft()
        digests.add(partition, offset, record.timestamp_ms, record.key, record.value, record.headers)

    for record in records:
        partition = int.from_bytes(hashlib.blake2b(record.key, digest_size=4).digest(), "big") % partitions
        in_flight[partition].append(record)
        producer.produce(
            topic,
            record.value,
            record.key,
            partition,
            on_delivery=on_delivery,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )
    try:
        waiting = producer.flush(_FLUSH_SECONDS)
    except SystemError as error:  # confluent_kafka 2.16 loses a Ctrl-C that comes while flush() calls on_delivery
        raise KeyboardInterrupt from error
    if waiting:
        raise LocationError("the broker does not accept the demo's records")
    if failed:
        raise KafkaException(failed[0])


def _records() -> Iterator[_DemoRecord]:
    """Without end."""
    pool = base64.b64encode(hashlib.shake_256(b"kafka-remote demo").digest(_POOL_BYTES))
    spread = MAX_VALUE_BYTES - MIN_VALUE_BYTES
    state = number = 0
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)  # Knuth's MMIX generator
        size = MIN_VALUE_BYTES + round(spread * ((state >> 33) / (1 << 31)) ** 8)
        start = (state >> 20) % (len(pool) - MAX_VALUE_BYTES)
        value = (b"%d " % number + pool[start : start + size])[:size]
        headers: _Headers = (("number", b"%d" % number), ("codec", None)) if number % _HEADER_EVERY == 0 else ()
        yield _DemoRecord(_FIRST_TIMESTAMP + number, b"key-%d" % (state >> 50), value, headers)
        number += 1


def _length(part: bytes | None) -> int:
    return _NULL if part is None else len(part)
