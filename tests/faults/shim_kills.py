"""A shim that is killed every 20 s while two consumers read from it and a producer writes through it.

``make shim-kills``: a real broker with a tiered topic, and a shim in a separate process.

::

    consumer         | bootstrap.servers | locations from | after kill -9 it gets records again
    to the broker    | the broker        | the shim       | from the broker, within 1.5 s
    through the shim | the shim          | the shim       | within 1.5 s after the restarted shim listens

Each consumer reads the topic from its beginning to its end again and again. A violation is a record that is missing, repeated,
out of order or wrong. The exit status is 0 only without a violation, without a produce that failed, and with all pauses in
their bounds.

All clients have ``reconnect.backoff.max.ms`` 200: with librdkafka's default of 10 s they connect later than the shim listens.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import pairwise
from pathlib import Path

import attrs
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, Producer, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import SystemClock
from tests.support.kafka_broker import KafkaBroker
from tests.support.killable_shim import KillableShim
from tests.support.ledger import ledger
from tests.support.reading import settings, total
from tests.support.waiting import wait_until

__all__ = ["SHORTEST_SECONDS", "Found", "kill_under_load", "main", "report"]

_BOUND_SECONDS = 1.5
_RECORDS = 20_000
_EVERY_SECONDS = 20.0
SHORTEST_SECONDS, _LONGEST_SECONDS = 3.0, 6.0
"""The shim is gone for at least and at most this time."""
_BATCH, _PAUSE_SECONDS = 100, 0.01
_CONNECTION_LOST = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
_QUICK = {"reconnect.backoff.max.ms": 200}
_CLOCK = SystemClock()


@attrs.frozen
class Found:
    """What a run found. The pauses are the longest ones of each consumer in seconds, one for each kill."""

    records: int
    from_store: int
    from_broker: int
    produced: int
    failed_produces: int
    violations: tuple[str, ...]
    pauses_to_broker: tuple[float, ...]
    pauses_through_shim: tuple[float, ...]


def _value(offset: int) -> bytes:
    return b"%d " % offset * 100


class _Reader(threading.Thread):
    """Reads partition 0 of the topic from its beginning to its end until it is stopped."""

    def __init__(self, name: str, topic: str, bootstrap_servers: str, shim: KillableShim) -> None:
        super().__init__(name=name, daemon=True)
        self._topic = topic
        direct = {
            "fetch.remote.enabled": True,
            "fetch.remote.bootstrap.servers": shim.bootstrap_servers,
            "fetch.remote.fallback.backoff.ms": 2_000,
            "remote.storage.fetcher.class": "presigned",
            "remote.storage.fetcher.allowed.hosts": shim.origin,
            "remote.storage.fetcher.allow.http": True,
            "remote.storage.fetcher.allow.private.addresses": True,
        }
        self._settings = settings(bootstrap_servers, "read_committed", **direct, **_QUICK)
        self._stopping = threading.Event()
        self._arrivals: list[float] = []
        self.records, self.from_store, self.from_broker = 0, 0, 0
        self.violations: list[str] = []

    def run(self) -> None:
        try:
            with closing(Consumer(self._settings)) as consumer:
                while not self._stopping.is_set():
                    consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
                    self._read(consumer)
                metrics = consumer.metrics()
                self.from_store = total(metrics, "remote-fetch-records-total")
                self.from_broker = total(metrics, "broker-fetch-records-total")
        except Exception as error:
            self.violations.append(f"{self.name}: {error!r}")

    def _read(self, consumer: Consumer) -> None:
        """Reads to the end of the topic."""
        expected = 0
        while not self._stopping.wait(_PAUSE_SECONDS):
            for message in consumer.consume(_BATCH, 0.05):
                error = message.error()
                if error is None:
                    if (message.offset(), message.value()) != (expected, _value(expected)):
                        self.violations.append(f"{self.name}: expected offset {expected}, got {message.offset()}")
                    expected = (message.offset() or 0) + 1
                    self.records += 1
                    self._arrivals.append(_CLOCK.monotonic())
                elif error.code() == KafkaError._PARTITION_EOF:
                    if expected != _RECORDS:
                        self.violations.append(f"{self.name}: the end came after {expected} of {_RECORDS} records")
                    return
                elif error.code() not in _CONNECTION_LOST:
                    self.violations.append(f"{self.name}: {error}")

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def got_records_since(self, moment: float) -> bool:
        return bool(self._arrivals) and self._arrivals[-1] > moment

    def longest_pause(self, since: float, until: float) -> float:
        """Returns the longest time without a record that begins in this span. It may end later."""
        times = [since]
        for arrival in self._arrivals:
            if arrival > since:
                times.append(arrival)
                if arrival >= until:
                    break
        else:
            times.append(until)
        return max(after - before for before, after in pairwise(times))


class _Writer(threading.Thread):
    """Produces through the shim until it is stopped."""

    def __init__(self, topic: str, shim: KillableShim) -> None:
        super().__init__(name="writer", daemon=True)
        self._topic = topic
        servers = {"bootstrap.servers": shim.bootstrap_servers, "log_level": 0}
        self._producer = Producer({**servers, **_QUICK, "linger.ms": 5, "enable.idempotence": True})
        self._stopping = threading.Event()
        self.produced, self.failed = 0, 0

    def run(self) -> None:
        while not self._stopping.wait(_PAUSE_SECONDS):
            self._producer.produce(self._topic, b"under load" * 10, on_delivery=self._delivered)
            self._producer.poll(0)
        self.failed += self._producer.flush(60)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        self.produced += error is None
        self.failed += error is not None

    def stop(self) -> None:
        self._stopping.set()
        self.join()


def _fill(broker: KafkaBroker, topic: str) -> None:
    """Writes the records that the consumers expect, and waits until they are in the tier."""
    broker.create_topic(topic, segment_bytes=1 << 20)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "enable.idempotence": True})
    for offset in range(_RECORDS):
        producer.produce(topic, _value(offset), partition=0)
        producer.poll(0)
    assert producer.flush(120) == 0
    broker.wait_until_tiered(topic)


def kill_under_load(broker: KafkaBroker, directory: Path, name: str, seconds: float, seed: int) -> Found:
    """Kills a shim in front of the broker every 20 s.

    ``directory`` is for its log, ``name`` is the beginning of the topics' names. ``seed`` decides how long the shim is gone.
    """
    topic, written = f"{name}-read", f"{name}-written"
    _fill(broker, topic)
    broker.create_topic(written, segment_bytes=1 << 20, tiered=False)
    dice, pause = random.Random(seed), threading.Event()
    pauses_to_broker: list[float] = []
    pauses_through_shim: list[float] = []
    with ExitStack() as stack:
        shim = stack.enter_context(KillableShim(broker, directory / "shim.log"))
        to_broker = _Reader("to the broker", topic, broker.bootstrap_servers, shim)
        through_shim = _Reader("through the shim", topic, shim.bootstrap_servers, shim)
        writer = _Writer(written, shim)
        for thread in (to_broker, through_shim, writer):
            thread.start()
            stack.callback(thread.stop)
        wait_until(
            lambda: min(to_broker.records, through_shim.records) > _RECORDS, "both consumers to read all records", seconds=120
        )
        for _ in range(max(1, round(seconds / _EVERY_SECONDS))):
            gone = dice.uniform(SHORTEST_SECONDS, _LONGEST_SECONDS)
            pause.wait(_EVERY_SECONDS - gone)
            killed = _CLOCK.monotonic()
            shim.kill()
            pause.wait(gone)
            shim.start()
            listens = _CLOCK.monotonic()
            pauses_to_broker.append(to_broker.longest_pause(killed, listens))
            wait_until(partial(through_shim.got_records_since, listens), "records through the restarted shim", seconds=60)
            pauses_through_shim.append(through_shim.longest_pause(listens, listens + _BOUND_SECONDS))
        # The consumers must not run on when the shim is gone.
        for thread in (to_broker, through_shim, writer):
            thread.stop()
    return Found(
        records=to_broker.records + through_shim.records,
        from_store=to_broker.from_store + through_shim.from_store,
        from_broker=to_broker.from_broker + through_shim.from_broker,
        produced=writer.produced,
        failed_produces=writer.failed,
        violations=(*to_broker.violations, *through_shim.violations),
        pauses_to_broker=tuple(pauses_to_broker),
        pauses_through_shim=tuple(pauses_through_shim),
    )


def report(found: Found, seconds: float, seed: int) -> None:
    """Prints the line for the ledger. Pauses are in milliseconds."""
    ledger(
        "shim-kills",
        seconds=round(seconds),
        seed=seed,
        kills=len(found.pauses_to_broker),
        records=found.records,
        from_store=found.from_store,
        from_broker=found.from_broker,
        produced=found.produced,
        failed_produces=found.failed_produces,
        violations=len(found.violations),
        longest_pause_to_broker_ms=round(1000 * max(found.pauses_to_broker)),
        longest_pause_through_shim_ms=round(1000 * max(found.pauses_through_shim)),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, help="a new one by default")
    asked = parser.parse_args(arguments)
    seed = secrets.randbelow(1 << 32) if asked.seed is None else asked.seed
    with tempfile.TemporaryDirectory() as directory:
        broker = KafkaBroker(Path(directory) / "broker")
        broker.start()
        try:
            found = kill_under_load(broker, Path(directory), "kills", asked.seconds, seed)
        finally:
            broker.destroy()
    report(found, asked.seconds, seed)
    print(*found.violations[:20], sep="\n")
    late = max(*found.pauses_to_broker, *found.pauses_through_shim) > _BOUND_SECONDS
    return int(bool(found.violations or found.failed_produces or late))


if __name__ == "__main__":
    sys.exit(main())
