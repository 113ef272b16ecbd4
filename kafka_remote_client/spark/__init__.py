"""PySpark: a source with the options and the schema of ``format("kafka")`` that reads the tiered part from the store.

``spark.read.format("kafka-remote")`` or ``spark.readStream``; or ``read_segments(spark, …)`` for pipelines that need Python
objects or Arrow batches of each split. The names are imported at their first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafka_remote_client.lazy_exports import lazy_exports
from kafka_remote_client.spark.offsets.query_progress import offsets_behind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_remote_client.scanning.splits import Split
    from kafka_remote_client.spark.planning.job_figures import JobFigures, Prices
    from kafka_remote_client.spark.planning.job_plan import JobPlan
    from kafka_remote_client.spark.planning.job_planner import plan
    from kafka_remote_client.spark.reading.split_records import SplitRecords
    from kafka_remote_client.spark.reading.task_counters import load_counters
    from kafka_remote_client.spark.source.job_progress_bar import show_progress
    from kafka_remote_client.spark.source.segments import Segments

__all__ = [
    "JobFigures",
    "JobPlan",
    "Prices",
    "Segments",
    "Split",
    "SplitRecords",
    "load_counters",
    "offsets_behind",
    "plan",
    "read_segments",
    "register",
    "show_progress",
]

_HOMES = {
    "JobFigures": "kafka_remote_client.spark.planning.job_figures",
    "JobPlan": "kafka_remote_client.spark.planning.job_plan",
    "Prices": "kafka_remote_client.spark.planning.job_figures",
    "Segments": "kafka_remote_client.spark.source.segments",
    "Split": "kafka_remote_client.scanning.splits",
    "SplitRecords": "kafka_remote_client.spark.reading.split_records",
    "load_counters": "kafka_remote_client.spark.reading.task_counters",
    "plan": "kafka_remote_client.spark.planning.job_planner",
    "show_progress": "kafka_remote_client.spark.source.job_progress_bar",
}


def register(spark: SparkSession) -> None:
    """Makes ``format("kafka-remote")`` known to a session whose PySpark did not find it by itself (docs/spark.md).

    Raises MissingExtraError when PySpark or pyarrow is missing, or PySpark is older than 4.0.
    """
    from kafka_remote_client.spark.source import pyspark_api  # noqa: PLC0415 - the pure modules come without the rest

    pyspark_api.require_pyspark(pyspark_api.OLDEST_WITH_SOURCES)
    from kafka_remote_client.spark.source.datasource import KafkaRemoteDataSource  # noqa: PLC0415 - needs pyarrow

    try:
        spark.dataSource.register(KafkaRemoteDataSource)
    except Exception as error:
        # PySpark 4.0 and 4.1 refuse a name that their look-up has found. Its exceptions are of a package that may be missing.
        if getattr(error, "getCondition", str)() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def read_segments(spark: SparkSession, options: Mapping[str, object] | None = None, **more: object) -> Segments:
    """Returns splits of topics for your own code: ``read_segments(spark, options).foreachPartition(handle)``.

    ``options``: those of a batch query of ``format("kafka-remote")``; names without dots may be given as arguments.
    ``remote.onFallback`` is ``fail`` by default here. The call makes no request to the cluster.

    Raises ConfigurationError for options, MissingExtraError when PySpark or pyarrow is missing, or PySpark is older than 3.5.
    """
    from kafka_remote_client.spark.source.pyspark_api import require_pyspark  # noqa: PLC0415 - the pure modules come without the rest

    require_pyspark()
    from kafka_remote_client.fallback import OnFallback  # noqa: PLC0415 - as above
    from kafka_remote_client.spark.options.source_options import ON_FALLBACK, option_texts  # noqa: PLC0415 - as above
    from kafka_remote_client.spark.source.segments import Segments  # noqa: PLC0415 - needs pyarrow

    given = option_texts({**(options or {}), **more})
    if not any(name.lower() == ON_FALLBACK.lower() for name in given):
        given[ON_FALLBACK] = OnFallback.FAIL.value
    return Segments(spark, given)


__getattr__, __dir__ = lazy_exports(globals(), _HOMES)
