from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.spark.offsets.data_loss import DataLoss, DataLossError
from kafka_remote_client.spark.options.source_options import parse_options
from kafka_remote_client.spark.reading.broker_consumers import BrokerConsumers
from kafka_remote_client.spark.reading.broker_read import BrokerReadError, consumer_settings, read_from_broker
from tests.support.locations import ManualClock

TP = TopicPartition("t", 3)
BASE = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}


@attrs.frozen
class FakeMessage:
    at: int | None
    failure: KafkaError | None = None
    of: tuple[str | None, int | None] = TP

    def topic(self) -> str | None:
        return self.of[0]

    def partition(self) -> int | None:
        return self.of[1]

    def offset(self) -> int | None:
        return self.at

    def error(self) -> KafkaError | None:
        return self.failure


def failed(code: int, at: int | None = None, **more: bool) -> FakeMessage:
    return FakeMessage(at, KafkaError(code, "reason", **more))


class FakeConsumer:
    """Returns one list of a script per call; ``clock`` moves by the time-out if there is no message."""

    def __init__(self, clock: ManualClock, script: Sequence[list[FakeMessage]], watermarks: object) -> None:
        self._clock = clock
        self._script = list(script)
        self._watermarks = watermarks
        self.settings: dict[str, Any] = {}
        self.assigned: list[int] = []
        self.asked: list[int] = []
        self.closed = False
        self.unassigned = 0

    def assign(self, partitions: Sequence[Any]) -> None:
        (partition,) = partitions
        assert (partition.topic, partition.partition) == TP
        self.assigned.append(partition.offset)

    def consume(self, count: int, timeout: float) -> list[FakeMessage]:
        if timeout == 0:  # the read has ended
            return []
        self.asked.append(count)
        found = self._script.pop(0) if self._script else []
        if not found:
            self._clock.now += timeout
        return found

    def unassign(self) -> None:
        self.unassigned += 1

    def get_watermark_offsets(self, partition: Any, *, timeout: float, cached: bool) -> object:
        assert not cached
        if isinstance(self._watermarks, Exception):
            raise self._watermarks
        return self._watermarks

    def close(self) -> None:
        self.closed = True


def read(
    *script: list[FakeMessage], start: int = 5, end: int = 10, fail: bool = True, watermarks: object = (0, 100)
) -> tuple[FakeConsumer, Callable[[], list[int]]]:
    """Returns the consumer, and a function that reads all offsets."""
    clock = ManualClock()
    consumer = FakeConsumer(clock, script, watermarks)

    def make(settings: dict[str, Any]) -> Any:
        consumer.settings = settings
        return consumer

    def run() -> list[int]:
        consumers = BrokerConsumers(make, clock=clock)
        try:
            lists = read_from_broker(
                {"a": "b"}, TP, start, end, loss=DataLoss(fail), timeout=1.0, clock=clock, consumers=consumers
            )
            return [message.offset() or 0 for messages in lists for message in messages]
        finally:
            assert consumer.closed != (repr(consumers) == "BrokerConsumers(1 idle)")
            consumers.close()
            assert consumer.closed

    return consumer, run


def offsets(*numbers: int) -> list[FakeMessage]:
    return [FakeMessage(number) for number in numbers]


def test_reads_from_the_exact_offset_to_the_exact_end() -> None:
    consumer, run = read(offsets(5, 6), offsets(7, 8, 9))
    assert run() == [5, 6, 7, 8, 9]
    assert consumer.settings == {"a": "b"}
    assert consumer.assigned == [5]
    assert consumer.asked == [5, 3]


def test_messages_of_other_partitions_are_left_out() -> None:
    others = [FakeMessage(6, of=("t", 2)), FakeMessage(7, KafkaError(-191, "end"), ("u", 3))]
    _, run = read([*others, *offsets(5, 6), *others, *offsets(7, 8, 9)])
    assert run() == [5, 6, 7, 8, 9]


def test_an_error_of_the_whole_consumer_ends_the_read() -> None:
    _, run = read([FakeMessage(None, KafkaError(KafkaError._FATAL, "fenced"), (None, None))])
    with pytest.raises(BrokerReadError, match="fenced"):
        run()


def test_a_record_past_the_end_ends_the_read_and_is_left_out() -> None:
    _, run = read(offsets(5, 7, 12))
    assert run() == [5, 7]


def test_the_end_of_the_log_ends_a_range_without_last_records() -> None:
    _, run = read(offsets(5), [failed(KafkaError._PARTITION_EOF, 10)])
    assert run() == [5]


