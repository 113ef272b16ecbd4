"""Positions of messages as plain values, without confluent_kafka's optional types."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message

from kafka_remote_client.consumer.message_run import MessageRun, Piece
from kafka_remote_client.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET

__all__ = ["end_of", "epoch_of", "key_of", "nothing_committed", "offset_of"]


def key_of(message: Piece) -> tuple[str, int]:
    """Topic and partition; an error need not have them."""
    topic, partition = message.topic(), message.partition()
    return topic or "", UNKNOWN_OFFSET if partition is None else partition


def offset_of(message: Piece) -> int:
    """The offset of a record (an error may have none), or of a run's first record."""
    offset = message.offset()
    assert offset is not None
    return offset


def end_of(piece: Piece) -> tuple[int, int]:
    """The offset after a record, or after a run's last one, and its leader epoch."""
    if isinstance(piece, MessageRun):
        return piece.end
    return offset_of(piece) + 1, epoch_of(piece.leader_epoch())


def epoch_of(leader_epoch: int | None) -> int:
    """A leader epoch, UNKNOWN_EPOCH where there is none."""
    return UNKNOWN_EPOCH if leader_epoch is None else leader_epoch


def nothing_committed(topic: str, partition: int) -> Message:
    """librdkafka's error at the start of a partition if ``auto.offset.reset`` is "error"; after a seek it has fewer details.

    ``rd_kafka_message_leader_epoch`` gives 0 for every message with an error.
    """
    text = "no previously committed offset available: Local: No offset stored"
    error = KafkaError(KafkaError._AUTO_OFFSET_RESET, text)
    return Message(topic=topic, partition=partition, value=text.encode(), leader_epoch=0, error=error)
