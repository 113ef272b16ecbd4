"""Counters and timers of direct fetch, under KIP-1254's headings in Kafka's naming style.

``FetchMetrics`` is one thread-safe value per consumer or reader; :meth:`FetchMetrics.snapshot` gives plain numbers. Names
follow ``consumer-fetch-manager-metrics``: ``remote-fetch-…-total``, ``-rate`` (per second), ``-avg``, ``-max``. The last three
are of the last windows, as in Kafka. Histograms are in seconds, by the conventions of OpenMetrics: cumulative counts by upper
bound, and a sum.

References: KIP-1254, "New Metrics"; Kafka's ``SampledStat``, ``Rate``, ``Avg`` and ``Max``; OpenMetrics 1.0, "Histogram".
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Protocol, TypeAlias

import attrs

from kafka_remote_client.clock import Clock

__all__ = [
    "BOUNDS",
    "BY_BOUND",
    "BY_CAUSE",
    "BY_PARTITION",
    "CACHES",
    "COUNTERS",
    "HISTOGRAMS",
    "METRICS",
    "SAMPLES",
    "SAMPLE_SECONDS",
    "CacheStatistics",
    "FetchMetrics",
    "HasMetrics",
    "Histogram",
    "SampledStat",
    "Snapshot",
]

Snapshot: TypeAlias = Mapping[str, float | int | Mapping[str, int]]
"""Numbers by names of :data:`METRICS`; those of :data:`BY_CAUSE`, :data:`BY_PARTITION` and :data:`BY_BOUND` are mappings."""

CACHES: dict[str, str] = {
    "index": "indexes, checkpoints and snapshots of segments that this process reads itself",
    "manifest": "manifests of chunked segments that this process reads itself",
    "chunk": "ranges of segments on this host's disk (fetch.remote.cache.directory)",
}

BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histograms in seconds, inclusive. One more bucket, ``+Inf``, counts everything."""

SAMPLES = 2
SAMPLE_SECONDS = 30.0
"""Rates, means and maxima are those of two windows of 30 s: the defaults of Kafka's ``metrics.num.samples`` and
``metrics.sample.window.ms``."""

HISTOGRAMS: dict[str, str] = {
    "remote-fetch-latency-seconds": "Time of a range from request to last byte, in seconds",
    "remote-fetch-first-byte-seconds": "Time of a range from request to first byte, in seconds",
    "remote-fetch-decode-seconds": "Time to check and decode the records of a range that arrived, in seconds",
    "remote-fetch-location-latency-seconds": "Time of location requests that were sent at once, in seconds",
}
"""Histograms. Each is two of :data:`METRICS`, ``…-bucket`` and ``…-sum``."""

