"""Callbacks during direct reads: the call that runs them, their arguments, and the call that raises their exceptions.

confluent's consumer must do the same. If no server listens at ``bootstrap.servers``, the store still serves, because locations
are requested elsewhere, and librdkafka reports the error at once. (With several servers, librdkafka would start with any.)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    direct_settings,
    fill_topic,
    from_broker,
    from_store,
    plain_settings,
    small_cluster,
    tiers,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

TOPIC = "orders"
NOBODY = "127.0.0.1:1"
TURN = 150
"""Reading begins anew here, so that it never leaves the tier."""
SERVED, REFUSED = ("on_commit", "stats_cb"), ("error_cb", "logger", "stats_cb")
"""What is heard of where a broker serves, and where none does."""
GIVEN: dict[str, tuple[object, ...]] = {
    "on_commit": ("NoneType", ("TopicPartition",)),
    "stats_cb": ("str",),
    "error_cb": ("KafkaError",),
    "logger": ("LogRecord",),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with small_cluster(tmp_path_factory.mktemp("tier")) as made:
        fill_topic(made, TOPIC, 300)
        assert tiers(made, TOPIC).earliest_local > TURN + 10
        yield made


class Application:
    """Reads by ``call``. Records the current call, and the arguments of the callbacks in it."""

    def __init__(self, cluster: EmbeddedCluster, names: tuple[str, ...], call: str, *, direct: bool) -> None:
        self.seen: set[tuple[object, ...]] = set()
        self.raises = ""
        self.raised_in: list[str] = []
        self._call, self._inside, self._next = call, "", 0
        self._thread = threading.get_ident()
        make, settings = (Consumer, direct_settings) if direct else (confluent_kafka.Consumer, plain_settings)
        config = settings(cluster, statistics_interval_ms=20, enable_partition_eof=False)
        config |= {name: self._callback(name) for name in names if name != "logger"}
        if names is REFUSED:
            config |= {"bootstrap.servers": NOBODY, "log_level": 6, "logger": self._logger()}
            config |= {"fetch.remote.bootstrap.servers": cluster.bootstrap_servers} if direct else {}
        self.consumer = make(config)

    def _callback(self, name: str) -> Callable[..., None]:
        def called(*given: object) -> None:
            types = tuple(_type(one) for one in given)
            self.seen.add((name, self._inside, types, threading.get_ident() == self._thread))
            if self.raises == name:
                self.raises = ""
                raise LookupError(f"of {name}")

        return called

    def _logger(self) -> logging.Logger:
        logger = logging.Logger("of the application")  # noqa: LOG001 - it belongs to this application and not to the process
        handler = logging.Handler()
        handler.emit = self._callback("logger")  # type: ignore[method-assign] # only its arguments matter
        logger.addHandler(handler)
        return logger

    def within(self, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._inside = name
        try:
            return method(*args, **kwargs)
        except LookupError:
            self.raised_in.append(name)
            return None
        finally:
            self._inside = ""

    def deliver(self) -> None:
        """Makes a delivering call; records must arrive in order."""
        if self._call == "poll":
            messages = [self.within("poll", self.consumer.poll, 0.02)]
        else:
            messages = self.within("consume", self.consumer.consume, 3, 0.02) or []
        for message in messages:
            if message is not None:
                assert (message.error(), message.offset()) == (None, self._next)
                self._next += 1
        if self._next >= TURN:
            self.within("seek", self.consumer.seek, TopicPartition(TOPIC, 0, 0))
            self._next = 0

    def call_others(self, *, served: bool) -> None:
        here = [TopicPartition(TOPIC, 0, 2)]
        for method in (self.consumer.position, self.consumer.pause, self.consumer.resume):
            self.within(method.__name__, method, here)
        self.within("assignment", self.consumer.assignment)
        if served:
            self.within("committed", self.consumer.committed, here, PATIENCE_SECONDS)
            self.within("watermarks", self.consumer.get_watermark_offsets, here[0], PATIENCE_SECONDS)
            self.within("a commit that waits", self.consumer.commit, offsets=here, asynchronous=False)
            self.within("a commit that does not", self.consumer.commit, offsets=here)

    def close(self, *, direct: bool) -> None:
        try:
            if direct:
                assert isinstance(self.consumer, Consumer)
                wait_until(lambda: self.deliver() or from_store(self.consumer) > 0, "a record of the store", pause=0)
                assert from_broker(self.consumer) == 0
        finally:
            self._inside = "close"
            self.consumer.close()


def _type(given: object) -> object:
    return tuple(type(one).__name__ for one in given) if isinstance(given, list) else type(given).__name__


@pytest.mark.parametrize("names", [SERVED, REFUSED], ids=["a broker serves", "none does"])
@pytest.mark.parametrize("call", ["poll", "consume"])
@pytest.mark.parametrize("direct", [False, True], ids=["confluent's", "ours"])
def test_callbacks_run_in_delivering_calls_only(
    cluster: EmbeddedCluster, names: tuple[str, ...], call: str, direct: bool
) -> None:
    application = Application(cluster, names, call, direct=direct)
    application.consumer.assign([TopicPartition(TOPIC, 0, 0)])
    try:

        def heard() -> bool:
            application.deliver()
            application.call_others(served=names is SERVED)
            return {name for name, *_ in application.seen} == set(names)

        wait_until(heard, "all callbacks", pause=0)
        application.call_others(served=names is SERVED)
        assert application.seen == {(name, call, GIVEN[name], True) for name in names}
    finally:
        application.close(direct=direct)


@pytest.mark.parametrize(
    ("name", "names"), [("on_commit", SERVED), ("stats_cb", SERVED), ("error_cb", REFUSED), ("logger", REFUSED)]
)
@pytest.mark.parametrize("call", ["poll", "consume"])
@pytest.mark.parametrize("direct", [False, True], ids=["confluent's", "ours"])
def test_an_exception_of_a_callback_is_raised_once_and_loses_no_record(
    cluster: EmbeddedCluster, name: str, names: tuple[str, ...], call: str, direct: bool
) -> None:
    application = Application(cluster, names, call, direct=direct)
    application.raises = name
    if (
        direct
    ):  # confluent's consumer loses the records of its consume() when a callback raises, and then its close() never returns
        application.consumer.assign([TopicPartition(TOPIC, 0, 0)])
    try:

        def raised() -> bool:
            if names is SERVED:
                application.within("commit", application.consumer.commit, offsets=[TopicPartition(TOPIC, 0, 2)])
            application.deliver()
            return bool(application.raised_in)

        wait_until(raised, "the exception", pause=0)
        for _ in range(20):
            application.deliver()
        assert application.raised_in == [call]
    finally:
        application.close(direct=direct)
