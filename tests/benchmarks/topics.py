"""The topics that are read: records of one size and shape, all but the last segments in the tier and nowhere else."""

from __future__ import annotations

import json
import random
import struct
import tempfile
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import attrs
import fastavro
from confluent_kafka import Producer

from tests.support.kafka_broker import KafkaBroker
from tests.support.waiting import wait_until

__all__ = ["ORDER_SCHEMA", "ORDER_SCHEMA_ID", "Shape", "TieredTopic", "avro_values", "write_topic"]

_LINES = 1000
_ORDERS = 100_000
"""More than the dictionary of a Parquet column holds: 1 MiB."""
_KEY_BYTES = 16
_JAVAS_BATCH_BYTES = 16_384
ORDER_SCHEMA_ID = 1
_ORDER_FIELDS = {"id": "long", "customer": "string", "amount": "double", "currency": "string", "note": "string"}
ORDER_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "order",
    "fields": [{"name": name, "type": kind} for name, kind in _ORDER_FIELDS.items()],
}
"""The Avro schema of orders, the documents of topics of JSON and Avro."""
_SEGMENTS_AT_LEAST = 4
_LEFT_OVER = 0.9
"""How much of a topic with several partitions is read, because no two reach the end of their tier at once."""


@attrs.frozen
class Shape:
    """What is particular about a topic. ``local``: all of it is on the broker's disk as well. ``json``: values are JSON.

    ``avro``: values are Avro behind :data:`ORDER_SCHEMA_ID`, by :data:`ORDER_SCHEMA`.
    """

    codec: str = "none"
    keys: bool = False
    headers: int = 0
    partitions: int = 1
    local: bool = False
    json: bool = False
    avro: bool = False

    @property
    def name(self) -> str:
        said = {
            "keys": self.keys,
            f"headers{self.headers}": self.headers,
            "json": self.json,
            "avro": self.avro,
            f"of{self.partitions}": self.partitions > 1,
        }
        return "-".join(["", *([self.codec] if self.codec != "none" else []), *(word for word, on in said.items() if on)]) + (
            "-local" if self.local else ""
        )


@attrs.frozen
class TieredTopic:
    """A topic of which so many records can be read from the tier: ``[0, records)`` where it has one partition.

    ``tiered``: the offset behind the last record in the tier, by partition. ``segment_bytes``: the size of each segment there.
    """

    name: str
    record_bytes: int
    records: int
    segments: int
    codec: str = "none"
    partitions: int = 1
    tiered: tuple[int, ...] = ()
    segment_bytes: tuple[int, ...] = ()


