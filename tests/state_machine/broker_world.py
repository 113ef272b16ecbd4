"""The machine's world on a real broker: committed, aborted and open transactions in the tier and in the local log.

=================  =======================================================================================================
partitions         content
=================  =======================================================================================================
``orders`` 0 to 3  mostly in the tier; the log start lies in a segment. 0 ends with an aborted transaction, 1 with records,
                   2 with only aborted transactions on both tiers, 3 with an open transaction
``aborted`` 0      as ``orders`` 2, and nothing is produced after it
``mixed`` 0        interleaved transactions of two producers, compressed
``fresh`` 0        committed and aborted transactions in the local log only
``empty`` 0        no record until one is produced
=================  =======================================================================================================

It has no faults and no ``archive``: the embedded world has these. Commands produce records, also in transactions that commit
or abort. The open transaction is in the local log only: a broker copies nothing above the last stable offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Self
from uuid import uuid4

import confluent_kafka
from confluent_kafka import Producer

from kafka_remote_client import Consumer
from kafka_remote_client.shim.server import Shim
from tests.state_machine.world import ABORTED, ISOLATION, KEYS, PATIENCE_SECONDS, World
from tests.support.history import Key
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import direct, settings, shim_before
from tests.support.transactions import NEVER_ABORTED
from tests.support.waiting import wait_until

__all__ = ["BrokerWorld", "write_world"]

_OPEN: Key = ("orders", 3)
_DELETED_BEFORE = 25
_SEGMENT_BYTES = 6_000


class _Writer:
    """Writes to one partition."""

    def __init__(self, broker: KafkaBroker, key: Key, name: str = "a", codec: str = "none") -> None:
        self._key = key
        self._number = 0
        config = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "linger.ms": 2, "batch.num.messages": 7}
        self._plain = Producer({**config, "compression.type": codec})
        own = {"transactional.id": f"{key[0]}-{key[1]}-{name}", "compression.type": codec, **NEVER_ABORTED}
        self._transactional = Producer({**config, **own})
        self._transactional.init_transactions(PATIENCE_SECONDS)

    def records(self, count: int, producer: Producer | None = None) -> None:
        writer = producer or self._plain
        topic, partition = self._key
        for _ in range(count):
            self._number += 1
            writer.produce(topic, b"value %d ".ljust(90, b".") % self._number, b"key %d" % self._number, partition)
        assert writer.flush(PATIENCE_SECONDS) == 0

    def begin(self, count: int) -> None:
        self._transactional.begin_transaction()
        self.resume(count)

    def resume(self, count: int) -> None:
        self.records(count, self._transactional)

    def end(self, *, commit: bool) -> None:
        (self._transactional.commit_transaction if commit else self._transactional.abort_transaction)(PATIENCE_SECONDS)

    def transaction(self, count: int, *, commit: bool) -> None:
        self.begin(count)
        self.end(commit=commit)


def write_world(broker: KafkaBroker) -> None:
    """Writes the topics; see the module."""
    for topic, partitions in (("orders", 4), ("aborted", 1), ("mixed", 1)):
        broker.create_topic(topic, partitions=partitions, segment_bytes=_SEGMENT_BYTES)
    for topic in ("fresh", "empty"):
        broker.create_topic(topic, tiered=False, retention_ms="-1")
    for partition in range(4):
        _write_orders(_Writer(broker, ("orders", partition)), partition)
    _write_orders(_Writer(broker, ABORTED), 2)
    _write_mixed(broker)
    local = _Writer(broker, ("fresh", 0))
    local.records(5)
    for commit in (True, False, True, False):
        local.transaction(15, commit=commit)
    for key in KEYS:
        if key != _OPEN:
            wait_until(lambda key=key: _decided(broker, key), f"the markers of {key}", seconds=PATIENCE_SECONDS)
    for partition in range(3):
        broker.delete_records("orders", _DELETED_BEFORE, partition)
    broker.wait_until_tiered("orders", *range(4))
    for topic in ("aborted", "mixed"):
        broker.wait_until_tiered(topic)


def _write_orders(writer: _Writer, partition: int) -> None:
    writer.transaction(10, commit=partition != 3)
    for count in (12, 30, 1, 50):
        writer.records(count // 3)
        writer.transaction(count, commit=True)
        writer.transaction(count, commit=False)
    if partition == 1:
        writer.records(30)
    elif partition == 2:
        for _ in range(12):
            writer.transaction(11, commit=False)
    elif partition == 3:
        writer.transaction(20, commit=True)
        writer.begin(25)


def _write_mixed(broker: KafkaBroker) -> None:
    one, two = (_Writer(broker, ("mixed", 0), name, codec) for name, codec in (("one", "lz4"), ("two", "zstd")))
    for commit in (True, False) * 3:
        one.begin(20)
        two.begin(30)
        one.records(9)
        one.resume(5)
        one.end(commit=commit)
        two.resume(15)
        two.end(commit=not commit)
    one.records(12)


def _decided(broker: KafkaBroker, key: Key) -> bool:
    now = broker.offsets(*key)
    return now.last_stable == now.high_watermark


class BrokerWorld(World):
    """A context manager. :func:`write_world` must have written to ``broker``."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._stack = ExitStack()
        self._broker = broker
        self.truth = {level: {key: [] for key in KEYS} for level in ISOLATION}
        self.ends = {}
        self.all_ends = {key: set() for key in KEYS}
        self.starts = {key: broker.offsets(*key).log_start for key in KEYS}
        self.marked = set(KEYS)

    def __enter__(self) -> Self:
        self._shim: Shim = self._stack.enter_context(shim_before(self._broker))
        ends: dict[str, dict[Key, int]] = {}
        for level in ISOLATION:
            with self._reader(isolation_level=level) as reader:
                self.ends = {}
                self.truth[level] = self._read(reader, self.starts)
                ends[level] = dict(self.ends)
        self._stable = ends["read_committed"][_OPEN]
        assert self._stable < ends["read_uncommitted"][_OPEN], "a transaction is open"
        tiered = [key for key in KEYS if self._broker.offsets(*key).earliest_local > self.starts[key]]
        assert tiered == [key for key in KEYS if key[0] in ("orders", "aborted", "mixed")]
        self._newest = self._stack.enter_context(self._reader(isolation_level="read_uncommitted"))
        config = {"bootstrap.servers": self._broker.bootstrap_servers, "log_level": 0, "linger.ms": 2}
        self._producer = Producer(config)
        self._transactional = Producer({**config, "transactional.id": f"machines-{uuid4()}"})
        self._transactional.init_transactions(PATIENCE_SECONDS)
        return self

    def end(self, key: Key, isolation: str) -> int:
        """The end offset for an isolation level: with an open transaction, the last stable offset."""
        return self._stable if key == _OPEN and isolation == "read_committed" else self.ends[key]

    def produce(self, key: Key, count: int, commit: bool | None = None) -> None:
        """Appends records to a partition without an open transaction: a reader could not see all records after one.

        ``commit``: they are a transaction that commits or aborts.
        """
        if key in (_OPEN, ABORTED):
            return
        start, end = self.ends[key], self.ends[key] + count + (commit is not None)
        if commit is None:
            self._write_to(self._producer, key, count)
        else:
            self._transactional.begin_transaction()
            self._write_to(self._transactional, key, count)
            end_transaction = self._transactional.commit_transaction if commit else self._transactional.abort_transaction
            end_transaction(PATIENCE_SECONDS)
            wait_until(lambda: _decided(self._broker, key), f"the marker of {key}", seconds=PATIENCE_SECONDS)
        self.ends[key] = end
        self.all_ends[key] |= {*range(start, end)}  # records arrive in batches, and the marker after them
        read = self._read(self._newest, {key: start})
        assert (len(read[key]), self.ends[key]) == (count, end)
        for level in ISOLATION:
            if commit is not False or level == "read_uncommitted":
                self.truth[level][key] += read[key]

    def _write_to(self, producer: Producer, key: Key, count: int) -> None:
        for number in range(count):
            producer.produce(key[0], b"%d from %d" % (number, self.ends[key]), partition=key[1])
        assert producer.flush(PATIENCE_SECONDS) == 0

    def archive(self) -> None:
        """Does nothing: Kafka archives by itself."""

    def fault(self, name: str) -> None:
        """Does nothing: this world has no faults."""

    def heal(self) -> None:
        """Does nothing: this world has no faults."""

    def settings(self, **more: object) -> dict[str, Any]:
        own = {"fetch_wait_max_ms": 10, "reconnect_backoff_ms": 20, **more}
        named = {name.replace("_", "."): value for name, value in own.items()}
        return settings(self._shim.bootstrap_servers, "read_committed", **named)

    def consumer(self, config: Mapping[str, Any]) -> Consumer:
        soon = {"fetch.remote.fallback.backoff.ms": 50, "fetch.remote.recheck.interval.ms": 100}
        made: confluent_kafka.Consumer = Consumer({**direct(self._shim, "read_committed"), **soon, **config})
        assert isinstance(made, Consumer)
        return made
