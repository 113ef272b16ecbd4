"""confluent-kafka-python's own scenarios of Consumer, on its class and on ours with direct fetch off and on.

``upstream_files.py`` lists all of them by file and name, and which test restates each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import PATIENCE_SECONDS, direct_settings, fill_topic, plain_settings, small_cluster, take
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

TOPIC, OTHER = "orders", "payments"
COUNT = 200
Make = Callable[..., confluent_kafka.Consumer]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with small_cluster(tmp_path_factory.mktemp("tier")) as made:
        for topic in (TOPIC, OTHER):
            fill_topic(made, topic, COUNT)
        yield made


@pytest.fixture(params=["confluent", "off", "on"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes a consumer of the tested kind: ``make(cluster or None, **settings)``."""
    made: list[confluent_kafka.Consumer] = []

    def one(
        cluster: EmbeddedCluster | None,
        cls: Callable[[dict[str, Any]], confluent_kafka.Consumer] | None = None,
        callbacks: Mapping[str, Any] = MappingProxyType({}),
        **more: object,
    ) -> confluent_kafka.Consumer:
        more.setdefault("enable_partition_eof", False)
        if cluster is None:
            lonely = {"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": 1_000, "log_level": 0, "group.id": "test"}
            config = {**lonely, **{name.replace("_", "."): value for name, value in more.items()}}
            if request.param == "on":
                config |= {"fetch.remote.enabled": True, "remote.storage.fetcher.class": "memory"}
        else:
            config = (direct_settings if request.param == "on" else plain_settings)(cluster, **more)
        config |= callbacks
        base = confluent_kafka.Consumer if request.param == "confluent" else Consumer
        made.append((base if cls is None else type("Sub", (cls, base), {}))(config))  # type: ignore[arg-type] # a mixin
        return made[-1]

    yield one
    for consumer in made:
        consumer.close()


def code(refused: pytest.ExceptionInfo[KafkaException]) -> int:
    return int(refused.value.args[0].code())


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


def test_store_offsets(make: Make) -> None:
    consumer = make(None, enable_auto_offset_store=False)
    consumer.subscribe(["test"])
    with pytest.raises(KafkaException) as refused:
        consumer.store_offsets(offsets=[TopicPartition("test", 0, 42)])
    assert code(refused) in {KafkaError._UNKNOWN_PARTITION, KafkaError._STATE}


def test_on_commit(make: Make, cluster: EmbeddedCluster) -> None:
    calls: list[tuple[Any, list[tuple[str, int, int]]]] = []

    def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        calls.append((error and error.code(), [(tp.topic, tp.partition, tp.offset) for tp in partitions]))

    consumer = make(cluster, callbacks={"on_commit": on_commit})
    consumer.assign([TopicPartition(TOPIC, 2)])
    consumer.poll(0)
    with pytest.raises(KafkaException) as refused:
        consumer.commit(asynchronous=False)
    assert code(refused) == KafkaError._NO_OFFSET
    consumer.poll(0.1)
    before = list(calls)  # of nothing: upstream's own consumer tells none of them, or each once
    assert len(before) <= 1

    consumer.commit(offsets=[TopicPartition(TOPIC, 2, 5)], asynchronous=True)
    wait_until(lambda: consumer.poll(0.1) is None and len(calls) > len(before), "the callback was called")
    consumer.commit(offsets=[TopicPartition(TOPIC, 2, 6)], asynchronous=True)
    wait_until(lambda: consumer.poll(0.1) is None and len(calls) > len(before) + 1, "it was called again")
    for _ in range(3):
        consumer.poll(0.05)
    assert calls[len(before) :] == [(None, [(TOPIC, 2, 5)]), (None, [(TOPIC, 2, 6)])]


class OfWords:
    """A poll() with another signature."""

    def poll(self, text: str) -> Message | None:
        assert isinstance(text, str)
        return super().poll(timeout=0.0001)  # type: ignore[misc] # beside a consumer


def test_subclassing(make: Make) -> None:
    assert make(None, cls=OfWords).poll("a string") is None  # type: ignore[arg-type] # that is the point


def test_offsets_for_times(make: Make) -> None:
    with pytest.raises(KafkaException) as refused:
        make(None).offsets_for_times([TopicPartition("test", 0, 100)], timeout=0.1)
    assert code(refused) in {KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT}


def test_closed_is_closed(make: Make) -> None:
    consumer = make(None, enable_auto_offset_store=False)
    consumer.subscribe(["test"])
    consumer.unsubscribe()
    consumer.close()
    consumer.close()
    assert_refuses_all(consumer)


