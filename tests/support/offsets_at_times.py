"""Offsets at times from a real broker, asked for until the broker is not late.

A broker may answer REQUEST_TIMED_OUT at once for a time in the tier. ``tryComplete`` in Kafka's DelayedRemoteListOffsets asks
twice whether its look-up is done: first to take its result, then to answer. A look-up that ends between the two questions is
answered with the default, REQUEST_TIMED_OUT. Java's clients ask again. librdkafka's consumer asks again too, and then returns
the first answer; its admin client does not ask again.
"""

from __future__ import annotations

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from tests.support.reading import PATIENCE_SECONDS
from tests.support.recorder import RecordedConsumer
from tests.support.waiting import wait_until

__all__ = ["listed_at", "offsets_for_times"]


def offsets_for_times(
    consumer: confluent_kafka.Consumer | RecordedConsumer, times: list[TopicPartition]
) -> list[TopicPartition]:
    """What the consumer's method of this name returns."""

    def answer() -> list[TopicPartition]:
        found: list[TopicPartition] = consumer.offsets_for_times(times, PATIENCE_SECONDS)
        return [] if any(_is_late(one.error) for one in found) else found

    return wait_until(answer, "offsets for times", seconds=PATIENCE_SECONDS)


def listed_at(admin: AdminClient, partition: TopicPartition, time: int) -> ListOffsetsResultInfo:
    """What an admin client lists for one partition."""

    def answer() -> ListOffsetsResultInfo | None:
        (future,) = admin.list_offsets({partition: OffsetSpec.for_timestamp(time)}).values()
        try:
            return future.result(PATIENCE_SECONDS)
        except KafkaException as error:
            if not _is_late(error.args[0]):
                raise
            return None

    return wait_until(answer, f"the offset at {time}", seconds=PATIENCE_SECONDS)


def _is_late(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError.REQUEST_TIMED_OUT
