"""Damaged records in both tiers, and the error that the application gets."""

from __future__ import annotations

from uuid import UUID

import pytest
from confluent_kafka import KafkaError

from kafka_remote_client.consumer.damage import Damage, damage_message, damage_of, is_damage
from kafka_remote_client.errors import CorruptRecordError, RemoteStorageTimeoutError
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.model import RemoteLogSegmentId, TopicIdPartition

SEGMENT = RemoteLogSegmentId(TopicIdPartition(UUID(int=1), "orders", 3), UUID(int=2))


def test_only_a_read_that_met_damage_leaves_some() -> None:
    end = ReadEnd("corrupt", 17, error=CorruptRecordError("x"), segment=SEGMENT)
    assert damage_of(end) == Damage(17, SEGMENT)
    assert damage_of(ReadEnd("timeout", 17, error=RemoteStorageTimeoutError("x"), segment=SEGMENT)) is None
    assert damage_of(ReadEnd("end", 17)) is None


@pytest.mark.parametrize(
    ("code", "damaged"),
    [
        (KafkaError._BAD_MSG, True),
        (KafkaError._BAD_COMPRESSION, True),
        (KafkaError.INVALID_MSG, True),
        (KafkaError._PARTITION_EOF, False),
        (KafkaError._TRANSPORT, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
    ],
)
def test_librdkafkas_words_for_bytes_that_are_no_records(code: int, damaged: bool) -> None:
    assert is_damage(KafkaError(code)) is damaged


def test_the_application_is_told_where_it_is_and_in_which_segment() -> None:
    message = damage_message("orders", 3, Damage(17, SEGMENT), KafkaError(KafkaError._BAD_MSG, "failed CRC32C check"))
    assert (message.topic(), message.partition(), message.offset()) == ("orders", 3, 17)
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._BAD_MSG
    assert message.value() == error.str().encode(), "as of librdkafka's errors"
    assert all(part in error.str() for part in ("orders [3]", "offset 17", str(SEGMENT), "failed CRC32C check"))