METRICS: dict[str, str] = {
    "remote-fetch-request-total": "Ranges requested from the store (GETs), including retries and hedges.",
    "remote-fetch-retries-total": "Ranges requested again after a failure.",
    "remote-fetch-hedges-total": "Hedges: second requests for ranges that are late.",
    "remote-fetch-hedges-won-total": "Hedges that received their range before the first request did.",
    "remote-fetch-hedges-bytes-total": "Bytes received twice because of hedges. Over-read bytes include them.",
    "remote-fetch-request-rate": "Ranges requested from the store per second, in the last minute.",
    "remote-fetch-bytes-total": "Bytes received from the store.",
    "remote-fetch-bytes-rate": "Bytes received from the store per second, in the last minute.",
    "remote-fetch-latency-avg": "Mean time of a range from request to last byte in the last minute, in milliseconds.",
    "remote-fetch-latency-max": "Longest time of a range in the last minute, in milliseconds.",
    "remote-fetch-errors-total": "Ranges and location requests that failed, by cause.",
    "remote-fetch-fallbacks-total": "Times a partition with tiered data fell back to the broker, by cause.",
    "remote-fetch-internal-errors-total": "Unexpected exceptions in direct fetch. The log has each traceback.",
    "remote-fetch-handovers-total": "Times a partition moved to the broker at the end of its tiered data.",
    "remote-fetch-records-total": "Records delivered from the store.",
    "remote-fetch-record-bytes-total": "Bytes of keys, values and headers decoded from the store.",
    "remote-fetch-over-read-bytes-total": (
        "Bytes received that are in no delivered record block: batches before the start offset "
        "(index entries are coarse) or after the end offset; ranges and blocks that were read ahead and dropped by a seek, "
        "revocation or close; failed attempts; bytes that a retry or a hedge receives again."
    ),
    "remote-fetch-segment-total": "Segments opened. A segment that is opened again counts again.",
    "remote-fetch-segment-bytes-total": "Total size of the opened segments as Kafka wrote them, including unread parts.",
    "remote-fetch-location-request-total": "Location requests.",
    "remote-fetch-location-refresh-total": "Location requests that renew URLs past half of their lifetime.",
    "remote-fetch-location-throttle-time-total": "Milliseconds of throttling that brokers requested in location responses.",
    "remote-fetch-metadata-restarts-total": "Restarts of the metadata topic follower after a failure.",
    "remote-fetch-metadata-rereads-total": "Times a partition of the metadata topic was inconsistent and read again.",
    "remote-fetch-rate-limit-time-total": "Milliseconds that ranges waited for the consumer's own rate limits.",
    "remote-fetch-location-latency-max": "Longest time of a location request in the last minute, in milliseconds.",
    "remote-fetch-buffer-bytes": "Bytes held now by ranges in flight and undelivered records.",
    "broker-fetch-records-total": "Records delivered from the broker.",
    "remote-fetch-partition-tier": "Where a partition is read from: 1 = the store, 0 = the broker.",
    "remote-fetch-partition-local-log-start-lag": (
        "Offsets between a partition's next record and the broker's local log start; 0 in the local log."
    ),
    **{
        f"remote-fetch-{cache}-cache-{name}": f"{meaning}: {what}."
        for cache, what in CACHES.items()
        for name, meaning in (
            ("hits-total", "Cache hits"),
            ("misses-total", "Cache misses"),
            ("evictions-total", "Cache evictions"),
            ("bytes", "Bytes in the cache"),
        )
    },
    "remote-fetch-chunk-cache-damaged-total": "Damaged ranges in this host's disk cache, read from the store instead.",
    **{
        f"{name}-{part}": f"{meaning}: {what}."
        for name, meaning in HISTOGRAMS.items()
        for part, what in (("bucket", "cumulative counts by upper bound"), ("sum", "sum"))
    },
}

COUNTERS = frozenset(name for name in METRICS if name.endswith(("-total", "-bucket", "-sum")))
"""The metrics that only grow; all others are gauges."""

BY_CAUSE = frozenset({"remote-fetch-errors-total", "remote-fetch-fallbacks-total"})
BY_PARTITION = frozenset(name for name in METRICS if name.startswith("remote-fetch-partition-"))
"""Those that are mappings: from causes, and from partitions as ``topic-number`` (those assigned now), to numbers."""
BY_BOUND = frozenset(f"{name}-bucket" for name in HISTOGRAMS)
"""Mappings from an upper bound in seconds (``0.0001`` … ``+Inf``) to the number of durations up to it."""


class HasMetrics(Protocol):
    """A Consumer, or whatever else shows its metrics as one does."""

    def metrics(self) -> Snapshot:
        """The metrics of docs/metrics.md."""


@attrs.frozen
class CacheStatistics:
    """What a cache did: counts since its beginning, and the bytes that it holds now. ``damaged`` entries are misses too."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    nbytes: int = 0
    damaged: int = 0

    def __add__(self, other: CacheStatistics) -> CacheStatistics:
        mine, others = attrs.astuple(self), attrs.astuple(other)
        return CacheStatistics(*(a + b for a, b in zip(mine, others, strict=True)))


class Histogram:
    """Durations in seconds, counted by upper bound. ``sum`` is in seconds. Not thread-safe."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """Counts one more of this length."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds

    def cumulated(self) -> dict[str, int]:
        """Returns the number of durations up to each bound, by its text, and of all as ``+Inf``."""
        return dict(zip([*map(str, BOUNDS), "+Inf"], accumulate(self._counts), strict=True))


