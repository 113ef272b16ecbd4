"""The stage of planted bugs: an embedded cluster whose store is a scripted origin, and known topics.

=========  =============================================================================================================
topic      is
=========  =============================================================================================================
``even``   three segments of batches of one size, and a twin of the same shape with other values, for mixed-up bytes
``mixed``  every codec, headers, nulls, both kinds of time, transactions across segments (``tests.faults.streams``)
``forked`` two segments that overlap: the leader of the second truncated the end of the first
=========  =============================================================================================================

After the tier each has a few records in the broker's local log, so that every read uses both tiers. A plain consumer reads
the oracles once, before any bug is planted.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs
import confluent_kafka
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.testing import ScriptedOrigin
from tests.faults.streams import Segment, Stream, Transactions, mixed_segments, write_stream
from tests.support.batches import Rec, batch
from tests.support.descriptors import connections_made
from tests.support.embedded_topics import delete_first_segment, direct_settings, plain_settings
from tests.support.history import History, Measured, Polled, Served, Source
from tests.support.invariants.checker import violations
from tests.support.invariants.oracle import Oracle
from tests.support.invariants.violation import Violation, violation
from tests.support.ports import HOST
from tests.support.reading import PATIENT
from tests.support.recorder import RecordedConsumer, recorded
from tests.support.served import BrokerLog, store_log

__all__ = [
    "EVEN",
    "EVEN_BATCH",
    "FORKED",
    "MIXED",
    "PATIENCE_SECONDS",
    "Evidence",
    "Stage",
    "even_segments",
    "finish",
    "our_threads",
    "take",
]

EVEN, MIXED, FORKED = "even", "mixed", "forked"
PATIENCE_SECONDS = 60.0
EVEN_BATCH = 5
_BATCHES, _SEGMENTS = 8, 3
_SECRET = b"a secret of the stage"
_LOCAL = 20
_MOST = 5_000
_THREADS = ("kafka-remote-fetch", "kafka-remote-offsets")


@attrs.define
class Evidence:
    """The result of a scenario: a history to compare with its oracle, and the scenario's own findings.

    ``stage``: where this project's consumers read ``stream``, whose store has a separate log.
    """

    history: History
    oracle: Oracle
    seconds: float = PATIENCE_SECONDS
    stage: Stage | None = None
    stream: Stream | None = None
    found: list[Violation] = attrs.field(factory=list)

    def expect(self, name: str, holds: bool, text: str) -> None:
        """Adds a check of the scenario, with a name that a bug can have in ``caught_by``."""
        if not holds:
            self.found.append(violation(name, text))

    def all(self) -> list[Violation]:
        """Returns every violation of an invariant, and every failed check. Call it once."""
        if self.stage is not None and self.stream is not None:
            offsets = store_log(self.stage.origin.exchanges, self.stream.logs)
            self.history.add(Served, source=Source.STORE, key=(self.stream.topic, 0), offsets=offsets)
            self.stage.broker.record(None)
        return violations(self.history, self.oracle, seconds=self.seconds) + self.found

    @property
    def delivered(self) -> int:
        """Returns the number of delivered records."""
        return sum(len(event.records) for event in self.history.of(Polled))


class Stage:
    """Created once; scenarios use it one after the other. ``trap`` is a server that must never get a request."""

    def __init__(self, directory: Path) -> None:
        self._stack = ExitStack()
        self._opened: list[Any] = []
        self.scratch = directory.with_name(f"{directory.name}-scratch")
        self.origin = self._stack.enter_context(ScriptedOrigin(secret=_SECRET))
        self.trap = self._stack.enter_context(ScriptedOrigin())
        self.cluster = self._stack.enter_context(
            EmbeddedCluster(directory, expire_local=True, max_grant_bytes=3_000, signer=self.origin.signer)
        )
        made = {EVEN: even_segments(b"even"), MIXED: mixed_segments(0), FORKED: _forked_segments()}
        self.streams: dict[str, Stream] = {
            topic: write_stream(self.cluster, topic, segments, local=_LOCAL) for topic, segments in made.items()
        }
        twins = [b"".join(segment.batches) for segment in even_segments(b"twin")]
        self.twin: dict[str, bytes] = dict(zip(self.streams[EVEN].keys, twins, strict=True))
        self.broker = BrokerLog(self.cluster)
        self.upstream = {int(self.cluster.broker_bootstrap_servers.rpartition(":")[2])}
        """Ports that servers of this process connect to."""
        self.reset()
        self._oracles = {
            (topic, isolation): self._read_plainly(topic, isolation)
            for topic in made
            for isolation in ("read_committed", "read_uncommitted")
        }

    def _read_plainly(self, topic: str, isolation: str) -> Oracle:
        """A broker reads a segment of the tier on past the end of its epoch, so a Fetch takes one batch."""
        truth = History()
        settings = plain_settings(self.cluster, isolation_level=isolation, check_crcs=True, max_partition_fetch_bytes=1)
        with recorded(confluent_kafka.Consumer, settings, truth) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            finish(consumer)
        return Oracle.of(truth)

    def reset(self) -> None:
        """Restores the origin's true answers and clears its log of requests."""
        self.origin.reset()
        self.trap.reset()
        self.origin.objects.clear()
        for stream in self.streams.values():
            self.origin.objects.update(stream.logs)

    def evidence(self, topic: str, isolation: str = "read_committed", seconds: float = PATIENCE_SECONDS) -> Evidence:
        """Begins a scenario: adds the produced records to the history, and what the broker sends from now on."""
        history, stream = History(), self.streams[topic]
        stream.note(history)
        history.add(Served, source=Source.BROKER, key=(topic, 0))
        self.broker.record(history)
        return Evidence(history, self._oracles.get((topic, isolation), Oracle({})), seconds, self, stream)

    def fresh(self, name: str, segments: list[Segment]) -> Stream:
        """Returns a topic for one run, which may damage it. It has no oracle yet."""
        topic = f"{name}-{len(self.streams)}"
        stream = self.streams[topic] = write_stream(self.cluster, topic, segments, local=_LOCAL)
        self.origin.objects.update(stream.logs)
        return stream

    def delete_segment(self, stream: Stream) -> int:
        """Deletes the first segment of a new topic, as retention does. Returns the new log start."""
        del self.origin.objects[stream.keys[0]]
        return delete_first_segment(self.cluster, stream.topic)

    def open(self, evidence: Evidence, name: str = "consumer", /, **settings: object) -> RecordedConsumer:
        """Returns this project's consumer. A fallback is permanent by default; ``_`` in names stands for ``.``."""
        config = direct_settings(self.cluster, fetch_remote_fallback_backoff_ms=600_000)
        given = {name.replace("_", "."): value for name, value in settings.items()}
        allowed = {"remote.storage.fetcher.allowed.hosts": self.origin.authority}
        consumer = recorded(Consumer, {**config, **PATIENT, **allowed, **given}, evidence.history, name)
        self._opened.append(consumer.inner)
        return consumer

    def tidy(self) -> None:
        """Stops everything that a bug may have left running. Call it after the bug is removed."""
        opened, self._opened = self._opened, []
        for consumer in opened:
            engine = consumer._direct_engine
            engine.close()
            engine._fetcher.close()

    def measure(self, evidence: Evidence, moment: str, engine: FetchEngine | None = None) -> None:
        """Records the threads of direct fetch, its connections to the store, and the bytes that an engine holds."""
        held = -1 if engine is None else engine.memory.held
        sockets = tuple(str(one) for one in connections_made() if one.peer == (HOST, self.origin.port))
        evidence.history.add(Measured, moment=moment, threads=our_threads(), sockets=sockets, bytes_held=held)

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def our_threads() -> tuple[str, ...]:
    """Returns the names of the running threads of direct fetch."""
    return tuple(sorted(thread.name for thread in threading.enumerate() if thread.name.startswith(_THREADS)))


