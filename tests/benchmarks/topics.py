"""The topics that are read: records of one size, all but the last segment in the tier and nowhere else."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import attrs

from tests.support.kafka_broker import KafkaBroker

__all__ = ["TieredTopic", "write_topic"]

_LINES = 1000


@attrs.frozen
class TieredTopic:
    """A topic with one partition, whose records ``[0, records)`` lie in the tier."""

    name: str
    record_bytes: int
    records: int
    segments: int
    codec: str = "none"


def write_topic(broker: KafkaBroker, record_bytes: int, megabytes: int, segment_bytes: int, codec: str = "none") -> TieredTopic:
    """Writes ``megabytes`` of values with Java's producer (its default batches) and waits until they are tiered.

    Values are random capital letters; with a codec words, which zstd brings to about a third, as it does JSON.
    """
    name = f"bytes-{record_bytes}" if codec == "none" else f"bytes-{record_bytes}-{codec}"
    broker.create_topic(name, segment_bytes=segment_bytes, index_interval_bytes="4096")
    count = megabytes * 1_000_000 // record_bytes
    with tempfile.TemporaryDirectory() as scratch:
        values = ["--record-size", str(record_bytes)] if codec == "none" else ["--payload-file", _words(scratch, record_bytes)]
        load = ("--num-records", str(count), *values, "--throughput", "-1")
        properties = ("--producer-props", f"bootstrap.servers={broker.bootstrap_servers}", f"compression.type={codec}")
        broker.run_java("org.apache.kafka.tools.ProducerPerformance", "--topic", name, *load, *properties, seconds=1200)
    offsets = broker.wait_until_tiered(name, seconds=600)
    return TieredTopic(name, record_bytes, offsets.latest_tiered + 1, len(broker.remote_segments(name)), codec)


def _words(directory: str, record_bytes: int) -> str:
    """A file with values, one a line."""
    source = random.Random(1)
    words = ["".join(source.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=source.randint(3, 12))) for _ in range(600)]
    lines = (" ".join(source.choices(words, k=record_bytes // 4 + 1))[:record_bytes] for _ in range(_LINES))
    path = Path(directory) / "values"
    path.write_text("\n".join(lines))
    return str(path)
