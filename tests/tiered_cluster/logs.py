"""Batches and logs for tests of the model. Each record has 50 bytes of value, and its offset's milliseconds unless told."""

from __future__ import annotations

from kafka_remote_client.tiered_cluster.batches import Batch, Codec, Marker, Producer, Record, new_batch, new_marker
from kafka_remote_client.tiered_cluster.log import PartitionLog, TopicConfig

__all__ = ["BATCH_BYTES", "data", "filled", "marker", "new_log"]


def data(count: int = 10, *, timestamp: int = 1000, producer: int = -1, codec: Codec = Codec.NONE) -> Batch:
    """A batch of ``count`` records at one time; with a producer, of its transaction."""
    who = Producer(producer, 0, 0, transactional=True) if producer >= 0 else Producer()
    records = [Record(number, timestamp, b"%d" % (number % 10), b"v" * 50) for number in range(count)]
    return new_batch(records, producer=who, codec=codec)


BATCH_BYTES = data().size


def marker(kind: Marker, producer: int, *, timestamp: int = 1000) -> Batch:
    return new_marker(kind, Producer(producer, 0), timestamp)


def new_log(**settings: object) -> PartitionLog:
    """The log of the leader of epoch 0, whose segments hold two batches."""
    return PartitionLog(TopicConfig(**{"segment_bytes": 2 * BATCH_BYTES, **settings})).elected(0)


def filled(batches: int, **settings: object) -> PartitionLog:
    """A replicated log of so many batches of ten records. Batch n has the time 1000 + n."""
    return new_log(**settings).appended([data(timestamp=1000 + number) for number in range(batches)], 0).replicated()
