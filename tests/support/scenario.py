"""Writes, on a real broker, one tiered partition with everything that makes read_committed hard.

In order: transactions of librdkafka's producers (uncompressed, lz4, zstd) that commit and abort, an idempotent producer's plain
records between them, transactions of Java's producer, an aborted transaction over many segments with committed ones inside, one
whose data and abort marker lie in different segments; a restart (second leader epoch) and more of the mix; DeleteRecords
into the middle of a remote segment; an aborted transaction whose data is tiered and whose marker is still local; an open
transaction that holds the last stable offset, and tiering, below it although more segments have rolled.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
from confluent_kafka import Producer

from tests.support.kafka_broker import KafkaBroker, TierOffsets
from tests.support.transactions import NEVER_ABORTED
from tests.support.waiting import wait_until

__all__ = ["TransactionalTopic", "write_transactional_topic", "write_wide_topic"]

_FIRST_TIMESTAMP = 1_700_000_000_000
_PATIENCE_SECONDS = 120
_CODECS = {"plain": "none", "rdk-none": "none", "rdk-lz4": "lz4", "rdk-zstd": "zstd"}


@attrs.frozen
class TransactionalTopic:
    """The written records. ``transactions`` are (transactional id, first offset or -1, "commit" | "abort" | "open") in order.

    ``local_abort`` is the offset of the abort marker that is not tiered, ``local_abort_first`` the first offset of its
    transaction, which is. ``leader_epochs`` are the epochs that wrote the partition.
    """

    topic: str
    partition: int
    offsets: TierOffsets
    deleted_before: int
    local_abort: int
    local_abort_first: int
    open_first: int
    remote_segments: int
    leader_epochs: tuple[int, ...]
    transactions: tuple[tuple[str, int, str], ...]

    def save(self, path: Path) -> None:
        """Writes this value as JSON."""
        path.write_text(json.dumps(attrs.asdict(self)))

    @classmethod
    def load(cls, path: Path) -> TransactionalTopic:
        """The inverse of :meth:`save`."""
        fields = json.loads(path.read_text())
        fields["offsets"] = TierOffsets(**fields["offsets"])
        fields["leader_epochs"] = tuple(fields["leader_epochs"])
        fields["transactions"] = tuple((name, first, end) for name, first, end in fields["transactions"])
        return cls(**fields)


class _Writer:
    """The producers of one scenario and the number of the next record."""

    def __init__(self, broker: KafkaBroker, topic: str) -> None:
        self._broker = broker
        self.topic = topic
        self.transactions: list[tuple[str, int, str]] = []
        self._number = 0
        self._producers: dict[str, Producer] = {}
        self._statistics: dict[str, str] = {}

    def producer(self, name: str) -> Producer:
        if name not in self._producers:
            config: dict[str, object] = {
                "bootstrap.servers": self._broker.bootstrap_servers,
                "compression.type": _CODECS.get(name, "none"),
                "enable.idempotence": True,
                "batch.num.messages": 20,
                "linger.ms": 5,
                "log_level": 0,
                "statistics.interval.ms": 5000,
                "stats_cb": lambda statistics: self._statistics.update({name: statistics}),
            }
            if name != "plain":
                config |= {"transactional.id": f"{self.topic}-{name}", **NEVER_ABORTED}
            self._producers[name] = Producer(config)
            if name != "plain":
                self._producers[name].init_transactions(_PATIENCE_SECONDS)
        return self._producers[name]

    def records(self, name: str, count: int, size: int = 120) -> None:
        """Produces ``count`` records of about ``size`` bytes; some without key, value or headers."""
        producer = self.producer(name)
        for _ in range(count):
            number = self._number
            self._number += 1
            producer.produce(
                self.topic,
                partition=0,
                key=None if number % 17 == 0 else b"key-%d" % number,
                value=None if number % 23 == 0 else (b"%s %d " % (name.encode(), number)).ljust(size, b"."),
                headers=[("number", b"%d" % number), ("empty", None)] if number % 5 == 0 else None,
                timestamp=_FIRST_TIMESTAMP + number,
            )
        assert producer.flush(_PATIENCE_SECONDS) == 0, self._stuck(name)

    def _stuck(self, name: str) -> str:
        """What a producer and the broker say of records that the broker did not take."""
        log = self._broker.log_file.read_text(errors="replace").splitlines()[-20:]
        statistics = json.loads(self._statistics.get(name, "{}"))
        seen = {part: statistics.get(part) for part in ("ts", "metadata_cache_cnt", "eos", "brokers", "topics")}
        return f"the broker did not take all records of {name}: {json.dumps(seen)}\n" + "\n".join(log)

    def begin(self, name: str) -> int:
        """Begins a transaction. Returns the offset of its first record, because no other producer writes until then."""
        self.producer(name).begin_transaction()
        return self.end()

    def finish(self, name: str, first: int, *, commit: bool) -> None:
        (self.producer(name).commit_transaction if commit else self.producer(name).abort_transaction)(_PATIENCE_SECONDS)
        self.transactions.append((f"{self.topic}-{name}", first, "commit" if commit else "abort"))

    def transaction(self, name: str, count: int, *, commit: bool, inside: Callable[[], None] = lambda: None) -> None:
        """One transaction of twice ``count`` records with the records of ``inside`` between its halves."""
        first = self.begin(name)
        self.records(name, count)
        inside()
        self.records(name, count)
        self.finish(name, first, commit=commit)

    def mix(self, names: Sequence[str]) -> None:
        """Each of ``names`` commits one and aborts one transaction, plain records between them."""
        for name in names:
            for commit in (True, False):
                self.transaction(name, 15, commit=commit)
                self.records("plain", 10)

    def java(self, transactions: int) -> None:
        name = f"{self.topic}-java"
        arguments = (self._broker.bootstrap_servers, self.topic, "0", name, str(transactions), "12", "150")
        self._broker.run_java("TransactionalWriter", *arguments)
        self.transactions += [(name, -1, "abort" if number % 2 else "commit") for number in range(transactions)]

    def end(self) -> int:
        return self._broker.offsets(self.topic).high_watermark

    def settle(self) -> None:
        """Waits until all markers are written and all that may be tiered is."""

        def decided() -> bool:
            now = self._broker.offsets(self.topic)
            return now.last_stable == now.high_watermark

        wait_until(decided, f"the markers of {self.topic}", seconds=_PATIENCE_SECONDS)
        self._broker.wait_until_tiered(self.topic)


def write_transactional_topic(broker: KafkaBroker, topic: str) -> TransactionalTopic:
    """Creates ``topic`` with one partition and writes it as the module says; takes about fifteen seconds.

    Restarts the broker once, so no other test may use it meanwhile.
    """
    broker.create_topic(topic, segment_bytes=20_000)
    writer = _Writer(broker, topic)
    names = ("rdk-none", "rdk-lz4", "rdk-zstd")
    writer.mix(names)
    writer.java(6)

    def committed_inside() -> None:
        for name in names[1:]:
            writer.transaction(name, 100, commit=True)
        writer.records("plain", 200)

    writer.transaction("rdk-none", 150, commit=False, inside=committed_inside)
    writer.transaction("rdk-lz4", 10, commit=False, inside=lambda: writer.records("plain", 250))
    writer.settle()

    epochs = [_leader_epoch(broker, topic)]
    broker.restart()
    epochs.append(_leader_epoch(broker, topic))

    writer.mix(names)
    writer.java(2)
    writer.records("plain", 300)
    writer.settle()
    bases = [int(path.name.split("-")[0]) for path in broker.remote_segments(topic)]
    deleted_before = (bases[2] + bases[3]) // 2
    broker.delete_records(topic, deleted_before)

    local_abort_first = writer.begin("rdk-none")
    writer.records("rdk-none", 20)
    writer.records("plain", 400)
    writer.finish("rdk-none", local_abort_first, commit=False)
    writer.settle()
    local_abort = writer.end() - 1

    open_first = writer.begin("rdk-none")
    writer.records("rdk-none", 20)
    writer.records("plain", 300)
    writer.transactions.append((f"{topic}-rdk-none", open_first, "open"))
    return TransactionalTopic(
        topic=topic,
        partition=0,
        offsets=broker.wait_until_tiered(topic),
        deleted_before=deleted_before,
        local_abort=local_abort,
        local_abort_first=local_abort_first,
        open_first=open_first,
        remote_segments=len(broker.remote_segments(topic)),
        leader_epochs=tuple(epochs),
        transactions=tuple(writer.transactions),
    )


def write_wide_topic(broker: KafkaBroker, topic: str) -> None:
    """Creates ``topic`` with segments of many ranges: large batches that shrink little, in lz4 and uncompressed."""
    broker.create_topic(topic, segment_bytes=400_000)
    content = random.Random(7)
    for codec in ("none", "lz4") * 3:
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "compression.type": codec,
                "batch.num.messages": 20,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        for number in range(200):
            value = content.randbytes(1500) + bytes(500)  # the producer sends incompressible batches uncompressed
            producer.produce(topic, value, b"%s %d" % (codec.encode(), number), 0, timestamp=_FIRST_TIMESTAMP + number)
        assert producer.flush(_PATIENCE_SECONDS) == 0, "the broker did not take all records"
    broker.wait_until_tiered(topic)


def _leader_epoch(broker: KafkaBroker, topic: str) -> int:
    last = (broker.local_log(topic) / "leader-epoch-checkpoint").read_text().splitlines()[-1]
    return int(last.split()[0])
