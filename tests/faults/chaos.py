"""Three real brokers, a shim and its store, killed and paused in turn while a group reads and transactions are written.

``make chaos SECONDS=180``. The records of the group's members are compared with a plain consumer's read of the topics, by all
invariants; the last line is for the ledger. Exit status 0 only if none is violated.

The members seek to the beginning whenever they have read everything, so that they read the tier all the time. The store
is the shim's own origin behind a proxy that refuses, swallows and cuts; brokers and shim are processes that get signals. The
first records of the topics are deleted in turn too.

The history has the acknowledged records and the ends of transactions (:class:`Produced`), the times in which a broker was
unreachable (:class:`Outage`), the starts of logs (:class:`Moved`) and the resources of this process (:class:`Measured`). After
the last fault the members read to their ends, so that a member that is stuck violates I9.
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
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, Producer, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.testing import Passage, TcpFaultProxy
from tests.faults.observed import Observed
from tests.faults.peers import Look, look_at
from tests.support.history import Counted, Fired, History, Moved, Outage, Outcome, Polled, Produced
from tests.support.invariants.checker import violations
from tests.support.invariants.oracle import Oracle
from tests.support.invariants.violation import Violation
from tests.support.kafka_cluster import KafkaCluster
from tests.support.killable_shim import KillableShim
from tests.support.ledger import ledger
from tests.support.measured import Holdings, measured
from tests.support.reading import settings, total
from tests.support.recorder import RecordedConsumer, recorded
from tests.support.waiting import wait_until

__all__ = ["Chaos", "main"]

_Seen: TypeAlias = Callable[[], Callable[[], bool]]
"""Observes the state before a fault. It returns a function that says whether the state has changed."""
_Fault: TypeAlias = tuple[str, Callable[[], object], Callable[[], object], _Seen]
"""A fault's kind, how it begins, how it ends, and how it is observed."""
_Key: TypeAlias = tuple[str | None, int | None]

TOPICS = ("chaos-one", "chaos-two")
_REPLICAS = ((1, 2, 3), (2, 3, 1))
_MEMBERS = 2
_PATIENCE_SECONDS = 300.0
_LONGEST_SECONDS, _REST_SECONDS = 6.0, 4.0
_UNSEEN_SECONDS = 15.0
"""The longest time of a fault without an observation. A fault of the store becomes visible when a member reads the tier."""
_BATCH, _PAUSE_SECONDS = 100, 0.1
_STUCK_SECONDS = 120.0
"""A member without a record for this time is stuck. It is longer than a dead producer's transaction, which stays open for
``_TRANSACTION_MS``."""
_TRANSACTION_MS = 10_000
_MOST_BYTES = 256 << 20
"""Twice the engine's budget, because decoding needs memory beyond it."""


