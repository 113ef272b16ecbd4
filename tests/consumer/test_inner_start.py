"""Starts of partitions at the end of their logs."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import OFFSET_END, OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from kafka_remote_client.consumer.inner_consumer import InnerConsumer
from kafka_remote_client.consumer.inner_start import ends_of
from kafka_remote_client.consumer.route_state import Route
from tests.consumer.routing_rig import Rig


def inner(answer: list[TopicPartition] | Exception) -> InnerConsumer:
    def offsets_for_times(asked: list[TopicPartition], *, timeout: float) -> Any:
        assert ([tp.offset for tp in asked], timeout) == ([OFFSET_END, OFFSET_END], 0.25)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return InnerConsumer.of(lambda name: offsets_for_times if name == "offsets_for_times" else lambda *_: None)


def test_asks_for_all_ends_at_once() -> None:
    answer = [TopicPartition("t", 0, 70), TopicPartition("u", 5, 0)]
    assert ends_of(inner(answer), [("t", 0), ("u", 5)]) == {("t", 0): 70, ("u", 5): 0}


def test_an_end_that_was_not_found_is_left_out() -> None:
    answer = [TopicPartition("t", 0, 70), TopicPartition("u", 5, OFFSET_END)]
    assert ends_of(inner(answer), [("t", 0), ("u", 5)]) == {("t", 0): 70}


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.TOPIC_AUTHORIZATION_FAILED])
def test_without_an_answer_no_end_is_known(code: int) -> None:
    assert ends_of(inner(KafkaException(KafkaError(code))), [("t", 0), ("u", 5)]) == {}


def test_the_end_is_a_number_if_nothing_is_committed() -> None:
    """librdkafka looked up the end twice if a fetch at offset 0, where the partition waits, was out of range."""
    rig = Rig()
    rig.end = 120
    flow = rig.from_committed(OFFSET_INVALID)
    assert rig.calls == [("seek", 120), ("resume", 120), ("seek", 120)]
    assert (flow.route, flow.moved, flow.nothing_committed, rig.engine.requested) == (Route.BROKER, False, False, [])


def test_an_end_that_is_not_known_in_time_is_looked_up_before_the_resume() -> None:
    """A resume makes librdkafka ignore the answer and look up the end later, once."""
    rig = Rig()
    rig.end = None
    assert rig.from_committed(OFFSET_INVALID).route is Route.BROKER
    assert rig.calls == [("seek", OFFSET_END), ("resume", OFFSET_END)]


def test_the_end_of_an_empty_log_is_looked_up_after_the_resume() -> None:
    """A fetch at 0 is not out of range there. A seek to 0 does not wake librdkafka."""
    rig = Rig()
    rig.end = 0
    assert rig.from_committed(OFFSET_INVALID).route is Route.BROKER
    assert rig.calls == [("resume", OFFSET_END), ("seek", OFFSET_END)]


def test_an_error_as_reset_policy_comes_from_librdkafka_after_the_resume() -> None:
    rig = Rig(**{"auto.offset.reset": "error"})
    assert rig.from_committed(OFFSET_INVALID).nothing_committed
    assert rig.calls == [("resume", OFFSET_INVALID), ("seek", OFFSET_INVALID)]
