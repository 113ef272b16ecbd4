"""``format("kafka-remote")`` without a registration: PySpark finds the source by the name of this package.

Before its first query, PySpark imports each top-level package named ``pyspark_*`` on the driver's Python path and registers
its ``DefaultSource``. An error here would take the other packages' sources away too, so without pyarrow there is none.

References: PySpark's ``pyspark.sql.worker.lookup_data_sources``.
"""

from __future__ import annotations

__all__: list[str] = []

try:
    from kafka_remote_client.spark.source.datasource import KafkaRemoteDataSource as DefaultSource
except ImportError:  # pyarrow is an extra
    pass
else:
    __all__ += ["DefaultSource"]