class Chaos:
    """One run on a running cluster; ``directory`` is for logs.

    ``struck`` counts the faults by kind, ``fired`` the observed ones: a peer that answered is silent or gone, bytes are
    delayed, a connection is refused, a log begins later.

    Afterwards all nodes of the cluster run, and there are two topics.
    """

    def __init__(self, cluster: KafkaCluster, directory: Path, seed: int) -> None:
        self.seed = seed
        self.history = History()
        self.struck: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()
        self._observed = Observed()
        self._dice = random.Random(seed)
        self._stack = ExitStack()
        self._stopping = threading.Event()
        self._written = threading.Event()
        self._rounds: Counter[str] = Counter()
        self._assigned: Counter[str] = Counter()
        self._direct: Counter[str] = Counter()
        self._holdings = Holdings()
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
        self._stack.enter_context(self._observed.connects(self._store.address[1]))

    def close(self) -> None:
        self._stack.close()

    # -- load ----------------------------------------------------------------------------------------------------------------

    def _write(self, topic: str) -> None:
        """Writes transactions until the end, and aborts every fourth. It replaces a producer that failed."""
        number, lives = 0, 0
        sent: list[Message] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None and (message.offset() or 0) >= 0:  # a repeated produce has no offset
                sent.append(message)

        while not self._written.is_set():
            lives += 1
            producer = Producer(
                {
                    "bootstrap.servers": self._cluster.bootstrap_servers,
                    "transactional.id": f"{topic}-{lives}",
                    "transaction.timeout.ms": _TRANSACTION_MS,
                    "log_level": 0,
                    "linger.ms": 5,
                    "batch.num.messages": 20,
                }
            )
            try:
                producer.init_transactions(_PATIENCE_SECONDS)
                while not self._written.is_set():
                    producer.begin_transaction()
                    for _ in range(40):
                        number += 1
                        value = b"%s %d " % (topic.encode(), number) * 8
                        producer.produce(topic, value, b"%d" % number, partition=0, on_delivery=delivered)
                    producer.flush(_PATIENCE_SECONDS)
                    aborts = number % 160 == 0
                    (producer.abort_transaction if aborts else producer.commit_transaction)(_PATIENCE_SECONDS)
                    self._note(sent, Outcome.ABORTED if aborts else Outcome.COMMITTED)
                    self._written.wait(_PAUSE_SECONDS)
            except (KafkaException, BufferError):
                self._note(sent, Outcome.UNKNOWN)

    def _note(self, sent: list[Message], outcome: Outcome) -> None:
        """Adds the records of a finished transaction."""
        for message in sent:
            self.history.add(
                Produced,
                topic=str(message.topic()),
                partition=int(message.partition() or 0),
                offset=int(message.offset() or 0),
                key=message.key(),
                value=message.value(),
                outcome=outcome,
            )
        sent.clear()

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
        """Reads the assigned partitions until the end of the run. After all have ended, it starts at the beginning again."""
        with recorded(Consumer, self._member_settings(group), self.history, name) as consumer:
            self._holdings.of(consumer.inner)
            consumer.subscribe(list(TOPICS))
            ended: set[_Key] = set()
            while not self._stopping.is_set():
                ended |= _ends(consumer.consume(_BATCH, 0.2))
                self._holdings.look()
                self._direct[name] = total(consumer.metrics(), "remote-fetch-records-total")
                mine = consumer.assignment()
                self._assigned[name] = len(mine)
                if mine and ended >= {(tp.topic, tp.partition) for tp in mine}:
                    ended.clear()
                    self._rounds[name] += 1
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

    def _breaks(self, begin: Callable[[], object]) -> Callable[[], None]:
        """A fault of a broker: I9 does not apply from now on."""

        def out() -> None:
            self.history.add(Outage)
            begin()

        return out

    def _mends(self, end: Callable[[], object]) -> Callable[[], None]:
        def back() -> None:
            end()
            self.history.add(Outage, over=True)

        return back

    def _delete_records(self) -> None:
        """Moves the log start of a topic into the middle of the tiered part, by DeleteRecords."""
        topic = self._dice.choice(TOPICS)
        now = self._cluster.offsets(topic)
        if now is None or now.latest_tiered <= now.log_start:
            return
        before = (now.log_start + now.latest_tiered) // 2
        # Record it first: a member may reach the new start immediately.
        self.history.add(Moved, key=(topic, 0), log_start=before)
        self._cluster.delete_records(topic, before)

    def _faults(self) -> list[_Fault]:
        shim, cluster, store = self._shim, self._cluster, self._store
        found: list[_Fault] = [
            ("store-refused", self._refuse_store, store.heal, _more(lambda: len(self._observed.changes()))),
            ("store-black-hole", store.black_hole, store.heal, _more(partial(store.count, Passage.HELD))),
            ("shim-killed", shim.kill, shim.start, _looks(shim.bootstrap_servers, Look.REFUSED)),
            ("shim-paused", shim.pause, shim.resume, _looks(shim.bootstrap_servers, Look.SILENT)),
            ("records-deleted", self._delete_records, lambda: None, _more(self._deleted)),
        ]
        for node, broker in cluster.nodes.items():
            stopped, goes_on = (partial(cluster.signal, node, number) for number in (signal.SIGSTOP, signal.SIGCONT))
            killed, started = partial(cluster.stop, node), partial(cluster.start, node)
            gone, silent = (_looks(broker.bootstrap_servers, look) for look in (Look.REFUSED, Look.SILENT))
            found.append(("broker-killed", self._breaks(killed), self._mends(started), gone))
            found.append(("broker-paused", self._breaks(stopped), self._mends(goes_on), silent))
        return found

    def _deleted(self) -> int:
        """Returns the number of records that the leaders report as deleted."""
        return sum(now.log_start for now in map(self._cluster.offsets, TOPICS) if now is not None)

    def run(self, seconds: float, first: Sequence[str] = ()) -> None:
        """Runs load and faults for ``seconds``; each fault ends before the next one begins.

        ``first``: kinds that come before others, again until they are observed, however long that takes.
        """
        group = f"chaos-{uuid4().hex[:8]}"
        servers = {node.port for node in self._cluster.nodes.values()} | {self._store.target[1]}
        with measured(self.history, self._holdings, bound=_MOST_BYTES, servers=servers, native=False):
            writers = [self._guarded(self._write, topic) for topic in TOPICS]
            members: list[threading.Thread] = []
            try:
                # A member that begins immediately may keep up with the writers, and then never needs the tier.
                wait_until(self._begins_in_the_tier, "records that are in the tier alone", seconds=_PATIENCE_SECONDS)
                members += [self._guarded(self._read, f"member-{number}", group) for number in range(_MEMBERS)]
                wait_until(self._reads_the_tier, "records of the store", seconds=_PATIENCE_SECONDS)
                self._strike(Deadline(SystemClock(), seconds), first)
                self._written.set()
                for thread in writers:
                    thread.join()
                self._calm_down()
            finally:
                self._written.set()
                self._stopping.set()
                for thread in (*writers, *members):
                    thread.join()
        if self._failures:
            raise self._failures[0]

    def _begins_in_the_tier(self) -> bool:
        """Returns whether a member would begin in the tier, or a writer has failed."""
        tiers = list(map(self._cluster.offsets, TOPICS))
        return self._stopping.is_set() or all(now is not None and now.earliest_local > now.log_start for now in tiers)

    def _reads_the_tier(self) -> bool:
        """Returns whether a member has read the tier, or none will. Before that a fault of the store has no effect."""
        return self._stopping.is_set() or self._direct.total() > 0

    def _strike(self, deadline: Deadline, first: Sequence[str]) -> None:
        turns: list[_Fault] = []
        due = [next(fault for fault in self._faults() if fault[0] == kind) for kind in reversed(first)]
        while (due or not deadline.expired()) and not self._stopping.is_set():
            turns = turns or self._dice.sample(self._faults(), len(self._faults()))
            fault = (due or turns).pop()
            kind, begin, end, looks = fault
            seen = looks()
            begin()
            self.struck[kind] += 1
            try:
                unseen = Deadline(SystemClock(), _UNSEEN_SECONDS)
                while not (came := seen()) and not unseen.expired() and not self._stopping.is_set():
                    self._stopping.wait(_PAUSE_SECONDS)
                if came:
                    self.fired[kind] += 1
                    self.history.add(Fired, fault=kind)
                elif kind in first:
                    due.append(fault)
                self._stopping.wait(self._dice.uniform(1.0, _LONGEST_SECONDS))
            finally:
                end()
            self._stopping.wait(_REST_SECONDS)

    def _calm_down(self) -> None:
        """Waits until the group has all partitions and each member has read its own to their ends."""
        before = Counter(self._rounds)

        def read() -> bool:
            assigned = {name: count for name, count in self._assigned.items() if count}
            ended = sum(assigned.values()) == len(TOPICS) and all(self._rounds[name] > before[name] for name in assigned)
            return ended or self._stopping.is_set()

        def state() -> str:
            return f"they have {dict(self._assigned)} partitions and read {dict(self._rounds - before)} times to the end"

        wait_until(read, "the members to read to their ends", seconds=_PATIENCE_SECONDS, state=state)

    # -- result ----------------------------------------------------------------------------------------------------------------

    def judge(self) -> list[Violation]:
        """Reads everything again with this consumer and with the plain one. Returns all violations of all invariants."""
        self._cluster.heal()
        self._wait_for_the_tier()
        whole, truth = self._member_settings(f"whole-{uuid4().hex[:8]}"), History()
        with recorded(Consumer, whole, self.history, "whole") as consumer:
            _read_to_ends(consumer)
        plain = settings(self._cluster.bootstrap_servers, "read_committed")
        with recorded(confluent_kafka.Consumer, plain, truth) as oracle:
            _read_to_ends(oracle)
        return violations(self.history, Oracle.of(truth), seconds=_STUCK_SECONDS)

    def _wait_for_the_tier(self) -> None:
        """Waits until everything that can be tiered is tiered, and the shim, which may have just started, knows it."""
        with Consumer(self._member_settings(f"probe-{uuid4().hex[:8]}")) as probe:
            for topic in TOPICS:
                self._cluster.wait_until_tiered(topic)
                known = partial(_comes_from_the_store, probe, topic)
                wait_until(known, f"the shim to know the tier of {topic}", seconds=_PATIENCE_SECONDS)

    def report(self, seconds: float, found: Sequence[Violation]) -> str:
        """The line for the ledger."""
        return ledger(
            "chaos",
            seconds=round(seconds),
            seed=self.seed,
            struck=self.struck.total(),
            faults=",".join(f"{kind}:{count}" for kind, count in sorted(self.fired.items())),
            records=sum(len(event.records) for event in self.history.of(Polled)),
            from_store=self.from_store(),
            violations=len(found),
        )

    def from_store(self) -> int:
        """Returns the number of records that the consumers read directly."""
        last = {event.consumer: event.from_store for event in self.history.of(Counted)}
        return sum(last.values())


def _more(count: Callable[[], int]) -> _Seen:
    """Returns whether the count has increased."""

    def looks() -> Callable[[], bool]:
        before = count()
        return lambda: count() > before

    return looks


def _looks(address: str, wanted: Look) -> _Seen:
    """Returns whether a server that answered now has this state."""

    def looks() -> Callable[[], bool]:
        answered = look_at(address, seconds=_PATIENCE_SECONDS) is Look.ANSWERED
        return lambda: answered and look_at(address) is wanted

    return looks


def _comes_from_the_store(consumer: Consumer, topic: str) -> bool:
    before = total(consumer.metrics(), "remote-fetch-records-total")
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
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
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in TOPICS])
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
    chaos.report(seconds, found)
    return 1 if found or not chaos.from_store() else 0


if __name__ == "__main__":
    sys.exit(main())
