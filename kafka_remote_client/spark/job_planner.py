"""What a job will take, before it runs: asks the cluster and the location source as the source does when Spark plans a query.

No Spark is needed for it, so it serves ``kafka-remote plan`` too.

References: docs/spark.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.spark.batch_plan import batch_ranges, learn_segments, splits_as_asked
from kafka_remote_client.spark.cluster import AdminCluster, Cluster
from kafka_remote_client.spark.job_figures import Prices
from kafka_remote_client.spark.job_plan import Assumptions, JobPlan, estimate_job
from kafka_remote_client.spark.options import SourceOptions, option_texts, parse_options

__all__ = ["plan"]

_EACH_SEGMENT = 1
"""Bytes of a split for which each segment is asked for, as long as the questions last."""


def plan(
    options: Mapping[str, str | bool | int] | None = None,
    *,
    cores: int | None = None,
    latency_ms: float = 20.0,
    megabytes_per_second: float = 100.0,
    prices: Prices | None = None,
    make_cluster: Callable[[SourceOptions, Clock], Cluster] = AdminCluster,
    **more: str | bool | int,
) -> JobPlan:
    """The segments, GETs, bytes, splits, dollars and seconds of a batch query. Nothing of the data is read.

    ``options``: those of a batch query of ``format("kafka-remote")``; names without dots may be given as arguments.
    ``cores``: how many tasks run at once; those of this machine where not given. ``latency_ms``: of one GET.
    ``megabytes_per_second``: what one core decodes and hands on, 10^6 bytes each.

    Raises ConfigurationError, DataLossError, LocationError: what the query would raise when it is planned.
    """
    parsed = parse_options(option_texts({**(options or {}), **more}))
    cluster = make_cluster(parsed, SystemClock())
    try:
        asked = batch_ranges(parsed, cluster)
    finally:
        cluster.close()
    # As the query does it, for its splits; then with a question for each segment, to count them.
    splits = splits_as_asked(parsed, learn_segments(parsed, asked))
    told = Assumptions(
        cores=cores or os.cpu_count() or 1,
        latency_ms=latency_ms,
        bytes_per_second=megabytes_per_second * 1e6,
        in_flight=parsed.remote.max_in_flight,
        range_bytes=parsed.remote.range_bytes,
    )
    return estimate_job(learn_segments(parsed, asked, split_bytes=_EACH_SEGMENT), splits, assumptions=told, prices=prices)
