"""Excludes the objects of a Spark Python worker's loaded modules from garbage collection, once.

PySpark's daemon collects all garbage after each task, and so examines every object of every loaded module (pyarrow,
pandas, confluent-kafka): about 50 ms of a core per task, while reading a split of 128 MiB takes 100 to 200. A frozen object
is still freed with its last reference; only existing cycles are no longer found.

References: PySpark's daemon; Python's gc.freeze.
"""

from __future__ import annotations

import gc
import sys

__all__ = ["WorkerMemory", "worker_memory"]

_WORKER_MODULE = "pyspark.worker"


class WorkerMemory:
    """Settled once."""

    def __init__(self) -> None:
        self._settled = False

    def settle(self) -> bool:
        """Collects garbage and freezes the rest, once in a worker of Spark, and nowhere else. True = done now."""
        if self._settled or _WORKER_MODULE not in sys.modules:
            return False
        self._settled = True
        gc.collect()
        gc.freeze()
        return True


worker_memory = WorkerMemory()
"""That of this process."""
