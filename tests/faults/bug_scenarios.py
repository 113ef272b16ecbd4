"""Small runs on the stage, one for each kind of bug. A test checks that each violates nothing without a bug.

A scenario takes the stage and its patience in seconds, which is short only for bugs that stop all delivery. A scenario's
checks have names that begin with ``only-``: each names the only thing that may happen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
from confluent_kafka import KafkaException, TopicPartition

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.remote_reader import RemoteReader
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel, SegmentLocation
from kafka_remote_client.records import RecordBlock
from kafka_remote_client.testing import Answer, Ending, redirect
from tests.faults.moving_scenarios import deleted, outage, restarted, written
from tests.faults.stage import EVEN, EVEN_BATCH, FORKED, MIXED, Evidence, Stage, finish, take
from tests.support.golden_tier import GoldenTierSource, ScriptedFetcher
from tests.support.history import Assigned, FellBack, Fired, History, Measured, Place, Polled, Record, Revoked
from tests.support.invariants.oracle import Oracle
from tests.support.measured import Holdings, measured
from tests.support.reading import PATIENT_ENGINE
from tests.support.recorder import RecordedConsumer
from tests.support.waiting import wait_until

__all__ = ["SCENARIOS", "Scenario"]

Scenario = Callable[[Stage, float], Evidence]

_PARTITION_LATER = 0.2
_MOST_BYTES = 256 << 20


def _tp(topic: str, offset: int | None = None) -> TopicPartition:
    return TopicPartition(topic, 0) if offset is None else TopicPartition(topic, 0, offset)


def _only_causes(evidence: Evidence, *allowed: str) -> None:
    """Checks in the log that no partition fell back for another cause. I12 compares the counters with the same causes."""
    evidence.history.add(Fired, fault="injected by the scenario", causes=frozenset(allowed))
    causes = {event.cause for event in evidence.history.of(FellBack)}
    evidence.expect("only-causes", causes <= set(allowed), f"fell back because of {sorted(causes)}, not only {sorted(allowed)}")


def _only_errors(evidence: Evidence, consumer: RecordedConsumer, *allowed: str) -> None:
    """Checks that no range failed for another cause."""
    errors: Any = consumer.metrics()["remote-fetch-errors-total"]
    evidence.expect("only-errors", set(errors) <= set(allowed), f"failed because of {errors}, not only {sorted(allowed)}")


def _relocated(consumer: RecordedConsumer, change: Callable[[SegmentLocation], SegmentLocation | None]) -> None:
    """Changes the answers to location requests from now on; None restores them."""
    inner: Any = consumer.inner
    source = inner._direct_engine._source
    locate = source.locate

    def changed(found: Any) -> Any:
        return (change(found) or found) if isinstance(found, SegmentLocation) else found

    source.locate = lambda *args: {question: changed(found) for question, found in locate(*args).items()}


# -- the store is healthy --------------------------------------------------------------------------------------------------


def _read(topic: str, isolation: str) -> Scenario:
    def scenario(stage: Stage, patience: float) -> Evidence:
        evidence, holdings = stage.evidence(topic, isolation, patience), Holdings()
        with (
            measured(evidence.history, holdings, bound=_MOST_BYTES, servers=stage.upstream, seconds=patience),
            stage.open(evidence, isolation_level=isolation) as consumer,
        ):
            holdings.of(consumer.inner)
            consumer.assign([_tp(topic, 0)])
            finish(consumer, patience)
            holdings.look()
            _only_errors(evidence, consumer)
        _only_causes(evidence)
        return evidence

    return scenario


def _walk(stage: Stage, patience: float) -> Evidence:
    """Uses calls of all kinds: poll and consume, pause, seeks, position and commit."""
    evidence, place = stage.evidence(MIXED, seconds=patience), [_tp(MIXED)]
    with stage.open(evidence) as consumer:
        consumer.assign([_tp(MIXED, 0)])
        take(consumer, 3, patience)
        consumer.consume(5, patience)  # the first poll gathered more than it returned
        consumer.position(place)
        consumer.commit(asynchronous=False)
        take(consumer, 2, patience)
        consumer.pause(place)
        consumer.consume(5, _PARTITION_LATER)
        consumer.poll(_PARTITION_LATER)
        consumer.resume(place)
        consumer.consume(5, patience)  # the rest of the block waits
        consumer.seek(_tp(MIXED, 150))
        take(consumer, 2, patience)
        consumer.position(place)
        consumer.seek(_tp(MIXED, 4))
        take(consumer, 40, patience)
        with suppress(KafkaException):  # librdkafka never commits below the committed offset
            consumer.commit(asynchronous=False)
        consumer.committed(place)
    _only_causes(evidence)
    return evidence


def _starts(stage: Stage, patience: float) -> Evidence:
    """Reads from every seventh offset of the tier, across the bounds of grants."""
    evidence = stage.evidence(MIXED, seconds=patience)
    with stage.open(evidence) as consumer:
        for start in range(0, stage.streams[MIXED].tiered_end, 7):
            consumer.assign([_tp(MIXED, start)])
            take(consumer, 12, patience)
    _only_causes(evidence)
    return evidence


def _left(leave: Callable[[RecordedConsumer], None]) -> Scenario:
    """The application unassigns the partition in the middle of a slice, and continues to poll."""

    def scenario(stage: Stage, patience: float) -> Evidence:
        evidence = stage.evidence(EVEN, seconds=patience)
        with stage.open(evidence) as consumer:
            consumer.assign([_tp(EVEN, 0)])
            take(consumer, 7, patience)
            leave(consumer)
            for _ in range(3):
                try:
                    consumer.poll(_PARTITION_LATER / 2)
                except RuntimeError:  # closed
                    break
        return evidence

    return scenario


def _revoked(stage: Stage, patience: float) -> Evidence:
    """A group revokes the partition in the middle of a slice."""
    evidence = stage.evidence(EVEN, seconds=patience)
    with stage.open(evidence, enable_auto_offset_store=False) as consumer:
        consumer.subscribe([EVEN])
        take(consumer, 7, patience)
        consumer.unsubscribe()
        deadline = Deadline(SystemClock(), patience)
        while not evidence.history.of(Revoked) and not deadline.expired():
            consumer.poll(0.05)
        for _ in range(3):
            consumer.poll(0.05)
    return evidence


def _forked(stage: Stage, patience: float) -> Evidence:
    """Reads past the end of one leader's records and the start of the next one's. It ends within the tier: the broker
    has one epoch only.
    """
    evidence = stage.evidence(FORKED, seconds=patience)
    with stage.open(evidence) as consumer:
        consumer.assign([_tp(FORKED, 0)])
        take(consumer, 100, patience)
    _only_causes(evidence)
    return evidence


# -- the store fails or gives wrong bytes ----------------------------------------------------------------------------------


def _damaged(spoil: Callable[[bytes], bytes], *causes: str) -> Scenario:
    """The store's copy of the second segment is permanently damaged: the broker serves it."""

    def scenario(stage: Stage, patience: float) -> Evidence:
        key = stage.streams[EVEN].keys[1]
        stage.origin.objects[key] = spoil(stage.streams[EVEN].logs[key])
        evidence = stage.evidence(EVEN, seconds=patience)
        with stage.open(evidence) as consumer:
            consumer.assign([_tp(EVEN, 0)])
            finish(consumer, patience)
        _only_causes(evidence, *causes)
        evidence.expect("only-causes", bool(evidence.history.of(FellBack)), "nothing fell back: the damage was never met")
        return evidence

    return scenario


