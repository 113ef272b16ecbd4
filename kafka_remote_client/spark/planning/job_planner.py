"""The predicted cost of a job: makes the requests to cluster and location source that the source makes for a plan of Spark.

It needs no Spark, so ``kafka-remote plan`` uses it too.

References: docs/spark.md.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping

import attrs

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import ConfigurationError, PeerUnreachableError
from kafka_remote_client.location.bootstrap import parse_bootstrap_servers
from kafka_remote_client.scanning.split_window import split_window
from kafka_remote_client.spark.offsets.admin_cluster import AdminCluster, Cluster
from kafka_remote_client.spark.options.source_options import SourceOptions, option_texts, parse_options
from kafka_remote_client.spark.options.trust_store import librdkafka_settings
from kafka_remote_client.spark.planning.batch_plan import (
    batch_ranges,
    learn_requests,
    learn_segments,
    narrowed_ranges,
    splits_as_asked,
)
from kafka_remote_client.spark.planning.filters import ALL_ROWS, narrowing_of
from kafka_remote_client.spark.planning.job_figures import Prices
from kafka_remote_client.spark.planning.job_plan import Assumptions, JobPlan, estimate_job
from kafka_remote_client.spark.planning.segment_probes import DEFAULT_BUDGET

__all__ = ["plan"]

_LONGEST_QUESTION_MS = 30_000
"""The time after which librdkafka abandons an accepted connection without an answer."""

_EACH_SEGMENT = 1
"""The split size with which each segment gets a question, within the budget."""


def plan(
    options: Mapping[str, str | bool | int] | None = None,
    *,
    cores: int | None = None,
    latency_ms: float = 20.0,
    megabytes_per_second: float = 100.0,
    prices: Prices | None = None,
    filters: Iterable[object] = (),
    make_cluster: Callable[[SourceOptions, Clock], Cluster] | None = None,
    **more: str | bool | int,
) -> JobPlan:
    """Returns the segments, GETs, bytes, splits, dollars and seconds of a batch query. It reads no data.

    ``options``: those of a batch query of ``format("kafka-remote")``; names without dots may be given as arguments.
    ``cores``: how many tasks run at once; those of this machine where not given. ``latency_ms``: of one GET.
    ``megabytes_per_second``: what one core decodes and hands on, 10^6 bytes each. ``filters``: PySpark's (``EqualTo``,
    ``GreaterThan`` ...), which Spark will push to a query with ``remote.pushFilters``; without that option they are an error.

    Raises ConfigurationError, DataLossError, LocationError, like the plan of the query. A query repeats its
    questions for minutes; this function asks once, because a person waits for it. Raises PeerUnreachableError if no
    bootstrap server accepts a connection within ``fetch.remote.connect.timeout.ms``.
    """
    parsed = parse_options(option_texts({**(options or {}), **more}))
    narrowing, _ = narrowing_of(filters)
    if narrowing != ALL_ROWS and not parsed.push_filters:
        raise ConfigurationError(
            "filters need remote.pushFilters=true; without it Spark reads all rows and filters them itself"
        )
    cluster = (make_cluster or _reachable_cluster)(parsed, SystemClock())
    try:
        asked = narrowed_ranges(batch_ranges(parsed, cluster), cluster, narrowing)
    finally:
        cluster.close()
    # First the query's requests, for its splits; then one per segment, to count them; then those of the tasks.
    splits = splits_as_asked(parsed, narrowing.without_segments(learn_segments(parsed, asked, reads=False)))
    requests = learn_requests(parsed, splits, budget=DEFAULT_BUDGET)
    told = Assumptions(
        cores=cores or os.cpu_count() or 1,
        latency_ms=latency_ms,
        bytes_per_second=megabytes_per_second * 1e6,
        in_flight=parsed.remote.max_in_flight,
        range_bytes=split_window(parsed.remote)[1],
    )
    segments = learn_segments(parsed, asked, split_bytes=_EACH_SEGMENT, reads=False)
    return estimate_job(segments, splits, assumptions=told, asked=requests, prices=prices)


def _reachable_cluster(options: SourceOptions, clock: Clock) -> Cluster:
    """The cluster of a plan: it is reachable, and gets each question once."""
    _check_reachable(str(librdkafka_settings(options.client)["bootstrap.servers"]), options.remote.connect_timeout_ms / 1000)
    client = attrs.evolve(options.client, api_timeout_ms=min(options.client.api_timeout_ms, _LONGEST_QUESTION_MS))
    return AdminCluster(attrs.evolve(options, client=client, offset_retries=0), clock)


def _check_reachable(servers: str, timeout: float) -> None:
    """Connects to one server after the other, at most ``timeout`` seconds each. Raises PeerUnreachableError."""
    failures = []
    for host, port in parse_bootstrap_servers(servers):
        try:
            socket.create_connection((host, port), timeout).close()
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or 'no connection in time'}")
        else:
            return
    raise PeerUnreachableError(f"no server of kafka.bootstrap.servers is reachable ({'; '.join(failures)})")
