"""Torture: counts every fallible call of a read, then makes each of them fail once, in every possible way.

The engine reads with real sockets on both sides: locations of a shim, ranges of a scripted origin. The oracle supplies the
other records, like a broker. Seams are functions of the product, so a call that is added to one of them counts too.

========  ======================================================================================================
way       the call
========  ======================================================================================================
error     raises what such a call may raise: a typed error, OSError, MemoryError, "can't start new thread"
defect    raises an error that it must not raise: RuntimeError (in plugins and in our own parts)
hang      does not return before its time-out, or never (plugins); the clock is moved forward, so the test does not wait
short     does less than requested: some bytes, no bytes, no location, no budget
========  ======================================================================================================

A call counts as failed only if its caller got a different result from the true one: an error, which no call of an
undisturbed read raises, or another answer than the true one, which the test requests as well.

``python -m tests.faults.torture`` fails every call in every way, and writes a line to the ledger.
"""

from __future__ import annotations

import logging
import socket
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.config import split_config
from kafka_remote_client.errors import LocationError, RemoteStorageUnavailableError
from kafka_remote_client.fetch.assemble import build_engine
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel, NotRemote, PartitionOffsets
from kafka_remote_client.records import RecordBlock
from tests.faults.stage import MIXED, Evidence, Stage, our_threads
from tests.support.embedded_topics import direct_settings
from tests.support.history import Assigned, Failure, Fired, Measured, Opened, Place, Polled, Record
from tests.support.ledger import ledger
from tests.support.planting import planted
from tests.support.store_client import CERTIFICATES
from tests.support.waiting import wait_until

__all__ = ["SEAMS", "WAYS", "Seam", "Torture", "main", "run", "tortured"]

WAYS = ("error", "defect", "hang", "short")
_TIMEOUT_MS = 60_000
_BEYOND_ANY_TIMEOUT = 200.0
_PATIENCE_SECONDS = 60.0
_MOST_CALLS = 1_000
_EOF = -191


@attrs.frozen
class Seam:
    """A function of the product, and the ways in which a call of it can fail."""

    name: str
    place: str
    ways: dict[str, Callable[..., Any]]


