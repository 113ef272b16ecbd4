"""Whether a topic is compacted: asked of the broker, kept for a minute, and no without an answer."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import attrs
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource

from kafka_remote_client.clock import Deadline
from kafka_remote_client.location.cleanup_policies import CleanupPolicies
from kafka_remote_client.model import TopicIdPartition
from tests.support.locations import ManualClock

PARTITION = TopicIdPartition(UUID(int=1), "orders", 0)


@attrs.define(slots=False)
class FakeAdmin:
    """Answers DescribeConfigs with ``answer``, or raises it. ``asked`` has the topics."""

    answer: Any
    asked: list[str] = attrs.field(factory=list)

    def describe_configs(self, resources: list[ConfigResource], request_timeout: float) -> dict[ConfigResource, Future[Any]]:
        assert 0 < request_timeout <= 3, "other partitions wait meanwhile"
        (resource,) = resources
        assert resource.restype is ConfigResource.Type.TOPIC
        self.asked.append(resource.name)
        answer: Future[Any] = Future()
        if isinstance(self.answer, Exception):
            answer.set_exception(self.answer)
        elif self.answer is not None:
            answer.set_result(self.answer)
        return {resource: answer}


class Broker:
    """The policies of a broker that answers with ``answer``."""

    def __init__(self, answer: Any) -> None:
        self.admin, self.clock = FakeAdmin(answer), ManualClock()
        self.policies = CleanupPolicies({}, self.clock, lambda _: cast("Any", self.admin))

    def compacted(self, partition: TopicIdPartition = PARTITION, seconds: float = 60.0) -> bool:
        return self.policies.compacted(partition, Deadline(self.clock, seconds))


def policy(value: str) -> dict[str, Any]:
    return {"cleanup.policy": SimpleNamespace(value=value)}


@pytest.mark.parametrize(
    ("value", "compacted"),
    [("compact", True), ("compact,delete", True), ("delete,compact", True), ("delete", False), ("", False)],
)
def test_a_policy_with_compact_is_compacted(value: str, compacted: bool) -> None:
    broker = Broker(policy(value))
    assert broker.compacted() is compacted
    assert broker.admin.asked == ["orders"]


@pytest.mark.parametrize("now", ["delete", "compact"])
def test_an_answer_counts_for_a_minute(now: str) -> None:
    broker = Broker(policy("compact" if now == "delete" else "delete"))
    before = broker.compacted()
    broker.admin.answer = policy(now)
    broker.clock.now += 59.9
    assert broker.compacted() is before
    broker.clock.now += 0.2
    assert broker.compacted() is not before
    assert len(broker.admin.asked) == 2


def test_a_recreated_topic_is_asked_again() -> None:
    broker = Broker(policy("compact"))
    assert broker.compacted()
    broker.admin.answer = policy("delete")
    assert not broker.compacted(attrs.evolve(PARTITION, topic_id=UUID(int=2)))
    assert broker.compacted(attrs.evolve(PARTITION, partition=1)), "the policy is the topic's"


@pytest.mark.parametrize(
    "answer", [KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), {}, None], ids=["denied", "absent", "late"]
)
def test_without_an_answer_a_topic_is_not_compacted(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(answer)
    assert not broker.compacted(seconds=0.01)
    assert "offset gap in topic orders: its cleanup.policy is unknown, so it counts as not compacted" in caplog.text
    assert not broker.compacted(seconds=0.01)
    assert len(broker.admin.asked) == 1, "a refusal counts for a minute, too"


def test_a_request_in_progress_is_not_waited_for_after_the_deadline() -> None:
    broker = Broker(policy("compact"))
    with broker.policies._lock:
        assert not broker.compacted(seconds=0.0)
    assert broker.admin.asked == []


@pytest.mark.parametrize("answer", [policy("compact"), KafkaException(KafkaError(KafkaError._TIMED_OUT)), None])
def test_the_client_ends_with_its_request(answer: Any) -> None:
    """Its threads and connections would otherwise stay until the garbage collector runs."""
    made: list[weakref.ref[FakeAdmin]] = []

    def make(_settings: dict[str, Any]) -> Any:
        admin = FakeAdmin(answer)
        made.append(weakref.ref(admin))
        return admin

    clock = ManualClock()
    gc.disable()
    try:
        CleanupPolicies({}, clock, make).compacted(PARTITION, Deadline(clock, 0.01))
        assert [one() for one in made] == [None]
    finally:
        gc.enable()