def test_an_end_of_the_log_below_the_range_s_end_is_waited_out() -> None:
    _, run = read([failed(KafkaError._PARTITION_EOF, 7), failed(KafkaError._PARTITION_EOF)], offsets(7, 9))
    assert run() == [7, 9]


def test_records_read_earlier_are_not_returned_again() -> None:
    _, run = read(offsets(5, 6), [FakeMessage(None), *offsets(4, 6, 7, 9)])
    assert run() == [5, 6, 7, 9]


def test_transient_errors_are_waited_out() -> None:
    _, run = read([failed(KafkaError._TRANSPORT), failed(KafkaError.NOT_LEADER_FOR_PARTITION, retriable=True)], [], offsets(9))
    assert run() == [9]


def test_other_errors_fail_the_task() -> None:
    _, run = read([failed(KafkaError.TOPIC_AUTHORIZATION_FAILED)])
    with pytest.raises(BrokerReadError, match="t-3 at offset 5: reason"):
        run()


@pytest.mark.parametrize("code", [KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE])
def test_a_deleted_offset_is_a_loss(code: int) -> None:
    _, run = read([failed(code)], watermarks=(8, 100))
    with pytest.raises(DataLossError, match="the offsets 5 to 7 were deleted"):
        run()
    consumer, run = read([failed(code)], offsets(8, 9), fail=False, watermarks=(8, 100))
    assert run() == [8, 9]
    assert consumer.assigned == [5, 8]


def test_a_fully_deleted_range_ends() -> None:
    consumer, run = read([failed(KafkaError._AUTO_OFFSET_RESET)], fail=False, watermarks=(50, 100))
    assert run() == []
    assert consumer.assigned == [5]


def test_silence_fails_the_task() -> None:
    _, run = read(offsets(5))
    with pytest.raises(BrokerReadError, match=r"t-3: no record from offset 6 on in 1 s"):
        run()


def test_each_record_extends_the_time() -> None:
    _, run = read(offsets(5), [], [], [], [], offsets(6), [], [], [], [], offsets(9))
    assert run() == [5, 6, 9]


def test_silence_because_the_log_ends_too_soon_is_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    _, run = read(offsets(5), watermarks=(0, 6))
    with pytest.raises(DataLossError):
        run()
    _, run = read(offsets(5), fail=False, watermarks=(0, 6))
    with caplog.at_level(logging.WARNING):
        assert run() == [5]
    assert "the offsets 6 to 9 were deleted" in caplog.text


@pytest.mark.parametrize("code", [KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART])
@pytest.mark.parametrize("script", [[], [KafkaError.UNKNOWN_TOPIC_OR_PART], [KafkaError._AUTO_OFFSET_RESET]])
def test_a_deleted_partition_is_a_loss(code: int, script: list[int], caplog: pytest.LogCaptureFixture) -> None:
    failure = KafkaException(KafkaError(code, "reason"))
    told = [[failed(each)] for each in script]
    _, run = read(offsets(5), *told, watermarks=failure)
    with pytest.raises(DataLossError, match="t-3 was deleted with the offsets 6 to 9"):
        run()
    _, run = read(offsets(5), *told, fail=False, watermarks=failure)
    with caplog.at_level(logging.WARNING):
        assert run() == [5]
    assert "t-3 was deleted" in caplog.text


def test_a_partition_that_exists_after_all_is_read_on() -> None:
    _, run = read(offsets(5), [failed(KafkaError.UNKNOWN_TOPIC_OR_PART)], offsets(6, 9))
    assert run() == [5, 6, 9]


@pytest.mark.parametrize("watermarks", [None, KafkaException(KafkaError(KafkaError._TRANSPORT, "reason"))])
def test_missing_bounds_fail_the_task(watermarks: object) -> None:
    _, run = read(watermarks=watermarks)
    with pytest.raises(BrokerReadError, match="the log's bounds are unknown"):
        run()


def test_an_empty_range_sends_no_request() -> None:
    consumer, run = read(start=10)
    assert run() == []
    assert consumer.asked == []


def test_settings_are_the_user_s_with_those_that_the_source_needs() -> None:
    found = consumer_settings(parse_options(BASE | {"kafka.client.id": "c", "groupIdPrefix": "g"}))
    assert found["client.id"] == "c"
    assert str(found["group.id"]).startswith("g-")
    assert found["isolation.level"] == "read_uncommitted"
    assert (found["auto.offset.reset"], found["enable.auto.commit"], found["enable.partition.eof"]) == ("error", False, True)


def test_a_user_s_group_and_isolation_level_are_kept() -> None:
    found = consumer_settings(parse_options(BASE | {"kafka.group.id": "mine", "kafka.isolation.level": "read_committed"}))
    assert (found["group.id"], found["isolation.level"]) == ("mine", "read_committed")