@attrs.define
class Torture:
    """Counts calls that can fail in a ``way``, and makes the ``victim``-th of them (from 1) fail. ``struck``: its seam.

    ``fired``: the same if the caller got a different answer. ``raised``: seams whose real calls raised.
    """

    way: str = ""
    victim: int = 0
    calls: list[str] = attrs.field(factory=list)
    struck: str | None = None
    fired: str | None = None
    raised: list[str] = attrs.field(factory=list)
    released: threading.Event = attrs.field(factory=threading.Event)
    shift: float = 0.0
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def call(self, seam: Seam, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A call of a seam's function: itself, or its failure."""
        with self._lock:
            if self.way and self.way not in seam.ways:
                failure = None
            else:
                self.calls.append(seam.name)
                failure = seam.ways[self.way] if self.way and len(self.calls) == self.victim else None
            if failure is not None:
                self.struck = seam.name
        if failure is None:
            return self._untouched(seam, original, *args, **kwargs)
        try:
            given, changed = failure(self, original, *args, **kwargs)
        except BaseException:
            self.fired = seam.name
            raise
        self.fired = seam.name if changed else None
        return given

    def _untouched(self, seam: Seam, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except BaseException:
            self.raised.append(seam.name)
            raise


def _raises(error: Callable[[], BaseException]) -> Callable[..., Any]:
    def failing(torture: Torture, original: Any, *args: Any, **kwargs: Any) -> Any:
        raise error()

    return failing


def _answers(value: Callable[[], Any]) -> Callable[..., Any]:
    """Returns this instead of the true answer, if they differ."""

    def answering(torture: Torture, original: Any, *args: Any, **kwargs: Any) -> tuple[Any, bool]:
        given, true = value(), original(*args, **kwargs)
        return given, given != true

    return answering


def _answers_each(value: Callable[[], Any]) -> Callable[..., Any]:
    """Returns this instead of the true answer to each of many questions, if they differ."""

    def answering(torture: Torture, original: Any, source: Any, asked: Any, *args: Any) -> tuple[Any, bool]:
        given, true = dict.fromkeys(asked, value()), original(source, asked, *args)
        return given, given != true

    return answering


def _no_thread(torture: Torture, original: Any, *args: Any) -> tuple[None, bool]:
    """Fails as if the process could start no more threads; the true answer is a thread."""
    return None, True


def _hangs(torture: Torture, *args: Any, **kwargs: Any) -> Any:
    """Behaves like a plugin without a time-out."""
    torture.shift += _BEYOND_ANY_TIMEOUT
    torture.released.wait(_PATIENCE_SECONDS)
    raise RemoteStorageUnavailableError("released")


def _hangs_until_its_deadline(torture: Torture, original: Any, *args: Any, **kwargs: Any) -> Any:
    (deadline,) = [value for value in (*args, *kwargs.values()) if isinstance(value, Deadline)]
    torture.shift += deadline.remaining()
    raise TimeoutError


def _location_hangs(torture: Torture, original: Any, *args: Any, **kwargs: Any) -> Any:
    with suppress(TimeoutError):
        _hangs_until_its_deadline(torture, original, *args, **kwargs)
    raise LocationError("no answer in time")


def _socket_hangs(torture: Torture, original: Any, self: Any, *args: Any) -> Any:
    torture.shift += self.deadline.remaining()
    raise TimeoutError


def _receives_a_byte(torture: Torture, original: Any, self: Any, buffer: Any, *args: Any) -> tuple[int, bool]:
    """Reads one byte, even if more bytes are available."""
    count: int = original(self, memoryview(buffer)[:1])
    self.settimeout(0)
    with suppress(BlockingIOError):
        return count, len(memoryview(buffer)) > count and bool(self.recv(1, socket.MSG_PEEK))
    return count, False


def _broken() -> BaseException:
    return ConnectionResetError("torture")


def _defective() -> BaseException:
    return RuntimeError("torture")


def _no_location() -> BaseException:
    return LocationError("torture")


def _no_store() -> BaseException:
    return RemoteStorageUnavailableError("torture")


_BROKER = "kafka_remote_client.protocol.connection:BrokerConnection."
_STORE = "kafka_remote_fetchers._connections:"
_ENGINE = "kafka_remote_client.fetch."

SEAMS = (
    Seam(
        "location",
        "kafka_remote_client.location.broker:BrokerLocationSource.locate",
        {
            "error": _raises(_no_location),
            "defect": _raises(_defective),
            "hang": _location_hangs,
            "short": _answers_each(lambda: NotRemote("not-granted")),
        },
    ),
    Seam(
        "offsets",
        "kafka_remote_client.location.leaders:BoundsByLeaders.offsets_of",
        {
            "error": _raises(_no_location),
            "defect": _raises(_defective),
            "hang": _location_hangs,
            "short": _answers_each(PartitionOffsets),
        },
    ),
    Seam("broker connect", _BROKER + "_connect", {"error": _raises(_broken), "hang": _hangs_until_its_deadline}),
    Seam("broker send", _BROKER + "_send", {"error": _raises(_broken), "hang": _hangs_until_its_deadline}),
    Seam(
        "broker receive",
        _BROKER + "_read",
        {"error": _raises(_broken), "hang": _hangs_until_its_deadline, "short": _raises(_no_location)},
    ),
    Seam(
        "fetch",
        "kafka_remote_fetchers.presigned:PresignedFetcher.fetch_log_segment",
        {"error": _raises(_no_store), "defect": _raises(_defective), "hang": _hangs},
    ),
    Seam(
        "store connect", _STORE + "StoreConnection._connect_any", {"error": _raises(_broken), "hang": _hangs_until_its_deadline}
    ),
    Seam(
        "store send", _STORE + "StoreConnection.request_range", {"error": _raises(_broken), "hang": _hangs_until_its_deadline}
    ),
    Seam(
        "store receive",
        _STORE + "_DeadlineSocket.recv_into",
        {"error": _raises(_broken), "hang": _socket_hangs, "short": _receives_a_byte},
    ),
    Seam(
        "stream",
        "kafka_remote_fetchers._range_stream:HttpRangeStream.readinto",
        {"error": _raises(_no_store), "defect": _raises(_defective), "hang": _hangs, "short": _answers(lambda: 0)},
    ),
    Seam("stream close", "kafka_remote_fetchers._range_stream:HttpRangeStream.close", {"defect": _raises(_defective)}),
    Seam("buffer", _ENGINE + "memory:BufferPool.take", {"error": _raises(MemoryError)}),
    Seam("fetch budget", _ENGINE + "fetch_budget:FetchBudget.has_for", {"short": _answers(lambda: False)}),
    Seam(
        "decode",
        "kafka_remote_client.records.completed_fetch:CompletedFetch.feed",
        {"error": _raises(MemoryError), "defect": _raises(_defective)},
    ),
    Seam("thread", _ENGINE + "engine:start_thread", {"error": _no_thread}),
)


def tortured(stage: Stage, torture: Torture) -> Evidence:
    """One read of the mixed topic under torture. Afterwards everything is closed and measured."""
    stage.reset()
    evidence = stage.evidence(MIXED)
    stage.measure(evidence, "before")
    metrics = FetchMetrics(SystemClock())
    with _planted(torture):
        engine = _engine(stage, metrics)
        try:
            _read(evidence, engine)
        finally:
            torture.released.set()
            engine.close()
    if torture.fired is not None:
        evidence.history.add(Fired, fault=f"{torture.way} of {torture.fired}")
    _measure_after(stage, evidence, engine)
    return evidence


@contextmanager
def _planted(torture: Torture) -> Iterator[None]:
    def make(seam: Seam) -> Callable[[Any], Callable[..., Any]]:
        return lambda original: lambda *args, **kwargs: torture.call(seam, original, *args, **kwargs)

    with ExitStack() as stack:
        for seam in SEAMS:
            stack.enter_context(planted(seam.place, make(seam)))
        clock = "kafka_remote_client.clock:SystemClock.monotonic"
        stack.enter_context(planted(clock, lambda now: lambda self: now(self) + torture.shift))
        yield


def _engine(stage: Stage, metrics: FetchMetrics) -> FetchEngine:
    timeouts = {f"fetch.remote.{what}.timeout.ms": _TIMEOUT_MS for what in ("location", "read", "connect")}
    store = {
        "remote.storage.fetcher.allowed.hosts": stage.origin.authority,
        "remote.storage.fetcher.ssl.ca.location": str(CERTIFICATES / "ca.pem"),  # few, so that the read is short
    }
    remote, inner = split_config({**direct_settings(stage.cluster), **timeouts, **store})
    engine = build_engine(remote, inner, SystemClock(), metrics)
    assert engine is not None
    return engine


def _read(evidence: Evidence, engine: FetchEngine) -> None:
    """Reads from the first offset to the end: with the engine as far as possible, then from the broker."""
    history, oracle, key, name = evidence.history, evidence.oracle, (MIXED, 0), "reader"
    history.add(Opened, name, group="none")
    history.add(Assigned, name, places=(Place(*key, 0),))
    reader = engine.reader(ReadRequest(*key, 0, isolation_level=IsolationLevel.READ_COMMITTED, stop_at_local=True, borrow=True))
    while isinstance(item := wait_until(reader.take, "the next block", seconds=_PATIENCE_SECONDS, pause=0.005), RecordBlock):
        records = tuple(map(Record.of, item.messages(*key)))
        history.add(Polled, name, began=history.now(), records=records)
    assert isinstance(item, ReadEnd)
    after = item.next_offset
    reader.stop()
    rest = [oracle.get(key, offset) for offset in oracle.offsets(key, max(0, after), oracle.ends[key])]
    end = Failure(_EOF, key, oracle.ends[key])
    history.add(Polled, name, began=history.now(), records=tuple(filter(None, rest)), errors=(end,))


def _measure_after(stage: Stage, evidence: Evidence, engine: FetchEngine) -> None:
    """Measures after all closing parts have ended."""
    before = len(evidence.history.of(Measured)[0].threads)
    with suppress(TimeoutError):
        wait_until(lambda: len(our_threads()) <= before, "the end of all threads", seconds=_PATIENCE_SECONDS, pause=0.005)
    stage.measure(evidence, "after", engine)


def run(stage: Stage, ways: Collection[str], share: int = 0, of: int = 1) -> tuple[Counter[str], list[str]]:
    """Makes one call after the other fail, until a read has no more calls. Returns fired faults and all violations.

    ``share``, ``of``: only every ``of``-th call, starting with ``share`` (from 0), to divide the work among processes.
    """
    fired: Counter[str] = Counter()
    breaches: list[str] = []
    for way in ways:
        for victim in range(1 + share, _MOST_CALLS, of):
            torture = Torture(way, victim)
            evidence = tortured(stage, torture)
            breaches += [f"{way} of call {victim} ({torture.struck}): {breach}" for breach in evidence.all()]
            if torture.struck is None:
                break
            if torture.fired is not None:
                fired[f"{way} of {torture.fired}"] += 1
    return fired, breaches


def main() -> int:
    """Makes every call fail in every way. Returns the number of violations."""
    logging.basicConfig(level=logging.CRITICAL)
    with tempfile.TemporaryDirectory() as directory, Stage(Path(directory)) as stage:
        fired, breaches = run(stage, WAYS)
    ledger("torture", fired=fired.total(), seams=len(SEAMS), kinds=len(fired), violations=len(breaches))
    print(*breaches, sep="\n", end="\n" if breaches else "")
    return len(breaches)


if __name__ == "__main__":
    sys.exit(bool(main()))
