"""confluent-kafka-python's own scenarios of Consumer by name, on its class and on ours with direct fetch off and on.

``SCENARIOS`` lists what its tests of Consumer have: each is restated here, or says which test of ours does or why none does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.shim.embedded import EmbeddedCluster
from tests.support.embedded_topics import PATIENCE_SECONDS, direct_settings, fill_topic, plain_settings, small_cluster, take

pytestmark = pytest.mark.embedded

TOPIC, OTHER = "orders", "payments"
COUNT = 200
TESTS = Path(__file__).resolve().parents[1]
RESTATED: dict[str, Callable[..., Any]] = {}
_GATE = "consumer/test_call_gate.py::"
_SHARED = _GATE + "test_threads_that_share_a_consumer_get_each_record_once_and_every_call_succeeds"
_CALLBACK, _RAISES = "test_groups.py::test_what_a_callback_may_do", "test_groups.py::test_what_a_callback_raises"
_CLOSES = _GATE + "test_a_call_with_an_end_returns_what_it_has_and_close_commits_that"
SCENARIOS: Mapping[str, Mapping[str, str]] = {
    "test_Consumer": {
        **dict.fromkeys(("test_basic_api", "test_store_offsets", "test_on_commit", "test_subclassing"), ""),
        **dict.fromkeys(("test_offsets_for_times", "test_multiple_close_does_not_throw_exception"), ""),
        **dict.fromkeys(("test_any_method_after_close_throws_exception", "test_consumer_without_groupid"), ""),
        "test_calling_store_offsets_after_close_throws_erro": "",
    },
    "test_incremental_assign": {"test_incremental_assign": ""},
    "test_consumer_store_offset": {"test_read_after_commit_offset_only": ""},
    "test_consumer_topicpartition_metadata": {"test_consumer_topicpartition_metadata": ""},
    "test_consumer_memberid": {"test_consumer_memberid": ""},
    "test_consumer_wakeable_poll_consume": {
        "test_poll_message_delivery_with_wakeable_pattern": "parity/test_calls.py::test_poll_keeps_its_contract",
        "test_consume_message_delivery_with_wakeable_pattern": "parity/test_calls.py::test_consume_keeps_its_contract",
    },
    "test_consumer_error": {
        "test_consume_error": "consumer/test_deserializing.py::test_keys_and_values_of_both_tiers",
        "test_consume_error_commit": "parity/test_commits.py::test_an_end_cannot_be_committed",
        "test_consume_error_store_offsets": "parity/test_commits.py::test_storing_is_refused_while_it_is_automatic",
    },
    "test_consumer_concurrent_serialization": {
        "test_simultaneous_calls_on_shared_consumer_serialize": _SHARED,
        "test_many_threads_hammering_one_consumer": _SHARED,
        "test_gate_serializes_different_methods_colliding": _SHARED,
        "test_independent_consumers_do_not_block_each_other": _GATE + "test_gate_is_open_to_another_thread_of_the_same_caller",
        "test_close_waits_for_poll_then_succeeds": _CLOSES,
        "test_callback_exception_releases_gate": "parity/" + _RAISES,
        "test_callback_makes_multiple_reentrant_calls": "parity/" + _CALLBACK,
        "test_list_topics_racing_close": "not ours: list_topics is upstream's own method, and passes no gate of ours",
        "test_list_topics_serializes_with_poll": "not ours: as above",
    },
    "test_consumer_reentrancy": {
        **dict.fromkeys(
            (
                "test_on_assign_calls_assign_from_callback",
                "test_on_assign_calls_incremental_assign_from_callback",
                "test_on_assign_calls_assign_from_consume_callback",
                "test_on_revoke_calls_unassign_from_callback",
                "test_on_revoke_calls_incremental_unassign_from_callback",
                "test_store_offsets_calls_store_offsets_from_callback",
                "test_on_assign_calls_non_reentrancy_eligible_method",
            ),
            "parity/" + _CALLBACK,
        ),
        "test_on_lost_calls_unassign_from_callback": "consumer/test_callbacks.py::test_a_callback_that_unassigns",
        "test_on_commit_calls_commit_from_callback": "parity/test_commits.py::test_commits_that_are_not_waited_for_call_back",
        "test_on_commit_calls_asynchronous_commit_from_callback": (
            "parity/test_commits.py::test_commits_that_are_not_waited_for_call_back"
        ),
    },
}
"""By file and scenario: empty where it is restated here, else file and test of ours, or ``not ours:`` and why."""
_T = TypeVar("_T", bound=Callable[..., Any])
Make = Callable[..., confluent_kafka.Consumer]


def scenario(name: str) -> Callable[[_T], _T]:
    def restated(test: _T) -> _T:
        RESTATED[name] = test
        return test

    return restated


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with small_cluster(tmp_path_factory.mktemp("tier")) as made:
        for topic in (TOPIC, OTHER):
            fill_topic(made, topic, COUNT)
        yield made


@pytest.fixture(params=["confluent", "off", "on"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes a consumer of the kind that the test is about: ``make(cluster or None, **settings)``."""
    made: list[confluent_kafka.Consumer] = []

    def one(
        cluster: EmbeddedCluster | None, cls: Callable[[dict[str, Any]], confluent_kafka.Consumer] | None = None, **more: object
    ) -> confluent_kafka.Consumer:
        more.setdefault("enable_partition_eof", False)
        if cluster is None:
            lonely = {"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": 1_000, "log_level": 0, "group.id": "test"}
            config = {**lonely, **{name.replace("_", "."): value for name, value in more.items()}}
            if request.param == "on":
                config |= {"fetch.remote.enabled": True, "remote.storage.fetcher.class": "presigned"}
        else:
            config = (direct_settings if request.param == "on" else plain_settings)(cluster, **more)
        base = confluent_kafka.Consumer if request.param == "confluent" else Consumer
        made.append((base if cls is None else type("Sub", (cls, base), {}))(config))  # type: ignore[arg-type] # a mixin
        return made[-1]

    yield one
    for consumer in made:
        consumer.close()


