"""The topics that are read: uncompressed records of one size, all but the last segment in the tier and nowhere else."""

from __future__ import annotations

import attrs

from tests.support.kafka_broker import KafkaBroker

__all__ = ["TieredTopic", "write_topic"]


@attrs.frozen
class TieredTopic:
    """A topic with one partition, whose records ``[0, records)`` lie in the tier."""

    name: str
    record_bytes: int
    records: int
    segments: int


def write_topic(broker: KafkaBroker, record_bytes: int, megabytes: int, segment_bytes: int) -> TieredTopic:
    """Writes ``megabytes`` of values with Java's producer (its default batches) and waits until they are tiered."""
    name = f"bytes-{record_bytes}"
    broker.create_topic(name, segment_bytes=segment_bytes, index_interval_bytes="4096")
    count = megabytes * 1_000_000 // record_bytes
    load = ("--num-records", str(count), "--record-size", str(record_bytes), "--throughput", "-1")
    properties = ("--producer-props", f"bootstrap.servers={broker.bootstrap_servers}")
    broker.run_java("org.apache.kafka.tools.ProducerPerformance", "--topic", name, *load, *properties, seconds=1200)
    offsets = broker.wait_until_tiered(name, seconds=600)
    return TieredTopic(name, record_bytes, offsets.latest_tiered + 1, len(broker.remote_segments(name)))
