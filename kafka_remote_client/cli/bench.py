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
from itertools import cycle, product
from math import ceil
from typing import Annotated

import attrs
import typer
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_remote_client.cli import options
from kafka_remote_client.cli.given_settings import parse_settings, utf_8
from kafka_remote_client.cli.output import OutputFormat, show_lines
from kafka_remote_client.cli.progress import spinner, steps_bar
from kafka_remote_client.cli.store_arguments import open_listing, parse_topic_id
from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.errors import ConfigurationError, LocationError
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.client_log import failed_connection
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.layouts import LayoutOptions, layout_named
from kafka_remote_client.remote_log.store_contents import nothing_found
from kafka_remote_client.settings import default_of
from kafka_remote_client.verify.stored_segment import draft_metadata

__all__ = ["COLUMNS", "BenchLine", "LogObject", "Sample", "add_verb", "bench_broker", "bench_line", "bench_store", "ranges_of"]

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
_CLIENT = {
    "group.id": "kafka-remote-bench",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "topic.metadata.propagation.max.ms": 0,  # a tiered topic is not new, so an unknown one is an error at once
    "log_level": 0,
}
_REFUSED = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Errors of a topic that brokers repeat: no such topic, or no permission."""
_RANGE_BYTES: int = default_of("fetch.remote.range.bytes")
_DEFAULT_RANGES = (64 << 10, 1 << 20, _RANGE_BYTES)
_DEFAULT_CONCURRENCY = (1, 8)


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("bench")(_bench)


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

    Raises ConfigurationError for settings that librdkafka refuses, LocationError if no broker can be reached, if brokers refuse
    the topic, or if no record arrives within ``patience`` seconds.
    """
    errors: list[KafkaError] = []
    try:
        consumer = Consumer({**settings, **_CLIENT, "error_cb": errors.append})
    except KafkaException as error:
        raise ConfigurationError(f"invalid broker settings: {error.args[0].str()}") from None
    ends = {partition: end for partition, _, end in spans}
    began, first, last = clock.monotonic(), None, 0.0
    until_first, until_end = Deadline(clock, patience), Deadline(clock, seconds)
    nbytes, left = 0, set(ends)
    try:
        consumer.assign([TopicPartition(topic, partition, start) for partition, start, _ in spans])
        while left and not (until_first if first is None else until_end).expired():
            messages = consumer.consume(_BATCH, _POLL_SECONDS)
            if first is None and any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in errors):
                raise LocationError(f"cannot read from the brokers: {_reason(errors)}")
            if refused := [error for error in errors if error.code() in _REFUSED]:
                raise LocationError(f"cannot read {topic} from the brokers: {refused[0].str()}")
            for message in messages:
                partition, offset, failed = message.partition(), message.offset(), message.error()
                if failed is not None:
                    errors.append(failed)
                if failed is not None or offset is None or partition not in left:
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


def _reason(errors: Sequence[KafkaError]) -> str:
    """What the last failed connection met, in librdkafka's words."""
    for error in reversed(errors):
        if (failed := failed_connection(error)) is not None:
            return f"no connection to {failed[0]}: {failed[1]}"
    return errors[-1].str()


def _bench(
    topic: Annotated[str, typer.Argument(help="Topic whose segments are read.", metavar="TOPIC", callback=utf_8)],
    store: options.Store,
    store_option: options.StoreOptions = None,
    layout: options.Layout = options.DEFAULT_LAYOUT,
    key_prefix: options.KeyPrefix = "",
    topic_id: options.TopicId = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers",
            help="Brokers to read the same offsets from, to compare.",
            metavar="HOST:PORT,…",
            callback=utf_8,
        ),
    ] = None,
    consumer: options.ConsumerSettings = None,
    range_bytes: Annotated[
        list[int] | None,
        typer.Option("--range-bytes", min=1, help="Bytes of one GET; repeatable. Default: 64 KiB, 1 MiB, and that of readers."),
    ] = None,
    concurrency: Annotated[
        list[int] | None,
        typer.Option("--concurrency", min=1, max=256, help="Number of GETs at once; repeatable. Default: 1 and 8."),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=options.LONGEST, help="Seconds for all measurements together.")
    ] = 10.0,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
    output: options.Output = OutputFormat.TEXT,
) -> None:
    """Measures the store from this machine: latency and throughput of GETs, beside the broker's."""
    sizes, counts = range_bytes or _DEFAULT_RANGES, concurrency or _DEFAULT_CONCURRENCY
    settings = parse_settings(consumer or [], "--consumer")
    measurements = len(sizes) * len(counts) + (bootstrap_servers is not None)
    share = seconds / measurements
    clock = SystemClock()
    given = parse_settings(store_option or [], "--store-option")
    identity = parse_topic_id(topic_id)
    layout_options = LayoutOptions(key_prefix)
    with open_listing(store, layout, layout_options, store_options=given, topic=topic, topic_id=identity) as (opened, source):
        keys = layout_named(layout, layout_options)
        with spinner():
            objects = [
                LogObject(keys.object_key(draft_metadata(one), ObjectKind.LOG), size)
                for tip in source.partitions(topic)
                for one in source.listing.segments(tip)
                if (size := one.sizes.get(ObjectKind.LOG, 0))
            ]
        if not objects:
            raise nothing_found(f"found no segments of {topic}", opened)
        with steps_bar("bench", measurements) as measured:
            lines = []
            for size, count in product(sizes, counts):
                lines.append(bench_store(opened, topic, objects, size, count, share, clock))
                measured()
            if bootstrap_servers is not None:
                named = {**settings, "bootstrap.servers": bootstrap_servers}
                lines.append(bench_broker(named, topic, _tiered_spans(source, topic), share, clock, timeout))
                measured()
    show_lines(lines, COLUMNS, output)


def _tiered_spans(source: ListingLocationSource, topic: str) -> list[tuple[int, int, int]]:
    """Partition, start and end (exclusive) of what is tiered."""
    tiers = {tip.partition: source.listing.cache(tip).list_all_remote_log_segments() for tip in source.partitions(topic)}
    return [
        (partition, segments[0].start_offset, max(one.end_offset for one in segments) + 1)
        for partition, segments in tiers.items()
        if segments
    ]
