"""What is loaded in a Python worker of Spark is taken out of the garbage collector's sight, once.

PySpark's daemon collects all garbage after each task, and so looks at every object of every module that is loaded (pyarrow,
pandas, confluent-kafka): some 50 ms of a core for each task, where reading a split of 128 MiB takes 100 to 200. What is frozen
is freed as before when its last reference goes; only cycles that exist by then are not searched for.

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