def assert_refuses_all(consumer: confluent_kafka.Consumer) -> None:
    here = [TopicPartition("test", 0, 0)]
    calls: dict[str, tuple[Any, ...]] = {"subscribe": (["test"],), "seek": (here[0],), "get_watermark_offsets": (here[0],)}
    calls |= dict.fromkeys(("unsubscribe", "poll", "consume", "unassign", "assignment", "commit", "memberid"), ())
    calls |= dict.fromkeys(("assign", "committed", "position", "offsets_for_times", "pause", "resume"), (here,))
    calls |= {"consumer_group_metadata": (), "incremental_assign": (here,), "incremental_unassign": (here,)}
    for name, arguments in calls.items():
        with pytest.raises(RuntimeError) as refused:
            getattr(consumer, name)(*arguments)
        assert str(refused.value) == "Consumer closed", name
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.store_offsets(offsets=here)


@pytest.mark.parametrize("kind", [confluent_kafka.Consumer, Consumer])
def test_consumer_without_group_id(kind: type[confluent_kafka.Consumer]) -> None:
    with pytest.raises(ValueError, match=r"group\.id must be set"):
        kind({"bootstrap.servers": "127.0.0.1:1"})


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


def test_metadata_of_commits(make: Make, cluster: EmbeddedCluster) -> None:
    consumer = make(cluster)
    for metadata in ("hello world", "नमस्ते दुनिया"):
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1, metadata)], asynchronous=False)
        (committed,) = consumer.committed([TopicPartition(TOPIC, 0)], PATIENCE_SECONDS)
        assert committed.metadata == metadata
    with pytest.raises(ValueError, match="embedded null character"):
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1, "xyz\0abc")], asynchronous=False)


def test_member_id(make: Make, cluster: EmbeddedCluster) -> None:
    consumer = make(cluster)
    assert not consumer.memberid()
    consumer.subscribe([TOPIC])
    take(consumer, 1)
    assert consumer.memberid()


def lonely(make: Make, callbacks: Mapping[str, Any] = MappingProxyType({}), **more: Any) -> confluent_kafka.Consumer:
    """A consumer whose broker does not exist."""
    consumer = make(None, callbacks=callbacks, **more)
    consumer.subscribe(["test"])
    return consumer


def test_calls_that_wait_for_a_while_or_not_at_all_give_nothing(make: Make) -> None:
    consumer = lonely(make)
    for seconds in (0.0, 0.05, 0.1, 0.35, 0.5):
        assert consumer.poll(seconds) is None
        assert consumer.consume(10, seconds) == []
    assert consumer.consume(0, PATIENCE_SECONDS) == []
    for wrong in (-1, 1_000_001):
        with pytest.raises(ValueError, match="num_messages must be between 0 and 1000000"):
            consumer.consume(wrong, 0.1)


def raised_by(call: Callable[[], object]) -> BaseException | None:
    """Repeats a call until it raises and returns the error: confluent_kafka raises only when its call ends."""

    def once() -> BaseException | None:
        try:
            call()
        except Exception as error:
            return error
        return None

    return wait_until(once, "something is raised", pause=0)


@pytest.mark.parametrize("call", ["poll", "consume"])
@pytest.mark.parametrize("callback", ["error_cb", "stats_cb"])
@pytest.mark.parametrize(
    "error",
    [RuntimeError("broken"), ValueError("broken"), KafkaException(KafkaError(KafkaError._FAIL))],
    ids=["runtime", "value", "kafka"],
)
def test_what_a_callback_of_the_configuration_raises_comes_out(make: Make, callback: str, call: str, error: Exception) -> None:
    calls: list[object] = []

    def raises(what: object) -> None:
        calls.append(what)
        if len(calls) == 1:  # close() calls it, too
            raise error

    consumer = lonely(make, {callback: raises}, statistics_interval_ms=50)
    assert raised_by(lambda: consumer.poll(0.1) if call == "poll" else consumer.consume(1, 0.1)) is error
    wait_until(lambda: consumer.poll(0.1) is None and len(calls) > 1, "it is called again")
    assert isinstance(calls[0], str if callback == "stats_cb" else KafkaError)


def assert_closed(consumer: confluent_kafka.Consumer) -> None:
    for call in (consumer.poll, lambda: consumer.subscribe(["test"])):
        with pytest.raises(RuntimeError, match="Consumer closed"):
            call()