def code(refused: pytest.ExceptionInfo[KafkaException]) -> int:
    return int(refused.value.args[0].code())


@scenario("test_basic_api")
def test_basic_api(make: Make) -> None:
    consumer = make(None)
    consumer.subscribe(["test"])
    consumer.unsubscribe()
    consumer.subscribe(["test"], on_assign=lambda *_: None, on_revoke=lambda *_: None)
    consumer.unsubscribe()
    for wrong in (-100, 1_000_001):
        with pytest.raises(ValueError, match=r"num_messages must be between 0 and 1000000 \(1M\)"):
            consumer.consume(wrong)
    partitions = [TopicPartition("test", number) for number in range(0, 100, 33)]
    consumer.assign(partitions)
    assert consumer.assignment() == partitions
    consumer.pause(partitions)
    consumer.resume(partitions)
    assert consumer.get_watermark_offsets(partitions[0], cached=True) == (OFFSET_INVALID, OFFSET_INVALID)
    assert [tp.offset for tp in consumer.position(partitions)] == [OFFSET_INVALID] * len(partitions)
    consumer.unassign()
    consumer.commit(asynchronous=True)
    with pytest.raises(KafkaException) as refused:
        consumer.committed(partitions, timeout=0.001)
    assert code(refused) in {KafkaError._TIMED_OUT, KafkaError._WAIT_COORD}


@scenario("test_store_offsets")
def test_store_offsets(make: Make) -> None:
    consumer = make(None, enable_auto_offset_store=False)
    consumer.subscribe(["test"])
    with pytest.raises(KafkaException) as refused:
        consumer.store_offsets(offsets=[TopicPartition("test", 0, 42)])
    assert code(refused) in {KafkaError._UNKNOWN_PARTITION, KafkaError._STATE}


@scenario("test_on_commit")
def test_on_commit_is_not_told_of_a_commit_of_nothing_twice(make: Make, cluster: EmbeddedCluster) -> None:
    consumer = make(cluster)
    consumer.assign([TopicPartition(TOPIC, 2)])
    consumer.poll(0)
    with pytest.raises(KafkaException) as refused:
        consumer.commit(asynchronous=False)
    assert code(refused) == KafkaError._NO_OFFSET


class OfWords:
    """A poll() of another signature."""

    def poll(self, word: str) -> Message | None:
        assert isinstance(word, str)
        return super().poll(timeout=0.0001)  # type: ignore[misc] # beside a consumer


@scenario("test_subclassing")
def test_subclassing(make: Make) -> None:
    assert make(None, cls=OfWords).poll("a string") is None  # type: ignore[arg-type] # that is the point


@scenario("test_offsets_for_times")
def test_offsets_for_times(make: Make) -> None:
    with pytest.raises(KafkaException) as refused:
        make(None).offsets_for_times([TopicPartition("test", 0, 100)], timeout=0.1)
    assert code(refused) in {KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT}