@attrs.define
class _Sample:
    """Amounts recorded in one window, which begins at ``start`` with the first of them."""

    start: float
    count: int = 0
    total: float = 0.0
    longest: float = 0.0


class SampledStat:
    """Amounts of the last :data:`SAMPLES` windows of :data:`SAMPLE_SECONDS` seconds. Not thread-safe.

    ``now`` is the time in seconds on a monotonic clock. As in Kafka, a window begins with the first amount after the end of the
    last one, and a rate is over at least one whole window: one amount counts as if it were followed by 30 s without any.
    """

    def __init__(self) -> None:
        self._samples: list[_Sample] = []

    def add(self, amount: float, now: float) -> None:
        """Records one amount."""
        samples = self._recent(now)
        if not samples or now - samples[-1].start >= SAMPLE_SECONDS:
            samples.append(_Sample(now))
        samples[-1].count += 1
        samples[-1].total += amount
        samples[-1].longest = max(samples[-1].longest, amount)

    def count_rate(self, now: float) -> float:
        """Returns the number of amounts per second."""
        return sum(sample.count for sample in self._recent(now)) / self._seconds(now)

    def rate(self, now: float) -> float:
        """Returns the sum of the amounts per second."""
        return sum(sample.total for sample in self._recent(now)) / self._seconds(now)

    def mean(self, now: float) -> float:
        """Returns the mean amount; 0 without any."""
        samples = self._recent(now)
        return sum(sample.total for sample in samples) / sum(sample.count for sample in samples) if samples else 0.0

    def longest(self, now: float) -> float:
        """Returns the largest amount; 0 without any."""
        return max((sample.longest for sample in self._recent(now)), default=0.0)

    def _recent(self, now: float) -> list[_Sample]:
        self._samples = [sample for sample in self._samples if now - sample.start < SAMPLES * SAMPLE_SECONDS]
        return self._samples

    def _seconds(self, now: float) -> float:
        elapsed = now - self._samples[0].start if self._samples else 0.0
        missing = SAMPLES - 1 - int(elapsed // SAMPLE_SECONDS)
        return elapsed + max(0, missing) * SAMPLE_SECONDS


class FetchMetrics:
    """Thread-safe counters. ``clock`` gives the time of the windows."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._totals: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._fallbacks: Counter[str] = Counter()
        self._histograms = {name: Histogram() for name in HISTOGRAMS}
        self._latency = SampledStat()
        self._bytes = SampledStat()
        self._location_latency = SampledStat()
        self._watched: dict[str, Callable[[], int]] = {}
        self._memories: list[Callable[[], int]] = []
        self._caches: dict[str, list[Callable[[], CacheStatistics]]] = {cache: [] for cache in CACHES}

    def watch_cache(self, cache: str, statistics: Callable[[], CacheStatistics]) -> None:
        """Shows from now on what a cache of the kind ``cache`` (of :data:`CACHES`) says of itself; several are added up."""
        with self._lock:
            self._caches[cache].append(statistics)

    def add(self, name: str, amount: int = 1) -> None:
        """Adds to a total of :data:`METRICS`."""
        with self._lock:
            self._totals[name] += amount

    def watch_total(self, name: str, count: Callable[[], int]) -> None:
        """Shows from now on what ``count`` says under the total ``name``."""
        with self._lock:
            self._watched[name] = count

    def set_total(self, name: str, value: int) -> None:
        """Sets a total that is counted elsewhere, where a lock would cost too much."""
        with self._lock:
            self._totals[name] = value

    def range_done(
        self, received: int, seconds: float, error: str | None = None, *, first_byte_seconds: float | None = None
    ) -> None:
        """Counts one GET: bytes received, time taken, that to the first byte if there was one, and the cause when it failed."""
        with self._lock:
            now = self._clock.monotonic()
            self._totals["remote-fetch-request-total"] += 1
            self._totals["remote-fetch-bytes-total"] += received
            self._histograms["remote-fetch-latency-seconds"].add(seconds)
            if first_byte_seconds is not None:
                self._histograms["remote-fetch-first-byte-seconds"].add(first_byte_seconds)
            self._latency.add(seconds, now)
            self._bytes.add(received, now)
            if error is not None:
                self._errors[error] += 1

    def range_decoded(self, seconds: float) -> None:
        """Counts one range that arrived and was decoded, and the time that this took."""
        with self._lock:
            self._histograms["remote-fetch-decode-seconds"].add(seconds)

    def locations_done(self, count: int, seconds: float, throttle_ms: int = 0) -> None:
        """Counts location requests that were asked at once, and for how long the answer asked to be left alone."""
        with self._lock:
            self._totals["remote-fetch-location-throttle-time-total"] += throttle_ms
            self._totals["remote-fetch-location-request-total"] += count
            self._histograms["remote-fetch-location-latency-seconds"].add(seconds)
            self._location_latency.add(seconds, self._clock.monotonic())

    def segment_opened(self, size: int) -> None:
        """Counts one segment of which something is going to be read, and its size in bytes."""
        with self._lock:
            self._totals["remote-fetch-segment-total"] += 1
            self._totals["remote-fetch-segment-bytes-total"] += size

    def over_read(self, size: int) -> None:
        """Counts wasted bytes."""
        self.add("remote-fetch-over-read-bytes-total", size)

    def fallback(self, reason: str) -> None:
        """Counts one fallback to the broker under its reason."""
        with self._lock:
            self._fallbacks[reason] += 1

    def error(self, cause: str) -> None:
        """Counts one failure that was not a GET (a location request, a damaged batch)."""
        with self._lock:
            self._errors[cause] += 1

    def watch_memory(self, held: Callable[[], int]) -> None:
        """Shows from now on what ``held`` says, the bytes that an engine holds; those of several are added up."""
        with self._lock:
            self._memories.append(held)

    def snapshot(self) -> dict[str, float | int | dict[str, int]]:
        """All of :data:`METRICS`; times in milliseconds, those of histograms in seconds.

        Of partitions nothing is known here: their mappings are empty.
        """
        caches = self._cache_numbers()
        with self._lock:
            now = self._clock.monotonic()
            out: dict[str, float | int | dict[str, int]] = {name: {} for name in BY_PARTITION}
            for name in METRICS:
                if name.endswith("-total"):
                    out[name] = self._totals[name]
            out.update(
                {
                    "remote-fetch-request-rate": self._latency.count_rate(now),
                    "remote-fetch-bytes-rate": self._bytes.rate(now),
                    "remote-fetch-latency-avg": self._latency.mean(now) * 1000,
                    "remote-fetch-latency-max": self._latency.longest(now) * 1000,
                    "remote-fetch-location-latency-max": self._location_latency.longest(now) * 1000,
                    "remote-fetch-buffer-bytes": sum(held() for held in self._memories),
                    "remote-fetch-errors-total": dict(self._errors),
                    "remote-fetch-fallbacks-total": dict(self._fallbacks),
                    **caches,
                    **{f"{name}-bucket": one.cumulated() for name, one in self._histograms.items()},
                    **{f"{name}-sum": one.sum for name, one in self._histograms.items()},
                    **{name: count() for name, count in self._watched.items()},
                }
            )
            return {name: out[name] for name in METRICS}

    def _cache_numbers(self) -> dict[str, int]:
        with self._lock:
            watched = {cache: list(told) for cache, told in self._caches.items()}
        numbers = {}
        for cache, told in watched.items():  # without the lock: a cache has one of its own
            total = sum((statistics() for statistics in told), CacheStatistics())
            stem = f"remote-fetch-{cache}-cache"
            numbers[f"{stem}-hits-total"] = total.hits
            numbers[f"{stem}-misses-total"] = total.misses
            numbers[f"{stem}-evictions-total"] = total.evictions
            numbers[f"{stem}-bytes"] = total.nbytes
            if f"{stem}-damaged-total" in METRICS:
                numbers[f"{stem}-damaged-total"] = total.damaged
        return numbers