def test_a_context_closes_its_consumer_also_when_something_is_raised(make: Make) -> None:
    with make(None) as outer:
        with make(None) as inner:
            assert inner is not outer
            inner.subscribe(["other"])
        assert_closed(inner)
        outer.subscribe(["test"])
        outer.unsubscribe()
    assert_closed(outer)
    consumer = make(None)

    def fail() -> None:
        with consumer:
            raise ValueError("theirs")

    with pytest.raises(ValueError, match="theirs"):
        fail()
    assert_closed(consumer)


def test_a_context_may_be_entered_and_left_by_hand_and_when_it_is_closed(make: Make) -> None:
    consumer = lonely(make)
    assert consumer.__enter__() is consumer
    assert consumer.__exit__(ValueError, ValueError("theirs"), None) is None
    assert_closed(consumer)
    consumer.close()
    assert consumer.__enter__() is consumer
    assert_closed(consumer)
    assert consumer.__exit__(None, None, None) is None


class NeverBegun:
    def __init__(self, config: dict[str, Any]) -> None:
        """The constructor of the consumer is not called."""


def test_a_consumer_whose_constructor_was_not_called_is_a_closed_one(make: Make) -> None:
    consumer = make(None, NeverBegun)
    assert_refuses_all(consumer)
    with pytest.raises(RuntimeError, match="Handle has been closed"):
        consumer.list_topics()
    consumer.close()


def test_independent_consumers_do_not_block_each_other(make: Make, cluster: EmbeddedCluster) -> None:
    """One consumer is inside its own call, as its callback shows, while another thread uses the other."""
    read: list[Any] = []

    def work() -> list[Any]:
        works.assign([TopicPartition(TOPIC, 0, 0)])
        rows = take(works, COUNT)
        works.commit(asynchronous=False)
        return [len(rows), works.position([TopicPartition(TOPIC, 0)])[0].offset]

    def stats_cb(_: str) -> None:
        if not read:
            read.extend(pool.submit(work).result(2 * PATIENCE_SECONDS))

    works = make(cluster)
    waits = lonely(make, {"stats_cb": stats_cb}, statistics_interval_ms=50)
    with ThreadPoolExecutor(1) as pool:
        wait_until(
            lambda: waits.poll(0.1) is None and bool(read), "the other one has read everything", seconds=3 * PATIENCE_SECONDS
        )
    assert read == [COUNT, COUNT]


@pytest.mark.parametrize("call", ["pause", "resume", "position", "assign", "incremental_assign", "subscribe", "seek", "commit"])
def test_a_call_that_is_refused_leaves_the_consumer_to_other_threads(make: Make, call: str) -> None:
    consumer = lonely(make)
    for _ in range(2):
        with pytest.raises((TypeError, KafkaException)):
            getattr(consumer, call)("what it is not")
    with ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            assert pool.submit(consumer.assignment).result(PATIENCE_SECONDS) == []
    assert consumer.assignment() == []


def test_calls_from_a_callback_of_the_configuration_are_its_callers_own(make: Make) -> None:
    nested: list[object] = []

    def stats_cb(_: str) -> None:
        if nested:
            return  # close() calls it, too, where nothing may be asked any more
        with pytest.raises(TypeError):
            consumer.pause("what it is not")  # type: ignore[arg-type] # so it is refused
        consumer.pause([])
        nested.append(consumer.assignment())

    consumer = lonely(make, {"stats_cb": stats_cb}, statistics_interval_ms=50)
    wait_until(lambda: consumer.poll(0.1) is None and bool(nested), "statistics")
    assert nested == [[]]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(consumer.assignment).result(PATIENCE_SECONDS) == []


def test_cluster_id(make: Make, cluster: EmbeddedCluster) -> None:
    consumer = make(cluster)
    assert consumer.cluster_id(PATIENCE_SECONDS) == plain_cluster_id(cluster)
    consumer.close()
    with pytest.raises(RuntimeError, match="Handle has been closed"):
        consumer.cluster_id()


def plain_cluster_id(cluster: EmbeddedCluster) -> str:
    """The cluster id that the broker itself returns, without a shim."""
    with confluent_kafka.Consumer({"bootstrap.servers": cluster.broker_bootstrap_servers, "group.id": "asks"}) as asking:
        known = asking.cluster_id(PATIENCE_SECONDS)
    assert known
    return known


def test_credentials_may_be_set(make: Make) -> None:
    consumer = make(None)
    for _ in range(2):
        consumer.set_sasl_credentials("user", "word")
    for wrong in ((None, "word"), ("user", None), ("user",)):
        with pytest.raises(TypeError):
            consumer.set_sasl_credentials(*wrong)
    consumer.close()
    with pytest.raises(RuntimeError, match="Handle has been closed"):
        consumer.set_sasl_credentials("user", "word")