def write_topic(
    broker: KafkaBroker, record_bytes: int, megabytes: int, segment_bytes: int, shape: Shape | None = None
) -> TieredTopic:
    """Writes ``megabytes`` of values in batches of Java's default size and waits until they are tiered.

    Values are random capital letters; with a codec words, which zstd brings to about a third, as it does JSON. Segments of
    many partitions are smaller, so that each has several. Raises ValueError where nothing gets into the tier.
    """
    shape = shape or Shape()
    segment_bytes = min(segment_bytes, megabytes * 1_000_000 // shape.partitions // _SEGMENTS_AT_LEAST)
    name = f"bytes-{record_bytes}{shape.name}"
    local = {"local_retention_bytes": "-2"} if shape.local else {}
    broker.create_topic(name, segment_bytes=segment_bytes, partitions=shape.partitions, index_interval_bytes="4096", **local)
    count = megabytes * 1_000_000 // record_bytes
    if shape.keys or shape.headers or shape.avro or shape.partitions > 1:
        _write(broker, name, record_bytes, count, shape)
    else:
        _write_by_java(broker, name, record_bytes, count, shape)
    if shape.local:
        wait_until(lambda: broker.offsets(name).high_watermark == count, f"{name} to be written", seconds=600)
        return TieredTopic(name, record_bytes, count, 0, shape.codec)
    broker.wait_until_tiered(name, *range(shape.partitions), seconds=600)
    tiered = tuple(broker.offsets(name, partition).latest_tiered + 1 for partition in range(shape.partitions))
    records = tiered[0] if shape.partitions == 1 else int(min(tiered) * shape.partitions * _LEFT_OVER)
    if records <= 0:
        raise ValueError(f"{megabytes} MB are too few to fill a segment of {segment_bytes} bytes in each partition of {name}")
    sizes = tuple(
        path.stat().st_size for partition in range(shape.partitions) for path in broker.remote_segments(name, partition)
    )
    return TieredTopic(name, record_bytes, records, len(sizes), shape.codec, shape.partitions, tiered, sizes)


def _write_by_java(broker: KafkaBroker, name: str, record_bytes: int, count: int, shape: Shape) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        if shape.json or shape.codec != "none":
            path = Path(scratch) / "values"
            path.write_text("\n".join(_lines(record_bytes, shape)))
            values = ["--payload-file", str(path)]
        else:
            values = ["--record-size", str(record_bytes)]
        load = ("--num-records", str(count), *values, "--throughput", "-1")
        properties = ("--producer-props", f"bootstrap.servers={broker.bootstrap_servers}", f"compression.type={shape.codec}")
        broker.run_java("org.apache.kafka.tools.ProducerPerformance", "--topic", name, *load, *properties, seconds=1200)


def _write(broker: KafkaBroker, name: str, record_bytes: int, count: int, shape: Shape) -> None:
    """What Java's tool cannot write: keys, headers, Avro, and as many records for each of many partitions.

    Its partitioner chooses at random. With 1,000 partitions some get too few batches to fill a segment.
    """
    values = avro_values(record_bytes) if shape.avro else [line.encode() for line in _lines(record_bytes, shape)]
    headers: list[tuple[str, str | bytes | None]] = [(f"header-{number}", b"%08d" % number) for number in range(shape.headers)]
    settings = {"bootstrap.servers": broker.bootstrap_servers, "batch.size": _JAVAS_BATCH_BYTES, "linger.ms": 1000}
    producer = Producer({**settings, "compression.type": shape.codec, "log_level": 0})
    for number, value in enumerate(islice(cycle(values), count)):
        key = b"%0*d" % (_KEY_BYTES, number) if shape.keys else None
        while True:
            try:
                producer.produce(name, value, key, partition=number % shape.partitions, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(600) == 0


def _lines(record_bytes: int, shape: Shape) -> list[str]:
    """Values of that length: JSON, words that a codec can compress, or random capital letters."""
    if shape.json or shape.codec != "none":
        return (_documents if shape.json else _words)(record_bytes)
    source = random.Random(1)
    return ["".join(source.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=record_bytes)) for _ in range(_LINES)]


def _words(record_bytes: int, lines: int = _LINES) -> list[str]:
    """Lines of that length."""
    source = random.Random(1)
    words = ["".join(source.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=source.randint(3, 12))) for _ in range(600)]
    return [" ".join(source.choices(words, k=record_bytes // 4 + 1))[:record_bytes] for _ in range(lines)]


def _documents(record_bytes: int, count: int = _ORDERS) -> list[str]:
    """JSON documents of that length, one a line."""
    orders = _orders(record_bytes, count)
    return [_padded(one, record_bytes, lambda order: json.dumps(order).encode()).decode() for one in orders]


def avro_values(record_bytes: int, count: int = _ORDERS) -> list[bytes]:
    """The same orders in Avro behind the id of their schema, of that length."""
    schema = fastavro.parse_schema(ORDER_SCHEMA)

    def encoded(order: dict[str, Any]) -> bytes:
        written = BytesIO()
        written.write(struct.pack(">bi", 0, ORDER_SCHEMA_ID))
        fastavro.schemaless_writer(written, schema, order)
        return written.getvalue()

    return [_padded(order, record_bytes, encoded) for order in _orders(record_bytes, count)]


def _orders(record_bytes: int, count: int) -> Iterator[dict[str, Any]]:
    source = random.Random(2)
    for number, note in enumerate(_words(record_bytes, count)):
        amount, currency = round(source.uniform(1, 1000), 2), source.choice(["EUR", "USD", "CHF"])
        customer = f"customer-{source.randrange(10_000)}"
        yield {"id": number, "customer": customer, "amount": amount, "currency": currency, "note": note}


def _padded(order: dict[str, Any], record_bytes: int, encode: Callable[[dict[str, Any]], bytes]) -> bytes:
    """The order with as much of its note as there is room for."""
    left = record_bytes - (len(encode(order)) - len(order["note"]))
    return encode({**order, "note": order["note"][:left]})
