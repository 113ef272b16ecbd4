from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_remote_client.errors import BrokerResponseError, LocationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.spark.offsets.admin_cluster import AdminCluster
from kafka_remote_client.spark.options.source_options import parse_options
from tests.support.locations import ManualClock

TOPICS = {"a": 2, "b1": 1, "__consumer_offsets": 1, "broken": 1}
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b1", 0)


class FakeAdmin:
    """A cluster of TOPICS; ``failures`` are raised one after the other before it answers."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.failures: list[int] = []
        self.asked: list[tuple[dict[TopicPartition, int], Any]] = []

    def _fail(self) -> None:
        if self.failures:
            raise KafkaException(KafkaError(self.failures.pop(0), "reason"))

    def list_topics(self, *, timeout: float) -> Any:
        self._fail()
        return SimpleNamespace(
            topics={
                name: SimpleNamespace(error="bad" if name == "broken" else None, partitions=dict.fromkeys(range(count)))
                for name, count in TOPICS.items()
            }
        )

    def list_offsets(self, wanted: Mapping[Any, Any], *, isolation_level: Any, request_timeout: float) -> Mapping[Any, Any]:
        if request_timeout > 3600:  # as confluent_kafka does
            raise ValueError('Invalid value type for "request_timeout": expecting integer in range 0..3600000')
        specs = {TopicPartition(key.topic, key.partition): spec._value for key, spec in wanted.items()}
        self.asked.append((specs, isolation_level))
        futures = {}
        for number, key in enumerate(wanted):
            futures[key] = Future[Any]()
            try:
                self._fail()
            except KafkaException as error:
                futures[key].set_exception(error)
            else:
                futures[key].set_result(SimpleNamespace(offset=100 + number))
        return futures


def cluster(**more: str) -> tuple[AdminCluster, FakeAdmin, ManualClock]:
    options = {"kafka.bootstrap.servers": "b:1", "subscribe": "a", "kafka.client.id": "c", "kafka.fetch.min.bytes": "5"}
    made: list[FakeAdmin] = []

    def make(settings: dict[str, Any]) -> Any:
        made.append(FakeAdmin(settings))
        return made[-1]

    clock = ManualClock()
    parsed = parse_options(options | {name.replace("_", "."): value for name, value in more.items()})
    return AdminCluster(parsed, clock, make), made[0], clock


def subscribed(**option: str) -> list[TopicPartition]:
    found, _, _ = cluster()
    ((name, value),) = option.items()
    return found.partitions(parse_options({"kafka.bootstrap.servers": "b:1", name: value}).subscription)


def test_consumer_settings_are_not_given_to_an_admin_client() -> None:
    _, admin, _ = cluster()
    assert admin.settings == {"bootstrap.servers": "b:1", "client.id": "c"}


def test_a_subscription_gives_its_partitions() -> None:
    assert subscribed(subscribe="b1,a") == [A0, A1, B0]
    assert subscribed(assign='{"a":[1]}') == [A1]
    assert subscribed(subscribePattern="b.*|_.*") == [B0]
    assert subscribed(subscribePattern="1") == [B0]
    assert subscribed(subscribePattern="b$") == []


@pytest.mark.parametrize(
    ("option", "missing"), [({"subscribe": "a,x,broken"}, "broken, x"), ({"assign": '{"a":[0,7]}'}, "a-7")]
)
def test_missing_topics_and_partitions_are_named(option: dict[str, str], missing: str) -> None:
    with pytest.raises(BrokerResponseError, match=f"unknown partitions: {missing}"):
        subscribed(**option)


def test_offsets_of_all_partitions_are_one_request() -> None:
    found, admin, _ = cluster()
    assert found.starts([A0, A1]) == {A0: 100, A1: 101}
    assert found.ends([A0]) == {A0: 100}
    assert found.at_times({A1: 5000}) == {A1: 100}
    uncommitted = confluent_kafka.IsolationLevel.READ_UNCOMMITTED
    assert admin.asked == [({A0: -2, A1: -2}, uncommitted), ({A0: -1}, uncommitted), ({A1: 5000}, uncommitted)]


def test_the_end_is_that_of_the_isolation_level() -> None:
    found, admin, _ = cluster(kafka_isolation_level="read_committed")
    found.ends([A0])
    assert admin.asked[0][1] == confluent_kafka.IsolationLevel.READ_COMMITTED


def test_no_partition_needs_no_request() -> None:
    found, admin, _ = cluster()
    assert found.ends([]) == {}
    assert not admin.asked


def test_failures_are_retried_after_a_pause() -> None:
    found, admin, clock = cluster(fetchOffset_numRetries="2", fetchOffset_retryIntervalMs="500")
    admin.failures = [KafkaError._TRANSPORT, KafkaError._TIMED_OUT]
    assert found.starts([A0]) == {A0: 100}
    assert clock.now == 1001.0


def test_retries_end() -> None:
    found, admin, _ = cluster(fetchOffset_numRetries="1")
    admin.failures = [KafkaError._TRANSPORT] * 2
    with pytest.raises(LocationError, match="the cluster did not answer: reason"):
        found.partitions(parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "a"}).subscription)


PASSES = [
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError._NOENT,
]


@pytest.mark.parametrize("code", PASSES)
def test_an_error_that_passes_is_asked_again_until_the_time_out(code: int) -> None:
    found, admin, clock = cluster(fetchOffset_numRetries="0", kafka_default_api_timeout_ms="20000")
    admin.failures = [code] * 19
    assert found.ends([A0]) == {A0: 100}
    assert clock.now < 1020.0


@pytest.mark.parametrize("code", PASSES)
def test_an_error_that_does_not_pass_in_time_fails_after_the_retries(code: int) -> None:
    found, admin, clock = cluster(fetchOffset_numRetries="1", kafka_default_api_timeout_ms="2000")
    admin.failures = [code] * 100
    with pytest.raises(LocationError, match="the cluster did not answer: reason"):
        found.ends([A0])
    assert 1005.0 <= clock.now <= 1006.0  # twice the time-out, and the pause between


def test_only_partitions_without_an_answer_are_asked_again() -> None:
    found, admin, clock = cluster(fetchOffset_numRetries="0")
    admin.failures = [KafkaError.REQUEST_TIMED_OUT]
    assert found.at_times({A0: 5000, A1: 6000}) == {A0: 100, A1: 101}
    assert [specs for specs, _ in admin.asked] == [{A0: 5000, A1: 6000}, {A0: 5000}]
    assert clock.now < 1001.0, "a look-up that was late needs no new leader"


def test_a_failure_that_stays_is_not_hidden_by_one_that_passes() -> None:
    found, admin, clock = cluster(fetchOffset_numRetries="0")
    admin.failures = [KafkaError.REQUEST_TIMED_OUT, KafkaError.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(LocationError):
        found.at_times({A0: 5000, A1: 6000})
    assert clock.now == 1000.0


def test_any_time_out_of_javas_is_accepted() -> None:
    found, _, _ = cluster(kafka_default_api_timeout_ms=str(2**31 - 1))
    assert found.ends([A0]) == {A0: 100}


def test_a_deleted_topic_is_not_waited_for() -> None:
    found, admin, clock = cluster(fetchOffset_numRetries="0")
    admin.failures = [KafkaError.UNKNOWN_TOPIC_OR_PART]
    with pytest.raises(LocationError):
        found.ends([A0])
    assert clock.now == 1000.0


def test_a_refusal_is_final() -> None:
    found, admin, clock = cluster()
    admin.failures = [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(LocationError):
        found.starts([A0])
    assert clock.now == 1000.0


def test_close_closes_the_client() -> None:
    found, _, _ = cluster()
    found.close()
    assert not hasattr(found, "_admin")
