"""``format("kafka-remote")`` without a registration: PySpark finds the source by the name of this package.

Before its first query, PySpark imports each top-level package named ``pyspark_*`` on the driver's Python path and registers
its ``DefaultSource``. There is none in two cases, in which ``kafka_remote_client.spark.register`` is needed:

- Executors have another Python than the driver. Spark runs tasks of a source that it has found with the Python and the path
  that it has found it with, and PySpark 4.0 does not let a registration replace it.
- pyarrow is missing. An error here would hide the sources of all other packages too.

References: PySpark's ``pyspark.sql.worker.lookup_data_sources``; Spark's ``PythonUtils.createPythonFunction``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__: list[str] = []


def _same_python(variables: Mapping[str, str]) -> bool:
    """Whether executors run the Python that Spark looks with."""
    executors = variables.get("PYSPARK_PYTHON", "python3")
    return variables.get("PYSPARK_DRIVER_PYTHON", executors) == executors


if _same_python(os.environ):
    try:
        from kafka_remote_client.spark.source.datasource import KafkaRemoteDataSource as DefaultSource
    except ImportError:  # pyarrow is an extra
        pass
    else:
        __all__ += ["DefaultSource"]
