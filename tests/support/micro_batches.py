"""A streaming query without Spark: Spark's calls of a stream reader, in order, with parallel tasks.

::

    new query    latestOffset, initialOffset;  then for each batch  partitions(start, end), read of each split, commit
    restart      partitions(x, x);             then as above, from where the checkpoint stands

``checkpoint`` has Spark's checkpoint as JSON; reader and splits are pickled for tasks.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from kafka_remote_client.spark.source.limited_stream_reader import LimitedStreamReader
from kafka_remote_client.spark.source.stream_reader import KafkaRemoteStreamReader

__all__ = ["Query", "Rows"]

Rows = list[dict[str, Any]]
_TASKS = 2
_PATIENCE_SECONDS = 60.0


class Query:
    """A query that ``restart`` continues. ``limit`` is Spark's argument of ``latestOffset`` (PySpark 4.2).

    ``side_by_side``: a batch has at most two splits, and with its first records in hand each task waits for the other. So both
    hold their resources at the same time; otherwise the first task may have ended when the second one begins.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        *,
        limit: object = None,
        before_tasks: Callable[[], None] | None = None,
        side_by_side: bool = False,
    ) -> None:
        self.options = dict(options)
        self.checkpoint: list[str] = []
        self.splits = 0
        """The number of splits of the last batch."""
        self._limit = limit
        self._before_tasks = before_tasks
        self._side_by_side = side_by_side
        self._reader = self._made()

    def _made(self) -> KafkaRemoteStreamReader:
        return (KafkaRemoteStreamReader if self._limit is None else LimitedStreamReader)(self.options)

    def restart(self) -> None:
        """Ends the query and restarts it from its checkpoint."""
        self.stop()
        self._reader = self._made()
        if self.checkpoint:
            at = json.loads(self.checkpoint[-1])
            assert self._reader.partitions(at, at) == []

    def stop(self) -> None:
        self._reader.stop()

    def batch(self) -> Rows | None:
        """The rows of the next micro-batch; None where there is nothing new."""
        if not self.checkpoint:
            if self._limit is None:
                self._reader.latestOffset()
            self.checkpoint.append(json.dumps(self._reader.initialOffset()))
        start = json.loads(self.checkpoint[-1])
        following = self._reader.latestOffset() if self._limit is None else self._reader.latestOffset(start, self._limit)
        end = json.dumps(following)
        if json.loads(end) == start:
            return None
        partitions = self._reader.partitions(start, json.loads(end))
        self.splits = len(partitions)
        if self._before_tasks is not None:
            self._before_tasks()
        rows = self._read(partitions)
        self.checkpoint.append(end)
        self._reader.commit(json.loads(end))
        return rows

    def _read(self, partitions: Sequence[Any]) -> Rows:
        assert not self._side_by_side or len(partitions) <= _TASKS, "more splits than tasks would wait for each other forever"
        meeting = Barrier(len(partitions) if self._side_by_side else 1, timeout=_PATIENCE_SECONDS)

        def task(partition: Any) -> Rows:
            reader, split = pickle.loads(pickle.dumps((self._reader, partition)))
            rows: Rows = []
            for batch in reader.read(split):
                if not rows:
                    meeting.wait()
                rows += batch.to_pylist()
            return rows

        with ThreadPoolExecutor(_TASKS) as tasks:
            return [row for rows in tasks.map(task, partitions) for row in rows]

    def take(self) -> Rows:
        """The rows of all micro-batches until there is nothing new."""
        taken: Rows = []
        while (rows := self.batch()) is not None:
            taken += rows
        return taken

    def values(self) -> list[int]:
        """The values of :meth:`take` as numbers, sorted."""
        return sorted(int(row["value"]) for row in self.take())
