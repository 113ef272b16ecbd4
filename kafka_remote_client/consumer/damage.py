"""A batch that is damaged in both tiers, and the error that the application gets.

Our own checks find the damage in the tier's copy, and the broker continues from there. If its copy is damaged too, librdkafka
reports it (with ``check.crcs``), skips what seems to be the batch, and may lose its position: the next offset that it reads
from damaged bytes is out of range, and ``auto.offset.reset`` starts the partition again. So the partition is halted at the
damage instead: the application gets one error that names topic, partition, offset and segment, and no more records of the
partition until it seeks past the damage, resumes the partition (which tries again) or assigns it again.

References: docs/reliability.md, fault F30.
"""

from __future__ import annotations

import attrs
from confluent_kafka import KafkaError, Message

from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.model import RemoteLogSegmentId

__all__ = ["Damage", "damage_message", "damage_of", "is_damage"]

_CODES = frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED, KafkaError.INVALID_MSG})


@attrs.frozen
class Damage:
    """The first offset that could not be read from the tier, and its segment.

    ``sought_again``: the broker delivered records from before it, and was sought there again. librdkafka takes the next fetch
    offset from a batch before it checks the batch. If that is out of range, the policy ``earliest`` resets the partition to the
    log's start, even if it was sought to the damage meanwhile (``rd_kafka_offset_reset`` has no version).
    """

    offset: int
    segment: RemoteLogSegmentId | None
    sought_again: bool = False


def damage_of(end: ReadEnd) -> Damage | None:
    """Returns the damage that ended a read; ``None`` if it ended for another reason."""
    return Damage(end.next_offset, end.segment) if isinstance(end.error, CorruptRecordError) else None


def is_damage(error: KafkaError) -> bool:
    """Whether the broker path reports damaged bytes."""
    return error.code() in _CODES


def damage_message(topic: str, partition: int, damage: Damage, error: KafkaError) -> Message:
    """Returns the application's error instead of ``error``, with the same code."""
    text = (
        f"{topic} [{partition}] is damaged at offset {damage.offset} in both tiers; seek past it to continue: "
        f"the store's segment {damage.segment} is corrupt, and the broker's copy fails with: {error.str()}"
    )
    told = KafkaError(error.code(), text)
    return Message(topic=topic, partition=partition, offset=damage.offset, value=text.encode(), error=told)