def _flipped(log: bytes) -> bytes:
    """Changes a digit of a value."""
    at = log.index(b"even value", len(log) // 2)
    return log[:at] + b"o" + log[at + 1 :]


def _of_other_epoch(log: bytes) -> bytes:
    """Changes the leader epoch of the third batch, which no checksum covers."""
    size = len(log) // 8
    at = 2 * size + 15
    return log[:at] + b"\x05" + log[at + 1 :]


def _swapped(log: bytes) -> bytes:
    """Swaps two batches."""
    size = len(log) // 8
    batches = [log[n * size : (n + 1) * size] for n in range(8)]
    batches[3], batches[4] = batches[4], batches[3]
    return b"".join(batches)


def _answered(answer: Answer, *, twin: bool, errors: tuple[str, ...], causes: tuple[str, ...]) -> Scenario:
    """Gives every request this answer. ``twin``: with the bytes of an object with the same sizes and other values."""

    def scenario(stage: Stage, patience: float) -> Evidence:
        evidence = stage.evidence(EVEN, seconds=patience)
        if twin:
            stage.origin.objects.update(stage.twin)
        stage.origin.otherwise, honest = answer, stage.origin.otherwise
        try:
            with stage.open(evidence) as consumer:
                consumer.assign([_tp(EVEN, 0)])
                finish(consumer, patience)
                _only_errors(evidence, consumer, *errors)
        finally:
            stage.origin.otherwise = honest
        _only_causes(evidence, *causes)
        return evidence

    return scenario


def _broken_off(stage: Stage, patience: float) -> Evidence:
    """The first two answers end in the middle. The next attempt gets the range, and no partition falls back."""
    size = len(stage.streams[EVEN].logs[stage.streams[EVEN].keys[0]])
    evidence = stage.evidence(EVEN, seconds=patience)
    stage.origin.script(Answer(ending=Ending.CUT, at=size // 2), Answer(ending=Ending.RESET, at=size // 3))
    with stage.open(evidence) as consumer:
        consumer.assign([_tp(EVEN, 0)])
        finish(consumer, patience)
        _only_errors(evidence, consumer, "unavailable")
    evidence.expect("only-fired", len(stage.origin.fired) == 2, "the answers were not asked for")
    _only_causes(evidence)
    return evidence


def _down(stage: Stage, patience: float) -> Evidence:
    """The store fails after the first records: the broker continues."""
    evidence = stage.evidence(EVEN, seconds=patience)
    with stage.open(evidence) as consumer:
        consumer.assign([_tp(EVEN, 0)])
        take(consumer, 3, patience)
        consumer.pause([_tp(EVEN)])
        stage.origin.objects.clear()
        consumer.resume([_tp(EVEN)])
        finish(consumer, patience)
    _only_causes(evidence, "not-found")
    return evidence


def _untrodden(*, redirected: bool = False, **settings: object) -> Scenario:
    """A forbidden location, or a redirect to another host: no request reaches the host that it names."""

    def scenario(stage: Stage, patience: float) -> Evidence:
        evidence = stage.evidence(EVEN, seconds=patience)
        if redirected:
            stage.origin.script(redirect(f"{stage.trap.url}/{stage.streams[EVEN].keys[0]}"))
        with stage.open(evidence, **settings) as consumer:
            consumer.assign([_tp(EVEN, 0)])
            finish(consumer, patience)
        asked = len(stage.trap.exchanges) if redirected else len(stage.origin.exchanges)
        evidence.expect("only-allowed", asked == 0, f"{asked} requests came where none may")
        _only_causes(evidence, "forbidden-location", "invalid-response")
        return evidence

    return scenario


# -- locations that must be refused ----------------------------------------------------------------------------------------


def _located(change: Callable[[SegmentLocation], SegmentLocation | None], *causes: str, topic: str = EVEN) -> Scenario:
    def scenario(stage: Stage, patience: float) -> Evidence:
        evidence = stage.evidence(topic, seconds=patience)
        with stage.open(evidence) as consumer:
            _relocated(consumer, change)
            consumer.assign([_tp(topic, 0)])
            finish(consumer, patience)
        _only_causes(evidence, *causes)
        return evidence

    return scenario


def _unsorted(found: SegmentLocation) -> SegmentLocation:
    """The list of aborted transactions is unsorted and has duplicates."""
    listed = tuple(found.aborted_transactions or ())
    return attrs.evolve(found, aborted_transactions=(*reversed(listed), *listed[:1]))


def _expired(stage: Stage, patience: float) -> Evidence:
    """The location's URLs have expired when it arrives."""
    evidence = stage.evidence(EVEN, seconds=patience)
    with stage.open(evidence) as consumer:
        _relocated(consumer, lambda found: attrs.evolve(found, expires_at=0.0))
        consumer.assign([_tp(EVEN, 0)])
        finish(consumer, patience)
    evidence.expect("only-allowed", not stage.origin.exchanges, "an expired URL was used")
    _only_causes(evidence, "expired")
    return evidence


def _undecided(stage: Stage, patience: float) -> Evidence:
    """The last stable offset is in the middle of the first grant: no record from there on may come from the store."""
    evidence = stage.evidence(EVEN, seconds=patience)
    stable = 2 * EVEN_BATCH + 2
    with stage.open(evidence) as consumer:
        _relocated(consumer, lambda found: attrs.evolve(found, last_stable_offset=stable))
        consumer.assign([_tp(EVEN, 0)])
        finish(consumer, patience)
        count: Any = consumer.metrics()["remote-fetch-records-total"]
    evidence.expect("only-decided", count <= stable, f"{count} records came from the store, {stable} of them are decided")
    _only_causes(evidence, "undecided")
    return evidence


def _hoarded(stage: Stage, patience: float) -> Evidence:
    """The application takes nothing from the readers: their memory stays within the limit, plus the memory of decoding."""
    evidence = Evidence(History(), Oracle({}), patience)
    clock, memory = SystemClock(), 150_000
    config = attrs.evolve(PATIENT_ENGINE, buffer_memory=memory)
    engine = FetchEngine(GoldenTierSource(), ScriptedFetcher(), config, clock=clock, metrics=FetchMetrics(clock))
    topic, bound, scheduler = "codec-none-rdk", 2 * memory, engine._scheduler

    def read_ahead() -> bool:
        with engine.lock:
            locating = any(reader._read._locating for reader in readers)
            idle = not (locating or scheduler.in_flight or scheduler._queue._asked)
            return scheduler.has_ready and (engine.memory.held > bound or idle)

    try:
        isolation = IsolationLevel.READ_UNCOMMITTED
        readers = [engine.reader(ReadRequest(topic, 0, 0, isolation_level=isolation, borrow=True)) for _ in range(8)]
        wait_until(read_ahead, "the readers to have read ahead", seconds=patience, pause=0.01)
        evidence.history.add(Measured, moment="during", bytes_held=engine.memory.held, bound=bound)
        block = next(block for block in map(RemoteReader.take, readers) if isinstance(block, RecordBlock))
        evidence.history.add(Assigned, "reader", places=(Place(topic, 0, block.offset(0)),))
        records = tuple(map(Record.of, block.messages(topic, 0)))
        evidence.history.add(Polled, "reader", began=evidence.history.now(), records=records)
    finally:
        engine.close()
    evidence.history.add(Measured, moment="after", bytes_held=engine.memory.held)
    return evidence


SCENARIOS: dict[str, Scenario] = {
    "read": _read(MIXED, "read_committed"),
    "read-uncommitted": _read(MIXED, "read_uncommitted"),
    "leaks": _read(EVEN, "read_committed"),
    "walk": _walk,
    "starts": _starts,
    "closed": _left(lambda consumer: consumer.close()),
    "unassigned": _left(lambda consumer: consumer.unassign()),
    "assigned-otherwise": _left(lambda consumer: consumer.incremental_unassign([_tp(EVEN)])),
    "revoked": _revoked,
    "forked": _forked,
    "flipped": _damaged(_flipped, "corrupt"),
    "other-epoch": _damaged(_of_other_epoch, "corrupt"),
    "swapped": _damaged(_swapped, "corrupt"),
    "other-range": _answered(
        Answer(headers={"Content-Range": "bytes 100-199/1000"}),
        twin=True,
        errors=("invalid-response",),
        causes=("invalid-response", "breaker-open"),
    ),
    "no-range": _answered(
        Answer(status=200), twin=True, errors=("invalid-response",), causes=("invalid-response", "breaker-open")
    ),
    "broken-off": _broken_off,
    "down": _down,
    "redirected": _untrodden(redirected=True),
    "forbidden": _untrodden(remote_storage_fetcher_allowed_hosts="store.example"),
    "private": _untrodden(remote_storage_fetcher_allow_private_addresses=False),
    "plain-http": _untrodden(remote_storage_fetcher_allow_http=False),
    "hoarded": _hoarded,
    "unsorted": _located(_unsorted, topic=MIXED),
    "expired": _expired,
    "undecided": _undecided,
    "outage": outage,
    "deleted": deleted,
    "restarted": restarted,
    "written": written,
}
