"""Three real brokers, a shim and its store, killed and paused in turn while a group reads and transactions are written.

``make chaos SECONDS=180``. What the members of the group got is held against a plain consumer's read of the same topics, by all
invariants; the last line is for the ledger. Exit status 0 only when none is broken.

The members go back to the beginning whenever they have nothing more to read, so that the tier is read all the time. The store
is the shim's own origin behind a proxy that refuses, swallows and cuts; brokers and shim are processes that get signals.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.testing import TcpFaultProxy
from tests.support.history import Counted, Fired, History, Polled
from tests.support.invariants.checker import violations
from tests.support.invariants.oracle import Oracle
from tests.support.invariants.violation import Violation
from tests.support.kafka_cluster import KafkaCluster
from tests.support.killable_shim import KillableShim
from tests.support.ledger import ledger
from tests.support.reading import settings, total
from tests.support.recorder import RecordedConsumer, recorded
from tests.support.waiting import wait_until

__all__ = ["Chaos", "main"]

_Fault: TypeAlias = tuple[str, Callable[[], object], Callable[[], object]]
"""Its kind, how it begins and how it ends."""
_Key: TypeAlias = tuple[str | None, int | None]

TOPICS = ("chaos-one", "chaos-two")
_REPLICAS = ((1, 2, 3), (2, 3, 1))
_MEMBERS = 2
_PATIENCE_SECONDS = 300.0
_FIRST_SECONDS, _LONGEST_SECONDS, _REST_SECONDS = 3.0, 6.0, 4.0
_BATCH, _PAUSE_SECONDS = 100, 0.1


class Chaos:
    """One run on a cluster that is up; ``directory`` is for logs. ``fired`` counts the faults by kind.

    It leaves the cluster with all nodes up, and two topics.
    """

    def __init__(self, cluster: KafkaCluster, directory: Path, seed: int) -> None:
        self.seed = seed
        self.history = History()
        self.fired: Counter[str] = Counter()
        self._dice = random.Random(seed)
        self._stack = ExitStack()
        self._stopping = threading.Event()
        self._failures: list[BaseException] = []
        self._cluster = cluster
        for topic, replicas in zip(TOPICS, _REPLICAS, strict=True):
            self._cluster.create_topic(topic, replicas, segment_bytes=50_000, min_insync_replicas="2")
        self._store = self._stack.enter_context(TcpFaultProxy(("127.0.0.1", 1)))
        self._shim = KillableShim(
            self._cluster, directory / "shim.log", "--origin-public-url", f"http://{self._store.authority}"
        )
        self._store.target = ("127.0.0.1", int(self._shim.origin.rpartition(":")[2]))
        self._stack.enter_context(self._shim)

    def close(self) -> None:
        self._stack.close()

    # -- load ----------------------------------------------------------------------------------------------------------------

    def _write(self, topic: str) -> None:
        """Transactions, of which every fourth is aborted, until the end; a producer that failed is replaced."""
        number, lives = 0, 0
        while not self._stopping.is_set():
            lives += 1
            producer = Producer(
                {
                    "bootstrap.servers": self._cluster.bootstrap_servers,
                    "transactional.id": f"{topic}-{lives}",
                    "log_level": 0,
                    "linger.ms": 5,
                    "batch.num.messages": 20,
                }
            )
            try:
                producer.init_transactions(_PATIENCE_SECONDS)
                while not self._stopping.is_set():
                    producer.begin_transaction()
                    for _ in range(40):
                        number += 1
                        producer.produce(topic, b"%s %d " % (topic.encode(), number) * 8, b"%d" % number, partition=0)
                    producer.flush(_PATIENCE_SECONDS)
                    end = producer.abort_transaction if number % 160 == 0 else producer.commit_transaction
                    end(_PATIENCE_SECONDS)
                    self._stopping.wait(_PAUSE_SECONDS)
            except (KafkaException, BufferError):
                continue

    def _member_settings(self, group: str) -> dict[str, Any]:
        return settings(
            self._cluster.bootstrap_servers,
            "read_committed",
            **{
                "group.id": group,
                "enable.auto.commit": True,
                "auto.commit.interval.ms": 500,
                "session.timeout.ms": 10_000,
                "fetch.remote.enabled": True,
                "fetch.remote.bootstrap.servers": self._shim.bootstrap_servers,
                "remote.storage.fetcher.class": "presigned",
                "remote.storage.fetcher.allowed.hosts": self._store.authority,
                "remote.storage.fetcher.allow.http": True,
                "remote.storage.fetcher.allow.private.addresses": True,
                "fetch.remote.range.bytes": 64 << 10,
                "fetch.remote.fallback.backoff.ms": 200,
                "fetch.remote.recheck.interval.ms": 500,
                "fetch.remote.breaker.reset.ms": 1_000,
            },
        )

    def _read(self, name: str, group: str) -> None:
        """Reads what it is assigned, from the beginning again once all of it has ended, until the end."""
        with recorded(Consumer, self._member_settings(group), self.history, name) as consumer:
            consumer.subscribe(list(TOPICS))
            ended: set[_Key] = set()
            while not self._stopping.is_set():
                ended |= _ends(consumer.consume(_BATCH, 0.2))
                mine = consumer.assignment()
                if mine and ended >= {(tp.topic, tp.partition) for tp in mine}:
                    ended.clear()
                    for tp in mine:
                        consumer.seek(TopicPartition(tp.topic, tp.partition, 0))
                self._stopping.wait(_PAUSE_SECONDS)

    def _guarded(self, work: Callable[..., None], *args: Any) -> threading.Thread:
        def run() -> None:
            try:
                work(*args)
            except BaseException as error:
                self._failures.append(error)
                self._stopping.set()

        thread = threading.Thread(target=run, name=f"chaos-{work.__name__}")
        thread.start()
        return thread

    # -- faults --------------------------------------------------------------------------------------------------------------

    def _refuse_store(self) -> None:
        self._store.refuse()
        self._store.cut_connections(reset=True)

    def _faults(self) -> list[_Fault]:
        shim, cluster = self._shim, self._cluster
        found: list[_Fault] = [
            ("store-refused", self._refuse_store, self._store.heal),
            ("store-black-hole", self._store.black_hole, self._store.heal),
            ("shim-killed", shim.kill, shim.start),
            ("shim-paused", partial(shim.signal, signal.SIGSTOP), partial(shim.signal, signal.SIGCONT)),
        ]
        for node in cluster.nodes:
            stopped, goes_on = (partial(cluster.signal, node, number) for number in (signal.SIGSTOP, signal.SIGCONT))
            found.append(("broker-killed", partial(cluster.stop, node), partial(cluster.start, node)))
            found.append(("broker-paused", stopped, goes_on))
        return found

    def run(self, seconds: float) -> None:
        """Load and faults for so long; each fault is over before the next one begins."""
        group, deadline = f"chaos-{uuid4().hex[:8]}", Deadline(SystemClock(), seconds)
        threads = [self._guarded(self._write, topic) for topic in TOPICS]
        threads += [self._guarded(self._read, f"member-{number}", group) for number in range(_MEMBERS)]
        turns: list[_Fault] = []
        try:
            self._stopping.wait(_FIRST_SECONDS)
            while not deadline.expired() and not self._stopping.is_set():
                turns = turns or self._dice.sample(self._faults(), len(self._faults()))
                kind, begin, end = turns.pop()
                begin()
                try:
                    self.fired[kind] += 1
                    self.history.add(Fired, fault=kind)
                    self._stopping.wait(self._dice.uniform(1.0, _LONGEST_SECONDS))
                finally:
                    end()
                self._stopping.wait(_REST_SECONDS)
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()
        if self._failures:
            raise self._failures[0]

    # -- the verdict ---------------------------------------------------------------------------------------------------------

    def judge(self) -> list[Violation]:
        """Reads everything once more with ours and once with the plain consumer; every breach of every invariant.

        Without I9: brokers are down in turn, so progress is not owed at every moment; that all is read at last is.
        """
        self._cluster.heal()
        self._wait_for_the_tier()
        whole, truth = self._member_settings(f"whole-{uuid4().hex[:8]}"), History()
        with recorded(Consumer, whole, self.history, "whole") as consumer:
            _read_to_ends(consumer)
        plain = settings(self._cluster.bootstrap_servers, "read_committed")
        with recorded(confluent_kafka.Consumer, plain, truth) as oracle:
            _read_to_ends(oracle)
        return violations(self.history, Oracle.of(truth), without={"I9"})

    def _wait_for_the_tier(self) -> None:
        """Until all is tiered that may be, and the shim knows: it may have been started a moment ago."""
        with Consumer(self._member_settings(f"probe-{uuid4().hex[:8]}")) as probe:
            for topic in TOPICS:
                self._cluster.wait_until_tiered(topic)
                known = partial(_comes_from_the_store, probe, topic)
                wait_until(known, f"the shim to know the tier of {topic}", seconds=_PATIENCE_SECONDS)

    def tell(self, seconds: float, found: Sequence[Violation]) -> str:
        """The line for the ledger."""
        return ledger(
            "chaos",
            seconds=round(seconds),
            seed=self.seed,
            faults=",".join(f"{kind}:{count}" for kind, count in sorted(self.fired.items())),
            records=sum(len(event.records) for event in self.history.of(Polled)),
            from_store=self.from_store(),
            violations=len(found),
        )

    def from_store(self) -> int:
        """How many records the consumers read directly."""
        last = {event.consumer: event.from_store for event in self.history.of(Counted)}
        return sum(last.values())


def _comes_from_the_store(consumer: Consumer, topic: str) -> bool:
    before = total(consumer.metrics(), "remote-fetch-records-total")
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.consume(1, 1.0)
    return total(consumer.metrics(), "remote-fetch-records-total") > before


def _ends(messages: Sequence[confluent_kafka.Message]) -> set[_Key]:
    ends: set[_Key] = set()
    for message in messages:
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            ends.add((message.topic(), message.partition()))
    return ends


def _read_to_ends(consumer: RecordedConsumer) -> None:
    consumer.assign([TopicPartition(topic, 0, 0) for topic in TOPICS])
    deadline = Deadline(SystemClock(), _PATIENCE_SECONDS)
    ended: set[_Key] = set()
    while len(ended) < len(TOPICS):
        if deadline.expired():
            raise TimeoutError(f"only {ended} ended")
        ended |= _ends(consumer.consume(500, 0.2))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    clock = SystemClock()
    with (
        tempfile.TemporaryDirectory() as directory,
        KafkaCluster(Path(directory) / "nodes") as cluster,
        closing(Chaos(cluster, Path(directory), asked.seed)) as chaos,
    ):
        started = clock.monotonic()
        chaos.run(asked.seconds)
        seconds = clock.monotonic() - started
        found = chaos.judge()
    for breach in found[:20]:
        print(breach)
    chaos.tell(seconds, found)
    return 1 if found or not chaos.from_store() else 0


if __name__ == "__main__":
    sys.exit(main())
