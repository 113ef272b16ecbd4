"""A consumer dropped without close() is freed at once. A thread that holds no lock closes its engine."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Message, TopicPartition

from kafka_remote_client import Consumer, DeserializingConsumer
from kafka_remote_client.consumer import dropped
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.fetch.engine import FetchEngine
from tests.support.embedded_topics import PATIENCE_SECONDS, direct_settings, filled_cluster, plain_settings, take
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

TOPIC = "orders"


cluster = filled_cluster(TOPIC, 200)


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Disables the garbage collector: reference counting alone frees objects."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()
    gc.collect()


class OwnConsumer(Consumer):
    """An application's subclass."""


def built(consumer: Any) -> None:
    """A new consumer, unused."""


def assigned(consumer: Any) -> None:
    consumer.assign([TopicPartition(TOPIC, 0, 0)])


def consumed(consumer: Any) -> None:
    assigned(consumer)
    take(consumer, 5)


def polled(consumer: Any) -> None:
    assigned(consumer)
    message: Message | None = None
    while message is None:
        message = consumer.poll(PATIENCE_SECONDS)


def subscribed(consumer: Any) -> None:
    seen = threading.Event()
    consumer.subscribe([TOPIC], on_assign=lambda *_: seen.set(), on_revoke=lambda *_: None, on_lost=lambda *_: None)
    while not seen.is_set():
        consumer.poll(0.1)


def sought(consumer: Any) -> None:
    consumed(consumer)
    consumer.seek(TopicPartition(TOPIC, 0, 3))
    consumer.pause([TopicPartition(TOPIC, 0)])
    consumer.resume([TopicPartition(TOPIC, 0)])
    take(consumer, 5)


def is_closed(engine: FetchEngine) -> bool:
    return engine._closed and not any(thread.is_alive() for thread in engine._threads)


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(
    ("kind", "use"),
    [
        *((kind, use) for kind in (Consumer, OwnConsumer) for use in (built, assigned, polled, consumed, subscribed, sought)),
        *((DeserializingConsumer, use) for use in (built, assigned, polled)),  # it has poll() only
    ],
)
def test_reference_counting_alone_frees_a_dropped_consumer(
    cluster: EmbeddedCluster, kind: type[Consumer], use: Callable[[Any], None]
) -> None:
    callbacks = {"stats_cb": lambda _: None, "statistics.interval.ms": 10, "error_cb": lambda _: None}
    consumer = kind({**direct_settings(cluster), **callbacks, "enable.auto.offset.store": use is not consumed})
    use(consumer)
    engine, reference = consumer._direct_engine, weakref.ref(consumer)
    del consumer
    # Its watching threads may hold a part of it for a moment, and it with that.
    wait_until(lambda: reference() is None, "the consumer to be freed")
    wait_until(lambda: is_closed(engine), "its engine to be closed")
    assert engine.memory.held == 0


class Application:
    """An object that owns a consumer, whose callbacks are its own methods: a cycle, which only a collection frees."""

    def __init__(self, kind: Callable[[dict[str, Any]], Any], settings: dict[str, Any], *callbacks: str) -> None:
        self.log = self.called  # what a consumer calls of its logger
        given = {name: self if name == "logger" else self.called for name in callbacks}
        self.consumer = kind({**settings, **given})
        self.consumer.subscribe([TOPIC], on_assign=self.called, on_revoke=self.called, on_lost=self.called)

    def called(self, *_: Any) -> tuple[str, float]:
        """A callback of any kind. Only that of ``oauth_cb`` must return something: a token and its expiry."""
        return "token", 4e9


