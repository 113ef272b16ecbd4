from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_remote_client.spark.reading.broker_consumers import KEPT, MAX_AGE_SECONDS, BrokerConsumers
from tests.support.locations import ManualClock


class FakeConsumer:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.left = [["a record of the last task"], []]
        self.calls: list[str] = []
        self.refuses = False

    def unassign(self) -> None:
        self.calls.append("unassign")
        if self.refuses:
            raise KafkaException(KafkaError(KafkaError._STATE))

    def consume(self, count: int, timeout: float) -> list[str]:
        assert timeout == 0
        self.calls.append("consume")
        return self.left.pop(0) if self.left else []

    def close(self) -> None:
        self.calls.append("close")

    @property
    def closed(self) -> bool:
        return "close" in self.calls


class Making:
    """Keeps the consumers that it made; ``consumers`` lends them."""

    def __init__(self) -> None:
        self.made: list[FakeConsumer] = []
        self.clock = ManualClock()
        self.consumers = BrokerConsumers(self._make, clock=self.clock)

    def _make(self, settings: dict[str, Any]) -> Any:
        self.made.append(FakeConsumer(settings))
        return self.made[-1]

    def use(self, group: str = "g", **more: str) -> Any:
        with self.consumers.lend({"group.id": group, **more}) as consumer:
            return consumer


@pytest.fixture
def making() -> Making:
    return Making()


def test_the_next_task_gets_the_same_consumer_without_an_assignment(making: Making) -> None:
    first = making.use("one")
    assert first.settings == {"group.id": "one"}
    assert first.calls == ["unassign", "consume", "consume"]
    assert making.use("two") is first


def test_a_consumer_is_lent_to_one_task_at_a_time(making: Making) -> None:
    with making.consumers.lend({}) as first, making.consumers.lend({}) as second:
        assert first is not second
    assert len(making.made) == 2


def test_other_settings_get_another_consumer(making: Making) -> None:
    assert making.use(a="b") is not making.use(a="c")


def test_the_last_idle_consumers_are_kept(making: Making) -> None:
    for number in range(KEPT + 2):
        making.use(a=str(number))
    assert [made.closed for made in making.made] == [True, True] + [False] * KEPT


def test_an_old_consumer_is_closed(making: Making) -> None:
    first = making.use()
    making.clock.now += MAX_AGE_SECONDS + 1
    assert making.use() is not first
    assert first.closed


def test_the_consumer_of_a_failed_task_is_closed(making: Making) -> None:
    with pytest.raises(ValueError, match="broken"), making.consumers.lend({}):
        raise ValueError("broken")
    assert making.made[0].closed
    assert repr(making.consumers) == "BrokerConsumers(0 idle)"


def test_an_abandoned_task_returns_its_consumer(making: Making) -> None:
    def task() -> Any:
        with making.consumers.lend({}) as consumer:
            yield consumer

    running = task()
    first = next(running)
    running.close()
    assert not first.closed
    assert making.use() is first


def test_a_consumer_that_cannot_be_unassigned_is_closed(making: Making) -> None:
    with making.consumers.lend({}):
        making.made[0].refuses = True
    assert making.made[0].closed
    assert repr(making.consumers) == "BrokerConsumers(0 idle)"


def test_a_closed_consumer_makes_room_for_another(making: Making) -> None:
    first = making.use()
    making.consumers.close()
    assert first.closed
    assert making.use() is not first


def test_after_a_fork_the_parents_consumers_stay_open(making: Making) -> None:
    first = making.use()
    with making.consumers.lend({"a": "b"}):
        making.consumers.forget()
    assert making.use() is not first
    assert [made.closed for made in making.made] == [False] * 3


def test_no_repr_shows_a_setting(making: Making) -> None:
    making.use(password="geheim")
    assert "geheim" not in repr(making.consumers) + repr(making.consumers._idle)
