"""A batch that is damaged in both tiers, and the error that the application gets.

The tier's copy is found damaged by our own checks, and the broker goes on from there. If its copy is bad as well, librdkafka
says so (with ``check.crcs``), skips what it takes for the batch, and may lose its place: the next offset that it reads out of
damaged bytes is out of range, and ``auto.offset.reset`` starts the partition again. So the partition is halted at the damage
instead: the application gets one error that names topic, partition, offset and segment, and nothing more of the partition until
it seeks past the damage, resumes the partition (which tries again) or assigns it again.

References: docs/reliability.md, fault F30.
"""

from __future__ import annotations

import attrs
from confluent_kafka import KafkaError, Message

from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.model import RemoteLogSegmentId

__all__ = ["Damage", "damage_of", "is_damage", "told"]

_CODES = frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED, KafkaError.INVALID_MSG})


@attrs.frozen
class Damage:
    """The first offset that could not be read from the tier, and the segment that it lies in."""

    offset: int
    segment: RemoteLogSegmentId | None


def damage_of(end: ReadEnd) -> Damage | None:
    """The damage that ended a read; ``None`` where it ended for another reason."""
    return Damage(end.next_offset, end.segment) if isinstance(end.error, CorruptRecordError) else None


def is_damage(error: KafkaError) -> bool:
    """Whether the broker path speaks of bytes that are no records."""
    return error.code() in _CODES


def told(topic: str, partition: int, damage: Damage, error: KafkaError) -> Message:
    """What the application gets in place of ``error``, under the same code."""
    text = (
        f"{topic} [{partition}] is damaged at offset {damage.offset} in both tiers, and halted there: "
        f"the store's segment {damage.segment} does not hold what Kafka wrote, and of the broker's copy: {error.str()}"
    )
    return Message(topic=topic, partition=partition, offset=damage.offset, error=KafkaError(error.code(), text))
