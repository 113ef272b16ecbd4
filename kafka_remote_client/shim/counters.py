"""The counters of a shim: numbers by name, readable from any thread."""

from __future__ import annotations

import threading
from collections import Counter

from kafka_remote_client.shim.durations import Durations
from kafka_remote_client.shim.granted_totals import GrantedTotals

__all__ = ["Counters"]

_COUNTED = (
    "aborted_probes",
    "accepting_paused",
    "broker_connections_unverified",
    "bytes_granted",
    "connections",
    "connections_admitted",
    "connections_closed",
    "connections_paced",
    "location_requests",
    "locations_granted",
    "locations_pending",
    "probes",
    "ranges_granted",
    "remote_probes",
    "requests",
    "segment_lists",
    "segments_listed",
)
"""What has no reason in its name. It is 0 from the start: otherwise Prometheus does not see its first increase."""


class Counters:
    """Thread-safe counters. A name that was never counted reads as 0. ``lookups``: how long look-ups in the tier take,
    and ``granted``: ranges and bytes by client and topic.

    name                          | counts
    ``connections``               | client connections that came
    ``connections_closed``        | of these, gone again after they were let in
    ``connections_admitted``      | of these, those that their broker serves
    ``connections_refused.<limit>`` | client connections over a limit: the name of its setting
    ``connections_dropped.<why>`` | closed by us: ``protocol``, ``tls``, ``upstream``, ``admission``, ``write``, ``idle``,
                                  | ``buffers``, ``error``, ``stopped``
    ``broker_connections_unverified`` | connections to brokers whose certificates were not verified
    ``requests``                  | requests read from clients
    ``requests_paced.<why>``      | of these, those after which the client waits: ``share`` (of the event loop, of its address),
                                  | ``unadmitted`` (the same of all that set up connections), ``max_request_rate_per_ip``
    ``connections_paced``         | client connections that waited for the share of clients that are not admitted
    ``accepting_paused``          | times when the listeners accepted no connection for a moment, for the same reason
    ``location_requests``         | Fetch requests that asked for locations or lists of segments
    ``locations_granted``         | of these, or of the partitions of a batch, answered with one
    ``locations_refused.<why>``   | the same, served by the broker, or answered with the broker's own error
    ``locations_pending``         | partitions of batches whose answer said "ask again"
    ``segment_lists``             | partitions of batches answered with a page of segments
    ``segments_listed``           | segments in these pages
    ``bytes_granted``             | bytes of the ranges that were granted
    ``ranges_granted``            | signed ranges
    ``probes``                    | Fetch requests of the shim, before each grant
    ``aborted_probes``            | Fetch requests of the shim at the end of the tier, for aborted transactions
    ``remote_probes``             | of these, those that the broker answers from its tier (offset L-1)
    ``index_cache_<what>``        | indexes kept in memory: ``hits``, ``misses``, ``evictions``, ``bytes`` held now
    ``manifest_cache_<what>``     | manifests kept in memory, the same
    ``metadata_restarts``         | times the metadata follower failed and restarted with all partitions
    ``metadata_rereads``          | times one metadata partition was distrusted and read again
    ``metadata_snapshot_<what>``  | the snapshot on disk: ``writes``, ``failures``, ``segments_loaded``, ``age_seconds``
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values = Counter(dict.fromkeys(_COUNTED, 0))
        self.lookups = Durations()
        self.granted = GrantedTotals()

    def add(self, name: str, amount: int = 1) -> None:
        """Adds ``amount`` to the counter ``name``."""
        with self._lock:
            self._values[name] += amount

    def __getitem__(self, name: str) -> int:
        with self._lock:
            return self._values[name]

    def snapshot(self) -> dict[str, int]:
        """All counters at one moment, sorted by name."""
        with self._lock:
            return dict(sorted(self._values.items()))