@pytest.mark.parametrize("callback", ["error_cb", "stats_cb", "throttle_cb", "on_commit", "oauth_cb", "logger", "none"])
@pytest.mark.parametrize("kind", [confluent_kafka.Consumer, Consumer])
def test_a_collection_frees_a_consumer_whose_callbacks_refer_to_it(
    cluster: EmbeddedCluster, kind: Callable[[dict[str, Any]], Any], callback: str
) -> None:
    settings = plain_settings(cluster) if kind is confluent_kafka.Consumer else direct_settings(cluster)
    if callback == "oauth_cb":  # nothing else calls it; the cluster refuses the connections
        settings |= {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER", "log_level": 0}
    application = Application(kind, settings, *([] if callback == "none" else [callback]))
    reference = weakref.ref(application)
    del application

    def is_freed() -> bool:
        gc.collect()
        return reference() is None

    wait_until(is_freed, "the application to be freed")


def test_dropping_a_consumer_waits_for_no_lock_of_its_engine(cluster: EmbeddedCluster) -> None:
    consumers = [Consumer(direct_settings(cluster))]
    consumed(consumers[0])
    engine = consumers[0]._direct_engine
    dropping = threading.Thread(target=consumers.clear, daemon=True)
    with engine.lock:
        dropping.start()
        dropping.join(PATIENCE_SECONDS)
        assert not dropping.is_alive()
        assert not engine._closed
    wait_until(lambda: is_closed(engine), "the engine to be closed")


def test_a_worker_may_drop_the_consumer_while_it_holds_every_lock(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumers: list[Consumer] = []
    dropped_in: list[str] = []
    choose = FetchEngine._next_command

    def choosing(self: FetchEngine) -> Any:
        if consumers and consumers[0]._direct_engine is self and self._scheduler.has_ready:
            dropped_in.append(threading.current_thread().name)
            with self.metrics._lock:
                consumers.clear()
        return choose(self)

    consumer = Consumer(direct_settings(cluster))
    engine = consumer._direct_engine
    monkeypatch.setattr(FetchEngine, "_next_command", choosing)
    assigned(consumer)
    with engine.lock:  # no worker chooses a command before the consumer can be dropped
        while not any(flow.route is Route.REMOTE for flow in consumer._direct_flows):
            consumer.poll(0)  # without waiting, which would release the lock
        consumers.append(consumer)
        del consumer
    wait_until(lambda: is_closed(engine), "the engine to be closed")
    assert dropped_in[0].startswith("kafka-remote-fetch-")
    assert len(dropped_in) == 1
    assert engine.memory.held == 0


def test_an_inner_call_of_a_dropped_consumer_raises_as_a_closed_one_does(cluster: EmbeddedCluster) -> None:
    consumer = Consumer(direct_settings(cluster))
    inner = consumer._direct_routing._inner
    del consumer
    with pytest.raises(RuntimeError, match="Consumer closed"):
        inner.pause([])


def test_a_failure_to_close_is_logged_and_the_next_engine_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    class Owner:
        """An object that owns a consumer and is dropped."""

    class Engine:
        def __init__(self, failure: Exception | None = None) -> None:
            self.closed = threading.Event()
            self._failure = failure

        def close(self) -> None:
            self.closed.set()
            if self._failure:
                raise self._failure

    for engine in (Engine(RuntimeError("defect")), Engine()):
        owner = Owner()
        dropped.close_when_dropped(owner, engine)
        del owner
        assert engine.closed.wait(PATIENCE_SECONDS)
    assert "closing the engine of a dropped consumer failed" in caplog.text


_PROGRAM = """
import sys
from kafka_remote_client.consumer import dropped

class Engine:
    def close(self):
        print("closed", flush=True)

class Owner:
    pass

owner = Owner()
dropped.close_when_dropped(owner, Engine())
"""


def test_the_engine_of_a_consumer_that_lives_to_the_end_is_closed_at_exit(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    assert done.stdout == "closed\n"


_LATE = """
import threading
from confluent_kafka import Producer, TopicPartition
from kafka_remote_client import Consumer
from kafka_remote_client.tiered_kafka import TieredCluster

def read():
    threading.main_thread().join()
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition("orders", 0, 0)])
        values = [message.value() for message in consumer.consume(100, 60)]
    assert values == [b"%d" % number for number in range(100)], values
    metrics = consumer.metrics()
    print(metrics["remote-fetch-records-total"], metrics["remote-fetch-fallbacks-total"])
    cluster.close()

cluster = TieredCluster(partitions=1, segment_bytes=1000).start()
producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
for number in range(100):
    producer.produce("orders", b"%d" % number)
producer.flush()
cluster.tier_now(roll=True)
settings = {
    "bootstrap.servers": cluster.bootstrap_servers,
    "group.id": "late",
    "fetch.remote.enabled": True,
    "fetch.remote.location.source": "metadata-topic",
    "remote.storage.store.url": cluster.store.url,
    "fetch.remote.location.timeout.ms": 60_000,
}
threading.Thread(target=read).start()
"""


def test_direct_reads_go_on_when_the_main_thread_has_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _LATE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True, cwd=tmp_path)
    assert done.stdout == "100 {}\n"


def test_finalizer_closes_the_engine_itself_at_process_exit() -> None:
    closed: list[str] = []

    class Engine:
        def __init__(self, name: str) -> None:
            self._name = name

        def close(self) -> None:
            closed.append(self._name)

    closer = dropped._Closer()
    closer.drop(Engine("for the thread"))
    assert closed == []
    closer._exit()
    closer.drop(Engine("at exit"))
    assert closed == ["at exit"]
    closer.begin()
    closer.drop(Engine("in a fork"))
    assert closed == ["at exit"]
