"""From a user partition to the partition of ``__remote_log_metadata`` that holds its events.

The topic's *name* plays no part: a re-created topic moves. All arithmetic is on 32-bit integers that wrap around, as in Java.

References: Kafka's RemoteLogMetadataTopicPartitioner, TopicIdPartition.hashCode, Utils.murmur2.
"""

from __future__ import annotations

from functools import lru_cache

from kafka_remote_client.model import TopicIdPartition

__all__ = ["metadata_partition", "murmur2"]

_MASK = 0xFFFFFFFF
_LONG_MASK = 0xFFFFFFFFFFFFFFFF
_SEED = 0x9747B28C
_M = 0x5BD1E995
_R = 24
_MOST_TIPS = 1 << 16  # a follower asks twice for each event


@lru_cache(_MOST_TIPS)
def metadata_partition(topic_id_partition: TopicIdPartition, partition_count: int) -> int:
    """The metadata partition, of ``partition_count``, that holds the events of a user partition."""
    value = topic_id_partition.topic_id.int
    hashed = 31 * (31 * (31 + _long_hash(value & _LONG_MASK)) + _long_hash(value >> 64)) + topic_id_partition.partition
    return (murmur2((hashed & _MASK).to_bytes(4, "big")) & 0x7FFFFFFF) % partition_count


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 of ``data`` as an unsigned 32-bit number."""
    whole = len(data) & ~3
    h = _SEED ^ len(data)
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k ^= k >> _R
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    if tail := data[whole:]:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ h >> 15


def _long_hash(value: int) -> int:
    return (value ^ value >> 32) & _MASK
