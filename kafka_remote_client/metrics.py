"""Counters and timers of direct fetch, under KIP-1254's headings in Kafka's naming style.

``FetchMetrics`` is one thread-safe value per consumer or reader; :meth:`FetchMetrics.snapshot` gives plain numbers. Names
follow ``consumer-fetch-manager-metrics``: ``remote-fetch-…-total``, ``-rate`` (per second since the first event), ``-avg``,
``-max``.

References: KIP-1254, "New Metrics".
"""

from __future__ import annotations

import threading
from collections import Counter

from kafka_remote_client.clock import Clock

__all__ = ["METRICS", "FetchMetrics"]

METRICS: dict[str, str] = {
    "remote-fetch-request-total": "Ranges asked of the store, retries included (GETs).",
    "remote-fetch-request-rate": "Ranges asked of the store per second.",
    "remote-fetch-bytes-total": "Bytes received from the store.",
    "remote-fetch-bytes-rate": "Bytes received from the store per second.",
    "remote-fetch-latency-avg": "Mean time of a range, request to last byte, in milliseconds.",
    "remote-fetch-latency-max": "Longest time of a range in milliseconds.",
    "remote-fetch-errors-total": "Ranges that failed, by cause.",
    "remote-fetch-fallbacks-total": "Times a partition went to the broker although its data is tiered, by reason.",
    "remote-fetch-handovers-total": "Times a partition went to the broker because its tiered data was read.",
    "remote-fetch-records-total": "Records delivered from the store.",
    "remote-fetch-record-bytes-total": "Bytes of keys, values and headers decoded from the store.",
    "remote-fetch-over-read-bytes-total": "Bytes received that gave no record: retried, skipped, discarded.",
    "remote-fetch-location-request-total": "Locations asked for.",
    "remote-fetch-location-latency-max": "Longest time of a location request in milliseconds.",
    "remote-fetch-buffer-bytes": "Bytes held at this moment.",
    "broker-fetch-records-total": "Records delivered by the broker path.",
}


class FetchMetrics:
    """Thread-safe counters. ``clock`` gives the time base of the rates."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._started: float | None = None
        self._totals: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._fallbacks: Counter[str] = Counter()
        self._latency_sum = 0.0
        self._maxima = {"remote-fetch-latency-max": 0.0, "remote-fetch-location-latency-max": 0.0}
        self._buffer_bytes = 0

    def add(self, name: str, amount: int = 1) -> None:
        """Adds to a total of :data:`METRICS`."""
        with self._lock:
            self._totals[name] += amount

    def set_total(self, name: str, value: int) -> None:
        """Sets a total that is counted elsewhere, where a lock would cost too much."""
        with self._lock:
            self._totals[name] = value

    def range_done(self, received: int, seconds: float, error: str | None = None) -> None:
        """Counts one GET: bytes received, time taken, and the cause when it failed."""
        with self._lock:
            if self._started is None:
                self._started = self._clock.monotonic() - seconds
            self._totals["remote-fetch-request-total"] += 1
            self._totals["remote-fetch-bytes-total"] += received
            self._latency_sum += seconds
            self._raise_max("remote-fetch-latency-max", seconds)
            if error is not None:
                self._errors[error] += 1

    def location_done(self, seconds: float) -> None:
        """Counts one location request."""
        with self._lock:
            self._totals["remote-fetch-location-request-total"] += 1
            self._raise_max("remote-fetch-location-latency-max", seconds)

    def fallback(self, reason: str) -> None:
        """Counts one fallback to the broker under its reason."""
        with self._lock:
            self._fallbacks[reason] += 1

    def error(self, cause: str) -> None:
        """Counts one failure that was not a GET (a location request, a damaged batch)."""
        with self._lock:
            self._errors[cause] += 1

    def set_buffer_bytes(self, held: int) -> None:
        with self._lock:
            self._buffer_bytes = held

    def snapshot(self) -> dict[str, float | int | dict[str, int]]:
        """All of :data:`METRICS`; errors and fallbacks as mappings from cause to count. Times in milliseconds."""
        with self._lock:
            requests = self._totals["remote-fetch-request-total"]
            elapsed = 0.0 if self._started is None else max(1e-9, self._clock.monotonic() - self._started)
            out: dict[str, float | int | dict[str, int]] = {}
            for name in METRICS:
                if name.endswith("-total"):
                    out[name] = self._totals[name]
            out.update(
                {
                    "remote-fetch-request-rate": requests / elapsed if elapsed else 0.0,
                    "remote-fetch-bytes-rate": self._totals["remote-fetch-bytes-total"] / elapsed if elapsed else 0.0,
                    "remote-fetch-latency-avg": self._latency_sum * 1000 / requests if requests else 0.0,
                    "remote-fetch-buffer-bytes": self._buffer_bytes,
                    "remote-fetch-errors-total": dict(self._errors),
                    "remote-fetch-fallbacks-total": dict(self._fallbacks),
                    **self._maxima,
                }
            )
            return {name: out[name] for name in METRICS}

    def _raise_max(self, name: str, seconds: float) -> None:
        self._maxima[name] = max(self._maxima[name], seconds * 1000)