def finish(consumer: RecordedConsumer, patience: float = PATIENCE_SECONDS) -> None:
    """Reads to the partition's end. It stops after ``patience`` seconds without a record, or after far too many."""
    left, count = Deadline(SystemClock(), patience), 0
    while not left.expired() and count < _MOST:
        messages = consumer.consume(50, 0.05)
        if any(message.error() is not None for message in messages):
            return
        if messages:
            left, count = Deadline(SystemClock(), patience), count + len(messages)


def take(consumer: RecordedConsumer, count: int, patience: float = PATIENCE_SECONDS) -> None:
    """Polls until ``count`` records have arrived. It stops early as :func:`finish` does."""
    deadline = Deadline(SystemClock(), patience)
    while count and not deadline.expired():
        message = consumer.poll(0.05)
        count -= message is not None and message.error() is None


def even_segments(name: bytes) -> list[Segment]:
    """Three segments of eight batches of EVEN_BATCH records."""
    log = Transactions()
    for _ in range(_SEGMENTS):
        for _ in range(_BATCHES):
            base = log.next_offset
            made = [Rec(n, b"key", b"%b value %04d " % (name, base + n) * 4) for n in range(EVEN_BATCH)]
            log.raw(batch(base, made), EVEN_BATCH, made)
        log.roll()
    return log.segments


def _forked_segments() -> list[Segment]:
    old, new = Transactions(epoch=0), Transactions(epoch=1, start=40)
    for log, batches in ((old, 6), (new, 8)):
        for _ in range(batches):
            base = log.next_offset
            made = [Rec(n, b"key", b"of epoch %d, %d" % (log.epoch, base + n)) for n in range(10)]
            log.raw(batch(base, made, epoch=log.epoch), 10, made)
        log.roll()
    return old.segments + new.segments