@scenario("test_multiple_close_does_not_throw_exception")
@scenario("test_any_method_after_close_throws_exception")
@scenario("test_calling_store_offsets_after_close_throws_erro")
def test_closed_is_closed(make: Make) -> None:
    consumer = make(None, enable_auto_offset_store=False)
    consumer.subscribe(["test"])
    consumer.unsubscribe()
    consumer.close()
    consumer.close()
    here = [TopicPartition("test", 0, 0)]
    calls: dict[str, tuple[Any, ...]] = {"subscribe": (["test"],), "seek": (here[0],), "get_watermark_offsets": (here[0],)}
    calls |= dict.fromkeys(("unsubscribe", "poll", "consume", "unassign", "assignment", "commit", "memberid"), ())
    calls |= dict.fromkeys(("assign", "committed", "position", "offsets_for_times"), (here,))
    for name, arguments in calls.items():
        with pytest.raises(RuntimeError) as refused:
            getattr(consumer, name)(*arguments)
        assert str(refused.value) == "Consumer closed", name
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.store_offsets(offsets=here)


@scenario("test_consumer_without_groupid")
@pytest.mark.parametrize("kind", [confluent_kafka.Consumer, Consumer])
def test_consumer_without_group_id(kind: type[confluent_kafka.Consumer]) -> None:
    with pytest.raises(ValueError, match=r"group\.id must be set"):
        kind({"bootstrap.servers": "127.0.0.1:1"})


@scenario("test_incremental_assign")
def test_incremental_assign(make: Make, cluster: EmbeddedCluster) -> None:
    consumer = make(cluster)
    consumer.incremental_assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    assert [(row[0], row[2]) for row in take(consumer, COUNT)] == [(TOPIC, number) for number in range(COUNT)]
    with pytest.raises(KafkaException) as refused:
        consumer.incremental_assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    assert code(refused) == KafkaError._CONFLICT
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 7)], asynchronous=False)
    consumer.incremental_assign([TopicPartition(OTHER, 0, OFFSET_BEGINNING)])
    assert {row[0] for row in take(consumer, 20)} == {OTHER}
    consumer.incremental_unassign([TopicPartition(OTHER, 0), TopicPartition(TOPIC, 0)])
    consumer.incremental_assign([TopicPartition(TOPIC, 0)])
    assert take(consumer, 1)[0][2] == 7
    consumer.incremental_unassign([TopicPartition(TOPIC, 0)])
    with pytest.raises(KafkaException) as refused:
        consumer.incremental_unassign([TopicPartition(TOPIC, 0)])
    assert code(refused) == KafkaError._INVALID_ARG


@scenario("test_read_after_commit_offset_only")
def test_read_after_a_commit_of_stored_offsets(make: Make, cluster: EmbeddedCluster) -> None:
    consumer = make(cluster, enable_auto_offset_store=False)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    messages = consumer.consume(10, PATIENCE_SECONDS)
    for message in messages[:4]:
        consumer.store_offsets(message)
    consumer.commit(asynchronous=False)
    consumer.seek(TopicPartition(TOPIC, 0, messages[4].offset() or 0))
    assert take(consumer, 1)[0][2] == messages[4].offset()
    (committed,) = consumer.committed([TopicPartition(TOPIC, 0)], PATIENCE_SECONDS)
    assert committed.offset == messages[4].offset()


@scenario("test_consumer_topicpartition_metadata")
def test_metadata_of_commits(make: Make, cluster: EmbeddedCluster) -> None:
    consumer = make(cluster)
    for metadata in ("hello world", "नमस्ते दुनिया"):
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1, metadata)], asynchronous=False)
        (committed,) = consumer.committed([TopicPartition(TOPIC, 0)], PATIENCE_SECONDS)
        assert committed.metadata == metadata
    with pytest.raises(ValueError, match="embedded null character"):
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1, "xyz\0abc")], asynchronous=False)


@scenario("test_consumer_memberid")
def test_member_id(make: Make, cluster: EmbeddedCluster) -> None:
    consumer = make(cluster)
    assert not consumer.memberid()
    consumer.subscribe([TOPIC])
    take(consumer, 1)
    assert consumer.memberid()


def test_each_scenario_is_restated_or_says_by_which_test_or_why_not() -> None:
    for scenarios in SCENARIOS.values():
        for name, told in scenarios.items():
            assert (name in RESTATED) == (not told), name
            if told and not told.startswith("not ours: "):
                file, _, test = told.partition("::")
                assert f"def {test}" in (TESTS / file).read_text(), told
