"""``kafka-remote bench``: how fast this machine reads a topic's tier, by size of range and requests at a time, and the broker.

::

    log objects ─► ranges, one after the other ─► workers ─► get_range ─► Sample (seconds, bytes); the bytes are dropped
    broker ─► confluent_kafka.Consumer from the log start ─► messages; dropped

The keys and the store's client are those of ``verify`` and ``dump``. Each combination gets the same share of the time. GETs
that are under way at its end are waited for and count. Ranges are read in order, then again from the start, so a small topic
may come from a cache of the store. The broker's bytes are those of keys and values.

References: docs/cli.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from math import ceil

import attrs
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import ConfigurationError, LocationError
from kafka_remote_client.plugin import RemoteObjectStore

__all__ = ["COLUMNS", "BenchLine", "LogObject", "Sample", "bench_broker", "bench_line", "bench_store", "ranges_of"]

COLUMNS = {
    "topic": "topic",
    "path": "path",
    "range": "range_bytes",
    "at once": "concurrency",
    "GETs": "gets",
    "MB/s": "megabytes_per_second",
    "first ms": "first_ms",
    "p50 ms": "p50_ms",
    "p99 ms": "p99_ms",
}
"""From heading to field."""
_BATCH = 500
_POLL_SECONDS = 0.2
_CLIENT = {"group.id": "kafka-remote-bench", "enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0}


@attrs.frozen
class LogObject:
    """A segment's log in the store: its key and its size in bytes."""

    key: str
    size: int


@attrs.frozen
class Sample:
    """One request: when it began and how long it took, in seconds, and what arrived, in bytes."""

    began: float
    seconds: float
    nbytes: int


@attrs.frozen
class BenchLine:
    """One measurement. Times of one request in milliseconds; MB are 10^6 bytes. ``None``: does not apply."""

    topic: str
    path: str
    range_bytes: int | None
    concurrency: int
    gets: int | None
    bytes: int
    seconds: float
    megabytes_per_second: float
    first_ms: float
    p50_ms: float | None
    p99_ms: float | None


def ranges_of(objects: Sequence[LogObject], range_bytes: int) -> Iterator[tuple[str, int, int]]:
    """Key, start and end of one range after the other, without end."""
    for one in cycle(objects):
        for start in range(0, one.size, range_bytes):
            yield one.key, start, min(start + range_bytes, one.size)


def bench_line(topic: str, range_bytes: int, concurrency: int, samples: Sequence[Sample]) -> BenchLine:
    """The measurement of the store by at least one sample. Pure."""
    first = min(samples, key=lambda one: one.began)
    seconds = max(one.began + one.seconds for one in samples) - first.began
    nbytes = sum(one.nbytes for one in samples)
    times = sorted(one.seconds for one in samples)
    return BenchLine(
        topic,
        "store",
        range_bytes,
        concurrency,
        len(samples),
        nbytes,
        round(seconds, 3),
        round(nbytes / 1e6 / seconds, 1) if seconds else 0.0,
        _ms(first.seconds),
        _ms(_percentile(times, 50)),
        _ms(_percentile(times, 99)),
    )


def _percentile(times: Sequence[float], percent: int) -> float:
    """The smallest of the rising ``times`` that at least ``percent`` of them do not exceed."""
    return times[max(0, ceil(len(times) * percent / 100) - 1)]


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def bench_store(
    store: RemoteObjectStore,
    topic: str,
    objects: Sequence[LogObject],
    range_bytes: int,
    concurrency: int,
    seconds: float,
    clock: Clock,
) -> BenchLine:
    """Reads ranges of ``objects`` for about ``seconds``, with at least one GET. Each GET has the store's own time-outs.

    Raises what the store raises.
    """
    ranges, lock = ranges_of(objects, range_bytes), threading.Lock()
    deadline, ended = Deadline(clock, seconds), threading.Event()

    def work() -> list[Sample]:
        samples: list[Sample] = []
        while not ended.is_set() and (not samples or not deadline.expired()):
            with lock:
                key, start, end = next(ranges)
            began = clock.monotonic()
            try:
                data = store.get_range(key, start, end)
            except BaseException:
                ended.set()
                raise
            samples.append(Sample(began, clock.monotonic() - began, len(data)))
        return samples

    with ThreadPoolExecutor(concurrency, thread_name_prefix="kafka-remote-bench") as workers:
        futures = [workers.submit(work) for _ in range(concurrency)]
        try:
            samples = [sample for future in futures for sample in future.result()]
        finally:
            ended.set()  # Ctrl-C: no further GET
    return bench_line(topic, range_bytes, concurrency, samples)


def bench_broker(
    settings: Mapping[str, str],
    topic: str,
    spans: Sequence[tuple[int, int, int]],
    seconds: float,
    clock: Clock,
    patience: float,
) -> BenchLine:
    """Reads tiered offsets through the broker for about ``seconds``. ``spans``: partition, start, end exclusive.

    Raises ConfigurationError for settings that librdkafka refuses, LocationError if no record arrives within ``patience``
    seconds.
    """
    try:
        consumer = Consumer({**settings, **_CLIENT})
    except KafkaException as error:
        raise ConfigurationError(f"invalid broker settings: {error.args[0].str()}") from None
    ends = {partition: end for partition, _, end in spans}
    began, first, last = clock.monotonic(), None, 0.0
    until_first, until_end = Deadline(clock, patience), Deadline(clock, seconds)
    nbytes, left = 0, set(ends)
    try:
        consumer.assign([TopicPartition(topic, partition, start) for partition, start, _ in spans])
        while left and not (until_first if first is None else until_end).expired():
            for message in consumer.consume(_BATCH, _POLL_SECONDS):
                partition, offset = message.partition(), message.offset()
                if message.error() is not None or offset is None or partition not in left:
                    continue
                last = clock.monotonic() - began
                first = last if first is None else first
                if offset < ends[partition]:
                    nbytes += len(message.key() or b"") + len(message.value() or b"")
                if offset >= ends[partition] - 1:
                    left.discard(partition)
                    consumer.pause([TopicPartition(topic, partition)])
    finally:
        consumer.close()
    if first is None:
        raise LocationError(f"timed out after {patience:g} s without a record from the brokers; raise --timeout")
    rate = round(nbytes / 1e6 / last, 1)
    return BenchLine(topic, "broker", None, 1, None, nbytes, round(last, 3), rate, _ms(first), None, None)
