"""PySpark: a source with the options and the schema of ``format("kafka")`` that reads the tiered part from the store.

``register(spark)``, then ``spark.read.format("kafka-remote")`` or ``spark.readStream``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_remote_client.spark.progress import offsets_behind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["offsets_behind", "register"]


def register(spark: SparkSession) -> None:
    """Makes ``format("kafka-remote")`` known to a session.

    Raises MissingExtraError when PySpark or pyarrow is missing or too old.
    """
    from kafka_remote_client.spark.pyspark_api import require_pyspark  # noqa: PLC0415 - the pure modules come without the rest

    require_pyspark()
    from kafka_remote_client.spark.datasource import KafkaRemoteDataSource  # noqa: PLC0415 - needs pyarrow

    spark.dataSource.register(KafkaRemoteDataSource)
