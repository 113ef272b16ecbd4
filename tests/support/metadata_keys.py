"""Keys of compacted metadata records, as brokers write them."""

from __future__ import annotations

import struct

from kafka_remote_client.model import uuid_to_text
from kafka_remote_client.remote_log.metadata_keys import MetadataKey, SegmentKey

__all__ = ["write_key"]


def write_key(key: MetadataKey) -> bytes:
    """Encodes a key."""
    if isinstance(key, SegmentKey):
        return struct.pack(">16si16sb", key.topic_id.bytes, key.partition, key.segment_id.bytes, key.state)
    parts = [uuid_to_text(key.topic_id), key.topic, key.partition, key.end_offset, key.broker_leader_epoch]
    return ":".join(map(str, [*parts, "UPDATE"] if key.update else parts)).encode()
